// A program of many kernels, each a case named after what it is: CASE(name, blocks, threads, body) launches body(out)
// by itself. corners.py says what the names and the comments behind them mean.
#pragma once

#include <cstring>

#include "check.h"

struct Case {
  const char* name;
  void (*kernel)(int*);
  int blocks, threads;
};

inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

#define CASE_WITH(attributes, name, blocks, threads, ...)         \
  __global__ void attributes name(int* out) { __VA_ARGS__(out); } \
  static const bool name##_is_listed = (cases().push_back({#name, name, blocks, threads}), true);
#define CASE(name, blocks, threads, ...) CASE_WITH(, name, blocks, threads, __VA_ARGS__)
#define CLUSTER_CASE(name, blocks, threads, ...) CASE_WITH(__cluster_dims__(2), name, blocks, threads, __VA_ARGS__)

// Between any two cases `clear` puts global variables back. Given a name, only that case runs.
inline void run_cases(void (*clear)(), const char* only) {
  int* out = zeros<int>(4096);
  for (const Case& one : cases()) {
    if (only && std::strcmp(only, one.name) != 0) continue;
    clear<<<1, 1>>>();
    one.kernel<<<one.blocks, one.threads>>>(out);
    CHECK(cudaDeviceSynchronize());
  }
  std::printf("%zu cases\n", cases().size());
}
