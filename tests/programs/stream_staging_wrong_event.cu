// Batches go to the device out of one page-locked buffer. Before the host fills it again it waits for an event, which is
// recorded in the stream that has nothing to do with the copy: that the copy happens to be over by then is luck.
#include "check.h"

constexpr int threads = 64, batches = 4;

__global__ void count_step(int* steps) {
  ++*steps;
}

int main() {
  int* staging = pinned(std::vector<int>(threads, 0));
  int* batch = zeros<int>(threads * batches);
  int* steps = zeros<int>(1);
  cudaStream_t copies = make_stream(), other = make_stream();
  cudaEvent_t copied = make_event();
  for (int i = 0; i < batches; ++i) {
    if (i) CHECK(cudaEventSynchronize(copied));
    for (int t = 0; t < threads; ++t) staging[t] = (i + 1) * 100 + t;
    CHECK(cudaMemcpyAsync(batch + i * threads, staging, threads * sizeof(int), cudaMemcpyHostToDevice, copies));
    count_step<<<1, 1, 0, other>>>(steps);
#ifdef RACY
    CHECK(cudaEventRecord(copied, other));
#else
    CHECK(cudaEventRecord(copied, copies));
#endif
  }
  report(batch, threads * batches);
}
