// A block takes memory from the kernels' heap, fills it and hands it to another one, which gives it back. The pointer is
// stored relaxed where it must release: then neither the reads nor the free come after what was written.
#include <cuda/atomic>

#include "check.h"

constexpr int threads = 64;
#ifdef RACY
constexpr cuda::memory_order order = cuda::memory_order_relaxed;
#else
constexpr cuda::memory_order order = cuda::memory_order_release;
#endif

__device__ int* handed;

__global__ void pass(const int* in, int* out) {
  __shared__ int* s;
  unsigned t = threadIdx.x;
  cuda::atomic_ref<int*, cuda::thread_scope_device> pointer(handed);
  if (blockIdx.x == 0) {
    if (t == 0) s = static_cast<int*>(malloc(threads * sizeof(int)));
    __syncthreads();
    s[t] = 3 * in[t];  // @A
    __syncthreads();
    if (t == 0) pointer.store(s, order);
  } else {
    if (t == 0) {
      while (!(s = pointer.load(cuda::memory_order_acquire))) {
      }
    }
    __syncthreads();
    out[t] = s[threads - 1 - t];  // @B
    __syncthreads();
    if (t == 0) free(s);  // @C
  }
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  pass<<<2, threads>>>(in, out);
  report(out, threads);
}
