// A block's sum of floats by shared-memory atomics, against the same sum by one thread in a fixed order.
#include "check.h"

constexpr int threads = 64;

__global__ void sum(const int* in, float* out) {
  __shared__ float total;
  unsigned t = threadIdx.x;
  if (t == 0) total = 0.0f;
  __syncthreads();
#ifdef RACY
  atomicAdd(&total, 1.0f / static_cast<float>(in[t]));  // @A
#else
  if (t == 0) {
    for (int i = 0; i < threads; ++i) total += 1.0f / static_cast<float>(in[i]);
  }
#endif
  __syncthreads();
  if (t == 0) out[0] = total;
}

int main() {
  int* in = to_device(numbers(threads));
  float* out = zeros<float>(1);
  sum<<<1, threads>>>(in, out);
  float total = to_host(out, 1)[0];
  std::printf("sum %.6f\n", total);
}
