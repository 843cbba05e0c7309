// A bulk copy into shared memory that is waited for, by every reader or by one thread for its block. The racy twin's waits
// are relaxed: they tell that the copy is complete, and make none of its bytes visible.
#include "check.h"

#include "async.h"

constexpr int threads = 64;

__device__ void wait(std::uint64_t* barrier) {
#ifdef RACY
  unsigned done = 0;
  while (!done) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(shared_address(barrier))
        : "memory");
  }
#else
  mbarrier_wait(barrier, 0);
#endif
}

__device__ void begin(std::uint64_t* barrier) {
  if (threadIdx.x == 0) {
    mbarrier_init(barrier, 1);
    fence_proxy_async();
  }
  __syncthreads();
}

__device__ void load(int* to, const int* from, std::uint64_t* barrier) {
  mbarrier_arrive_expect(barrier, 4 * threads);
  // clang-format off
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "n"(4 * threads), "r"(shared_address(barrier)) : "memory");  // @A
  // clang-format on
}

__global__ void all_wait(const int* in, int* out) {
  __shared__ alignas(16) int s[threads];
  __shared__ alignas(8) std::uint64_t barrier;
  begin(&barrier);
  if (threadIdx.x == 0) load(s, in, &barrier);
  wait(&barrier);
  out[threadIdx.x] = s[threads - 1 - threadIdx.x];  // @B
}

__global__ void one_waits(const int* in, int* out) {
  __shared__ alignas(16) int s[threads];
  __shared__ alignas(8) std::uint64_t barrier;
  begin(&barrier);
  if (threadIdx.x == 0) {
    load(s, in, &barrier);
    wait(&barrier);
  }
  __syncthreads();
  if (threadIdx.x > 31) out[threadIdx.x] = s[threadIdx.x];  // @C
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(2 * threads);
  all_wait<<<1, threads>>>(in, out);
  CHECK(cudaDeviceSynchronize());
  one_waits<<<1, threads>>>(in, out + threads);
  report(out, 2 * threads);
}
