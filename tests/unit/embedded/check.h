// What the embedded device's test programs share: the end at the first call that fails, with its line.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                 \
  do {                                                                              \
    cudaError_t status_ = (call);                                                   \
    if (status_ != cudaSuccess) {                                                   \
      std::printf("line %d: %s: %s\n", __LINE__, #call, cudaGetErrorName(status_)); \
      std::exit(1);                                                                 \
    }                                                                               \
  } while (0)
