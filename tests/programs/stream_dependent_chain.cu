// Three launches, each dependent on the one before. The third waits for the second to be complete, and for the first only
// where the second has waited for it: its own wait reaches no further.
#include "check.h"

constexpr int threads = 32, count = 4 * threads;

__global__ void first(int* a) {
  cudaTriggerProgrammaticLaunchCompletion();
  a[blockIdx.x * threads + threadIdx.x] = threadIdx.x + 1;  // @Write
}

__global__ void second(const int* in, int* b) {
  cudaTriggerProgrammaticLaunchCompletion();
#ifndef RACY
  cudaGridDependencySynchronize();
#endif
  b[blockIdx.x * threads + threadIdx.x] = in[threadIdx.x] * 2;
}

__global__ void third(const int* a, const int* b, int* c) {
  cudaGridDependencySynchronize();
  int i = blockIdx.x * threads + threadIdx.x;
  c[i] = a[i] + b[i];  // @Read
}

template <class... Parameters>
void launch(cudaStream_t stream, void (*kernel)(Parameters...), Parameters... arguments) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = count / threads;
  config.blockDim = threads;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, kernel, arguments...));
}

int main() {
  int *in = to_device(numbers(threads)), *a = zeros<int>(count), *b = zeros<int>(count), *c = zeros<int>(count);
  cudaStream_t stream = make_stream();
  launch(stream, first, a);
  launch<const int*, int*>(stream, second, in, b);
  launch<const int*, const int*, int*>(stream, third, a, b, c);
  report(c, count);
}
