// Gradients of each layer are reduced on a second stream while the next layer's are computed; the weights' update waits for
// an event that the racy twin records before the last reduction.
#include "check.h"

constexpr int threads = 64, layers = 3;

__global__ void backward(int* gradient, int layer) { gradient[threadIdx.x] = threadIdx.x * (layer + 1); }
__global__ void reduce(int* gradient) {
  gradient[threadIdx.x] = gradient[threadIdx.x] * 2 + 1;  // @Reduce
}
__global__ void update(int* weights, const int* gradient) {
  weights[threadIdx.x] -= gradient[threadIdx.x];  // @Update
}

int main() {
  int *gradients = zeros<int>(layers * threads), *weights = zeros<int>(layers * threads);
  cudaStream_t compute = make_stream(cudaStreamNonBlocking), side = make_stream(cudaStreamNonBlocking);
  cudaEvent_t computed = make_event(), reduced = make_event();
  for (int layer = layers - 1; layer >= 0; --layer) {
    int* gradient = gradients + layer * threads;
    backward<<<1, threads, 0, compute>>>(gradient, layer);
    CHECK(cudaEventRecord(computed, compute));
    CHECK(cudaStreamWaitEvent(side, computed));
#ifdef RACY
    CHECK(cudaEventRecord(reduced, side));
#endif
    reduce<<<1, threads, 0, side>>>(gradient);
#ifndef RACY
    CHECK(cudaEventRecord(reduced, side));
#endif
  }
  CHECK(cudaStreamWaitEvent(compute, reduced));
  for (int layer = 0; layer < layers; ++layer)
    update<<<1, threads, 0, compute>>>(weights + layer * threads, gradients + layer * threads);
  report(weights, layers * threads);
}
