// Idioms of real kernels across blocks: last blocks, semaphores, look-back, hash tables, lists, graphs, queues, locks. In
// kernels named races_* two accesses are unordered, in those named ordered_* none are. corners.py reads the names.
#include "check.h"
#include <cuda/atomic>

__device__ int flag, counter, head;
__device__ alignas(16) int data[4096];
__device__ alignas(16) int aux[4096];
__global__ void clear() {
  flag = counter = 0;
  head = -1;
  for (int& value : data) value = 0;
  for (int& value : aux) value = 0;
}

// ---- the last block sums up

template <bool writer, bool reader, bool barrier = true>
__device__ __forceinline__ void last_block(int* out) {
  __shared__ bool last;
  const int t = threadIdx.x;
  if (t == 0) data[blockIdx.x] = blockIdx.x * 3;
  if (writer) __threadfence();
  if (t == 0) last = atomicAdd(&counter, 1) == gridDim.x - 1;
  if (barrier) __syncthreads();
  if (last) {
    if (reader) __threadfence();
    int sum = 0;
    for (int i = t; i < gridDim.x; i += blockDim.x) sum += data[i];
    out[t] = sum;
  }
}
__global__ void ordered_last_block(int* out) { last_block<true, true>(out); }
__global__ void races_last_block_reader(int* out) { last_block<true, false>(out); }
__global__ void races_last_block_writer(int* out) { last_block<false, true>(out); }
__global__ void ordered_last_block_inc(int* out) { // threadFenceReduction, with wrap-around
  __shared__ bool last;
  const int t = threadIdx.x;
  data[blockIdx.x * 64 + t] = t;
  __threadfence();
  __syncthreads();
  if (t == 0) last = atomicInc(reinterpret_cast<unsigned*>(&counter), gridDim.x - 1) == gridDim.x - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  int sum = 0;
  for (int b = 0; b < gridDim.x; ++b) sum += data[b * 64 + 63 - t];
  out[t] = sum;
}
__global__ void races_fence_before_the_barrier_is_missing(int* out) { // thread 0 releases for its block before they have written
  __shared__ bool last;
  const int t = threadIdx.x;
  data[blockIdx.x * 64 + t] = t; // @race
  if (t == 0) { __threadfence(); last = atomicAdd(&counter, 1) == gridDim.x - 1; }
  __syncthreads();
  if (!last) return;
  __threadfence();
  int sum = 0;
  for (int b = 0; b < gridDim.x; ++b) sum += data[b * 64 + 63 - t]; // @race
  out[t] = sum;
}
__global__ void ordered_acq_rel_ticket(int* out) {
  __shared__ bool last;
  const int t = threadIdx.x;
  data[blockIdx.x * 64 + t] = t;
  __syncthreads();
  if (t == 0) {
    cuda::atomic_ref<int, cuda::thread_scope_device> ticket(counter);
    last = ticket.fetch_add(1, cuda::memory_order_acq_rel) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  int sum = 0;
  for (int b = 0; b < gridDim.x; ++b) sum += data[b * 64 + 63 - t];
  out[t] = sum;
}
template <cuda::memory_order order, cuda::thread_scope scope>
__device__ __forceinline__ void ticket_of(int* out) {
  __shared__ bool last;
  const int t = threadIdx.x;
  data[blockIdx.x * 64 + t] = t;
  __syncthreads();
  if (t == 0) {
    cuda::atomic_ref<int, scope> ticket(counter);
    last = ticket.fetch_add(1, order) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  int sum = 0;
  for (int b = 0; b < gridDim.x; ++b) sum += data[b * 64 + 63 - t];
  out[t] = sum;
}
__global__ void races_release_ticket(int* out) { ticket_of<cuda::memory_order_release, cuda::thread_scope_device>(out); }
__global__ void races_acquire_ticket(int* out) { ticket_of<cuda::memory_order_acquire, cuda::thread_scope_device>(out); }
__global__ void races_relaxed_ticket(int* out) { ticket_of<cuda::memory_order_relaxed, cuda::thread_scope_device>(out); }
__global__ void races_block_scope_ticket(int* out) { ticket_of<cuda::memory_order_acq_rel, cuda::thread_scope_block>(out); }
__global__ void ordered_sc_ticket(int* out) { ticket_of<cuda::memory_order_seq_cst, cuda::thread_scope_system>(out); }

// ---- split-K: blocks add up their parts in turn under a semaphore

template <int kind>
__device__ __forceinline__ void semaphore(int* out) {
  const int t = threadIdx.x, k = blockIdx.x;
  if (t == 0) {
    if (kind == 0) {
      while (*(volatile int*)&flag != k) {}
      __threadfence();
    } else if (kind == 1) {
      int seen;
      do asm volatile("ld.global.acquire.gpu.b32 %0, [%1];" : "=r"(seen) : "l"(&flag) : "memory"); while (seen != k);
    } else if (kind == 2) { // CUTLASS before its acquire loads
      int seen;
      do asm volatile("ld.global.cg.b32 %0, [%1];" : "=r"(seen) : "l"(&flag)); while (seen != k);
    } else if (kind == 3) {
      while (*(volatile int*)&flag != k) {}
    } else if (kind == 4) {
      while (atomicCAS(&flag, k, k) != k) __nanosleep(20);
      __threadfence();
    }
  }
  __syncthreads();
  data[t] += k + t;
  __syncthreads();
  if (t == 0) {
    if (kind == 1) asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(&flag) : "memory");
    else if (kind == 2) { __threadfence(); asm volatile("st.global.release.gpu.b32 [%0], %1;" ::"l"(&flag), "r"(k + 1) : "memory"); }
    else { __threadfence(); atomicExch(&flag, k + 1); }
  }
}
__global__ void ordered_semaphore_volatile(int* out) { semaphore<0>(out); }
__global__ void ordered_semaphore_acquire(int* out) { semaphore<1>(out); }
__global__ void races_semaphore_cached_load(int* out) { semaphore<2>(out); }
__global__ void races_semaphore_no_reader_fence(int* out) { semaphore<3>(out); }
__global__ void ordered_semaphore_cas(int* out) { semaphore<4>(out); }

template <bool fence>
__device__ __forceinline__ void fixup(int* out) { // stream-K: a block leaves its tile, the tile's owner takes it
  const int t = threadIdx.x;
  if (blockIdx.x > 0) {
    aux[blockIdx.x * 64 + t] = blockIdx.x + t;
    if (fence) __threadfence();
    __syncthreads();
    if (t == 0) atomicAdd(&flag, 1);
  } else {
    if (t == 0) {
      while (atomicAdd(&flag, 0) < gridDim.x - 1) {}
      __threadfence();
    }
    __syncthreads();
    int sum = 0;
    for (int b = 1; b < gridDim.x; ++b) sum += aux[b * 64 + t];
    out[t] = sum;
  }
}
__global__ void ordered_fixup(int* out) { fixup<true>(out); }
__global__ void races_fixup(int* out) { fixup<false>(out); }

// ---- decoupled look-back by hand: status and value in one word or in two

template <int kind>
__device__ __forceinline__ void look_back(int* out) {
  __shared__ int tile, before;
  const int t = threadIdx.x;
  if (t == 0) tile = atomicAdd(&counter, 1);
  __syncthreads();
  const int mine = tile;
  const int sum = 10 + mine;
  if (t == 0) {
    int exclusive = 0;
    if (kind == 0) { // packed
      if (mine > 0) atomicExch((unsigned long long*)&data[2 * mine], (1ull << 32) | unsigned(sum));
      for (int p = mine - 1; p >= 0; --p) {
        unsigned long long word;
        do word = *(volatile unsigned long long*)&data[2 * p]; while (word >> 32 == 0);
        exclusive += int(word);
        if (word >> 32 == 2) break;
      }
      atomicExch((unsigned long long*)&data[2 * mine], (2ull << 32) | unsigned(exclusive + sum));
    } else { // status apart from value
      aux[mine] = sum;
      if (kind == 1) __threadfence();
      *(volatile int*)&data[mine] = 1;
      for (int p = mine - 1; p >= 0; --p) {
        int status;
        do status = *(volatile int*)&data[p]; while (status == 0);
        __threadfence();
        if (status == 1) exclusive += aux[p];
        else { exclusive += aux[p + 2048]; break; }
      }
      aux[mine + 2048] = exclusive + sum;
      __threadfence();
      *(volatile int*)&data[mine] = 2;
    }
    before = exclusive;
  }
  __syncthreads();
  out[mine * 64 + t] = before + sum;
}
__global__ void ordered_look_back_packed(int* out) { look_back<0>(out); }
__global__ void ordered_look_back_two_words(int* out) { look_back<1>(out); }

// ---- hash tables, lists, graphs

__device__ unsigned hash(unsigned k) { return (k * 2654435761u) % 256; }
__global__ void races_hash_insert_lookup(int* out) { // key claimed by CAS, value stored plainly, looked up meanwhile
  const int t = blockIdx.x * blockDim.x + threadIdx.x, key = t % 40 + 1;
  unsigned slot = hash(key);
  for (;;) {
    const int old = atomicCAS(&data[slot], 0, key);
    if (old == 0) aux[slot] = key * 10; // @race
    if (old == 0 || old == key) break;
    slot = (slot + 1) % 256;
  }
  out[t] = aux[slot]; // @race
}
__global__ void ordered_hash_insert_sums(int* out) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x, key = t % 40 + 1;
  unsigned slot = hash(key);
  for (;;) {
    const int old = atomicCAS(&data[slot], 0, key);
    if (old == 0 || old == key) break;
    slot = (slot + 1) % 256;
  }
  atomicAdd(&aux[slot], 1);
}
__global__ void ordered_hash_publish(int* out) { // value first, state released
  const int t = blockIdx.x * blockDim.x + threadIdx.x, key = t % 40 + 1;
  unsigned slot = hash(key);
  for (;;) {
    cuda::atomic_ref<int, cuda::thread_scope_device> state(data[slot]);
    int expected = 0;
    if (state.compare_exchange_strong(expected, -key, cuda::memory_order_acquire)) {
      aux[slot] = key * 10;
      state.store(key, cuda::memory_order_release);
      break;
    }
    while (expected < 0) expected = state.load(cuda::memory_order_acquire);
    if (expected == key) break;
    slot = (slot + 1) % 256;
  }
  out[t] = aux[slot];
}
__global__ void races_key_peek(int* out) { // a plain look at the key before the CAS
  const int t = blockIdx.x * blockDim.x + threadIdx.x, key = t % 40 + 1;
  unsigned slot = hash(key);
  while (data[slot] != key) { // @race
    const int old = atomicCAS(&data[slot], 0, key); // @race
    if (old == 0 || old == key) break;
    slot = (slot + 1) % 256;
  }
  out[t] = slot;
}
template <bool release>
__device__ __forceinline__ void push_and_walk(int* out) { // a stack: nodes are pushed by CAS and walked afterwards
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  data[t] = t * 2; // the node's value
  int old = *(volatile int*)&head;
  for (;;) {
    aux[t] = old;
    if (release) __threadfence();
    const int seen = atomicCAS(&head, old, t);
    if (seen == old) break;
    old = seen;
  }
  __threadfence();
  int sum = 0, n = 0;
  for (int node = old; node >= 0 && n < 3; node = aux[node], ++n) sum += data[node];
  out[t] = sum;
}
__global__ void ordered_stack(int* out) { push_and_walk<true>(out); }
__global__ void races_stack(int* out) { push_and_walk<false>(out); }
__global__ void races_bfs_frontier(int* out) { // the level of a node is written by everyone who reaches it: same value
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  const int node = t * 7 % 32;
  if (data[node] == 0) data[node] = 1; // @race
}
__global__ void ordered_bfs_frontier(int* out) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  const int node = t * 7 % 32;
  if (atomicCAS(&data[node], 0, 1) == 0) aux[atomicAdd(&counter, 1)] = node;
}
__global__ void races_union_find(int* out) { // parents compressed by plain stores while others walk
  const int t = threadIdx.x + blockIdx.x * blockDim.x;
  atomicMin(&data[t % 16 + 1], 0);
  int x = t % 16 + 1;
  while (data[x] != x && data[x] > 0) { data[x] = data[data[x]]; x = data[x]; }
  data[t % 16 + 1] = t % 3; // @race
  out[t] = x;
}
__global__ void races_work_counter_reset(int* out) { // the last one resets the counter that others still read
  __shared__ int item;
  for (;;) {
    if (threadIdx.x == 0) item = atomicAdd(&counter, 1);
    __syncthreads();
    if (item >= 20) break;
    out[item] = threadIdx.x == 0 ? 1 : out[item];
    __syncthreads();
  }
  if (threadIdx.x == 0 && blockIdx.x == 0) counter = 0;
}
__global__ void ordered_persistent(int* out) {
  __shared__ int item;
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) item = atomicAdd(&counter, 1);
    __syncthreads();
    if (item >= 20) break;
    out[item * 64 + threadIdx.x] = item;
  }
}
__global__ void races_persistent(int* out) { // one barrier a turn is one too few
  __shared__ int item;
  for (;;) {
    if (threadIdx.x == 0) item = atomicAdd(&counter, 1); // @race
    __syncthreads();
    if (item >= 20) break; // @race
    out[item * 64 + threadIdx.x] = item;
  }
}
__global__ void races_ring_queue(int* out) { // the index is taken before the slot is written
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (blockIdx.x == 0) {
    const int at = atomicAdd(&counter, 1);
    data[at] = t + 1; // @race
  } else {
    const int n = atomicAdd(&counter, 0);
    for (int i = 0; i < n; ++i) out[t] += data[i]; // @race
  }
}
__global__ void races_double_checked(int* out) {
  if (threadIdx.x == 0) {
    if (*(volatile int*)&flag == 0) {
      data[0] = 77; // @race
      *(volatile int*)&flag = 1;
    }
    out[blockIdx.x] = data[0]; // @race
  }
}
__global__ void ordered_histogram_privatized(int* out) {
  __shared__ int bins[16];
  const int t = threadIdx.x;
  if (t < 16) bins[t] = 0;
  __syncthreads();
  atomicAdd(&bins[t * 5 % 16], 1);
  __syncthreads();
  if (t < 16) atomicAdd(&data[t], bins[t]);
}
__global__ void races_histogram_privatized(int* out) { // bins cleared and counted without a barrier
  __shared__ int bins[16];
  const int t = threadIdx.x;
  if (t < 16) bins[t] = 0; // @race
  atomicAdd(&bins[t * 5 % 16], 1); // @race
  __syncthreads();
  if (t < 16) atomicAdd(&data[t], bins[t]);
}
__global__ void races_ldg_of_own(int* out) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  data[t] = t; // @race
  __threadfence();
  __syncthreads();
  out[t] = __ldg(&data[t ^ 1]); // @race
}
__global__ void races_spin_lock_no_fence(int* out) {
  if (threadIdx.x == 0) {
    while (atomicCAS(&flag, 0, 1) != 0) {}
    data[0] += 1; // @race
    atomicExch(&flag, 0);
  }
}
__global__ void ordered_spin_lock(int* out) {
  if (threadIdx.x == 0) {
    while (atomicCAS(&flag, 0, 1) != 0) {}
    __threadfence();
    data[0] += 1;
    __threadfence();
    atomicExch(&flag, 0);
  }
}
__global__ void races_spin_lock_plain_unlock(int* out) { // unlocked by a plain store
  if (threadIdx.x == 0) {
    while (atomicCAS(&flag, 0, 1) != 0) {} // @race
    __threadfence();
    data[0] += 1;
    __threadfence();
    flag = 0; // @race
  }
}
__global__ void ordered_ticket_lock(int* out) {
  if (threadIdx.x == 0) {
    cuda::atomic_ref<int, cuda::thread_scope_device> next(counter), serving(flag);
    const int mine = next.fetch_add(1, cuda::memory_order_relaxed);
    while (serving.load(cuda::memory_order_acquire) != mine) {}
    data[0] += 1;
    serving.store(mine + 1, cuda::memory_order_release);
  }
}
__global__ void ordered_ticket_lock_add(int* out) { // release by fetch_add relaxed behind a release fence
  if (threadIdx.x == 0) {
    cuda::atomic_ref<int, cuda::thread_scope_device> next(counter), serving(flag);
    const int mine = next.fetch_add(1, cuda::memory_order_relaxed);
    while (serving.load(cuda::memory_order_relaxed) != mine) {}
    cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_device);
    data[0] += 1;
    cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_device);
    serving.fetch_add(1, cuda::memory_order_relaxed);
  }
}
__global__ void races_fence_of_block(int* out) {
  if (threadIdx.x == 0) {
    while (atomicCAS(&flag, 0, 1) != 0) {}
    __threadfence_block();
    data[0] += 1; // @race
    __threadfence_block();
    atomicExch(&flag, 0);
  }
}
__global__ void ordered_reader_writer_phases(int* out) { // sense-reversing barrier by hand, twice
  for (int phase = 1; phase <= 2; ++phase) {
    data[(blockIdx.x + phase) % gridDim.x * 64 + threadIdx.x] += phase;
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(&counter, 1);
      while (*(volatile int*)&counter < phase * int(gridDim.x)) {}
      __threadfence();
    }
    __syncthreads();
  }
}
__global__ void races_grid_barrier_block_leader(int* out) { // no __syncthreads before the arrival
  data[blockIdx.x * 64 + threadIdx.x] = 1; // @race
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(&counter, 1);
    while (*(volatile int*)&counter < int(gridDim.x)) {}
    __threadfence();
  }
  __syncthreads();
  out[blockIdx.x * 64 + threadIdx.x] = data[(blockIdx.x + 1) % gridDim.x * 64 + threadIdx.x]; // @race
}

int main() {
  int* out = zeros<int>(4096);
  struct Case {
    void (*kernel)(int*);
    int blocks, threads;
  };
  const Case cases[] = {
      {ordered_last_block, 5, 64}, {races_last_block_reader, 5, 64}, {races_last_block_writer, 5, 64},
      {ordered_last_block_inc, 4, 64}, {races_fence_before_the_barrier_is_missing, 4, 64},
      {ordered_acq_rel_ticket, 4, 64}, {races_release_ticket, 4, 64}, {races_acquire_ticket, 4, 64},
      {races_relaxed_ticket, 4, 64}, {races_block_scope_ticket, 4, 64}, {ordered_sc_ticket, 4, 64},
      {ordered_semaphore_volatile, 4, 64}, {ordered_semaphore_acquire, 4, 64}, {races_semaphore_cached_load, 4, 64},
      {races_semaphore_no_reader_fence, 4, 64}, {ordered_semaphore_cas, 4, 64}, {ordered_fixup, 4, 64}, {races_fixup, 4, 64},
      {ordered_look_back_packed, 6, 64}, {ordered_look_back_two_words, 6, 64},
      {races_hash_insert_lookup, 2, 64}, {ordered_hash_insert_sums, 2, 64}, {ordered_hash_publish, 2, 64}, {races_key_peek, 2, 64},
      {ordered_stack, 2, 32}, {races_stack, 2, 32}, {races_bfs_frontier, 2, 64}, {ordered_bfs_frontier, 2, 64},
      {races_union_find, 2, 32}, {races_work_counter_reset, 3, 64}, {ordered_persistent, 3, 64}, {races_persistent, 3, 64},
      {races_ring_queue, 2, 32}, {races_double_checked, 3, 32}, {ordered_histogram_privatized, 2, 64},
      {races_histogram_privatized, 2, 64}, {races_ldg_of_own, 2, 64}, {races_spin_lock_no_fence, 3, 32}, {ordered_spin_lock, 3, 32},
      {races_spin_lock_plain_unlock, 3, 32}, {ordered_ticket_lock, 3, 32}, {ordered_ticket_lock_add, 3, 32},
      {races_fence_of_block, 3, 32}, {ordered_reader_writer_phases, 3, 64}, {races_grid_barrier_block_leader, 3, 64},
  };
  for (const Case& one : cases) {
    clear<<<1, 1>>>();
    one.kernel<<<one.blocks, one.threads>>>(out);
    CHECK(cudaDeviceSynchronize());
  }
  std::printf("%zu cases\n", sizeof cases / sizeof cases[0]);
}
