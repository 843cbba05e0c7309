// Which multiplications and additions of machine code are fused. What ptxas makes is told from what it is given, for
// every architecture that it knows.
#include "tracer/ptx/contractions.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <vector>

#include "tracer/ptx/instrument.h"
#include "tracer/ptx/open_products.h"
#include "tracer/ptx/parse.h"
#include "tracer/ptx/sites.h"

namespace deadheat::ptx {
namespace {

namespace fs = std::filesystem;

std::string ptxas() {
  const std::string nvcc = DEADHEAT_NVCC;
  return nvcc.empty() ? "" : (fs::path(nvcc).parent_path() / "ptxas").string();
}

std::string register_type(const std::string& type) {
  if (type == "f16" || type == "bf16") return "b16";
  return type == "f32" || type == "f16x2" || type == "bf16x2" ? "b32" : "b64";
}

// What ptxas makes of it. Empty: nothing.
std::string assembled(const std::string& target, const std::string& text) {
  const fs::path folder = fs::temp_directory_path() / ("deadheat-contractions-" + std::to_string(getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "code.ptx") << text;
  const std::string command = ptxas() + " -arch=" + target + " " + (folder / "code.ptx").string() + " -o " +
                              (folder / "code.cubin").string() + " > /dev/null 2>&1";
  std::string bytes;
  if (std::system(command.c_str()) == 0) {
    std::ifstream file(folder / "code.cubin", std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  fs::remove_all(folder);
  return bytes;
}

// Of a kernel `k` and its clone, with these bodies: r1, r2, r3 of the type, loaded; r4 is stored. Empty: not assembled.
std::string cubin(const std::string& target, const std::string& type, const std::string& body,
                  const std::string& clone) {
  std::ostringstream text;
  text << ".version " << (target < "sm_2" ? "8.8" : "7.8") // sm_1xx came later
       << "\n.target " << target << "\n.address_size 64\n";
  const std::string bits = register_type(type);
  for (const auto& [name, lines] : {std::pair{std::string("k"), body}, {clone_prefix + std::string("k"), clone}}) {
    text << ".visible .entry " << name << "(.param .u64 p)\n{\n.reg .b64 %a;\n.reg ." << bits
         << " %r<9>;\nld.param.u64 %a, [p];\n";
    for (int i = 1; i < 4; ++i) text << "ld.global." << bits << " %r" << i << ", [%a+" << 8 * i << "];\n";
    text << lines << "\nst.global." << bits << " [%a+64], %r4;\nret;\n}\n";
  }
  return assembled(target, text.str());
}

ProductsByPrecision products_of(const std::string& cubin) {
  const Expected<ElfFile> file = read_elf(cubin, "test");
  EXPECT_TRUE(file);
  if (!file) return {};
  for (const ElfSection& section : file->sections) {
    if (section.name == ".text.k") return products(section.bytes, architecture_of(cubin));
  }
  ADD_FAILURE() << "no kernel";
  return {};
}

const char* const architectures[] = {"sm_75",  "sm_80",  "sm_86",  "sm_89", "sm_90",
                                     "sm_100", "sm_103", "sm_120", "sm_121"};

TEST(ContractionsTest, OperationsOfEveryArchitecture) {
  if (ptxas().empty()) GTEST_SKIP() << "no ptxas";
  for (const std::string target : architectures) {
    for (const std::string type : {"f32", "f64"}) {
      const auto of = [&](const std::string& body) {
        const ProductsByPrecision found = products_of(cubin(target, type, body, body));
        return type == "f32" ? found.single : found.doubled;
      };
      EXPECT_EQ(of("mul.rn." + type + " %r4, %r1, %r2;"), (Products{0, 1})) << target << ' ' << type;
      EXPECT_EQ(of("fma.rn." + type + " %r4, %r1, %r2, %r3;"), (Products{1, 0})) << target << ' ' << type;
      EXPECT_EQ(of("add.rn." + type + " %r4, %r1, %r2;"), (Products{0, 0})) << target << ' ' << type;
    }
  }
}

// One operation does all three of some types, from sm_90 on.
TEST(ContractionsTest, HalfPrecision) {
  if (ptxas().empty()) GTEST_SKIP() << "no ptxas";
  for (const std::string target : architectures) {
    for (const std::string type : {"f16", "f16x2", "bf16", "bf16x2"}) {
      if (type[0] == 'b' && target < std::string(target < "sm_2" ? "sm_1" : "sm_90"))
        continue; // mul and add are of sm_90
      const auto of = [&](const std::string& body) { return products_of(cubin(target, type, body, body)).half; };
      const std::string where = target + ' ' + type;
      EXPECT_EQ(of("mul.rn." + type + " %r4, %r1, %r2;"), (Products{0, 1})) << where;
      EXPECT_EQ(of("fma.rn." + type + " %r4, %r1, %r2, %r3;"), (Products{1, 0})) << where;
      EXPECT_EQ(of("add.rn." + type + " %r4, %r1, %r2;"), (Products{0, 0})) << where;
      EXPECT_EQ(of("sub.rn." + type + " %r4, %r1, %r2;"), (Products{0, 0})) << where;
      if (target != "sm_75" && target != "sm_90" && target != "sm_120") continue; // takes time
      EXPECT_EQ(of("mov.b" + register_type(type).substr(1) + " %r4, 16896;"), (Products{0, 0})) << where;
      const std::string three = register_type(type) == "b16" ? "16896" : "1107313152"; // 3, 3 of f16
      const std::string constant = "mov." + register_type(type) + " %r5, " + three + ";\n";
      EXPECT_EQ(of(constant + "mul.rn." + type + " %r4, %r1, %r5;"), (Products{0, 1})) << where;
      EXPECT_EQ(of(constant + "fma.rn." + type + " %r4, %r1, %r5, %r3;"), (Products{1, 0})) << where;
      EXPECT_EQ(of(constant + "fma.rn." + type + " %r4, %r1, %r3, %r5;"), (Products{1, 0})) << where;
      EXPECT_EQ(of(constant + "add.rn." + type + " %r4, %r1, %r5;"), (Products{0, 0})) << where;
      const std::string open = "mul." + type + " %r4, %r1, %r2;\nadd." + type + " %r4, %r4, %r3;";
      const std::string parted = "mul.rn." + type + " %r4, %r1, %r2;\nadd.rn." + type + " %r4, %r4, %r3;";
      EXPECT_EQ(contracted_differently(cubin(target, type, open, open)), std::vector<std::string>{}) << where;
      EXPECT_EQ(contracted_differently(cubin(target, type, open, parted)), std::vector<std::string>{"k"}) << where;
    }
  }
}

TEST(ContractionsTest, IntegersAreNoneOfThem) {
  if (ptxas().empty()) GTEST_SKIP() << "no ptxas";
  const std::string sums =
      "{\n.reg .b32 %i<4>;\nmov.b32 %i1, %r1;\nmov.b32 %i2, %r2;\nadd.s32 %i3, %i1, %i2;\nadd.s32 %i3, %i3, %i3;\n"
      "mul.lo.s32 %i3, %i3, %i1;\nadd.s32 %i3, %i3, 77;\nmov.b32 %r4, %i3;\n}";
  for (const char* target : architectures) {
    const std::string made = cubin(target, "f32", sums, sums);
    ASSERT_FALSE(made.empty()) << target;
    EXPECT_EQ(architecture_of(made), unsigned(std::atoi(target + 3)));
    const ProductsByPrecision all = products_of(made);
    EXPECT_EQ(all.half, Products{}) << target;
    EXPECT_EQ(all.single, Products{}) << target;
  }
}

TEST(ContractionsTest, PairsOfSinglePrecision) {
  if (ptxas().empty()) GTEST_SKIP() << "no ptxas";
  const auto of = [](const std::string& body) { return products_of(cubin("sm_100", "f32x2", body, body)).twofold; };
  EXPECT_EQ(of("mul.rn.f32x2 %r4, %r1, %r2;"), (Products{0, 1}));
  EXPECT_EQ(of("fma.rn.f32x2 %r4, %r1, %r2, %r3;"), (Products{1, 0}));
}

TEST(ContractionsTest, ACloneThatDiffersIsFound) {
  if (ptxas().empty()) GTEST_SKIP() << "no ptxas";
  const std::string open = "mul.f32 %r4, %r1, %r2;\nadd.f32 %r4, %r4, %r3;";
  const std::string parted = "mul.rn.f32 %r4, %r1, %r2;\nadd.rn.f32 %r4, %r4, %r3;";
  EXPECT_EQ(contracted_differently(cubin("sm_90", "f32", open, open)), std::vector<std::string>{});
  EXPECT_EQ(contracted_differently(cubin("sm_90", "f32", open, parted)), std::vector<std::string>{"k"});
  EXPECT_EQ(contracted_differently(cubin("sm_90", "f32", parted, open)), std::vector<std::string>{"k"});
}

TEST(ContractionsTest, UnrolledLoopsAreNoDifference) {
  const ProductsByPrecision once{{20, 4}, {}, {}, {}}, unrolled{{68, 4}, {}, {}, {}}, both{{80, 16}, {}, {}, {}};
  EXPECT_FALSE(contracted_differently(once, unrolled));
  EXPECT_FALSE(contracted_differently(once, both));
  EXPECT_TRUE(contracted_differently(once, {{19, 5}, {}, {}, {}}));
  EXPECT_FALSE(contracted_differently(once, {{20, 4}, {1, 0}, {}, {}})); // more of one kind alone
  EXPECT_TRUE(contracted_differently({{}, {}, {5, 5}, {}}, {{}, {}, {6, 4}, {}}));
}

// The lines of a kernel as its clone has them; `between` in place of its trap, which stands where something may come in
// between. `parted`: whether that must not be.
std::string as_clone(const std::string& lines, const std::string& between, bool& parted) {
  const Expected<Module> module = parse(
      ".version 7.8\n.target sm_90\n.address_size 64\n.entry k()\n{\n.reg .b64 %a;\n"
      ".reg .b32 %r<9>;\n.reg .pred %p;\n" +
          lines + "\nret;\n}\n",
      "test");
  EXPECT_TRUE(module) << (module ? "" : module.error().message());
  Function function = module->functions[0];
  std::uint32_t at = 0;
  for (std::uint32_t s = 0; s < function.body.size(); ++s) {
    const Instruction* i = function.body[s].instruction();
    if (i && i->opcode == Opcode::trap) at = s;
  }
  function.body[at].node = Directive{};
  const OpenProducts products(function, Flow(function));
  parted = products.parted(at);
  std::string text;
  for (std::uint32_t s = 0; s + 1 < function.body.size(); ++s) {
    const bool directive = std::holds_alternative<Directive>(function.body[s].node);
    if (const std::string* made = products.replacement(s))
      text += *made;
    else if (s == at)
      text += between;
    else if (!directive)
      text += print(function.body[s], function);
  }
  return text;
}

// A clone fuses what its original does, whatever stands in between.
TEST(ContractionsTest, ClonesFuseWhatTheirOriginalsDo) {
  struct Case {
    const char* lines; // r4 is stored behind them
    bool parted;
  };
  const Case cases[] = {
      {"mul.f32 %r4, %r1, %r2; trap; add.f32 %r4, %r4, %r3;", false},
      {"mul.f32 %r4, %r1, %r2; add.f32 %r4, %r4, %r3; trap;", false},
      {"mul.f32 %r4, %r1, %r2; trap; add.rn.f32 %r4, %r4, %r3;", false},
      {"mul.ftz.f32 %r4, %r1, %r2; trap; add.ftz.sat.f32 %r4, %r4, %r3;", false},
      {"mul.f32 %r5, %r1, %r2; trap; add.f32 %r6, %r5, %r3; sub.f32 %r4, %r1, %r5; add.f32 %r4, %r4, %r6;", false},
      {"mul.f32 %r5, %r1, %r2; trap; sub.f32 %r4, %r5, %r3;", false},
      {"mul.f32 %r5, %r1, %r2; mov.b32 %r6, %r5; trap; add.f32 %r4, %r6, %r3;", false},
      {"mul.f32 %r5, %r1, %r2; trap; neg.f32 %r6, %r5; sub.f32 %r4, %r3, %r6;", false},
      {"mul.f32 %r5, %r1, %r2; mul.f32 %r6, %r2, %r3; trap; add.f32 %r4, %r6, %r5;", false}, // the first operand
      {"mul.f32 %r5, %r1, %r2; trap; add.f32 %r4, %r5, %r5;", false},
      {"mul.f32 %r5, %r1, %r2; st.global.b32 [%a+72], %r5; trap; add.f32 %r4, %r5, %r3;", false},
      {"mul.f32 %r5, %r1, %r2; shfl.sync.down.b32 %r6, %r5, 1, 31, -1; trap; add.f32 %r4, %r5, %r6;", false},
      {"mul.f32 %r5, %r1, %r2; bra L; L: trap; add.f32 %r4, %r5, %r3;", false},
      {"mul.f16x2 %r5, %r1, %r2; trap; add.f16x2 %r4, %r5, %r3;", false},
      {"mul.f32 %r5, %r1, %r2; fence.acq_rel.gpu; trap; add.f32 %r4, %r5, %r3;", false},
      {"mul.f32 %r5, %r1, %r2; trap; membar.gl; add.f32 %r4, %r5, %r3;", false},
      {"mul.f32 %r5, %r1, %r2; add.f32 %r4, %r5, %r3; fence.sc.sys; trap; add.f32 %r4, %r4, %r1;", false},
      {"mul.f32 %r5, %r1, %r2; mov.b32 %r6, %r5; pmevent 1; trap; sub.f32 %r4, %r6, %r3;", false},
      {"mul.f32 %r5, %r1, %r2; div.rn.f32 %r6, %r1, %r3; trap; add.f32 %r4, %r5, %r3; add.f32 %r4, %r4, %r6;", false},
      {"mul.f32 %r5, %r1, %r2; trap; sqrt.rn.f32 %r6, %r3; add.f32 %r4, %r5, %r3; add.f32 %r4, %r4, %r6;", false},
      // Which of the two, and whether, is not known; ptxas decides, and nothing must come between.
      {"mul.f32 %r5, %r1, %r2; mul.f32 %r6, %r2, %r3; trap; add.f32 %r4, %r6, %r5; sub.f32 %r7, %r5, %r1; "
       "add.f32 %r4, %r4, %r7;",
       true},
      {"mul.f32 %r5, %r1, %r2; rem.s32 %r6, %r3, %r2; trap; add.f32 %r4, %r5, %r6;", true},
      {"mul.f32 %r5, %r1, %r2; atom.acq_rel.gpu.global.add.u32 %r6, [%a], 1; trap; add.f32 %r4, %r5, %r3;", true},
      {"mul.f32 %r5, %r1, %r2; bar.warp.sync -1; trap; add.f32 %r4, %r5, %r3;", true},
      {"mul.f32 %r5, %r1, %r2; mov.b32 %r1, %r3; trap; add.f32 %r4, %r5, %r3; add.f32 %r4, %r4, %r1;", true},
  };
  const std::string branches = "\nsetp.eq.b64 %p, %a, 0;\n@%p bra N;\nst.global.b32 [%a+80], %r1;\nN: bar.sync 0;\n";
  const std::string predicate = ".reg .pred %p;\n";
  for (const Case& one : cases) {
    std::string whole = one.lines;
    bool parted = false;
    const std::string clone = as_clone(whole, branches, parted);
    EXPECT_EQ(parted, one.parted) << whole;
    if (ptxas().empty() || one.parted) continue;
    whole.erase(whole.find("trap;"), 5);
    for (const std::string target : {"sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120"}) {
      const std::string made = cubin(target, "f32", predicate + whole, predicate + clone);
      ASSERT_FALSE(made.empty()) << clone;
      EXPECT_EQ(contracted_differently(made), std::vector<std::string>{}) << target << ' ' << whole << clone;
    }
  }
}

// A kernel whose lines compute with what was computed before, all of which is used; they store, load, wait, order and
// divide in between.
std::string random_kernel(std::mt19937& random, const std::string& name) {
  const auto below = [&](unsigned n) { return unsigned(random() % n); };
  std::vector<std::string> lines;
  std::vector<unsigned> values = {0, 1, 2, 3, 4, 5}, uses(200);
  unsigned next = 6;
  const auto value = [&] {
    const unsigned v = values[values.size() - 1 - below(std::min<unsigned>(8, unsigned(values.size())))];
    ++uses[v];
    return "%f" + std::to_string(v);
  };
  const char* const between[] = {
      "st.global.f32 [%a+64], %f0;",      "bar.sync 0;",       "membar.gl;",         "fence.acq_rel.gpu;",
      "atom.global.add.u32 %r, [%a], 1;", "bar.warp.sync -1;", "nanosleep.u32 100;", "fence.sc.sys;"};
  for (unsigned i = 10 + below(25); i; --i) {
    const unsigned what = below(20);
    if (what < 15) {
      const std::string operands = value() + ", " + value() + ";";
      const char* const operation = what < 7 ? "mul" : what < 12 ? "add" : what < 14 ? "sub" : "div.rn";
      lines.push_back(std::string(operation) + ".f32 %f" + std::to_string(next) + ", " + operands);
      values.push_back(next++);
    } else {
      lines.emplace_back(between[below(std::size(between))]);
    }
  }
  for (const unsigned v : values)
    if (!uses[v])
      lines.push_back("st.global.f32 [%a+" + std::to_string(256 + 4 * v) + "], %f" + std::to_string(v) + ";");
  std::string text = ".visible .entry " + name + "(.param .u64 p)\n{\n.reg .b64 %a;\n.reg .b32 %r;\n.reg .f32 %f<" +
                     std::to_string(next) + ">;\nld.param.u64 %a, [p];\n";
  for (unsigned i = 0; i < 6; ++i)
    text += "ld.global.f32 %f" + std::to_string(i) + ", [%a+" + std::to_string(4 * i) + "];\n";
  for (const std::string& line : lines) text += line + "\n";
  return text + "ret;\n}\n";
}

// What is used far behind only, ptxas sometimes computes there, once more, and fuses it there: nothing tells when. Such
// kernels are not recorded.
TEST(ContractionsTest, RandomKernelsAndTheirClones) {
  if (ptxas().empty()) GTEST_SKIP() << "no ptxas";
  std::mt19937 random(1);
  std::string text = ".version 8.8\n.target sm_75\n.address_size 64\n";
  for (int i = 0; i < 40; ++i) text += random_kernel(random, "k" + std::to_string(i));
  const Expected<Module> module = parse(text, "test");
  ASSERT_TRUE(module) << module.error().message();
  const Expected<Instrumentation> made = instrument(*module, site_table(*module));
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_GE(made->kernels.size(), 30u); // of others, recording would come between a product and its sum
  for (const char* target : {"sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120"}) {
    const std::string code = assembled(target, made->text);
    ASSERT_FALSE(code.empty()) << target;
    EXPECT_LE(contracted_differently(code).size(), 2u) << target << '\n' << text;
  }
}

TEST(ContractionsTest, OtherBytes) {
  EXPECT_TRUE(contracted_differently(std::string_view("no cubin")).empty());
  EXPECT_EQ(products(std::string(15, '\x23'), 90).single, (Products{})); // less than an instruction
}

} // namespace
} // namespace deadheat::ptx
