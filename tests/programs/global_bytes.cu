// Adjacent bytes written by different threads are no race. Two blocks on one byte are.
#include "check.h"

constexpr int threads = 61, blocks = 2;
#ifdef RACY
constexpr int stride = threads - 1;
#else
constexpr int stride = threads;
#endif

__global__ void fill(unsigned char* out) {
  out[blockIdx.x * stride + threadIdx.x] = static_cast<unsigned char>(100 * blockIdx.x + threadIdx.x);  // @A
}

int main() {
  unsigned char* out = zeros<unsigned char>(blocks * threads);
  fill<<<blocks, threads>>>(out);
  report(out, blocks * threads);
}
