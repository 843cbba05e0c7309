// A copy of a batch that may read its source at any time (cudaMemcpySrcAccessOrderAny) does not wait for the kernel in
// front of it, which writes that source. The fixed one says that it is read in the stream's order.
#include "check.h"

constexpr int count = 64;

__global__ void fill(int* to) {
  to[threadIdx.x] = threadIdx.x + 5;  // @A
}

int main() {
  int* source = to_device(numbers(count));
  int* out = zeros<int>(count);
  cudaStream_t stream = make_stream(cudaStreamNonBlocking);
  void* to = out;
  const void* from = source;
  std::size_t bytes = count * sizeof(int), first = 0;
  cudaMemcpyAttributes attributes = {};
#ifdef RACY
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderAny;
#else
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
#endif
  fill<<<1, count, 0, stream>>>(source);
  CHECK(cudaMemcpyBatchAsync(&to, &from, &bytes, 1, &attributes, &first, 1, stream));
  report(out, count);
}
