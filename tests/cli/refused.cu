// Two kernels that the embedded device cannot run, each for one instruction, and one that it can.
#include <cuda_runtime.h>

#include <cstdio>

__global__ void matrix(int* data) {
  unsigned d0, d1;
  unsigned a0 = data[0], a1 = data[1], b0 = data[2];
  asm volatile(
      "mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3}, {%4,%4}, {%0,%1}, %3, 0;"
      : "=r"(d0), "=r"(d1) : "r"(a0), "r"(a1), "r"(b0));
  data[3] = int(d0 + d1);
}

__global__ void fetch(cudaTextureObject_t texture, float* data) {
  data[threadIdx.x] = tex1Dfetch<float>(texture, int(threadIdx.x));
}

__global__ void good(int* data) { data[threadIdx.x] = int(threadIdx.x) + 1; }

int main(int count, char**) {
  int *data = nullptr, last = -1;
  cudaMalloc(&data, 32 * sizeof(int));
  if (count > 1) {
    fetch<<<1, 32>>>(0, reinterpret_cast<float*>(data));
    std::printf("fetch %d\n", int(cudaGetLastError()));
    matrix<<<1, 32>>>(data);
    std::printf("matrix %d\n", int(cudaGetLastError()));
  }
  good<<<1, 32>>>(data);
  cudaMemcpy(&last, data + 31, sizeof last, cudaMemcpyDeviceToHost);
  std::printf("last %d\n", last);
}
