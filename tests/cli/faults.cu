// One memory error, named by the first argument. Prints the number of the CUDA error that the next synchronization
// gives, then that the host goes on.
#include <cuda_runtime.h>

#include <cassert>
#include <cstdio>
#include <cstring>

__global__ void global_out(int* data, int count) {
  if (threadIdx.x == 3) data[count] = 1;  // @global_out
}

__global__ void shared_out(int* data, int index) {
  __shared__ int s[32];
  s[threadIdx.x] = int(threadIdx.x);
  __syncthreads();
  if (threadIdx.x == 4) data[0] = s[index];  // @shared_out
}

__global__ void misaligned(char* data) {
  if (threadIdx.x == 5) *reinterpret_cast<int*>(data + 1) = 1;  // @misaligned
}

__global__ void failing_assert(const int* data) {
  if (threadIdx.x == 6) assert(data == nullptr);  // @assert
}

__global__ void trapping() {
  if (threadIdx.x == 7) __trap();  // @trap
}

__global__ void null_pointer(int* data) {
  if (threadIdx.x == 8) *data = 1;  // @null
}

int main(int, char** arguments) {
  const char* which = arguments[1];
  int* data = nullptr;
  cudaMalloc(&data, 32 * sizeof(int));
  if (!std::strcmp(which, "global_out")) global_out<<<1, 32>>>(data, 32);
  if (!std::strcmp(which, "shared_out")) shared_out<<<1, 32>>>(data, 1 << 20);
  if (!std::strcmp(which, "misaligned")) misaligned<<<1, 32>>>(reinterpret_cast<char*>(data));
  if (!std::strcmp(which, "assert")) failing_assert<<<1, 32>>>(data);
  if (!std::strcmp(which, "trap")) trapping<<<1, 32>>>();
  if (!std::strcmp(which, "null")) null_pointer<<<1, 32>>>(nullptr);
  std::printf("launch %d\n", int(cudaGetLastError()));
  std::printf("sync %d\n", int(cudaDeviceSynchronize()));
  std::printf("malloc %d\n", int(cudaMalloc(&data, 4)));
  std::printf("the host goes on\n");
}
