// Losslessness and structure over PTX that nvcc made: the corpus of data/ptx, the test programs, and the opcodes of the
// census (data/ptx_opcodes.txt: full opcodes seen in public CUDA code, and PTX ISA 9.0 forms beyond them).
#include <filesystem>

#include "ptx_support.h"
#include "tracer/ptx/fatbin.h"
#include "tracer/ptx/flow.h"
#include "tracer/ptx/sites.h"

namespace deadheat::ptx {
namespace {

namespace fs = std::filesystem;

bool same_operand(const Operand& a, const Operand& b) {
  bool by_text = a.kind == Operand::Kind::symbol || a.kind == Operand::Kind::label ||
                 a.kind == Operand::Kind::special || a.kind == Operand::Kind::tokens;
  if (a.kind != b.kind || a.negated != b.negated || a.reg != b.reg || a.variable != b.variable || a.bits != b.bits ||
      a.offset != b.offset || (by_text && a.text != b.text) || a.elements.size() != b.elements.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.elements.size(); ++i) {
    if (!same_operand(a.elements[i], b.elements[i])) return false;
  }
  return true;
}

bool same_instruction(const Instruction& a, const Instruction& b) {
  if (a.opcode != b.opcode || a.opcode_text != b.opcode_text || a.modifiers != b.modifiers ||
      a.modifier_texts != b.modifier_texts || a.types != b.types || a.guard.has_value() != b.guard.has_value() ||
      a.operands.size() != b.operands.size() || a.location != b.location) {
    return false;
  }
  if (a.guard && (a.guard->reg != b.guard->reg || a.guard->negated != b.guard->negated)) return false;
  for (std::size_t i = 0; i < a.operands.size(); ++i) {
    if (!same_operand(a.operands[i], b.operands[i])) return false;
  }
  return true;
}

// Parses, prints, compares; then prints every instruction, label and scope from structure alone, parses that, and
// compares the structures.
void check_module(const std::string& text, const std::string& origin) {
  SCOPED_TRACE(origin);
  Expected<Module> module = parse(text, origin);
  ASSERT_TRUE(module) << module.error().message();
  ASSERT_TRUE(print(*module) == text) << "not lossless";
  Module stripped = *module;
  for (Function& f : stripped.functions) {
    for (Statement& s : f.body) {
      if (!std::holds_alternative<Directive>(s.node)) s.tokens.clear();
    }
  }
  Expected<Module> again = parse(print(stripped), origin + " (canonical)");
  ASSERT_TRUE(again) << again.error().message();
  ASSERT_EQ(module->functions.size(), again->functions.size());
  for (std::size_t f = 0; f < module->functions.size(); ++f) {
    const Function &a = module->functions[f], &b = again->functions[f];
    ASSERT_EQ(a.body.size(), b.body.size());
    ASSERT_EQ(a.registers.size(), b.registers.size());
    ASSERT_EQ(a.labels, b.labels);
    for (std::size_t s = 0; s < a.body.size(); ++s) {
      ASSERT_EQ(a.body[s].node.index(), b.body[s].node.index());
      const Instruction* i = a.body[s].instruction();
      if (!i) continue;
      ASSERT_NE(i->opcode, Opcode::unknown) << i->full_opcode();
      ASSERT_FALSE(i->has(Modifier::unknown)) << i->full_opcode();
      ASSERT_TRUE(same_instruction(*i, *b.body[s].instruction())) << print(*i, a);
    }
    if (!a.has_body) continue;
    Flow flow(a);
    Liveness live(a, flow);
    // Nothing can be live at the start of a kernel that nvcc made: it writes before it reads.
    if (a.entry && !a.body.empty() && a.registers.size() > 0) {
      live.sweep([](std::uint32_t, const RegisterSet&) {});
    }
  }
  SiteTable table = site_table(*module);
  for (std::size_t i = 0; i < table.sites.size(); ++i) {
    EXPECT_EQ(table.sites[i].id, i);
    EXPECT_FALSE(table.sites[i].opcode.empty());
  }
}

TEST(PtxCorpus, Nvcc) {
  if (!fs::exists(PTX_CORPUS)) GTEST_SKIP() << "no nvcc: no corpus";
  int files = 0;
  for (const auto& entry : fs::directory_iterator(PTX_CORPUS)) {
    if (entry.path().extension() != ".ptx") continue;
    ++files;
    check_module(read_file(entry.path()), entry.path().filename());
  }
  EXPECT_GT(files, 0);
}

TEST(PtxCorpus, Programs) {
  int modules = 0;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(PTX_PROGRAMS, none)) {
    std::string extension = entry.path().extension();
    if (extension != ".racy" && extension != ".fixed") continue;
    Expected<MappedFile> file = MappedFile::open(entry.path());
    ASSERT_TRUE(file) << file.error().message();
    Expected<std::vector<FatbinEntry>> entries = fatbin_entries_of_elf(file->bytes(), entry.path().string());
    ASSERT_TRUE(entries) << entries.error().message();
    for (const FatbinEntry& e : *entries) {
      if (e.kind != FatbinEntry::Kind::ptx) continue;
      Expected<std::string> text = unpack(e, entry.path().string());
      ASSERT_TRUE(text) << text.error().message();
      check_module(*text, entry.path().filename());
      ++modules;
    }
  }
  if (modules == 0) GTEST_SKIP() << "the test programs are not built";
}

TEST(PtxCorpus, CensusOpcodes) {
  std::ifstream list(std::string(PTX_DATA) + "/ptx_opcodes.txt");
  ASSERT_TRUE(list);
  std::string line;
  int count = 0;
  while (std::getline(list, line)) {
    if (line.empty() || line[0] == '#') continue;
    ++count;
    Module m = kernel_of(line + ";");
    ASSERT_FALSE(m.functions.empty()) << line;
    const Instruction& i = *instructions(kernel(m))[0];
    EXPECT_NE(i.opcode, Opcode::unknown) << line;
    EXPECT_FALSE(i.has(Modifier::unknown)) << line;
    EXPECT_EQ(i.full_opcode(), line);
  }
  EXPECT_GT(count, 500);
}

} // namespace
} // namespace deadheat::ptx
