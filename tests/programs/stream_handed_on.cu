// Scratch memory of a pool is given back while another stream still reads it, and goes to the next step at once. One
// missing wait, of which the free tells first: what comes behind it is its consequence.
#include "check.h"

constexpr int count = 128;

__global__ void fill(int* to, int value) { to[threadIdx.x] = value + threadIdx.x; }  // @W
__global__ void add(const int* from, int* sum) { sum[threadIdx.x] += from[threadIdx.x]; }  // @R

int main() {
  cudaStream_t main_stream = make_stream(cudaStreamNonBlocking), side = make_stream(cudaStreamNonBlocking);
  cudaEvent_t filled = make_event(), read = make_event();
  int *sum = zeros<int>(count), *first, *second;
  CHECK(cudaMallocAsync(&first, count * sizeof(int), main_stream));
  fill<<<1, count, 0, main_stream>>>(first, 1);
  CHECK(cudaEventRecord(filled, main_stream));
  CHECK(cudaStreamWaitEvent(side, filled));
  add<<<1, count, 0, side>>>(first, sum);
  CHECK(cudaEventRecord(read, side));
#ifndef RACY
  CHECK(cudaStreamWaitEvent(main_stream, read));
#endif
  CHECK(cudaFreeAsync(first, main_stream));
  CHECK(cudaMallocAsync(&second, count * sizeof(int), main_stream));
  fill<<<1, count, 0, main_stream>>>(second, 1000);
  CHECK(cudaDeviceSynchronize());
  report(sum, count);
  report(second, count);
}
