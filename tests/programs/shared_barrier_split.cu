// A barrier whose arrival and wait are apart, for work of each thread's own in between. What a thread writes after it has
// arrived the others need not see when they have waited.
#include <cuda/barrier>
#include <utility>

#include "check.h"

constexpr int threads = 64;

__global__ void exchange(const int* in, int* out) {
  using Barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ Barrier all;
  __shared__ int s[threads];
  const unsigned t = threadIdx.x;
  if (t == 0) init(&all, threads);
  __syncthreads();
  const int value = in[t];
#ifdef RACY
  Barrier::arrival_token arrived = all.arrive();
  s[t] = value;  // @A
#else
  s[t] = value;
  Barrier::arrival_token arrived = all.arrive();
#endif
  const int own = value * value % 7;
  all.wait(std::move(arrived));
  out[t] = s[t ^ 33] + own;  // @B
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  exchange<<<1, threads>>>(in, out);
  report(out, threads);
}
