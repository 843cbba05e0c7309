// Work whose times are known: times
//
// Kernels that spin for two milliseconds of the device's own clock: three behind each other on one stream, two on two
// streams at the same time, one beside a copy. Prints "PHASE FROM TO" a phase: nanoseconds since the epoch, taken by the
// host before its first call and after it has waited; and for the first phase what events measured.
#include <cstdio>
#include <ctime>

#include "checked_calls.h"

__global__ void spin(long long nanoseconds, unsigned* done) {
  long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  while (now - begin < nanoseconds);
  done[blockIdx.x] = 1;
}

static long long now() {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * 1'000'000'000ll + t.tv_nsec;
}

int main() {
  constexpr long long spun = 2'000'000;
  constexpr std::size_t bytes = std::size_t(64) << 20;
  cudaStream_t one, two;
  cudaEvent_t begin, end;
  unsigned *done, *host, *device;
  CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaMalloc(&done, 16 * sizeof(unsigned)));
  CHECK(cudaMalloc(&device, bytes));
  CHECK(cudaMallocHost(&host, bytes));
  spin<<<1, 1, 0, one>>>(1000, done);  // loads the code
  CHECK(cudaDeviceSynchronize());

  long long from = now();
  CHECK(cudaEventRecord(begin, one));
  for (int i = 0; i < 3; ++i) spin<<<1, 1, 0, one>>>(spun, done + i);
  CHECK(cudaEventRecord(end, one));
  CHECK(cudaStreamSynchronize(one));
  std::printf("sequence %lld %lld\n", from, now());
  float milliseconds = 0;
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
  std::printf("events %.0f\n", double(milliseconds) * 1e6);

  from = now();
  spin<<<1, 1, 0, one>>>(spun, done + 3);
  spin<<<1, 1, 0, two>>>(spun, done + 4);
  CHECK(cudaDeviceSynchronize());
  std::printf("together %lld %lld\n", from, now());

  from = now();
  spin<<<1, 1, 0, one>>>(5 * spun, done + 5);
  CHECK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, two));
  CHECK(cudaMemsetAsync(device, 1, bytes, two));
  CHECK(cudaDeviceSynchronize());
  std::printf("beside %lld %lld\n", from, now());
  return 0;
}
