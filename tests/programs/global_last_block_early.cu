// The last block to take a ticket writes out what all have summed. In the racy twin the one thread that takes it waits for
// none of its block: what the others add may come after. Whoever turns that about needs a block that is still the last.
#include "check.h"

constexpr int threads = 128, blocks = 4;

__global__ void total(const int* in, int* sums, unsigned* tickets, int* out) {
  const int t = threadIdx.x;
  atomicAdd(&sums[t], in[blockIdx.x * threads + t]);  // @A
  __threadfence();
#ifndef RACY
  __syncthreads();
#endif
  bool last = false;
  if (t == 0) {
    last = atomicInc(tickets, blocks - 1) == blocks - 1;
    __threadfence();
  }
  if (__syncthreads_or(last)) out[t] = sums[t];  // @B
}

int main() {
  int* in = to_device(numbers(threads * blocks));
  int* sums = zeros<int>(threads);
  unsigned* tickets = zeros<unsigned>(1);
  int* out = zeros<int>(threads);
  total<<<blocks, threads>>>(in, sums, tickets, out);
  report(out, threads);
}
