// Work is captured in two streams. The second is destroyed as soon as the first waits for it, before the capture ends:
// what it captured stays.
#include "check.h"

constexpr int threads = 32;

__global__ void twice(int* data) {
  data[threadIdx.x] *= 2;  // @A
}
__global__ void plus_one(int* data) {
  data[threadIdx.x] += 1;  // @B
}

int main() {
  int* data = to_device(numbers(threads));
  cudaStream_t origin = make_stream(), other = make_stream();
  cudaEvent_t fork = make_event(), join = make_event();
  CHECK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal));
  CHECK(cudaEventRecord(fork, origin));
  CHECK(cudaStreamWaitEvent(other, fork, 0));
  twice<<<1, threads, 0, other>>>(data);
  CHECK(cudaEventRecord(join, other));
#ifdef RACY
  plus_one<<<1, threads, 0, origin>>>(data);
  CHECK(cudaStreamWaitEvent(origin, join, 0));
#else
  CHECK(cudaStreamWaitEvent(origin, join, 0));
  plus_one<<<1, threads, 0, origin>>>(data);
#endif
  CHECK(cudaStreamDestroy(other));
  CHECK(cudaEventDestroy(join));
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamEndCapture(origin, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphLaunch(executable, origin));
  CHECK(cudaStreamSynchronize(origin));
  report(data, threads);
}
