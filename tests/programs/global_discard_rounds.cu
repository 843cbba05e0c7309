// A pad that is used round after round. One thread discards it when all have read it; the others may fill it again only
// when it has.
#include "check.h"

#include <cuda/discard_memory>

constexpr int threads = 64, rounds = 3;

__global__ void turns(const int* in, int* out, int* pad) {
  int t = threadIdx.x, sum = 0;
  for (int round = 0; round < rounds; ++round) {
    pad[t] = in[round * threads + t];  // @A
    __syncthreads();
    sum = 3 * sum + pad[threads - 1 - t];
    __syncthreads();
    if (t == 0) cuda::discard_memory(pad, threads * sizeof(int));  // @B
#ifndef RACY
    __syncthreads();
#endif
  }
  out[t] = sum;
}

int main() {
  int* in = to_device(numbers(rounds * threads));
  int* out = zeros<int>(threads);
  int* pad = zeros<int>(threads);
  turns<<<1, threads>>>(in, out, pad);
  report(out, threads);
}
