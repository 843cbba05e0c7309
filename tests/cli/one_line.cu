// Two ways of reading, on one line; what comes of the second is used.
#include <cstdio>

#define READ(op) asm volatile(op " %0, [%1];" : "=r"(value) : "l"(__cvta_generic_to_global(data + t % 32)) : "memory")

__global__ void twice(int* data, int* out) {
  const unsigned t = threadIdx.x;
  int value;
  // clang-format off
  if (t < 64) { READ("ld.global.u32"); } else { READ("ld.volatile.global.u32"); }  // READ
  // clang-format on
  if (t < 32) data[t] = 2 * value; // WRITE
  if (t >= 64) out[t - 64] = value;
}

int main() {
  int *data, *out, first;
  cudaMalloc(&data, 32 * sizeof(int));
  cudaMalloc(&out, 32 * sizeof(int));
  cudaMemset(data, 1, 32 * sizeof(int));
  twice<<<1, 96>>>(data, out);
  cudaMemcpy(&first, out, sizeof first, cudaMemcpyDeviceToHost);
  std::printf("%d\n", first);
}
