// A sum of floats by atomics that is right when the large term comes last, and swallows those that come after it.
// Integers that a float holds add up to the same in any order.
#include "check.h"

constexpr int threads = 64, blocks = 8;

__global__ void sum(const float* in, float* total) {
  atomicAdd(total, in[blockIdx.x * threads + threadIdx.x]);  // @A
}

int main() {
  std::vector<float> terms;
  for (int value : numbers(threads * blocks)) terms.push_back(float(value % 3));
#ifdef RACY
  for (float& term : terms) term = 1.0f;
  terms.back() = 16777216.0f;
#endif
  float* in = to_device(terms);
  float* total = zeros<float>(1);
  sum<<<blocks, threads>>>(in, total);
  report(total, 1);
}
