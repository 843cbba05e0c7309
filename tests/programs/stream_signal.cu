// Two kernels in two streams, on the device at the same time, hand each other their sums in turns, as an all-reduce does.
// A signal that is stored relaxed where it must release orders nothing that was written before it.
#include <cuda/atomic>

#include "check.h"

constexpr int threads = 64, turns = 3;
#ifdef RACY
constexpr cuda::memory_order order = cuda::memory_order_relaxed;
#else
constexpr cuda::memory_order order = cuda::memory_order_release;
#endif

__device__ void signal(int* flag, int turn) {
  __syncthreads();
  if (threadIdx.x == 0) cuda::atomic_ref<int, cuda::thread_scope_device>(*flag).store(turn, order);
}

__device__ void wait_for(int* flag, int turn) {
  cuda::atomic_ref<int, cuda::thread_scope_device> at(*flag);
  if (threadIdx.x == 0) {
    while (at.load(cuda::memory_order_acquire) < turn) {
    }
  }
  __syncthreads();
}

// Of a rank: what it hands over, whether that is there, and whether it has read what the other handed over.
struct Rank {
  int *sum, *there, *taken;
};

__global__ void all_reduce(const int* in, Rank own, Rank peer, int* out) {
  const int t = threadIdx.x;
  for (int turn = 1; turn <= turns; ++turn) {
    wait_for(peer.taken, turn - 1);
    own.sum[t] = turn * in[t];  // @A
    signal(own.there, turn);
    wait_for(peer.there, turn);
    out[t] += turn * in[t] + peer.sum[threads - 1 - t];  // @B
    signal(own.taken, turn);
  }
}

int main() {
  int* flags = zeros<int>(4);
  const Rank ranks[2] = {{zeros<int>(threads), flags, flags + 1}, {zeros<int>(threads), flags + 2, flags + 3}};
  int* out[2] = {zeros<int>(threads), zeros<int>(threads)};
  int* in = to_device(numbers(2 * threads));
  for (int rank = 0; rank < 2; ++rank) {
    all_reduce<<<1, threads, 0, make_stream(cudaStreamNonBlocking)>>>(in + rank * threads, ranks[rank], ranks[1 - rank],
                                                                    out[rank]);
  }
  report(out[0], threads);
  report(out[1], threads);
}
