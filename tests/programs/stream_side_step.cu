// A step computes gradients, a scale and squares in one stream and applies them in another one, which the racy twin lets
// begin without a wait: that is one fault, whatever the kernel there touches.
#include "check.h"

constexpr int threads = 64, steps = 2;

__global__ void backward(const int* in, const int* weights, int* gradient, int* scale, int step) {
  const int t = threadIdx.x;
  gradient[t] = in[t] - weights[t] + step;  // @Gradient
  if (t == 0) *scale = 2 + step;  // @Scale
}
__global__ void norm(const int* gradient, int* square) {
  square[threadIdx.x] = gradient[threadIdx.x] * gradient[threadIdx.x];  // @Square
}
__global__ void apply(int* weights, const int* gradient, const int* scale, const int* square) {
  const int t = threadIdx.x;
  const int step = gradient[t];  // @UseGradient
  const int factor = *scale;  // @UseScale
  const int limit = square[t];  // @UseSquare
  weights[t] += limit > 1000 ? factor * step / 2 : factor * step;  // @Weights
}

int main() {
  int *in = to_device(numbers(threads)), *weights = zeros<int>(threads);
  int *gradient = zeros<int>(threads), *scale = zeros<int>(1), *square = zeros<int>(threads);
  cudaStream_t compute = make_stream(cudaStreamNonBlocking), side = make_stream(cudaStreamNonBlocking);
  cudaEvent_t computed = make_event(), applied = make_event();
  for (int step = 0; step < steps; ++step) {
    backward<<<1, threads, 0, compute>>>(in, weights, gradient, scale, step);
    norm<<<1, threads, 0, compute>>>(gradient, square);
    CHECK(cudaEventRecord(computed, compute));
#ifndef RACY
    CHECK(cudaStreamWaitEvent(side, computed));
#endif
    apply<<<1, threads, 0, side>>>(weights, gradient, scale, square);
    CHECK(cudaEventRecord(applied, side));
    CHECK(cudaStreamWaitEvent(compute, applied));
  }
  report(weights, threads);
}
