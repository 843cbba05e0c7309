// The host refills page-locked memory out of which a batch's copy may read at any time (cudaMemcpySrcAccessOrderAny). The
// fixed one has it read during the call.
#include "check.h"

constexpr int count = 64;

__global__ void add(const int* more, int* out) { out[threadIdx.x] += more[threadIdx.x]; }

int main() {
  int* more = zeros<int>(count);
  int* out = to_device(numbers(count));
  int* host = pinned(numbers(count));
  cudaStream_t stream = make_stream(cudaStreamNonBlocking);
  void* to = more;
  const void* from = host;
  std::size_t bytes = count * sizeof(int), first = 0;
  cudaMemcpyAttributes attributes = {};
#ifdef RACY
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderAny;
#else
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall;
#endif
  CHECK(cudaMemcpyBatchAsync(&to, &from, &bytes, 1, &attributes, &first, 1, stream));
  for (int i = 0; i < count; ++i) host[i] = -7;
  add<<<1, count, 0, stream>>>(more, out);
  report(out, count);
}
