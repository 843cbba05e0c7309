// Says what the device says of itself, and which of the program's code ran. Two blocks take turns without any order: what
// comes of that depends on theirs, and on how many multiprocessors there are.
#include <cuda_runtime.h>

#include <cstdio>

__global__ void take_turns(unsigned* words) {
  unsigned multiprocessors = 0;
  asm("mov.u32 %0, %%nsmid;" : "=r"(multiprocessors));
  if (threadIdx.x != 0) return;
  words[0] = words[0] * 2 + multiprocessors * (blockIdx.x + 1);
#ifdef __CUDA_ARCH__
  if (blockIdx.x == 0) words[1] = __CUDA_ARCH__;
#endif
}

__global__ void fill_shared(unsigned* word, unsigned count) {
  extern __shared__ unsigned shared[];
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) shared[i] = i;
  __syncthreads();
  if (threadIdx.x == 0 && blockIdx.x == 0) *word = shared[count - 1];
}

int main() {
  int value[4] = {};
  const cudaDeviceAttr asked[] = {cudaDevAttrMultiProcessorCount, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                  cudaDevAttrMaxBlocksPerMultiprocessor, cudaDevAttrClusterLaunch};
  for (int i = 0; i < 4; ++i) cudaDeviceGetAttribute(&value[i], asked[i], 0);
  cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, 0);
  std::printf("%d.%d: %d multiprocessors, %d bytes, %d blocks, %d %d\n", properties.major, properties.minor, value[0],
              value[1], value[2], value[3], properties.clusterLaunch);
  unsigned *words = nullptr, host[2] = {};
  cudaMalloc(&words, sizeof host);
  cudaMemset(words, 0, sizeof host);
  cudaLaunchAttribute pair;
  pair.id = cudaLaunchAttributeClusterDimension;
  pair.val.clusterDim.x = 2;
  pair.val.clusterDim.y = pair.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = 2;
  config.blockDim = 32;
  config.attrs = &pair;
  config.numAttrs = 1;
  const cudaError_t together = cudaLaunchKernelEx(&config, take_turns, words);
  if (together != cudaSuccess) {
    cudaGetLastError();
    take_turns<<<2, 32>>>(words);
  }
  for (const cudaError_t status :
       {cudaGetLastError(), cudaMemcpy(host, words, sizeof host, cudaMemcpyDeviceToHost)}) {
    if (status == cudaSuccess) continue;
    std::printf("%s\n", cudaGetErrorName(status));
    return 1;
  }
  // A block may have all that there is.
  const int most = value[1];
  int blocks = 0;
  cudaFuncSetAttribute(fill_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill_shared, 256, most);
  fill_shared<<<3, 256, most>>>(words, most / 4);
  unsigned last = 0;
  cudaMemcpy(&last, words, sizeof last, cudaMemcpyDeviceToHost);
  std::printf("%d block: %s, %u\n", blocks, cudaGetErrorName(cudaGetLastError()), last * 4 + 4);
  std::printf("code for %u, as a cluster %s\n", host[1], cudaGetErrorName(together));
  return 0;
}
