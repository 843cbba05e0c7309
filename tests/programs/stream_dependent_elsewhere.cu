// A launch that may begin early waits for those before it in its stream. What another stream writes is not among them:
// that takes an event, which the racy twin leaves out.
#include "check.h"

constexpr int threads = 64;

__global__ void write(int* data, int value) { data[threadIdx.x] = value + threadIdx.x; }  // @Write

__global__ void add(const int* one, const int* other, int* out) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  out[threadIdx.x] = one[threadIdx.x] + other[threads - 1 - threadIdx.x];  // @Read
}

int main() {
  int *one = zeros<int>(threads), *other = zeros<int>(threads), *out = zeros<int>(threads);
  cudaStream_t a = make_stream(cudaStreamNonBlocking), b = make_stream(cudaStreamNonBlocking);
  cudaEvent_t event = make_event();
  write<<<1, threads, 0, a>>>(other, 5);
#ifndef RACY
  CHECK(cudaEventRecord(event, a));
  CHECK(cudaStreamWaitEvent(b, event));
#endif
  write<<<1, threads, 0, b>>>(one, 7);
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = 1;
  config.blockDim = threads;
  config.stream = b;
  config.attrs = &early;
  config.numAttrs = 1;
  const int *left = one, *right = other;
  CHECK(cudaLaunchKernelEx(&config, add, left, right, out));
  report(out, threads);
}
