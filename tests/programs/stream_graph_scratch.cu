// A graph of two branches that each turn a row around in scratch memory, launched three times. Where both branches have
// the same scratch, the last launch alone decides what the host reads.
#include "check.h"

constexpr int threads = 64;

__global__ void turn(int* scratch, int* out, int start) {
  unsigned t = threadIdx.x;
  scratch[t] = start + int(t);  // @A
  __syncthreads();
  out[t] = scratch[threads - 1 - t];  // @B
}

int main() {
  int* scratch = zeros<int>(2 * threads);
  int* out = zeros<int>(2 * threads);
#ifdef RACY
  int* other = scratch;
#else
  int* other = scratch + threads;
#endif
  cudaStream_t origin = make_stream(), side = make_stream();
  cudaEvent_t forked = make_event(), joined = make_event();
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal));
  CHECK(cudaEventRecord(forked, origin));
  CHECK(cudaStreamWaitEvent(side, forked, 0));
  turn<<<1, threads, 0, origin>>>(scratch, out, 100);
  turn<<<1, threads, 0, side>>>(other, out + threads, 300);
  CHECK(cudaEventRecord(joined, side));
  CHECK(cudaStreamWaitEvent(origin, joined, 0));
  CHECK(cudaStreamEndCapture(origin, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(executable, origin));
  report(out, 2 * threads);
}
