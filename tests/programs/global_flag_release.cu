// Message passing between two blocks. The flag is stored relaxed where it must release.
#include <cuda/atomic>

#include "check.h"

constexpr int threads = 64;
#ifdef RACY
constexpr cuda::memory_order order = cuda::memory_order_relaxed;
#else
constexpr cuda::memory_order order = cuda::memory_order_release;
#endif

__global__ void pass(const int* in, int* data, int* flag, int* out) {
  unsigned t = threadIdx.x;
  cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
  if (blockIdx.x == 0) {
    data[t] = 3 * in[t];  // @A
    __syncthreads();
    if (t == 0) ready.store(1, order);
  } else {
    if (t == 0) {
      while (ready.load(cuda::memory_order_acquire) == 0) {
      }
    }
    __syncthreads();
    out[t] = data[threads - 1 - t];  // @B
  }
}

int main() {
  int* in = to_device(numbers(threads));
  int* data = zeros<int>(threads);
  int* flag = zeros<int>(1);
  int* out = zeros<int>(threads);
  pass<<<2, threads>>>(in, data, flag, out);
  report(out, threads);
}
