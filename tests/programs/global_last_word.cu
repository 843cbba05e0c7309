// The last thing that each warp of a block does is to leave its value at one place. Which it is in the end nobody knows;
// that some have exited by then (blocks of clusters are told of exits one by one) has nothing to do with it.
#include "check.h"

constexpr int threads = 64, blocks = 2;

__global__ void __cluster_dims__(blocks) leave(const int* in, int* place) {
  __shared__ int s[threads];
  unsigned t = threadIdx.x;
  s[threads - 1 - t] = in[blockIdx.x * threads + t];
  __syncthreads();
#ifdef RACY
  if (t % 32 == 0) place[blockIdx.x] = s[t];  // @A
#else
  if (t % 32 == 0) atomicMax(place + blockIdx.x, s[t]);
#endif
}

int main() {
  int* in = to_device(numbers(threads * blocks));
  int* place = zeros<int>(blocks);
  leave<<<blocks, threads>>>(in, place);
  report(place, blocks);
}
