// The driver API alone: a module, two streams, and an event that one must wait for. The kernels are compiled to PTX from
// this file, too (-DKERNELS), and loaded from beside the program.
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

#include "driver_check.h"

constexpr unsigned threads = 64;

int main() {
  Driver driver;
  CUfunction produce = driver.function("produce"), consume = driver.function("consume");
  const std::vector<int> input = numbers(threads);
  CUdeviceptr in = driver.zeros(threads), data = driver.zeros(threads), out = driver.zeros(threads);
  CHECK_DRIVER(cuMemcpyHtoD(in, input.data(), threads * sizeof(int)));
  CHECK_DRIVER(cuCtxSynchronize());
  CUstream first = driver.stream(), second = driver.stream();
  CUevent produced = nullptr;
  CHECK_DRIVER(cuEventCreate(&produced, CU_EVENT_DISABLE_TIMING));
  void* to_produce[] = {&in, &data};
  CHECK_DRIVER(cuLaunchKernel(produce, 1, 1, 1, threads, 1, 1, 0, first, to_produce, nullptr));
  CHECK_DRIVER(cuEventRecord(produced, first));
#ifndef RACY
  CHECK_DRIVER(cuStreamWaitEvent(second, produced, CU_EVENT_WAIT_DEFAULT));
#endif
  // Arguments in one buffer, as the kernel's parameters lie.
  CUdeviceptr buffer[] = {data, out};
  size_t bytes = sizeof buffer;
  void* to_consume[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                        CU_LAUNCH_PARAM_END};
  CHECK_DRIVER(cuLaunchKernel(consume, 1, 1, 1, threads, 1, 1, 0, second, nullptr, to_consume));
  driver.report(out, threads);
}

#endif
