// Two kernels that the embedded device cannot run, each for one instruction, and one that it can. With an argument it
// launches all.
#include <cuda_runtime.h>

#include <cstdio>

__global__ void everywhere(float* data) {
  float sum;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];" : "=f"(sum) : "l"(data));
  data[3] = sum;
}

__global__ void reduce(cudaSurfaceObject_t surface, float* data) {
  asm volatile("sured.b.add.1d.u32.trap [%0, {%1}], %1;" ::"l"(surface), "r"(threadIdx.x) : "memory");
  data[threadIdx.x] = 0;
}

__global__ void good(int* data) { data[threadIdx.x] = int(threadIdx.x) + 1; }

int main(int count, char**) {
  int *data = nullptr, last = -1;
  cudaMalloc(&data, 32 * sizeof(int));
  if (count > 1) {
    reduce<<<1, 32>>>(0, reinterpret_cast<float*>(data));
    std::printf("reduce %d\n", int(cudaGetLastError()));
    everywhere<<<1, 32>>>(reinterpret_cast<float*>(data));
    std::printf("everywhere %d\n", int(cudaGetLastError()));
    if (count > 2) reduce<<<1, 32>>>(0, reinterpret_cast<float*>(data)); // nobody asks how it ended
  }
  good<<<1, 32>>>(data);
  cudaMemcpy(&last, data + 31, sizeof last, cudaMemcpyDeviceToHost);
  std::printf("last %d\n", last);
}
