// Every thread writes the same bound into shared memory: a race, and no schedule shows it.
#include "check.h"

constexpr int threads = 64;

__global__ void clamp(const int* in, const int* bound, int* out) {
  __shared__ int limit;
  unsigned t = threadIdx.x;
#ifdef RACY
  limit = bound[0];  // @A
#else
  if (t == 0) limit = bound[0];
#endif
  __syncthreads();
  out[t] = min(in[t], limit);
}

int main() {
  int* in = to_device(numbers(threads));
  int* bound = to_device(std::vector<int>{50});
  int* out = zeros<int>(threads);
  clamp<<<1, threads>>>(in, bound, out);
  report(out, threads);
}
