// A host function fills a page-locked buffer again while a copy in another stream may still read it. That the host waits
// for this copy before the function's stream comes to nothing: it waits once it has submitted the function.
#include "check.h"

constexpr int count = 256;

struct Batch {
  int* buffer;
  int first;
};

void fill(void* of) {
  const Batch* batch = static_cast<const Batch*>(of);
  for (int i = 0; i < count; ++i) batch->buffer[i] = batch->first + i;
}

int main() {
  int* buffer = pinned(std::vector<int>(count, 0));
  int* batch = zeros<int>(count);
  int* next = zeros<int>(count);
  Batch batches[2] = {{buffer, 100}, {buffer, 5000}};
  cudaStream_t filling = make_stream(cudaStreamNonBlocking), uploading = make_stream(cudaStreamNonBlocking);
  cudaEvent_t filled = make_event(), uploaded = make_event();
  CHECK(cudaLaunchHostFunc(filling, fill, &batches[0]));
  CHECK(cudaEventRecord(filled, filling));
  CHECK(cudaStreamWaitEvent(uploading, filled, 0));
  CHECK(cudaMemcpyAsync(batch, buffer, count * sizeof(int), cudaMemcpyHostToDevice, uploading));
#ifndef RACY
  CHECK(cudaEventRecord(uploaded, uploading));
  CHECK(cudaStreamWaitEvent(filling, uploaded, 0));
#endif
  CHECK(cudaLaunchHostFunc(filling, fill, &batches[1]));
  CHECK(cudaStreamSynchronize(uploading));
  CHECK(cudaStreamSynchronize(filling));
  CHECK(cudaMemcpy(next, buffer, count * sizeof(int), cudaMemcpyHostToDevice));
  report(batch, count);
  report(next, count);
}
