// A line of numbers is smoothed twice in place, and read by a texture over the same memory. Barriers order threads, not
// what texture caches hold: what a launch has written, it must not fetch (CUDA C++ Programming Guide, "Read/Write
// Coherency" of texture and surface memory). Each step is a launch of its own, then.
#include "check.h"

constexpr int threads = 64;

__global__ void smooth(cudaTextureObject_t line, int* data, int steps) {
  const int t = threadIdx.x;
  for (int step = 0; step < steps; ++step) {
    const int left = tex1Dfetch<int>(line, t ? t - 1 : 0), right = tex1Dfetch<int>(line, t);  // @A
    __syncthreads();
    data[t] = left + right;  // @B
    __syncthreads();
  }
}

int main() {
  int* data = to_device(numbers(threads));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = data;
  resource.res.linear.desc = cudaCreateChannelDesc<int>();
  resource.res.linear.sizeInBytes = threads * sizeof(int);
  cudaTextureDesc sampling = {};
  cudaTextureObject_t line;
  CHECK(cudaCreateTextureObject(&line, &resource, &sampling, nullptr));
#ifdef RACY
  smooth<<<1, threads>>>(line, data, 2);
#else
  smooth<<<1, threads>>>(line, data, 1);
  smooth<<<1, threads>>>(line, data, 1);
#endif
  report(data, threads);
  CHECK(cudaDestroyTextureObject(line));
}
