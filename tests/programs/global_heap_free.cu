// Memory of the kernels' heap that two blocks read, and one of them gives back. Only when both are through may it: the
// last block to come by then frees it.
#include "check.h"

constexpr int threads = 64;

__device__ int* table;
__device__ unsigned through;

__global__ void make(const int* in) {
  unsigned t = threadIdx.x;
  if (t == 0) table = static_cast<int*>(malloc(threads * sizeof(int)));
  __syncthreads();
  table[t] = in[t];
}

__global__ void use(int* out) {
  unsigned t = threadIdx.x;
  out[blockIdx.x * threads + t] = table[threads - 1 - t];  // @A
  __syncthreads();
  if (t) return;
#ifdef RACY
  bool last = blockIdx.x == 1;
#else
  __threadfence();
  bool last = atomicAdd(&through, 1) == 1;
  __threadfence();
#endif
  if (last) free(table);  // @B
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(2 * threads);
  make<<<1, threads>>>(in);
  use<<<2, threads>>>(out);
  report(out, 2 * threads);
}
