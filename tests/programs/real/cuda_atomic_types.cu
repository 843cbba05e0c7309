// libcu++ atomics of 1, 2, 4, 8, 16 and 12 bytes (the last two with a lock of their own), every order and scope: plain
// data handed from thread to thread by store, exchange, compare-and-swap and by what waits for them; operations whose
// order is chosen at run time; and atomic_ref on neighbours in one word.
#include <cuda/atomic>
#include <cuda/std/atomic>

#include "agree.h"

using namespace agree;

template <int Bytes>
struct alignas(Bytes % 16 == 0 ? 16 : 4) Words {
  int word[Bytes / 4];
  Words() = default;
  __host__ __device__ explicit Words(int value) {
    for (int& w : word) w = value;
  }
  __host__ __device__ bool operator==(const Words& other) const {
    for (int i = 0; i < Bytes / 4; ++i)
      if (word[i] != other.word[i]) return false;
    return true;
  }
};

template <class Atomic>
__global__ void make_atomic(Atomic* atomic) {
  new (atomic + threadIdx.x) Atomic(typename Atomic::value_type(0));
}

// Thread 0 of each block (or of each warp, in block scope) waits for its turn, goes on with what the one before it left
// in plain memory, and hands the turn over, each in another way.
template <class T, cuda::thread_scope Scope>
__global__ void relay_kernel(cuda::atomic<T, Scope>* turn, int* data) {
  int stride = Scope == cuda::thread_scope_block ? 32 : blockDim.x;
  int i = (blockIdx.x * blockDim.x + threadIdx.x) / stride;
  if (threadIdx.x % stride != 0) return;
  for (T seen = turn->load(cuda::memory_order_acquire); !(seen == T(i)); seen = turn->load(cuda::memory_order_acquire))
    turn->wait(seen, cuda::memory_order_relaxed);
  data[i + 1] = 3 * data[i] + i;
  T expected(i), next(i + 1);
  switch (i % 5) {
    case 0: turn->store(next, cuda::memory_order_release); break;
    case 1: (void)turn->exchange(next, cuda::memory_order_acq_rel); break;
    case 2:
      while (!turn->compare_exchange_weak(expected, next, cuda::memory_order_release, cuda::memory_order_relaxed)) expected = T(i);
      break;
    case 3: (void)turn->compare_exchange_strong(expected, next, cuda::memory_order_seq_cst); break;
    case 4:
      cuda::atomic_thread_fence(cuda::memory_order_release, Scope);
      turn->store(next, cuda::memory_order_relaxed);
      break;
  }
  i % 2 ? turn->notify_all() : turn->notify_one();
}

template <class T, cuda::thread_scope Scope>
void relay(const char* what, int blocks, int threads) {
  int runners = Scope == cuda::thread_scope_block ? threads / 32 : blocks;
  std::vector<int> expected(runners + 1, 1);
  for (int i = 0; i < runners; ++i) expected[i + 1] = 3 * expected[i] + i;
  Array<cuda::atomic<T, Scope>> turn(1);
  Array<int> data(std::vector<int>(runners + 1, 1));
  make_atomic<<<1, 1>>>(turn.data());
  relay_kernel<<<blocks, threads>>>(turn.data(), data.data());
  equal(what, runners, data.host(), expected);
}

// Every operation, in an order that the compiler does not know.
template <class T, cuda::thread_scope Scope>
__global__ void orders_kernel(cuda::atomic<T, Scope>* all, cuda::memory_order order, T* seen) {
  T mine = T(threadIdx.x + 1);
  all[0].fetch_add(mine, order);
  all[1].fetch_sub(mine, order);
  all[2].fetch_xor(mine, order);
  all[3].fetch_or(mine, order);
  all[4].fetch_max(mine, order);
  all[5].fetch_min(T(0) - mine, order);
  T expected = all[6].load(cuda::memory_order_relaxed);
  while (!all[6].compare_exchange_strong(expected, T(expected + mine), order)) {
  }
  ++all[7];
  // Neither loads release nor stores acquire.
  bool loads = order != cuda::memory_order_release && order != cuda::memory_order_acq_rel;
  bool stores = order == cuda::memory_order_relaxed || order == cuda::memory_order_release || order == cuda::memory_order_seq_cst;
  int me = blockIdx.x * blockDim.x + threadIdx.x;
  if (stores) all[8 + me].store(mine, order);
  seen[me] = loads ? all[8 + me].load(order) : T(0);
}
template <class T, cuda::thread_scope Scope>
__global__ void unwrap_kernel(cuda::atomic<T, Scope>* all, T* out) { out[threadIdx.x] = all[threadIdx.x]; }

template <class T, cuda::thread_scope Scope>
void orders(const char* what, int blocks, int threads) {
  using Atomic = cuda::atomic<T, Scope>;
  for (auto order : {cuda::memory_order_relaxed, cuda::memory_order_consume, cuda::memory_order_acquire, cuda::memory_order_release,
                     cuda::memory_order_acq_rel, cuda::memory_order_seq_cst}) {
    std::vector<T> expected(8, T(0)), in(8, T(0));
    for (int i = 0; i < blocks * threads; ++i) {
      T mine = T(i % threads + 1);
      expected[0] += mine, expected[1] -= mine, expected[2] ^= mine, expected[3] |= mine;
      expected[4] = std::max(expected[4], mine), expected[5] = std::min(expected[5], T(T(0) - mine));
      expected[6] += mine, ++expected[7];
    }
    int size = blocks * threads;
    std::vector<T> loaded(size, T(0));
    Array<Atomic> all(8 + size);
    Array<T> seen(size), out(8);
    make_atomic<<<1, 8 + size>>>(all.data());
    orders_kernel<<<blocks, threads>>>(all.data(), order, seen.data());
    unwrap_kernel<<<1, 8>>>(all.data(), out.data());
    equal(what, blocks * threads, out.host(), expected);
    if (order == cuda::memory_order_relaxed || order == cuda::memory_order_seq_cst)
      for (int i = 0; i < size; ++i) loaded[i] = T(i % threads + 1);
    equal("loads and stores", size, seen.host(), loaded);
  }
}

int main() {
  relay<signed char, cuda::thread_scope_device>("atomic of 1 byte", 6, 32);
  relay<unsigned short, cuda::thread_scope_block>("atomic of 2 bytes", 1, 224);
  relay<int, cuda::thread_scope_system>("atomic of 4 bytes", 6, 1);
  relay<double, cuda::thread_scope_block>("atomic of 8 bytes", 1, 192);
  relay<Words<8>, cuda::thread_scope_device>("atomic of two words", 6, 33);
  relay<Words<12>, cuda::thread_scope_device>("atomic of 12 bytes", 6, 32);
  relay<Words<16>, cuda::thread_scope_device>("atomic of 16 bytes", 6, 32);
  orders<signed char, cuda::thread_scope_device>("orders, 1 byte", 2, 33);
  orders<unsigned long long, cuda::thread_scope_block>("orders, 8 bytes", 1, 70);
  return conclude();
}
