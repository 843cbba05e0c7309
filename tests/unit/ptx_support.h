// Helpers of the PTX tests.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "tracer/ptx/parse.h"

namespace deadheat::ptx {

// A module with this text after a header; reports a parse error as a test failure.
inline Module module_of(const std::string& text) {
  std::string whole = ".version 9.0\n.target sm_90a\n.address_size 64\n" + text;
  Expected<Module> module = parse(whole, "test.ptx");
  if (!module) {
    ADD_FAILURE() << module.error().message() << "\nin\n" << whole;
    return {};
  }
  EXPECT_EQ(print(*module), whole);
  return std::move(*module);
}

// A module with one kernel k that has this body, after common declarations.
inline Module kernel_of(const std::string& body) {
  return module_of(
      ".global .align 4 .b8 g[64];\n"
      ".visible .entry k(.param .u64 a, .param .u32 n)\n{\n"
      ".reg .pred %p<8>;\n.reg .b16 %rs<32>;\n.reg .b32 %r<64>;\n.reg .b64 %rd<64>;\n.reg .f32 %f<64>;\n.reg .f64 "
      "%fd<16>;\n"
      ".shared .align 16 .b8 s[1024];\n" +
      body + "\n}\n");
}

inline const Function& kernel(const Module& module) { return module.functions.back(); }

inline std::vector<const Instruction*> instructions(const Function& function) {
  std::vector<const Instruction*> result;
  for (const Statement& statement : function.body) {
    if (const Instruction* i = statement.instruction()) result.push_back(i);
  }
  return result;
}

// The only instruction of a kernel with this body, in the canonical form.
inline std::string canonical(const std::string& body) {
  Module module = kernel_of(body);
  if (module.functions.empty()) return "";
  std::vector<const Instruction*> all = instructions(kernel(module));
  return all.size() == 1 ? print(*all[0], kernel(module)) : "";
}

inline std::string error_of(const std::string& text) {
  Expected<Module> module = parse(text, "test.ptx");
  return module ? "" : module.error().message();
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace deadheat::ptx
