// The runtime and the driver in one program: streams, events, memory and kernels of one are used in the other.
#include <cuda.h>

#include "check.h"

constexpr int threads = 64;

__global__ void scale(const int* in, int* data) {
  unsigned t = threadIdx.x;
  data[t] = 3 * in[t];  // @A
}

int main() {
  int* in = to_device(numbers(threads));
  int* data = zeros<int>(threads);
  CUcontext context = nullptr;
  cudaStream_t launching = make_stream(cudaStreamNonBlocking);
  CUstream copying = nullptr;
  CUevent scaled = nullptr;
  int* host = pinned(std::vector<int>(threads));
  const bool ready = cuCtxGetCurrent(&context) == CUDA_SUCCESS && context &&
                     cuStreamCreate(&copying, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
                     cuEventCreate(&scaled, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
  if (!ready) return 4;
  cudaFunction_t function = nullptr;
  CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(scale)));
  void* arguments[] = {&in, &data};
  if (cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, launching, arguments, nullptr) != CUDA_SUCCESS) return 5;
  CHECK(cudaEventRecord(scaled, launching));
#ifndef RACY
  if (cuStreamWaitEvent(copying, scaled, CU_EVENT_WAIT_DEFAULT) != CUDA_SUCCESS) return 6;
#endif
  const auto from = reinterpret_cast<CUdeviceptr>(data);
  if (cuMemcpyDtoHAsync(host, from, threads * sizeof(int), copying) != CUDA_SUCCESS) return 7;
  CHECK(cudaStreamSynchronize(copying));
  CHECK(cudaDeviceSynchronize());
  print_checksum(host, threads);
}
