// A ring between two blocks: a warp fills slots and moves the tail, another waits for the tail and empties them. Slots
// are read by volatile loads, which look for nothing: what is missing between the waiting lane and the others is a
// matter of the tail, for what they read plainly, too.
#include <cuda/atomic>

#include "check.h"

constexpr int lanes = 32, slots = 4, width = 2 * lanes, rows = 12;

using Index = cuda::atomic_ref<int, cuda::thread_scope_device>;

struct Ring {
  int data[slots * width], row[slots * lanes], head, tail;
};

__device__ void send(const int* in, Ring* ring) {
  for (int n = 0; n < rows; ++n) {
    while (threadIdx.x == 0 && n - Index(ring->head).load(cuda::memory_order_acquire) >= slots) {
    }
    __syncwarp();
    for (int i = threadIdx.x; i < width; i += lanes) ring->data[n % slots * width + i] = in[n * width + i];  // @A
    ring->row[n % slots * lanes + threadIdx.x] = n;  // @B
    __syncwarp();
    if (threadIdx.x == 0) Index(ring->tail).store(n + 1, cuda::memory_order_release);
  }
}

__device__ void receive(Ring* ring, int* out) {
  for (int n = 0, tail = 0; n < rows;) {
    while (threadIdx.x == 0 && (tail = Index(ring->tail).load(cuda::memory_order_acquire)) == n) {
    }
#ifndef RACY
    __syncwarp();
#endif
    for (tail = __shfl_sync(~0u, tail, 0); n < tail; ++n) {
      volatile int* data = ring->data + n % slots * width;
      for (int i = threadIdx.x; i < width; i += lanes) out[n * width + i] = data[i];  // @C
      out[rows * width + n * lanes + threadIdx.x] = ring->row[n % slots * lanes + threadIdx.x];  // @D
    }
    __syncwarp();
    if (threadIdx.x == 0) Index(ring->head).store(n, cuda::memory_order_release);
  }
}

__global__ void pass(const int* in, Ring* ring, int* out) {
  if (blockIdx.x == 0)
    send(in, ring);
  else
    receive(ring, out);
}

int main() {
  const int* in = to_device(numbers(rows * width));
  Ring* ring = reinterpret_cast<Ring*>(zeros<int>(sizeof(Ring) / sizeof(int)));
  int* out = zeros<int>(rows * (width + lanes));
  pass<<<2, lanes>>>(in, ring, out);
  report(out, rows * (width + lanes));
}
