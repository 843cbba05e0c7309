// Which multiplications and additions of machine code are fused. What ptxas makes is told from what it is given, for
// every architecture that it knows.
#include "tracer/ptx/contractions.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tracer/ptx/instrument.h"
#include "tracer/ptx/open_products.h"
#include "tracer/ptx/parse.h"

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

// Of a kernel `k` and its clone, with these bodies: r1, r2, r3 of the type, loaded; r4 is stored. Empty: not assembled.
std::string cubin(const std::string& target, const std::string& type, const std::string& body,
                  const std::string& clone) {
  const fs::path folder = fs::temp_directory_path() / ("deadheat-contractions-" + std::to_string(getpid()));
  fs::create_directories(folder);
  {
    std::ofstream text(folder / "code.ptx");
    text << ".version " << (target < "sm_2" ? "8.8" : "7.8") // sm_1xx came later
         << "\n.target " << target << "\n.address_size 64\n";
    const std::string bits = register_type(type);
    for (const auto& [name, lines] : {std::pair{std::string("k"), body}, {clone_prefix + std::string("k"), clone}}) {
      text << ".visible .entry " << name << "(.param .u64 p)\n{\n.reg .b64 %a;\n.reg ." << bits
           << " %r<9>;\nld.param.u64 %a, [p];\n";
      for (int i = 1; i < 4; ++i) text << "ld.global." << bits << " %r" << i << ", [%a+" << 8 * i << "];\n";
      text << lines << "\nst.global." << bits << " [%a+64], %r4;\nret;\n}\n";
    }
  }
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

ProductsByPrecision products_of(const std::string& cubin) {
  const Expected<ElfFile> file = read_elf(cubin, "test");
  EXPECT_TRUE(file);
  if (!file) return {};
  for (const ElfSection& section : file->sections) {
    if (section.name == ".text.k") return products(section.bytes);
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

// What ptxas fuses OpenProducts must know of: where code that branches comes between, it fuses nothing.
TEST(ContractionsTest, WhatMustNotBeParted) {
  struct Case {
    const char* lines; // with a comment where something could come between
    bool parts;
  };
  const Case cases[] = {
      {"mul.f32 %r4, %r1, %r2; //\n add.f32 %r4, %r4, %r3;", true},
      {"mul.f32 %r4, %r1, %r2; add.f32 %r4, %r4, %r3; //\n", false},
      {"mul.f32 %r4, %r1, %r2; //\n add.rn.f32 %r4, %r4, %r3;", false},
      {"mul.f32 %r5, %r1, %r2; //\n add.f32 %r6, %r5, %r3; sub.f32 %r4, %r1, %r5; add.f32 %r4, %r4, %r6;", true},
      {"mul.f32 %r5, %r1, %r2; mov.b32 %r6, %r5; //\n add.f32 %r4, %r6, %r3;", true},
      {"mul.f32 %r5, %r1, %r2; //\n neg.f32 %r6, %r5; add.f32 %r4, %r6, %r3;", true},
      {"mul.f32 %r5, %r1, %r2; //\n shfl.sync.down.b32 %r6, %r5, 1, 31, -1; add.f32 %r4, %r5, %r6;", false},
      {"mul.f32 %r5, %r1, %r2; //\n st.global.b32 [%a+72], %r5; add.f32 %r4, %r5, %r3;", false},
      {"mul.f32 %r5, %r1, %r2; bra L; L: //\n add.f32 %r4, %r5, %r3;", true},
  };
  for (const Case& one : cases) {
    const std::string lines = one.lines;
    const std::size_t between = lines.find("//");
    std::string text =
        ".version 7.8\n.target sm_90\n.address_size 64\n.entry k()\n{\n.reg .b64 %a;\n.reg .b32 %r<9>;\n";
    text += lines.substr(0, between) + " trap; " + lines.substr(between) + "\nret;\n}\n";
    const Expected<Module> module = parse(text, "test");
    ASSERT_TRUE(module) << module.error().message();
    // The trap stands where something could come between, and is none itself.
    Function function = module->functions[0];
    std::uint32_t at = 0;
    for (std::uint32_t s = 0; s < function.body.size(); ++s) {
      const Instruction* i = function.body[s].instruction();
      if (i && i->opcode == Opcode::trap) at = s;
    }
    function.body[at].node = Directive{};
    EXPECT_EQ(OpenProducts(function, Flow(function)).parted(at), one.parts) << lines;

    if (ptxas().empty()) continue;
    const std::string branches =
        "setp.eq.b64 %p, %a, 0;\n@%p st.global.b32 [%a+80], %r1;\n@%p bra M;\nM: bar.sync 0;\n";
    const std::string whole = lines, parted = lines.substr(0, between) + branches + lines.substr(between);
    const std::string predicate = ".reg .pred %p;\n";
    const std::string made = cubin("sm_90", "f32", predicate + whole, predicate + parted);
    ASSERT_FALSE(made.empty()) << parted;
    EXPECT_EQ(!contracted_differently(made).empty(), one.parts) << lines;
  }
}

TEST(ContractionsTest, OtherBytes) {
  EXPECT_TRUE(contracted_differently(std::string_view("no cubin")).empty());
  EXPECT_EQ(products(std::string(15, '\x23')).single, (Products{})); // less than an instruction
}

} // namespace
} // namespace deadheat::ptx
