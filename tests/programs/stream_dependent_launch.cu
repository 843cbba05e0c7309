// The second launch may begin before the first is complete (programmatic dependent launch). The racy twin does not wait
// for the first launch before it reads what that wrote.
#include "check.h"

constexpr int threads = 64;

__global__ void first(const int* in, int* middle) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  unsigned i = blockIdx.x * threads + threadIdx.x;
  middle[i] = 5 * in[i];  // @A
}

__global__ void second(const int* middle, int* out) {
#ifndef RACY
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  unsigned i = blockIdx.x * threads + threadIdx.x;
  out[i] = middle[2 * threads - 1 - i] + 1;  // @B
#ifdef RACY
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

int main() {
  int* in = to_device(numbers(2 * threads));
  int* middle = zeros<int>(2 * threads);
  int* out = zeros<int>(2 * threads);
  cudaStream_t stream = make_stream();
  first<<<2, threads, 0, stream>>>(in, middle);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(2);
  config.blockDim = dim3(threads);
  config.stream = stream;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, second, static_cast<const int*>(middle), out));
  CHECK(cudaStreamSynchronize(stream));
  report(out, 2 * threads);
}
