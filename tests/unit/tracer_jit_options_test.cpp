// Options of calls that load code, as ptxas is told of them.
#include "tracer/cupti/jit_options.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

namespace deadheat::cupti {
namespace {

using Words = std::vector<std::string>;

JitOptions of(const std::vector<std::pair<CUjit_option, std::uintptr_t>>& pairs) {
  std::vector<CUjit_option> options;
  std::vector<void*> values;
  for (const auto& [option, value] : pairs) {
    options.push_back(option);
    values.push_back(reinterpret_cast<void*>(value));
  }
  return jit_options(unsigned(options.size()), options.data(), values.data());
}

TEST(JitOptions, None) {
  EXPECT_EQ(jit_options(0, nullptr, nullptr).ptxas, Words());
  EXPECT_FALSE(jit_options(3, nullptr, nullptr).for_driver_only);
}

TEST(JitOptions, WhatPtxasKnows) {
  const JitOptions found = of({{CU_JIT_MAX_REGISTERS, 40},
                               {CU_JIT_OPTIMIZATION_LEVEL, 2},
                               {CU_JIT_CACHE_MODE, CU_JIT_CACHE_OPTION_CG},
                               {CU_JIT_GENERATE_LINE_INFO, 1},
                               {CU_JIT_GENERATE_DEBUG_INFO, 0}});
  EXPECT_EQ(found.ptxas, (Words{"-maxrregcount=40", "-O2", "-dlcm=cg"}));
  EXPECT_EQ(found.max_registers, 40u);
  EXPECT_FALSE(found.for_driver_only);
}

// The call has them still.
TEST(JitOptions, LogsStayTheCalls) {
  const JitOptions found = of({{CU_JIT_ERROR_LOG_BUFFER, 0x1000},
                               {CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 100},
                               {CU_JIT_INFO_LOG_BUFFER, 0x2000},
                               {CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, 100},
                               {CU_JIT_LOG_VERBOSE, 1},
                               {CU_JIT_WALL_TIME, 0}});
  EXPECT_EQ(found.ptxas, Words());
  EXPECT_FALSE(found.for_driver_only);
}

TEST(JitOptions, WhatItDoesNotKnow) {
  EXPECT_TRUE(of({{CU_JIT_TARGET, CU_TARGET_COMPUTE_80}}).for_driver_only);
  EXPECT_TRUE(of({{CU_JIT_THREADS_PER_BLOCK, 64}}).for_driver_only);
  EXPECT_TRUE(of({{CU_JIT_GENERATE_DEBUG_INFO, 1}}).for_driver_only);
  EXPECT_TRUE(of({{CU_JIT_GLOBAL_SYMBOL_COUNT, 1}}).for_driver_only);
  EXPECT_TRUE(of({{CUjit_option(1000), 1}}).for_driver_only);
}

TEST(JitOptions, TheLeastNumberOfRegisters) {
  JitOptions found = of({{CU_JIT_MAX_REGISTERS, 64}});
  limit_registers(found, 0);
  limit_registers(found, 80);
  EXPECT_EQ(found.ptxas, Words{"-maxrregcount=64"});
  limit_registers(found, 32);
  EXPECT_EQ(found.ptxas, Words{"-maxrregcount=32"});
  EXPECT_EQ(found.max_registers, 32u);
}

} // namespace
} // namespace deadheat::cupti
