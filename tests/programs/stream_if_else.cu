// An IF node with two bodies, filled by capture: the one that runs writes what a kernel of another stream reads, which
// has waited for nothing.
#include "condition.h"

constexpr int count = 64;

__global__ void look(const int* in, cudaGraphConditionalHandle found) {
  if (threadIdx.x == 0) cudaGraphSetConditional(found, in[0] > 100);
}

__global__ void double_all(const int* in, int* data) {
  unsigned t = threadIdx.x;
  data[t] = 2 * in[t];
}

__global__ void negate_all(const int* in, int* data) {
  unsigned t = threadIdx.x;
  data[t] = -in[t];  // @Write
}

__global__ void use(const int* data, int* out) {
  unsigned t = threadIdx.x;
  out[t] = data[t] + 1;  // @Read
}

int main() {
  int* in = to_device(numbers(count));
  int* data = zeros<int>(count);
  int* out = zeros<int>(count);
  cudaStream_t stream = make_stream(cudaStreamNonBlocking), other = make_stream(cudaStreamNonBlocking);
  cudaGraph_t graph = make_graph();
  cudaGraphConditionalHandle found = handle_of(graph, 1);
  cudaGraphNode_t looked = add_kernel(graph, nullptr, count, look, static_cast<const int*>(in), found);
  Conditional either = add_conditional(graph, looked, found, cudaGraphCondTypeIf, 2);
  for (int body = 0; body < 2; ++body) {
    CHECK(cudaStreamBeginCaptureToGraph(stream, either.bodies[body], nullptr, nullptr, 0,
                                        cudaStreamCaptureModeThreadLocal));
    (body == 0 ? double_all : negate_all)<<<1, count, 0, stream>>>(in, data);
    CHECK(cudaStreamEndCapture(stream, nullptr));
  }
  launch(graph, stream);
#ifndef RACY
  cudaEvent_t written = make_event();
  CHECK(cudaEventRecord(written, stream));
  CHECK(cudaStreamWaitEvent(other, written, 0));
#endif
  use<<<1, count, 0, other>>>(data, out);
  report(out, count);
}
