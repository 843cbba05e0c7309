// Scratch memory is given back while another stream still reads it, and goes to the next step at once: its pool has no
// other. One missing wait, of which the free tells first: what comes behind it is its consequence.
#include "check.h"

constexpr int count = 128;
constexpr std::size_t scratch = std::size_t(32) << 20;  // what a pool takes from the device at a time

__global__ void fill(int* to, int value) { to[threadIdx.x] = value + threadIdx.x; }  // @W
__global__ void add(const int* from, int* sum) { sum[threadIdx.x] += from[threadIdx.x]; }  // @R

cudaMemPool_t make_pool() {
  cudaMemPool_t pool;
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  properties.maxSize = scratch;
  CHECK(cudaMemPoolCreate(&pool, &properties));
  return pool;
}

int main() {
  cudaMemPool_t pool = make_pool();
  cudaStream_t main_stream = make_stream(cudaStreamNonBlocking), side = make_stream(cudaStreamNonBlocking);
  cudaEvent_t filled = make_event(), read = make_event();
  int *sum = zeros<int>(count), *first, *second;
  CHECK(cudaMallocFromPoolAsync(&first, scratch, pool, main_stream));
  fill<<<1, count, 0, main_stream>>>(first, 1);
  CHECK(cudaEventRecord(filled, main_stream));
  CHECK(cudaStreamWaitEvent(side, filled));
  add<<<1, count, 0, side>>>(first, sum);
  CHECK(cudaEventRecord(read, side));
#ifndef RACY
  CHECK(cudaStreamWaitEvent(main_stream, read));
#endif
  CHECK(cudaFreeAsync(first, main_stream));
  CHECK(cudaMallocFromPoolAsync(&second, scratch, pool, main_stream));
  fill<<<1, count, 0, main_stream>>>(second, 1000);
  CHECK(cudaDeviceSynchronize());
  report(sum, count);
  report(second, count);
}
