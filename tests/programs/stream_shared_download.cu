// Two parts of a computation bring their results into one page-locked buffer, one behind the other, and the host looks
// once both have: what it finds is what came last. Each copy by itself brings the same bytes in either order.
#include "check.h"

constexpr int threads = 64;

__global__ void coarse(const int* in, int* out) {
  unsigned t = threadIdx.x;
  out[t] = in[t] / 16 * 16;
}

__global__ void fine(const int* in, int* out) {
  unsigned t = threadIdx.x;
  out[t] = in[t] * 3 + 1;
}

int main() {
  int* in = to_device(numbers(threads));
  int* first = zeros<int>(threads);
  int* better = zeros<int>(threads);
  int* host = pinned(std::vector<int>(threads, 0));
  cudaStream_t quick = make_stream(), thorough = make_stream();
  cudaEvent_t shown = make_event();
  coarse<<<1, threads, 0, quick>>>(in, first);
  CHECK(cudaMemcpyAsync(host, first, threads * sizeof(int), cudaMemcpyDeviceToHost, quick));
  CHECK(cudaEventRecord(shown, quick));
  fine<<<1, threads, 0, thorough>>>(in, better);
#ifndef RACY
  CHECK(cudaStreamWaitEvent(thorough, shown, 0));
#endif
  CHECK(cudaMemcpyAsync(host, better, threads * sizeof(int), cudaMemcpyDeviceToHost, thorough));
  CHECK(cudaStreamSynchronize(quick));
  CHECK(cudaStreamSynchronize(thorough));
  print_checksum(host, threads);
}
