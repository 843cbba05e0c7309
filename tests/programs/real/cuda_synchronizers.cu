// libcu++'s synchronizers where they are used less: barriers of device scope that participants leave and that complete
// a phase by a function, semaphores in shared memory around a ring, latches, atomics of pointers and floats and a flag
// as a lock across blocks, pipelines whose state lies in global memory.
#include <cooperative_groups.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/pipeline>
#include <cuda/semaphore>
#include <cuda/std/chrono>

#include <utility>

#include "agree.h"

namespace cg = cooperative_groups;
using namespace agree;

// Block b leaves after phase b; the completion function adds up what those that arrived have written.
struct AddUp {
  int* data;
  int* sums;
  int* phase;
  __device__ void operator()() noexcept {
    int sum = 0;
    for (int i = 0; i < 8; ++i) sum += data[i];
    sums[(*phase)++] = sum;
  }
};
using Dropping = cuda::barrier<cuda::thread_scope_device, AddUp>;
__global__ void make_dropping(Dropping* barrier, int count, int* data, int* sums, int* phase) {
  new (barrier) Dropping(count, AddUp{data, sums, phase});
}
__global__ void drop_kernel(Dropping* barrier, int* data, int* out, int* sums) {
  int b = blockIdx.x;
  for (int phase = 0;; ++phase) {
    data[b] += b + phase;
    if (phase == b) {
      barrier->arrive_and_drop();
      return;
    }
    barrier->arrive_and_wait();
    out[b] = sums[phase];
  }
}
void drop() {
  Array<Dropping> barrier(1);
  Array<int> data(std::vector<int>(8, 0)), out(std::vector<int>(8, 0)), sums(std::vector<int>(8, 0)), phase(std::vector<int>(1, 0));
  make_dropping<<<1, 1>>>(barrier.data(), 5, data, sums, phase);
  drop_kernel<<<5, 1>>>(barrier.data(), data, out, sums);
  std::vector<int> d(8, 0), s(8, 0), o(8, 0);
  for (int p = 0; p < 5; ++p) {
    for (int b = p; b < 5; ++b) d[b] += b + p;
    for (int b = 0; b < 8; ++b) s[p] += d[b];
    for (int b = p + 1; b < 5; ++b) o[b] = s[p];
  }
  equal("completion function of device scope", 5, sums.host(), s);
  equal("arrive and drop of device scope", 5, out.host(), o);
}

// All threads of all blocks, arrival and wait apart.
using Plain = cuda::barrier<cuda::thread_scope_device>;
__global__ void make_plain(Plain* barrier, int count) { init(barrier, count); }
__global__ void plain_kernel(Plain* barrier, int* data, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
  for (int phase = 0; phase < 3; ++phase) {
    data[phase * n + i] = i * 3 + phase;
    auto token = barrier->arrive();
    barrier->wait(std::move(token));
    out[i] = data[phase * n + (i + 5) % n];
  }
}
void plain(int blocks, int threads) {
  int n = blocks * threads;
  Array<Plain> barrier(1);
  Array<int> data(3 * n), out(n);
  make_plain<<<1, 1>>>(barrier.data(), n);
  plain_kernel<<<blocks, threads>>>(barrier.data(), data, out);
  std::vector<int> expected(n);
  for (int i = 0; i < n; ++i) expected[i] = (i + 5) % n * 3 + 2;
  equal("split barrier of device scope", n, out.host(), expected);
}

// One thread fills a ring, two places at a time; one of each other warp empties it, one place at a time, under a lock.
using Counting = cuda::counting_semaphore<cuda::thread_scope_block, 64>;
using Binary = cuda::binary_semaphore<cuda::thread_scope_block>;
__global__ void semaphore_kernel(int* out, const int* in, int n) {
  __shared__ alignas(Counting) char m1[sizeof(Counting)], m2[sizeof(Counting)], m3[sizeof(Binary)];
  Counting &full = *reinterpret_cast<Counting*>(m1), &empty = *reinterpret_cast<Counting*>(m2);
  Binary& lock = *reinterpret_cast<Binary*>(m3);
  __shared__ int ring[4], count, head;
  if (threadIdx.x == 0) {
    new (&full) Counting(0), new (&empty) Counting(4), new (&lock) Binary(1);
    count = head = 0;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 0; i < n; i += 2) {
      empty.acquire(), empty.acquire();
      ring[i % 4] = in[i], ring[(i + 1) % 4] = in[i + 1];
      full.release(2);
    }
  } else if (threadIdx.x % 32 == 0) {
    for (;;) {
      while (!lock.try_acquire_for(cuda::std::chrono::nanoseconds(50))) {}
      bool over = head == n;
      if (!over) {
        full.acquire();
        int v = ring[head % 4];
        out[head] = 3 * v + count;
        ++head, ++count;
        empty.release();
      }
      lock.release();
      if (over) break;
    }
  }
}
void semaphores(int warps, int n) {
  std::vector<int> in = values<int>(n, 0, 99, 1), expected(n);
  for (int i = 0; i < n; ++i) expected[i] = 3 * in[i] + i;
  Array<int> d(in), out(n);
  semaphore_kernel<<<1, 32 * warps>>>(out, d, n);
  equal("ring by semaphores", n, out.host(), expected);
}

// A counter under a flag, a stack by compare-and-swap, a sum of floats; all may be read when the latch has opened.
using Latch = cuda::latch<cuda::thread_scope_system>;
__global__ void make_latch(Latch* l, int n) { new (l) Latch(n); }
__device__ cuda::std::atomic_flag lock_flag;
__device__ int guarded;
struct Node {
  int value;
  Node* next;
};
using Top = cuda::atomic<Node*, cuda::thread_scope_device>;
using Sum = cuda::atomic<float, cuda::thread_scope_device>;
__global__ void latch_kernel(Latch* latch, int* data, int* out, Top* top, Node* nodes, Sum* sum) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
  while (lock_flag.test_and_set(cuda::memory_order_acquire)) {}
  ++guarded;
  lock_flag.clear(cuda::memory_order_release);
  nodes[i].value = i;
  Node* old = top->load(cuda::memory_order_relaxed);
  do nodes[i].next = old;
  while (!top->compare_exchange_weak(old, nodes + i, cuda::memory_order_release, cuda::memory_order_relaxed));
  sum->fetch_add(0.5f, cuda::memory_order_relaxed);
  sum->fetch_max(0.25f);
  data[i] = i;
  if (i % 3 == 0) latch->arrive_and_wait();
  else {
    latch->count_down();
    while (!latch->try_wait()) {}
  }
  int total = 0;
  for (Node* at = top->load(cuda::memory_order_acquire); at; at = at->next) total += at->value;
  out[i] = total + data[n - 1 - i] + guarded + int(sum->load());
}
__global__ void reset(Top* top, Sum* sum) {
  new (top) Top(nullptr);
  new (sum) Sum(0.f);
  lock_flag.clear();
  guarded = 0;
}
void latches(int blocks, int threads) {
  int n = blocks * threads;
  Array<Latch> latch(1);
  Array<int> data(n), out(n);
  Array<Top> top(1);
  Array<Sum> sum(1);
  Array<Node> nodes(n);
  reset<<<1, 1>>>(top.data(), sum.data());
  make_latch<<<1, 1>>>(latch.data(), n);
  latch_kernel<<<blocks, threads>>>(latch.data(), data, out, top.data(), nodes.data(), sum.data());
  std::vector<int> expected(n);
  for (int i = 0; i < n; ++i) expected[i] = n * (n - 1) / 2 + n - 1 - i + n + n / 2;
  equal("latch, stack and flag", n, out.host(), expected);
}

// The state is of device scope and lies in global memory.
using State = cuda::pipeline_shared_state<cuda::thread_scope_device, 2>;
__global__ void global_pipeline(State* state, const int* in, int* out, int tiles) {
  extern __shared__ int s[];
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, state);
  int n = block.num_threads(), t = block.thread_rank(), sum = 0;
  for (int k = 0; k < tiles; ++k) {
    pipe.producer_acquire();
    cuda::memcpy_async(block, s + k % 2 * n, in + k * n, sizeof(int) * n, pipe);
    pipe.producer_commit();
    pipe.consumer_wait();
    sum = 3 * sum + s[k % 2 * n + n - 1 - t];
    pipe.consumer_release();
  }
  out[t] = sum;
}
void pipelines(int n, int tiles) {
  std::vector<int> in = values<int>(n * tiles, 0, 20, 3), expected(n);
  for (int t = 0; t < n; ++t) {
    for (int k = 0; k < tiles; ++k) expected[t] = 3 * expected[t] + in[k * n + n - 1 - t];
  }
  Array<State> state(1);
  Array<int> d(in), out(n);
  global_pipeline<<<1, n, 2 * n * sizeof(int)>>>(state.data(), d, out, tiles);
  equal("pipeline of device scope", n, out.host(), expected);
}

int main() {
  drop();
  plain(1, 1), plain(3, 33), plain(2, 64);
  semaphores(2, 4), semaphores(4, 10);
  latches(1, 1), latches(3, 17);
  pipelines(1, 3), pipelines(40, 5);
  return conclude();
}
