// Stream capture: the producer is forked to a second stream, and joined only after the consumer.
#include "check.h"

constexpr int threads = 64;

__global__ void produce(const int* in, int* data) {
  unsigned t = threadIdx.x;
  data[t] = 3 * in[t];  // @A
}

__global__ void consume(const int* data, int* out) {
  unsigned t = threadIdx.x;
  out[t] = data[t] + 1;  // @B
}

int main() {
  int* in = to_device(numbers(threads));
  int* data = zeros<int>(threads);
  int* out = zeros<int>(threads);
  cudaStream_t origin = make_stream(), side = make_stream();
  cudaEvent_t forked = make_event(), produced = make_event();
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal));
  CHECK(cudaEventRecord(forked, origin));
  CHECK(cudaStreamWaitEvent(side, forked, 0));
  produce<<<1, threads, 0, side>>>(in, data);
  CHECK(cudaEventRecord(produced, side));
#ifdef RACY
  consume<<<1, threads, 0, origin>>>(data, out);
  CHECK(cudaStreamWaitEvent(origin, produced, 0));
#else
  CHECK(cudaStreamWaitEvent(origin, produced, 0));
  consume<<<1, threads, 0, origin>>>(data, out);
#endif
  CHECK(cudaStreamEndCapture(origin, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphLaunch(executable, origin));
  report(out, threads);
}
