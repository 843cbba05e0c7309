// Threads find the nodes whose distance they shorten, and put them into the block's queue. How full that is they all look
// at before each round, while some are adding to it already: a barrier is missing behind the look. Distances by atomic
// operations have nothing to do with it.
#include "check.h"

constexpr int threads = 64, nodes = 256, values = 128, rounds = 2;

__global__ void relax(const int* in, int* distance, int* out) {
  __shared__ int queue[values * rounds], length;
  unsigned t = threadIdx.x;
  if (t == 0) length = 0;
  __syncthreads();
  int seen = 0;
  for (int round = 0; round < rounds; ++round) {
    seen = seen * 100 + length;  // @A
#ifndef RACY
    __syncthreads();
#endif
    for (unsigned i = t; i < nodes; i += threads) {
      if (atomicMin(distance + in[i], in[i] * 3 - round) > in[i] * 3 - round) {  // once for each value
        int at = atomicAdd(&length, 1);  // @B
        queue[at] = i;
      }
    }
    __syncthreads();
  }
  out[t] = seen * 10 + (length > 0 ? queue[0] >= 0 : 0);
}

int main() {
  int* in = to_device(numbers(nodes));
  std::vector<int> far(values, 1000);
  int* distance = to_device(far);
  int* out = zeros<int>(threads);
  relax<<<1, threads>>>(in, distance, out);
  report(out, threads);
}
