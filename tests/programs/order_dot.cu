// A dot product: fixed order within a block, atomics of doubles between blocks; the other twin stores one sum a block
// and lets the host add them.
#include "check.h"

constexpr int threads = 32, blocks = 5;

__global__ void dot(const int* a, const int* b, double* out) {
  unsigned i = blockIdx.x * threads + threadIdx.x;
  double value = 1.0 / a[i] / b[i];
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  if (threadIdx.x != 0) return;
#ifdef RACY
  atomicAdd(out, value);  // @A
#else
  out[blockIdx.x] = value;
#endif
}

int main() {
  int* a = to_device(numbers(blocks * threads));
  int* b = to_device(numbers(blocks * threads));
  double* out = zeros<double>(blocks);
  dot<<<blocks, threads>>>(a, b, out);
  double sum = 0;
  for (double value : to_host(out, blocks)) sum += value;
  std::printf("dot %.9f\n", sum);
}
