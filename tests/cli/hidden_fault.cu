// One missing barrier that makes two races, in a schedule alone in which block 1 takes the first ticket; and a race that
// every schedule shows.
#include <cstdio>

__global__ void tickets(int* ticket, int* last, int* out) {
  __shared__ int values[64];
  __shared__ bool first;
  const unsigned t = threadIdx.x;
  if (t == 0) first = atomicAdd(ticket, 1) == 0;
  __syncthreads();
  if (t == 0) *last = blockIdx.x;  // @SEEN
  if (blockIdx.x != 1 || !first) return;
  values[t] = int(t);            // @FILL
  const int a = values[t ^ 32];  // @FAR
  const int b = values[63 - t];  // @MIRRORED
  out[t] = a * 64 + b;
}

int main() {
  int* memory;
  cudaMalloc(&memory, 66 * sizeof(int));
  cudaMemset(memory, 0, 66 * sizeof(int));
  tickets<<<2, 64>>>(memory, memory + 1, memory + 2);
  int result[66];
  if (cudaMemcpy(result, memory, sizeof result, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
  std::printf("%d\n", result[65]);
}
