// The driver's default stream: the legacy one waits for streams made by default, the one of a thread does not. Which one
// the null stream is, cuda.h decides by this macro.
#ifdef KERNELS

extern "C" __global__ void produce(const int* in, int* data) {
  unsigned t = threadIdx.x;
  data[t] = 3 * in[t];  // @A
}

extern "C" __global__ void consume(const int* data, int* out) {
  unsigned t = threadIdx.x;
  out[t] = data[t] + 1;  // @B
}

#else

#ifdef RACY
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#endif
#include "driver_check.h"

constexpr unsigned threads = 64;

int main() {
  Driver driver;
  CUfunction produce = driver.function("produce"), consume = driver.function("consume");
  const std::vector<int> input = numbers(threads);
  CUdeviceptr in = driver.zeros(threads), data = driver.zeros(threads), out = driver.zeros(threads);
  CHECK_DRIVER(cuMemcpyHtoD(in, input.data(), threads * sizeof(int)));
  CHECK_DRIVER(cuCtxSynchronize());
  CUstream stream = nullptr;
  CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  void* to_produce[] = {&in, &data};
  void* to_consume[] = {&data, &out};
  CHECK_DRIVER(cuLaunchKernel(produce, 1, 1, 1, threads, 1, 1, 0, stream, to_produce, nullptr));
  CHECK_DRIVER(cuLaunchKernel(consume, 1, 1, 1, threads, 1, 1, 0, nullptr, to_consume, nullptr));
  driver.report(out, threads);
}

#endif
