// A graph whose host nodes fill a page-locked buffer, which the node between them uploads. A copy in another stream still
// reads the buffer when the graph is launched for the second time, and only the host waits for that copy, later.
#include "check.h"

constexpr int count = 256, rounds = 2;

struct Batch {
  int* buffer;
  int first, round = 0;
};

void fill(void* of) {
  Batch* batch = static_cast<Batch*>(of);
  for (int i = 0; i < count; ++i) batch->buffer[i] = batch->first + 1000 * batch->round + i;
  ++batch->round;
}

int main() {
  int* buffer = pinned(std::vector<int>(2 * count, 0));
  int* low = zeros<int>(count);
  int* high = zeros<int>(count);
  Batch batches[2] = {{buffer, 100}, {buffer + count, 200}};
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaGraphNode_t filled[2], uploaded;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaHostNodeParams node = {fill, &batches[0]};
  CHECK(cudaGraphAddHostNode(&filled[0], graph, nullptr, 0, &node));
  CHECK(cudaGraphAddMemcpyNode1D(&uploaded, graph, &filled[0], 1, low, buffer, count * sizeof(int),
                                 cudaMemcpyHostToDevice));
  node.userData = &batches[1];
  CHECK(cudaGraphAddHostNode(&filled[1], graph, &uploaded, 1, &node));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  cudaStream_t filling = make_stream(cudaStreamNonBlocking), uploading = make_stream(cudaStreamNonBlocking);
  cudaEvent_t ready = make_event(), read = make_event();
  for (int round = 0; round < rounds; ++round) {
#ifndef RACY
    if (round) CHECK(cudaStreamWaitEvent(filling, read, 0));
#endif
    CHECK(cudaGraphLaunch(executable, filling));
    if (round) break;
    CHECK(cudaEventRecord(ready, filling));
    CHECK(cudaStreamWaitEvent(uploading, ready, 0));
    CHECK(cudaMemcpyAsync(high, buffer + count, count * sizeof(int), cudaMemcpyHostToDevice, uploading));
    CHECK(cudaEventRecord(read, uploading));
  }
  CHECK(cudaStreamSynchronize(uploading));
  CHECK(cudaStreamSynchronize(filling));
  report(low, count);
  report(high, count);
}
