// A window out of a longer run: window_program FAULT
//
// A pool hands a block on to another stream too early, inside one allocation: with FAULT 1 a copy on one stream writes
// what `scale` on another still reads; with 0 it waits. `blur` is to be left unrecorded, so that it is opaque: what it
// does is kept by its effect. `scale` gets its output's address from memory. Everything between cudaProfilerStart and
// Stop is the window; what it reads was made before. Prints the sum of the results.
#include <cuda_profiler_api.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "checked_calls.h"

constexpr unsigned count = 1 << 16;

__device__ unsigned factor = 1;
__constant__ unsigned offset[4];

__global__ void fill(unsigned* to, unsigned value) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = i + value;
}
__global__ void scale(const unsigned* from, unsigned** table) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  table[1][i] = from[i] * factor + offset[1];
}
__global__ void blur(const unsigned* from, unsigned* to) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = from[i] + from[(i + 1) % count];
}

int main(int argc, char** argv) {
  const bool fault = argc > 1 && std::atoi(argv[1]);
  cudaStream_t work, side;
  CHECK(cudaStreamCreateWithFlags(&work, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  unsigned char *pool, *unused;
  unsigned *results, *host, **table;
  CHECK(cudaMalloc(&unused, 64 << 20));
  CHECK(cudaMalloc(&pool, 2 << 20));
  CHECK(cudaMalloc(&results, 8 * count));
  CHECK(cudaMalloc(&table, 2 * sizeof(unsigned*)));
  CHECK(cudaMallocHost(&host, 4 * count));
  std::iota(host, host + count, 50'000);
  auto* block = reinterpret_cast<unsigned*>(pool + 512 * 1024);
  unsigned* const pointers[] = {nullptr, results};
  const unsigned three = 3, offsets[4] = {0, 7, 0, 0};
  CHECK(cudaMemcpyToSymbol(factor, &three, sizeof three));
  CHECK(cudaMemcpyToSymbol(offset, offsets, sizeof offsets));
  CHECK(cudaMemcpy(table, pointers, sizeof pointers, cudaMemcpyHostToDevice));
  // A copy from pageable memory may return before its last bytes have arrived, and `work` waits for no other stream.
  CHECK(cudaDeviceSynchronize());
  fill<<<count / 256, 256, 0, work>>>(block, 100);
  CHECK(cudaStreamSynchronize(work));

  CHECK(cudaProfilerStart());
  scale<<<count / 256, 256, 0, work>>>(block, table);
  blur<<<count / 256, 256, 0, work>>>(results, results + count);
  if (!fault) CHECK(cudaStreamSynchronize(work));
  CHECK(cudaMemcpyAsync(block, host, 4 * count, cudaMemcpyHostToDevice, side));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaProfilerStop());

  std::vector<unsigned> all(2 * count);
  CHECK(cudaMemcpy(all.data(), results, 8 * count, cudaMemcpyDeviceToHost));
  std::printf("%llu\n", std::accumulate(all.begin(), all.end(), 0ull));
  return 0;
}
