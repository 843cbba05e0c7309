// For jobs over the driver API: CHECK(call) ends the job where the call fails.
#pragma once

#include <cuda.h>

#include <cstdio>
#include <cstdlib>

inline void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: error %d\n", what, int(result));
  std::exit(1);
}
#define CHECK(call) check(call, #call)
