// What jobs over embedded_cuda.cpp have in common in which kernels wait for the host: a module, two streams that wait
// for nothing else, memory, and a flag that is 0.
#pragma once

#include <cuda.h>

#include <string>

#include "tests/tracer/driver_check.h"
#include "tests/tracer/fill_kernel.h"

// PTX of fill_kernel.h and of a kernel that waits until the flag is another; more kernels may follow.
inline const std::string waiting_kernels = std::string(fill_kernel) + R"(.visible .entry wait(.param .u64 flag)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  .reg .pred %p;
  ld.param.u64 %rd1, [flag];
$again:
  ld.volatile.global.u32 %r1, [%rd1];
  setp.eq.u32 %p, %r1, 0;
  @%p bra $again;
  ret;
}
)";

struct WaitingJob {
  CUmodule module = nullptr;
  CUstream one = nullptr, other = nullptr;
  CUdeviceptr memory = 0, flag = 0; // of 4096 bytes, and of 4

  explicit WaitingJob(const std::string& kernels) {
    CHECK(cuInit(0));
    CHECK(cuModuleLoadData(&module, kernels.c_str()));
    CHECK(cuStreamCreateWithPriority(&one, CU_STREAM_NON_BLOCKING, 0));
    CHECK(cuStreamCreateWithPriority(&other, CU_STREAM_NON_BLOCKING, 0));
    CHECK(cuMemAlloc_v2(&memory, 4096));
    CHECK(cuMemAlloc_v2(&flag, 4));
    CHECK(cuMemsetD32Async(flag, 0, 1, one));
    CHECK(cuStreamSynchronize(one));
  }
  CUfunction function(const char* name) const {
    CUfunction found = nullptr;
    CHECK(cuModuleGetFunction(&found, module, name));
    return found;
  }
};
