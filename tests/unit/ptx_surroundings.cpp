// Where instructions stand in their module's code.
#include "tracer/ptx/surroundings.h"

#include "ptx_support.h"

namespace deadheat::ptx {
namespace {

std::string function(const char* name, const std::string& body) {
  return std::string(".func ") + name + "()\n{\n.reg .b64 %rd<4>;\n.reg .pred %p<2>;\n" + body + "ret;\n}\n";
}
std::string entry(const char* name, const std::string& body) {
  return std::string(".visible .entry ") + name + "()\n{\n.reg .b64 %rd<4>;\n.reg .pred %p<2>;\n" + body + "ret;\n}\n";
}
std::string call(const char* name) { return std::string("call.uni ") + name + ";\n"; }

// The ways to the function f: "b k; c k".
std::string ways(const std::string& text) {
  const Module module = module_of(text);
  std::string all;
  for (const auto& way : ways_to(module, *module.function("f"))) {
    if (!all.empty()) all += "; ";
    for (const std::string& name : way) all += (&name == &way.front() ? "" : " ") + name;
  }
  return all;
}

TEST(PtxSurroundings, WaysFromKernels) {
  const std::string f = function("f", "");
  EXPECT_EQ(ways(f), "");
  EXPECT_EQ(ways(f + entry("k", call("f"))), "k");
  EXPECT_EQ(ways(f + entry("k", call("f") + call("f"))), "k");
  EXPECT_EQ(ways(f + entry("k", call("f")) + entry("l", call("f"))), "k; l");
  EXPECT_EQ(ways(f + function("b", call("f")) + function("c", call("f")) + entry("k", call("b") + call("c"))),
            "b k; c k");
  EXPECT_EQ(ways(f + function("b", call("f")) + function("c", call("f")) + entry("k", call("c"))), "c k"); // b: by none
  EXPECT_EQ(ways(entry("f", "")), "");
}

TEST(PtxSurroundings, WaysRoundCyclesAndThroughAddresses) {
  EXPECT_EQ(ways(".func f();\n" + function("b", call("f")) + function("f", call("b")) + entry("k", call("f"))), "k");
  const std::string through = "L: .callprototype ()_ ();\ncall %rd1, (), L;\n";
  EXPECT_EQ(ways(function("f", "") + entry("k", call("f") + through)), "k"); // f's address is taken nowhere
  EXPECT_EQ(ways(function("f", "") + entry("k", call("f") + "mov.u64 %rd1, f;\n" + through)), "");
  EXPECT_EQ(ways(function("f", "") + entry("k", call("f") + "mov.u64 %rd1, f;\n")), "k");
  EXPECT_EQ(ways(function("f", "") + ".global .u64 table[1] = {f};\n" + entry("k", call("f") + through)), "");
}

TEST(PtxSurroundings, TooManyWays) {
  std::string text = function("f", "");
  std::string last = "f";
  for (int level = 0; level < 9; ++level) { // twice as many each
    const std::string a = "a" + std::to_string(level), b = "b" + std::to_string(level), j = "j" + std::to_string(level);
    text += function(a.c_str(), call(last.c_str())) + function(b.c_str(), call(last.c_str())) +
            function(j.c_str(), call(a.c_str()) + call(b.c_str()));
    last = j;
    const Module module = module_of(text + entry("k", call(last.c_str())));
    EXPECT_EQ(ways_to(module, *module.function("f")).size(), level < 8 ? std::size_t(2) << level : 0);
  }
}

TEST(PtxSurroundings, WhatIsInlinedAtACallIsOnTheWay) {
  const Module module = module_of(
      function("f", "") +
      entry("k", std::string(".loc 1 7 0\n.loc 1 3 0, function_name inlined, inlined_at 1 7 0\n") + call("f")) +
      ".file 1 \"a.cu\"\n.section .debug_str\n{\ninlined:\n.b8 103, 0\n}\n");
  const auto found = ways_to(module, *module.function("f"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0], (std::vector<std::string>{"g", "k"}));
}

// Of the kernel's last site.
std::string path(const std::string& body) {
  const Module module = kernel_of(body);
  const SiteTable table = site_table(module);
  std::size_t last = 0;
  for (const Site& site : table.sites) {
    if (site.opcode.starts_with("st.")) last = site.id;
  }
  return path_to(module, table, std::uint32_t(last));
}

TEST(PtxSurroundings, WhatEveryThreadHasPerformed) {
  EXPECT_EQ(path("st.global.u32 [%rd1], %r1;"), "st.global.u32");
  EXPECT_EQ(path("ld.global.u32 %r1, [%rd1];\nadd.u32 %r1, %r1, 1;\nbar.sync 0;\nst.global.u32 [%rd1], %r1;"),
            "ld.global.u32 bar.sync st.global.u32");
  EXPECT_EQ(path("@%p1 bra THEN;\nbar.sync 1;\nTHEN: bar.sync 2;\nst.shared.u32 [%r2], %r1;"),
            "bar.sync st.shared.u32");
  EXPECT_EQ(path("@%p1 bar.sync 1;\nst.shared.u32 [%r2], %r1;"), "st.shared.u32");
  EXPECT_EQ(path("bar.warp.sync -1;\nLOOP: st.shared.u32 [%r2], %r1;\nbar.sync 0;\n@%p1 bra LOOP;"),
            "bar.warp.sync st.shared.u32");
}

TEST(PtxSurroundings, ReservedMemory) {
  EXPECT_EQ(path("mov.u32 %r1, %reserved_smem_offset_1;\nadd.u32 %r2, %r1, 32;\nst.shared.u32 [%r2+4], %r3;"),
            "st.shared.u32[reserved]");
  EXPECT_EQ(path("mov.u32 %r1, %reserved_smem_offset_1;\ncvt.u64.u32 %rd1, %r1;\ncvta.shared.u64 %rd2, %rd1;\n"
                 "st.u32 [%rd2], %r3;"),
            "st.u32[reserved]");
  EXPECT_EQ(path("mov.u32 %r1, %reserved_smem_offset_1;\nst.shared.u32 [%r2], %r1;"), "st.shared.u32"); // the value
  EXPECT_EQ(path("mov.u32 %r1, %reserved_smem_offset_1;\nld.shared.u32 %r2, [%r1];\nst.shared.u32 [%r2], %r3;"),
            "ld.shared.u32 st.shared.u32");
}

} // namespace
} // namespace deadheat::ptx
