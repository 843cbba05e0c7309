// Linking of PTX modules that were compiled apart (tracer/ptx/link.h).
#include <gtest/gtest.h>

#include <set>

#include "tracer/ptx/link.h"
#include "tracer/ptx/parse.h"

namespace deadheat::ptx {
namespace {

constexpr const char* header = ".version 9.0\n.target sm_90\n.address_size 64\n";

Module linked(const std::vector<std::string>& parts) {
  std::vector<std::string> texts;
  for (const std::string& part : parts) texts.push_back(header + part);
  Expected<std::string> text = link(texts, "test");
  EXPECT_TRUE(bool(text)) << (text ? "" : text.error().message());
  Expected<Module> module = parse(*text, "linked");
  EXPECT_TRUE(bool(module)) << (module ? "" : module.error().message()) << "\n" << *text;
  return std::move(*module);
}

TEST(Link, OneModuleStaysAsItIs) {
  const std::string text = std::string(header) + "// nothing\n.visible .global .u32 x;\n";
  EXPECT_EQ(*link({text}, "test"), text);
}

TEST(Link, DefinitionsTakeThePlaceOfDeclarations) {
  const Module module =
      linked({".extern .global .align 4 .b8 x[8];\n.extern .func f;\n.visible .entry k()\n{\ncall f;\nret;\n}\n",
              ".visible .global .align 4 .b8 x[8];\n.visible .func f\n{\nret;\n}\n"});
  ASSERT_EQ(module.variables.size(), 1u);
  EXPECT_EQ(module.variables[0].linkage, Variable::Linkage::visible);
  ASSERT_TRUE(module.function("f"));
  EXPECT_TRUE(module.function("f")->has_body);
  EXPECT_TRUE(module.function("k"));
}

// The memory that a launch gives lies where all that declare it may access it.
TEST(Link, SharedMemoryIsAlignedForAllThatDeclareIt) {
  const std::string narrow = ".extern .shared .align 4 .b8 s[];\n", wide = ".extern .shared .align 16 .b8 s[];\n";
  for (const auto& parts : {std::vector{narrow, wide}, std::vector{wide, narrow}, std::vector{narrow, wide, narrow}}) {
    const Module module = linked(parts);
    ASSERT_EQ(module.variables.size(), 1u);
    EXPECT_EQ(module.variables[0].align, 16u);
  }
}

TEST(Link, AStrongDefinitionIsTakenBeforeAWeakOne) {
  const std::string weak = ".weak .func f\n{\nbar.sync 1;\nret;\n}\n",
                    strong = ".visible .func f\n{\nbar.sync 2;\nret;\n}\n";
  for (const auto& parts : {std::vector{weak, strong}, std::vector{strong, weak}, std::vector{weak, weak, strong}}) {
    const Module module = linked(parts);
    ASSERT_EQ(module.functions.size(), 1u);
    EXPECT_EQ(module.functions[0].body[0].instruction()->operands[0].bits, 2u);
  }
  EXPECT_EQ(linked({weak, weak}).functions.size(), 1u);
}

TEST(Link, WhatIsAModulesOwnStaysItsOwn) {
  const std::string part =
      ".global .align 4 .u32 own = 3;\n.func g\n{\nret;\n}\n.visible .entry KERNEL()\n{\n.reg .b64 %rd<2>;\nmov.u64 "
      "%rd1, own;\n"
      "call g;\nret;\n}\n";
  auto with = [&](const char* name) { return std::string(part).replace(part.find("KERNEL"), 6, name); };
  const Module module = linked({with("k"), with("l")});
  ASSERT_EQ(module.variables.size(), 2u);
  EXPECT_NE(module.variables[0].name, module.variables[1].name);
  std::set<std::string> meant, called;
  for (const char* kernel : {"k", "l"}) {
    const Function* function = module.function(kernel);
    ASSERT_TRUE(function);
    for (const Statement& s : function->body) {
      if (!s.instruction()) continue;
      if (s.instruction()->opcode == Opcode::mov) meant.insert(std::string(s.instruction()->operands[1].text));
      if (s.instruction()->opcode == Opcode::call) called.insert(std::string(s.instruction()->operands[1].text));
    }
  }
  EXPECT_EQ(meant, (std::set<std::string>{module.variables[0].name, module.variables[1].name}));
  EXPECT_EQ(called.size(), 2u);
  for (const std::string& name : called) EXPECT_TRUE(module.function(name)) << name;
}

TEST(Link, SourceLinesKeepTheirFiles) {
  auto part = [](const char* kernel, const char* path, const char* inlined) {
    return std::string(".visible .entry ") + kernel +
           "()\n{\n.loc 1 7 0\n.loc 2 5 3, function_name $L__info_string0, " +
           "inlined_at 1 8 2\nbar.sync 0;\nret;\n}\n.file 1 \"" + path + "\"\n.file 2 \"" + path +
           ".h\"\n.section .debug_str\n{\n$L__info_string0:\n.b8 " + std::to_string(int(inlined[0])) + ", 0\n}\n";
  };
  const Module module = linked({part("k", "one.cu", "f"), part("l", "two.cu", "g")});
  for (const auto& [kernel, path, inlined] : {std::tuple{"k", "one.cu", "f"}, std::tuple{"l", "two.cu", "g"}}) {
    const Function* function = module.function(kernel);
    ASSERT_TRUE(function);
    const Instruction* barrier = nullptr;
    for (const Statement& s : function->body)
      if (s.instruction() && s.instruction()->opcode == Opcode::bar) barrier = s.instruction();
    ASSERT_TRUE(barrier);
    const Location& at = module.locations[barrier->location];
    EXPECT_EQ(module.files.at(at.file), std::string(path) + ".h");
    EXPECT_EQ(at.function, inlined);
    EXPECT_EQ(module.files.at(module.locations[at.inlined_at].file), path);
  }
}

TEST(Link, SharedMemoryOfUnknownSizeIsDeclaredOnce) {
  const std::string part = ".extern .shared .align 16 .b8 s[];\n";
  EXPECT_EQ(linked({part, part}).variables.size(), 1u);
}

TEST(Link, VersionAndTargetAreTheNewestOfAll) {
  const std::string newer = ".version 9.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n",
                    specific = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry l()\n{\nret;\n}\n",
                    plain = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry m()\n{\nret;\n}\n";
  for (const auto& parts : {std::vector{newer, specific, plain}, std::vector{plain, specific, newer}}) {
    Expected<std::string> text = link(parts, "test");
    ASSERT_TRUE(bool(text));
    Expected<Module> module = parse(*text, "linked");
    ASSERT_TRUE(bool(module));
    EXPECT_EQ(module->version, 90u);
    EXPECT_EQ(module->target, "sm_90a");
    EXPECT_EQ(module->functions.size(), 3u);
  }
}

TEST(Link, APartThatIsNoPtxIsAnError) {
  Expected<std::string> text = link({std::string(header), "no PTX"}, "program");
  ASSERT_FALSE(bool(text));
  EXPECT_NE(text.error().message().find("program"), std::string::npos);
}

} // namespace
} // namespace deadheat::ptx
