// Two launches on two streams fill the halves of a buffer. Halves that are disjoint need no order; these share an
// element.
#include "check.h"

constexpr int half = 64;
#ifdef RACY
constexpr int begin = half - 1;
#else
constexpr int begin = half;
#endif

__global__ void fill(int* data, int value) {
  data[threadIdx.x] = value + threadIdx.x;  // @A
}

int main() {
  int* data = zeros<int>(2 * half);
  cudaStream_t first = make_stream(), second = make_stream();
  fill<<<1, half, 0, first>>>(data, 100);
  fill<<<1, half, 0, second>>>(data + begin, 500);
  report(data, 2 * half);
}
