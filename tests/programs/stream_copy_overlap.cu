// Two uploads on two streams into one buffer. The second starts one element too early.
#include "check.h"

constexpr int half = 64;
#ifdef RACY
constexpr int begin = half - 1;
#else
constexpr int begin = half;
#endif

int main() {
  int* first_half = pinned(numbers(half));
  int* second_half = pinned(std::vector<int>(half, -5));
  int* data = zeros<int>(2 * half);
  cudaStream_t first = make_stream(), second = make_stream();
  CHECK(cudaMemcpyAsync(data, first_half, half * sizeof(int), cudaMemcpyHostToDevice, first));
  CHECK(cudaMemcpyAsync(data + begin, second_half, half * sizeof(int), cudaMemcpyHostToDevice, second));
  report(data, 2 * half);
}
