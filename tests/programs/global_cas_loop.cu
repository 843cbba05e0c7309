// Addition by compare-and-swap, as the CUDA guide has shown it: the first read is plain. It races with the swaps of
// others, yet a wrong guess only costs one more turn.
#include "check.h"

constexpr int threads = 32, blocks = 2;

__device__ void add(double* address, double value) {
  auto* bits = reinterpret_cast<unsigned long long*>(address);
#ifdef RACY
  unsigned long long seen = *bits;  // @A
#else
  unsigned long long seen = atomicAdd(bits, 0ull);
#endif
  unsigned long long assumed;
  do {
    assumed = seen;
    unsigned long long next = __double_as_longlong(value + __longlong_as_double(assumed));
    seen = atomicCAS(bits, assumed, next);  // @B
  } while (seen != assumed);
}

__global__ void sum(const int* in, double* total) {
  add(total, in[blockIdx.x * threads + threadIdx.x]);
}

int main() {
  int* in = to_device(numbers(blocks * threads));
  double* total = zeros<double>(1);
  sum<<<blocks, threads>>>(in, total);
  report(total, 1);
}
