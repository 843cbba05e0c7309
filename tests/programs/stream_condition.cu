// What decides how often a WHILE node's body runs is written by another stream, for which the graph does not wait: the
// number of turns depends on the order. Nothing that the host reads need show it, but what runs is another.
#include "condition.h"

constexpr int count = 32;

__global__ void limit(int* most) { *most = 5; }  // @Write

__global__ void step(int* data, int* turns, const int* most, cudaGraphConditionalHandle again) {
  unsigned t = threadIdx.x;
  data[t] += 3;
  if (t == 0) cudaGraphSetConditional(again, ++*turns < *most);  // @Read
}

int main() {
  int* data = to_device(numbers(count));
  int* turns = zeros<int>(1);
  int* most = zeros<int>(1);
  cudaStream_t stream = make_stream(cudaStreamNonBlocking), other = make_stream(cudaStreamNonBlocking);
  cudaGraph_t graph = make_graph();
  cudaGraphConditionalHandle again = handle_of(graph, 1);
  cudaGraph_t body = add_conditional(graph, nullptr, again, cudaGraphCondTypeWhile).bodies[0];
  add_kernel(body, nullptr, count, step, data, turns, static_cast<const int*>(most), again);
  limit<<<1, 1, 0, other>>>(most);
#ifndef RACY
  cudaEvent_t written = make_event();
  CHECK(cudaEventRecord(written, other));
  CHECK(cudaStreamWaitEvent(stream, written, 0));
#endif
  launch(graph, stream);
  report(data, count);
}
