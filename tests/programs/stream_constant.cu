// New weights go into constant memory while a kernel of another stream reads it: in the racy twin to where that one
// reads, in the fixed one to the half that it leaves alone.
#include "check.h"

constexpr int taps = 8, count = 64;
__constant__ int weights[2][taps];

__global__ void filter(const int* in, int* out, int half) {
  int sum = 0;
  for (int i = 0; i < taps; ++i) sum += weights[half][i] * in[(threadIdx.x + i) % count]; // @A
  out[threadIdx.x] = sum;
}

int main() {
  int* in = to_device(numbers(count));
  int* out = zeros<int>(count);
  std::vector<int> first(taps, 1), second(taps, 3);
  int* next = pinned(second);
  CHECK(cudaMemcpyToSymbol(weights, first.data(), taps * sizeof(int)));
  CHECK(cudaDeviceSynchronize());
  cudaStream_t a = make_stream(cudaStreamNonBlocking), b = make_stream(cudaStreamNonBlocking);
  filter<<<1, count, 0, a>>>(in, out, 0);
#ifdef RACY
  constexpr std::size_t offset = 0;
#else
  constexpr std::size_t offset = taps * sizeof(int); // the half that no kernel reads now
#endif
  CHECK(cudaMemcpyToSymbolAsync(weights, next, taps * sizeof(int), offset, cudaMemcpyHostToDevice, b));
  report(out, count);
}
