// Two kernels in two streams, on the device at the same time: one makes data and raises a flag, one lane of the other
// waits for the flag and tells the lanes beside it by a shuffle. That orders no memory: they may read what was there
// before.
#include <cuda/atomic>

#include "check.h"

constexpr int threads = 32;

using Flag = cuda::atomic_ref<int, cuda::thread_scope_device>;

__global__ void make(const int* in, int* data, int* scale, int* flag) {
  data[threadIdx.x] = 3 * in[threadIdx.x];  // @A
  scale[threadIdx.x] = in[threadIdx.x] % 7;  // @C
  __syncwarp();
  if (threadIdx.x == 0) Flag(*flag).store(1, cuda::memory_order_release);
}

__global__ void use(const int* data, const int* scale, int* flag, int* out) {
  int seen = 0;
  while (threadIdx.x == 0 && (seen = Flag(*flag).load(cuda::memory_order_acquire)) == 0) {
  }
#ifndef RACY
  __syncwarp();
#endif
  seen = __shfl_sync(~0u, seen, 0);
  const int value = data[threadIdx.x];  // @B
  out[threadIdx.x] = seen + value * scale[threadIdx.x];  // @D
}

int main() {
  int *data = zeros<int>(threads), *scale = zeros<int>(threads), *flag = zeros<int>(1), *out = zeros<int>(threads);
  const int* in = to_device(numbers(threads));
  make<<<1, threads, 0, make_stream(cudaStreamNonBlocking)>>>(in, data, scale, flag);
  use<<<1, threads, 0, make_stream(cudaStreamNonBlocking)>>>(data, scale, flag, out);
  report(out, threads);
}
