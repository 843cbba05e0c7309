// libcu++ on memory that threads share: atomic_ref of every scope, atomics with wait and notify, latch, semaphores and a
// barrier of device scope, each with data handed over that nothing else orders.
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/semaphore>

#include "agree.h"

using namespace agree;

template <cuda::thread_scope Scope>
using Ref = cuda::atomic_ref<unsigned, Scope>;

// out: what every operation makes of it, commutative each; `taken`: which tickets were given.
template <cuda::thread_scope Scope>
__global__ void operations_kernel(unsigned* out, unsigned* taken, double* sum) {
  __shared__ unsigned local;
  unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
  // Block scope reaches no other block: there each block has its own.
  unsigned* mine = Scope == cuda::thread_scope_block ? out + 8 * blockIdx.x : out;
  if (threadIdx.x == 0) local = 0;
  __syncthreads();
  Ref<cuda::thread_scope_block>(local).fetch_add(threadIdx.x + 1, cuda::memory_order_relaxed);
  Ref<Scope>(mine[0]).fetch_add(t);
  Ref<Scope>(mine[1]).fetch_max(t, cuda::memory_order_acq_rel);
  Ref<Scope>(mine[2]).fetch_min(~t, cuda::memory_order_release);
  Ref<Scope>(mine[3]).fetch_xor(t * 2654435761u, cuda::memory_order_relaxed);
  Ref<Scope>(mine[4]).fetch_or(1u << t % 32, cuda::memory_order_seq_cst);
  unsigned seen = Ref<Scope>(mine[5]).load(cuda::memory_order_relaxed);
  while (!Ref<Scope>(mine[5]).compare_exchange_weak(seen, seen + 3, cuda::memory_order_acquire)) {
  }
  unsigned ticket = Ref<Scope>(mine[6])++;
  unsigned first = Scope == cuda::thread_scope_block ? blockIdx.x * blockDim.x : 0;
  taken[first + ticket] = 1;
  cuda::atomic_ref<double, cuda::thread_scope_device>(*sum).fetch_add(0.5);
  __syncthreads();
  if (threadIdx.x == 0) Ref<Scope>(mine[7]).fetch_add(local);
}

template <cuda::thread_scope Scope>
void operations(const char* name, int blocks, int threads) {
  unsigned size = blocks * threads;
  std::vector<unsigned> expected(8 * blocks);
  for (int i = 2; i < 8 * blocks; i += 8) expected[i] = ~0u;
  std::vector<unsigned> at_first(expected);
  for (unsigned t = 0; t < size; ++t) {
    unsigned* mine = &expected[Scope == cuda::thread_scope_block ? 8 * (t / threads) : 0];
    mine[0] += t, mine[1] = std::max(mine[1], t), mine[2] = std::min(mine[2], ~t);
    mine[3] ^= t * 2654435761u, mine[4] |= 1u << t % 32, mine[5] += 3, ++mine[6], mine[7] += t % threads + 1;
  }
  Array<unsigned> out(at_first), taken(std::vector<unsigned>(size, 0));
  Array<double> sum(std::vector<double>(1, 0));
  operations_kernel<Scope><<<blocks, threads>>>(out, taken, sum);
  equal(name, size, out.host(), expected);
  equal("tickets", size, taken.host(), std::vector<unsigned>(size, 1));
  equal("sum of doubles", size, sum.host(), {size * 0.5});
}

// Block b waits for what block b - 1 has written, told by an atomic's wait and notify.
__global__ void chain_kernel(int* data, cuda::atomic<int, cuda::thread_scope_device>* turn) {
  int b = blockIdx.x;
  if (threadIdx.x == 0) {
    for (int now = turn->load(cuda::memory_order_acquire); now != b; now = turn->load(cuda::memory_order_acquire)) {
      turn->wait(now, cuda::memory_order_acquire);
    }
  }
  __syncthreads();
  int before = b == 0 ? 1 : data[(b - 1) * blockDim.x + blockDim.x - 1 - threadIdx.x];
  data[b * blockDim.x + threadIdx.x] = 2 * before + threadIdx.x;
  __syncthreads();
  if (threadIdx.x == 0) {
    turn->store(b + 1, cuda::memory_order_release);
    turn->notify_all();
  }
}

void chain(int blocks, int threads) {
  std::vector<int> expected(blocks * threads);
  for (int i = 0; i < blocks * threads; ++i) {
    int b = i / threads, t = i % threads;
    expected[i] = 2 * (b == 0 ? 1 : expected[(b - 1) * threads + threads - 1 - t]) + t;
  }
  Array<int> data(blocks * threads);
  Array<cuda::atomic<int, cuda::thread_scope_device>> turn(1);
  CHECK(cudaMemset(turn.data(), 0, sizeof(int)));
  chain_kernel<<<blocks, threads>>>(data, turn);
  equal("wait and notify", blocks * threads, data.host(), expected);
}

// Every block writes, the latch opens, every block reads what another wrote.
__global__ void latch_kernel(cuda::latch<cuda::thread_scope_device>* latch, int* data, int* out) {
  data[blockIdx.x] = 10 * blockIdx.x + 1;
  latch->arrive_and_wait();
  out[blockIdx.x] = data[(blockIdx.x + 1) % gridDim.x];
}
__global__ void make_latch(cuda::latch<cuda::thread_scope_device>* latch, int count) {
  new (latch) cuda::latch<cuda::thread_scope_device>(count);
}

void latches(int blocks) {
  std::vector<int> expected(blocks);
  for (int b = 0; b < blocks; ++b) expected[b] = 10 * ((b + 1) % blocks) + 1;
  Array<cuda::latch<cuda::thread_scope_device>> latch(1);
  Array<int> data(blocks), out(blocks);
  make_latch<<<1, 1>>>(latch, blocks);
  latch_kernel<<<blocks, 1>>>(latch, data, out);
  equal("latch", blocks, out.host(), expected);
}

// At most one at a time in a plain counter, by a binary semaphore; and by a counting one, as many as it holds.
struct Semaphores {
  cuda::binary_semaphore<cuda::thread_scope_device> one;
  cuda::counting_semaphore<cuda::thread_scope_device, 8> some;
  __device__ Semaphores() : one(1), some(2) {}
};
__global__ void make_semaphores(Semaphores* all) { new (all) Semaphores; }
__global__ void semaphore_kernel(Semaphores* all, int* counter, unsigned* inside, unsigned* most) {
  all->one.acquire();
  *counter = *counter + 1;
  all->one.release();
  all->some.acquire();
  unsigned now = Ref<cuda::thread_scope_device>(*inside)++ + 1;
  Ref<cuda::thread_scope_device>(*most).fetch_max(now);
  Ref<cuda::thread_scope_device>(*inside)--;
  all->some.release();
}

void semaphores(int blocks) {
  Array<Semaphores> all(1);
  Array<int> counter(std::vector<int>(1, 0));
  Array<unsigned> inside(std::vector<unsigned>(2, 0));
  make_semaphores<<<1, 1>>>(all);
  semaphore_kernel<<<blocks, 1>>>(all, counter, inside, inside + 1);
  equal("binary semaphore", blocks, counter.host(), {blocks});
  is_true("counting semaphore", blocks, inside.host()[1] <= 2);
}

// Sums over blocks, with a barrier of device scope between the rounds.
using Barrier = cuda::barrier<cuda::thread_scope_device>;
__global__ void make_barrier(Barrier* barrier, int count) { init(barrier, count); }
__global__ void barrier_kernel(Barrier* barrier, int* from, int* to, int rounds) {
  int b = blockIdx.x;
  for (int round = 0; round < rounds; ++round) {
    to[b] = from[b] + from[(b + 1) % gridDim.x];
    barrier->arrive_and_wait();
    int* other = from;
    from = to;
    to = other;
  }
}

void barriers(int blocks) {
  constexpr int rounds = 4;
  std::vector<int> expected = values<int>(blocks, 0, 99, 5), next(blocks);
  Array<int> from(expected), to(blocks);
  Array<Barrier> barrier(1);
  for (int round = 0; round < rounds; ++round) {
    for (int b = 0; b < blocks; ++b) next[b] = expected[b] + expected[(b + 1) % blocks];
    std::swap(expected, next);
  }
  make_barrier<<<1, 1>>>(barrier, blocks);
  barrier_kernel<<<blocks, 1>>>(barrier, from, to, rounds);
  equal("barrier of device scope", blocks, from.host(), expected);
}

int main() {
  operations<cuda::thread_scope_block>("atomic_ref of block scope", 3, 64);
  operations<cuda::thread_scope_device>("atomic_ref of device scope", 3, 64);
  operations<cuda::thread_scope_system>("atomic_ref of system scope", 2, 33);
  operations<cuda::thread_scope_device>("atomic_ref, one thread", 1, 1);
  chain(1, 32);
  chain(5, 40);
  for (int blocks : {1, 6}) latches(blocks);
  for (int blocks : {1, 8}) semaphores(blocks);
  for (int blocks : {1, 5}) barriers(blocks);
  return conclude();
}
