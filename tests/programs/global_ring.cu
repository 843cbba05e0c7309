// A block of producers hands numbers to the other blocks through a ring of slots, each with a sequence of its own.
#include <cuda/atomic>

#include "check.h"

constexpr int slots = 32, items = 160, producers = 32;

using Sequence = cuda::atomic<int, cuda::thread_scope_device>;
struct Slot {
  int value;
  Sequence sequence;
};

#ifdef RACY
constexpr cuda::memory_order published = cuda::memory_order_relaxed;
#else
constexpr cuda::memory_order published = cuda::memory_order_release;
#endif

__global__ void pass_on(Slot* ring, int* sum, unsigned* taken) {
  if (blockIdx.x == 0) {
    for (int i = threadIdx.x; i < items; i += producers) {
      Slot& slot = ring[i % slots];
      while (slot.sequence.load(cuda::memory_order_acquire) != i / slots * 2) {
      }
      slot.value = i * 3 + 1;  // @A
      slot.sequence.store(i / slots * 2 + 1, published);
    }
  } else if (threadIdx.x == 0) {
    int mine = 0;
    for (unsigned i = atomicAdd(taken, 1u); i < items; i = atomicAdd(taken, 1u)) {
      Slot& slot = ring[i % slots];
      while (slot.sequence.load(cuda::memory_order_acquire) != int(i) / slots * 2 + 1) {
      }
      mine += slot.value;  // @B
      slot.sequence.store(int(i) / slots * 2 + 2, cuda::memory_order_release);
    }
    atomicAdd(sum, mine);
  }
}

int main() {
  Slot* ring = nullptr;
  CHECK(cudaMalloc(&ring, slots * sizeof(Slot)));
  CHECK(cudaMemset(ring, 0, slots * sizeof(Slot)));
  int* sum = zeros<int>(1);
  unsigned* taken = zeros<unsigned>(1);
  pass_on<<<4, producers>>>(ring, sum, taken);
  report(sum, 1);
}
