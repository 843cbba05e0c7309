// Every thread writes the same two bounds into shared memory: races that no order shows, of which a few instances are
// tried.
#include "check.h"

constexpr int threads = 64;

__global__ void clamp(const int* in, const int* bounds, int* out) {
  __shared__ int low, high;
  unsigned t = threadIdx.x;
#ifdef RACY
  low = bounds[0];   // @A
  high = bounds[1];  // @B
#else
  if (t == 0) {
    low = bounds[0];
    high = bounds[1];
  }
#endif
  __syncthreads();
  out[t] = max(low, min(in[t], high));
}

int main() {
  int* in = to_device(numbers(threads));
  int* bounds = to_device(std::vector<int>{20, 70});
  int* out = zeros<int>(threads);
  clamp<<<1, threads>>>(in, bounds, out);
  report(out, threads);
}
