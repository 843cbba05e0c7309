// A kernel waits for what another one, of a stream beside it, has made, and reads it: the message orders them. Not what
// is read through the read-only cache, which takes it that nothing is written while the kernel runs.
#include <cuda/atomic>

#include "check.h"

constexpr int threads = 64;

__global__ void make(const int* in, int* data, int* flag) {
  data[threadIdx.x] = 3 * in[threadIdx.x];  // @A
  __syncthreads();
  if (threadIdx.x == 0) cuda::atomic_ref<int, cuda::thread_scope_device>(*flag).store(1, cuda::memory_order_release);
}

__global__ void use(const int* data, int* flag, int* out) {
  if (threadIdx.x == 0) {
    while (cuda::atomic_ref<int, cuda::thread_scope_device>(*flag).load(cuda::memory_order_acquire) == 0) {
    }
  }
  __syncthreads();
#ifdef RACY
  out[threadIdx.x] = __ldg(data + threadIdx.x);  // @B
#else
  out[threadIdx.x] = *reinterpret_cast<const volatile int*>(data + threadIdx.x);
#endif
}

int main() {
  int *data = zeros<int>(threads), *flag = zeros<int>(1), *out = zeros<int>(threads);
  const int* in = to_device(numbers(threads));
  make<<<1, threads, 0, make_stream(cudaStreamNonBlocking)>>>(in, data, flag);
  use<<<1, threads, 0, make_stream(cudaStreamNonBlocking)>>>(data, flag, out);
  report(out, threads);
}
