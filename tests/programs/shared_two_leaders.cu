// In each round a leader says what all threads add, behind a barrier. In the racy twin another warp says something else:
// which of the two is last tells each round's sum, though not what is left at the end.
#include "check.h"

constexpr int threads = 64, rounds = 3;

__global__ void add(int* out) {
  __shared__ int s;
  const int t = threadIdx.x;
  int sum = 0;
  for (int round = 0; round < rounds; ++round) {
#ifdef RACY
    if (t % 32 == 0) s = t == 0 || round == rounds - 1 ? round + 1 : 10;  // @A
#else
    if (t == 0) s = round + 1;
#endif
    __syncthreads();
    sum = 2 * sum + s;
    __syncthreads();
  }
  out[t] = sum;
}

int main() {
  int* out = zeros<int>(threads);
  add<<<1, threads>>>(out);
  report(out, threads);
}
