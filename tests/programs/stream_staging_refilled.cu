// Batches go to the device through two page-locked buffers in turn. The host fills a buffer again while the copy out
// of it may still have to read it.
#include "check.h"

constexpr int threads = 64, batches = 4;

__global__ void add_batch(const int* batch, int* sum) {
  unsigned t = threadIdx.x;
  sum[t] += batch[t];
}

int main() {
  int* staging[2] = {pinned(std::vector<int>(threads, 0)), pinned(std::vector<int>(threads, 0))};
  int* batch = zeros<int>(threads);
  int* sum = zeros<int>(threads);
  cudaStream_t stream = make_stream();
  cudaEvent_t copied[2] = {make_event(), make_event()};
  for (int i = 0; i < batches; ++i) {
    int* buffer = staging[i % 2];
#ifndef RACY
    CHECK(cudaEventSynchronize(copied[i % 2]));
#endif
    for (int t = 0; t < threads; ++t) buffer[t] = (i + 1) * 100 + t;
    CHECK(cudaMemcpyAsync(batch, buffer, threads * sizeof(int), cudaMemcpyHostToDevice, stream));
    CHECK(cudaEventRecord(copied[i % 2], stream));
    add_batch<<<1, threads, 0, stream>>>(batch, sum);
  }
  report(sum, threads);
}
