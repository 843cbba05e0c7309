// Two GPUs in one process: multi FAULT, or multi flags FAULT
//
// A kernel on the first writes a buffer, a peer copy brings it to the second, where a kernel reads it on a stream of its
// own. With FAULT 1 that stream does not wait for the copy. Each device has a kernel with a race-free shared sum besides.
// Prints the sum that the second device saw, or "one device" where there is no second one.
//
// flags: a kernel on the first hands a buffer in the host's memory to one that runs on the second, by a flag at system
// scope; with FAULT 1 at device scope, which does not reach the other device.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "checked_calls.h"

constexpr unsigned count = 1 << 20;

__global__ void produce(unsigned* to, unsigned value) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = i % 1000 + value;
}
__global__ void consume(const unsigned* from, unsigned long long* sums) {
  __shared__ unsigned long long part[256];
  unsigned long long sum = 0;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) sum += from[i];
  part[threadIdx.x] = sum;
  for (unsigned half = 128; half; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

template <bool fault>
__global__ void hand_over(unsigned* data, unsigned* flag) {
  data[threadIdx.x] = threadIdx.x + 7;
  __syncthreads();
  if (threadIdx.x) return;
  if (fault)
    asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
  else
    asm volatile("st.release.sys.global.u32 [%0], 1;" ::"l"(flag) : "memory");
}
template <bool fault>
__global__ void take(const unsigned* data, const unsigned* flag, unsigned* sums) {
  if (threadIdx.x == 0) {
    unsigned seen = 0;
    while (!seen) {
      if (fault)
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
      else
        asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    }
  }
  __syncthreads();
  sums[threadIdx.x] = data[threadIdx.x];
}

int flags(bool fault) {
  constexpr unsigned threads = 64;
  unsigned *data = nullptr, *sums = nullptr, host[threads];
  CHECK(cudaSetDevice(1));
  CHECK(cudaHostAlloc(&data, 4 * (threads + 64), cudaHostAllocPortable | cudaHostAllocMapped));
  CHECK(cudaMalloc(&sums, sizeof host));
  for (unsigned i = 0; i < threads + 64; ++i) data[i] = 0;
  unsigned* const flag = data + threads + 32;
  cudaStream_t stream[2];
  for (int d = 0; d < 2; ++d) {
    CHECK(cudaSetDevice(d));
    CHECK(cudaStreamCreateWithFlags(&stream[d], cudaStreamNonBlocking));
    if (d)
      (fault ? take<true> : take<false>)<<<1, threads, 0, stream[d]>>>(data, flag, sums);
    else
      (fault ? hand_over<true> : hand_over<false>)<<<1, threads, 0, stream[d]>>>(data, flag);
    CHECK(cudaGetLastError());
  }
  for (int d = 0; d < 2; ++d) {
    CHECK(cudaSetDevice(d));
    CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaMemcpy(host, sums, sizeof host, cudaMemcpyDeviceToHost));
  unsigned all = 0;
  for (const unsigned s : host) all += s;
  std::printf("%u\n", fault ? 0 : all);
  return 0;
}

int main(int argc, char** argv) {
  const bool with_flags = argc > 2;
  const bool fault = argc > 1 && std::atoi(argv[argc - 1]);
  int devices = 0;
  CHECK(cudaGetDeviceCount(&devices));
  if (devices < 2) {
    std::printf("one device\n");
    return 0;
  }
  if (with_flags) return flags(fault);
  constexpr unsigned blocks = 64;
  unsigned* buffer[2];
  unsigned long long* sums[2];
  cudaStream_t stream[2];
  for (int d = 0; d < 2; ++d) {
    CHECK(cudaSetDevice(d));
    CHECK(cudaMalloc(&buffer[d], 4 * count));
    CHECK(cudaMalloc(&sums[d], 8 * blocks));
    CHECK(cudaMemset(buffer[d], 0, 4 * count));
    CHECK(cudaStreamCreateWithFlags(&stream[d], cudaStreamNonBlocking));
    CHECK(cudaDeviceSynchronize());
  }
  cudaEvent_t copied;
  CHECK(cudaSetDevice(0));
  CHECK(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
  produce<<<count / 256, 256, 0, stream[0]>>>(buffer[0], 7);
  consume<<<blocks, 256, 0, stream[0]>>>(buffer[0], sums[0]);
  CHECK(cudaMemcpyPeerAsync(buffer[1], 1, buffer[0], 0, 4 * count, stream[0]));
  CHECK(cudaEventRecord(copied, stream[0]));
  CHECK(cudaSetDevice(1));
  if (!fault) CHECK(cudaStreamWaitEvent(stream[1], copied, 0));
  consume<<<blocks, 256, 0, stream[1]>>>(buffer[1], sums[1]);
  for (int d = 0; d < 2; ++d) {
    CHECK(cudaSetDevice(d));
    CHECK(cudaDeviceSynchronize());
  }
  std::vector<unsigned long long> host(blocks);
  CHECK(cudaMemcpy(host.data(), sums[1], 8 * blocks, cudaMemcpyDeviceToHost));
  unsigned long long all = 0;
  for (unsigned long long s : host) all += s;
  std::printf("%llu\n", fault ? 0 : all);
  return 0;
}
