// What -G inlined where, from .debug_info.
#include "tracer/ptx/debug_info.h"

#include "ptx_support.h"
#include "tracer/ptx/sites.h"

namespace deadheat::ptx {
namespace {

// Entries as nvcc writes them: what they are, whether entries are inside, attributes with their forms.
constexpr const char* abbreviations =
    ".section .debug_abbrev\n{\n"
    ".b8 1,17,1,0,0\n" // unit
    ".b8 2,46,0,135,64,8,3,8,58,11,59,11,0,0\n" // function that is inlined: linkage name, name, file, line
    ".b8 3,46,1,17,1,18,1,0,0\n" // function: begin, end
    ".b8 4,29,1,49,19,17,1,18,1,88,11,89,11,0,0\n" // inlined: what, begin, end, file and line of the call
    ".b8 5,11,1,0,0\n" // block
    ".b8 6,46,0,71,19,0,0\n" // function that is inlined: its declaration
    ".b8 0\n}\n";
// From offset 12 on: f(), in file 2 from line 20 on; g(), in file 3 from line 5 on; h(), that is g() by its
// declaration.
constexpr const char* functions =
    ".b8 2,95,90,49,102,118,0,102,0,2,20\n" // offset 12
    ".b8 2,95,90,49,103,118,0,103,0,3,5\n" // offset 23
    ".b8 6\n.b32 23\n"; // offset 34

std::string unit(const std::string& entries) {
  return ".section .debug_info\n{\n.b32 4096\n.b8 2,0\n.b32 .debug_abbrev\n.b8 8\n.b8 1\n" + std::string(functions) +
         entries + ".b8 0\n}\n";
}
std::string inlined(int what, const char* begin, const char* end, int file, int line) {
  return ".b8 4\n.b32 " + std::to_string(what) + "\n.b64 " + begin + "\n.b64 " + end + "\n.b8 " + std::to_string(file) +
         "," + std::to_string(line) + "\n";
}
constexpr const char* kernel_entry = ".b8 3\n.b64 K0\n.b64 K1\n";
constexpr const char* files = ".file 1 \"a.cu\"\n.file 2 \"b.h\"\n.file 3 \"c.h\"\n";

Module debug_module(const std::string& text, const ParseOptions& options) {
  Expected<Module> module = parse(".version 9.0\n.target sm_90, debug\n.address_size 64\n" + text, "test.ptx", options);
  if (!module) {
    ADD_FAILURE() << module.error().message();
    return {};
  }
  return std::move(*module);
}

// Where the sites of the only kernel are: "f() b.h:21 < k() a.cu:3; k() a.cu:4".
std::string chains(const std::string& body, const std::string& sections, const ParseOptions& options = {}) {
  std::string all;
  for (const Site& site :
       sites(debug_module(".entry _Z1kv() {\n.reg .b64 %SP, %SPL, %rd1; .local .b8 depot[8];\nK0:\n" + body +
                              "K1:\n}\n" + files + sections,
                          options))) {
    if (!all.empty()) all += "; ";
    for (const SourceFrame& frame : site.source)
      all += (&frame == &site.source.front() ? "" : " < ") + frame.function + " " + frame.file + ":" +
             std::to_string(frame.line);
  }
  return all;
}

constexpr const char* body =
    ".loc 1 3 0\nbar.sync 0;\nL0:\n.loc 2 21 0\nbar.sync 1;\nL1:\n.loc 3 6 0\nbar.sync 2;\nL2:\n"
    ".loc 2 22 0\nbar.sync 3;\nL3:\n.loc 1 4 0\nbar.sync 4;\n";

TEST(PtxDebugInfo, InlinedFunctionsAreInTheChain) {
  const std::string f = inlined(12, "L0", "L3", 1, 3), g = inlined(23, "L1", "L2", 2, 21);
  const std::string expected =
      "k() a.cu:3; f() b.h:21 < k() a.cu:3; g() c.h:6 < f() b.h:21 < k() a.cu:3; f() b.h:22 < k() a.cu:3; k() a.cu:4";
  EXPECT_EQ(chains(body, abbreviations + unit(kernel_entry + f + g + ".b8 0,0,0\n")), expected);
  // Blocks between the two, and a function that is known by its declaration.
  const std::string h = inlined(34, "L1", "L2", 2, 21);
  EXPECT_EQ(chains(body, abbreviations + unit(kernel_entry + f + ".b8 5,5\n" + h + ".b8 0,0,0,0,0\n")), expected);
}

TEST(PtxDebugInfo, CodeOfOthersBetweenTheLabels) {
  // An instruction of another file, or from before the function's first line, is not the function's.
  const std::string g = inlined(23, "K0", "K1", 1, 9);
  EXPECT_EQ(chains(body, abbreviations + unit(kernel_entry + g + ".b8 0,0\n")),
            "k() a.cu:3; k() b.h:21; g() c.h:6 < k() a.cu:9; k() b.h:22; k() a.cu:4");
  const std::string f = inlined(12, "K0", "K1", 1, 9);
  EXPECT_EQ(chains(".loc 2 19 0\nbar.sync 0;\n.loc 2 20 0\nbar.sync 0;\n",
                   abbreviations + unit(kernel_entry + f + ".b8 0,0\n")),
            "k() b.h:19; f() b.h:20 < k() a.cu:9");
}

TEST(PtxDebugInfo, TheStackFrameStaysOut) {
  const std::string sections = abbreviations + unit(kernel_entry + inlined(12, "K0", "K1", 1, 9) + ".b8 0,0\n");
  const std::string code =
      "mov.u64 %SPL, depot;\ncvta.local.u64 %SP, %SPL;\n.loc 2 21 0\nld.u64 %rd1, [%SP+8];\nld.u64 %rd1, [%rd1];\n";
  EXPECT_EQ(chains(code, sections), "k() b.h:21; f() b.h:21 < k() a.cu:9");
  EXPECT_EQ(chains(code, sections, {.locate_stack_accesses = true}),
            "f() b.h:21 < k() a.cu:9; f() b.h:21 < k() a.cu:9");
}

TEST(PtxDebugInfo, WhatCannotBeReadTellsNothing) {
  const std::string plain = "k() a.cu:3; k() b.h:21; k() c.h:6; k() b.h:22; k() a.cu:4";
  const std::string f = inlined(12, "L0", "L3", 1, 3);
  EXPECT_EQ(chains(body, unit(kernel_entry + f + ".b8 0,0\n")), plain); // no abbreviations
  EXPECT_EQ(chains(body, abbreviations + unit(kernel_entry + inlined(12, "L0", "L9", 1, 3) + ".b8 0,0\n")), plain);
  EXPECT_EQ(chains(body, abbreviations + unit(kernel_entry + inlined(12, "L3", "L0", 1, 3) + ".b8 0,0\n")), plain);
  EXPECT_EQ(chains(body, abbreviations + unit(kernel_entry + std::string(".b8 77\n") + f + ".b8 0,0\n")), plain);
  // Whatever the bytes are, the module is read.
  const std::string whole = abbreviations + unit(kernel_entry + f + ".b8 0,0\n");
  for (std::size_t at = 1; at < whole.size(); ++at) {
    const bool number = whole[at] >= '0' && whole[at] <= '9' && (whole[at - 1] == ' ' || whole[at - 1] == ',');
    for (std::string changed = whole; const char digit : {'1', '7', '9'}) {
      if (!number) break;
      changed[at] = digit;
      EXPECT_FALSE(chains(body, changed).empty());
    }
  }
}

} // namespace
} // namespace deadheat::ptx
