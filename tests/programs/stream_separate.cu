// Two source files, compiled apart (-rdc=true) and linked: a kernel of one fills a variable of the other, and only the
// files' own streams know of it. This is compiled twice; PART is the second file.
#include "check.h"

constexpr int threads = 64;

__device__ int offset_of(int value); // defined in the second file
void launch_consumer(const int* in, int* out, cudaStream_t stream);

#ifndef PART

__device__ int weights[threads];
static __device__ int bias = 3; // each file has one

__global__ void produce(const int* in) {
  unsigned t = threadIdx.x;
  weights[t] = offset_of(in[t]) + bias;  // @A
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  cudaStream_t first = make_stream(), second = make_stream();
  cudaEvent_t produced = make_event();
  produce<<<1, threads, 0, first>>>(in);
  CHECK(cudaEventRecord(produced, first));
#ifndef RACY
  CHECK(cudaStreamWaitEvent(second, produced, 0));
#endif
  launch_consumer(in, out, second);
  report(out, threads);
}

#else

extern __device__ int weights[threads];
static __device__ int bias = 100;

__device__ __noinline__ int offset_of(int value) { return value + bias; }

__global__ void consume(const int* in, int* out) {
  unsigned t = threadIdx.x;
  out[t] = weights[t] * in[t];  // @B
}

void launch_consumer(const int* in, int* out, cudaStream_t stream) { consume<<<1, threads, 0, stream>>>(in, out); }

#endif
