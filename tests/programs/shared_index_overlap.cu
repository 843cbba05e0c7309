// Each warp fills a row and closes it with an end mark. Rows one element too short put the mark of one warp on the
// first element of the next.
#include "check.h"

#ifdef RACY
constexpr int row = 32;
#else
constexpr int row = 33;
#endif
constexpr int threads = 128, warps = threads / 32;

__global__ void fill_rows(const int* in, int* out) {
  __shared__ int s[warps * row + 1];
  unsigned t = threadIdx.x, warp = t / 32, lane = t % 32;
  s[warp * row + lane] = in[t];               // @A
  if (lane == 0) s[warp * row + 32] = -1000;  // @B
  __syncthreads();
  out[t] = s[warp * row + lane];
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  fill_rows<<<1, threads>>>(in, out);
  report(out, threads);
}
