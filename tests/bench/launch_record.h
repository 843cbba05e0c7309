// A launch of the benchmarks' kernel, as a trace has it.
//
// Thread-safety: pure function.
#pragma once

#include <cstdint>

#include "deadheat/trace.h"

namespace deadheat::bench {

// In stream 1, of module 1; operation and launch have the same number.
inline trace::Operation launch_record(std::uint32_t number, std::uint32_t blocks, std::uint32_t threads) {
  trace::Launch launch;
  launch.module = 1;
  launch.kernel = "kernel";
  launch.grid = {blocks, 1, 1};
  launch.block = {threads, 1, 1};
  launch.instrumented = true;
  trace::Operation operation;
  operation.id = operation.launch = number;
  operation.stream = 1;
  operation.what = launch;
  return operation;
}

} // namespace deadheat::bench
