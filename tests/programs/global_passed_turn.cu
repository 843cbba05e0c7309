// Blocks take turns: each writes its part, waits for its turn and passes that on; who has the last one adds up all parts.
// Who passes it on by a store has nothing of what those before released in it: only read-modify-writes carry that on.
#include "check.h"

constexpr int blocks = 3;

__global__ void add_up(const int* in, int* part, int* turn, int* total) {
  int value = in[blockIdx.x * 32 + threadIdx.x];
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  if (threadIdx.x != 0) return;
  part[blockIdx.x] = value;  // @A
  __threadfence();
  while (*(volatile int*)turn != blockIdx.x) {
  }
  if (blockIdx.x + 1 < gridDim.x) {
#ifdef RACY
    *(volatile int*)turn = blockIdx.x + 1;
#else
    atomicAdd(turn, 1);
#endif
    return;
  }
  __threadfence();
  int all = 0;
#pragma unroll 1
  for (unsigned b = 0; b < gridDim.x; ++b) all += part[b];  // @B
  total[0] = all;
}

int main() {
  int* in = to_device(numbers(blocks * 32));
  int* part = zeros<int>(blocks);
  int* turn = zeros<int>(1);
  int* total = zeros<int>(1);
  add_up<<<blocks, 32>>>(in, part, turn, total);
  report(total, 1);
}
