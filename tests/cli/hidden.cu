// A race that the natural order of blocks hides: only when block 1 takes the first ticket does it write, or the last one, by
// another instruction of the same line.
#include <cstdio>

__global__ void tickets(int* ticket, int* data, int* out) {
  const int mine = atomicAdd(ticket, 1);
  const int one = blockIdx.x == 1;
  if (one && mine == 0) data[0] = 1; else if (one && mine == 2) *(short*)data = 2;  // @WRITE
  if (blockIdx.x == 0) out[0] = data[0];  // @READ
}

int main() {
  int* memory;
  cudaMalloc(&memory, 3 * sizeof(int));
  cudaMemset(memory, 0, 3 * sizeof(int));
  tickets<<<3, 1>>>(memory, memory + 1, memory + 2);
  int result = 0;
  if (cudaMemcpy(&result, memory + 2, sizeof(int), cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
  std::printf("%d\n", result);
}
