// A fork and a join, captured in each of the three modes while another host thread goes on launching. A consumer that is
// captured ahead of the join is a node beside the producer.
#include <thread>

#include "check.h"

constexpr int count = 64;

__global__ void fill(int* to, int value) { to[threadIdx.x] = value + threadIdx.x; }  // @A
__global__ void accumulate(const int* from, int* to) { to[threadIdx.x] += from[count - 1 - threadIdx.x]; }  // @B

int main() {
  int *data = zeros<int>(count), *sum = zeros<int>(count), *other = zeros<int>(count);
  cudaStream_t a = make_stream(cudaStreamNonBlocking), b = make_stream(cudaStreamNonBlocking);
  cudaStream_t elsewhere = make_stream(cudaStreamNonBlocking);
  cudaEvent_t fork = make_event(), join = make_event();
  int value = 1;
  for (cudaStreamCaptureMode mode :
       {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
    CHECK(cudaStreamBeginCapture(a, mode));
    CHECK(cudaEventRecord(fork, a));
    CHECK(cudaStreamWaitEvent(b, fork));
    fill<<<1, count, 0, b>>>(data, value++);
    CHECK(cudaEventRecord(join, b));
#ifndef RACY
    CHECK(cudaStreamWaitEvent(a, join));
#endif
    accumulate<<<1, count, 0, a>>>(data, sum);
#ifdef RACY
    CHECK(cudaStreamWaitEvent(a, join));
#endif
    std::thread([&] {
      fill<<<1, count, 0, elsewhere>>>(other, 5);
      if (mode == cudaStreamCaptureModeGlobal) return; // there it must not allocate
      int* more;
      CHECK(cudaMalloc(&more, 64));
      CHECK(cudaFree(more));
    }).join();
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(a, &graph));
    cudaGraphExec_t instance;
    CHECK(cudaGraphInstantiate(&instance, graph, 0));
    CHECK(cudaGraphLaunch(instance, a));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaGraphExecDestroy(instance));
    CHECK(cudaGraphDestroy(graph));
  }
  report(sum, count);
  report(other, count);
}
