// Copies of one batch come in any order (cudaMemcpyBatchAsync): in the racy twin the second reads a part of what the
// first writes. The fixed one copies from the input both times. Sources on the host are read during the call, so that
// the host may write them again at once.
#include "check.h"

constexpr int count = 64;

int main() {
  int* input = to_device(numbers(count));
  int* middle = zeros<int>(count);
  int* out = zeros<int>(count + 4);
  int* host = pinned(std::vector<int>{1, 2, 3, 4});
  cudaStream_t stream = make_stream(cudaStreamNonBlocking);
#ifdef RACY
  const int* second = middle;
#else
  const int* second = input;
#endif
  void* to[] = {middle, out, out + count};
  const void* from[] = {input, second, host};
  std::size_t bytes[] = {count * sizeof(int), count * sizeof(int), 4 * sizeof(int)};
  cudaMemcpyAttributes attributes[2] = {};
  attributes[0].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  attributes[1].srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall;
  std::size_t from_entry[] = {0, 2};
  CHECK(cudaMemcpyBatchAsync(to, from, bytes, 3, attributes, from_entry, 2, stream));
  for (int i = 0; i < 4; ++i) host[i] = -7;
  CHECK(cudaMemcpyAsync(middle, out, bytes[0], cudaMemcpyDeviceToDevice, stream)); // behind all of them
  report(out, count + 4);
}
