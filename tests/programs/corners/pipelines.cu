// Pipelines of warps that are each good at one thing: who fills stages of shared memory, by bulk copies or cp.async, and who
// empties them, over mbarriers and their phases. In cases named races_* one step is left out, weakened or misplaced, in
// those named ordered_* none. corners.py reads the names, and which lines must race.
#include "../async.h"
#include "cases.h"

__device__ alignas(16) int input[1024];
__device__ alignas(16) int stored[1024];
__device__ int flag;
__global__ void clear() {
  flag = 0;
  for (int i = 0; i < 1024; ++i) {
    input[i] = i;
    stored[i] = 0;
  }
}

using Barrier = std::uint64_t;

__device__ bool elect_one() {
  unsigned elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
  return elected;
}
__device__ void bulk_load(void* to, const void* from, unsigned bytes, Barrier* full) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(full))
               : "memory");
}
__device__ void bulk_store(void* to, const void* from, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(to)),
               "r"(shared_address(from)), "r"(bytes)
               : "memory");
}
template <int pending> __device__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}
__device__ void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void fence_proxy_async_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
__device__ void arrive_relaxed(Barrier* barrier) {
  asm volatile("mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
__device__ void wait_relaxed(Barrier* barrier, unsigned parity) {
  unsigned done = 0;
  while (!done) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  }
}
template <int id, int threads> __device__ void named_barrier() {
  asm volatile("barrier.cta.sync %0, %1;" ::"n"(id), "n"(threads) : "memory");
}

// ---- a ring of stages: one thread issues bulk copies, two warps read

enum class Ring {
  right, look_at_nothing, wait_relaxed, release_early, release_relaxed, lane_releases_alone, one_warp_releases,
  few_bytes
};
template <Ring wrong, int stages = 3, int tiles = 8> __device__ __forceinline__ void ring(int* out) {
  constexpr int words = 64;
  __shared__ alignas(16) int tile[stages][words];
  __shared__ alignas(8) Barrier full[stages], empty[stages];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < stages; ++s) {
      mbarrier_init(&full[s], 1);
      mbarrier_init(&empty[s], wrong == Ring::one_warp_releases ? 1 : 2);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  if (warp == 0) {
    if (!elect_one()) return;
    for (int k = 0; k < tiles; ++k) {
      const int s = k % stages;
      mbarrier_wait(&empty[s], (k / stages & 1) ^ 1);
      mbarrier_arrive_expect(&full[s], wrong == Ring::few_bytes ? words * 2 : words * 4);
      bulk_load(tile[s], input + k * words, words * 2, &full[s]);                   // @load
      bulk_load(tile[s] + words / 2, input + k * words + words / 2, words * 2, &full[s]); // @load_half
    }
    return;
  }
  int sum = 0;
  for (int k = 0; k < tiles; ++k) {
    const int s = k % stages;
    const unsigned parity = k / stages & 1;
    if (wrong == Ring::wait_relaxed) wait_relaxed(&full[s], parity);
    else if (wrong != Ring::look_at_nothing) mbarrier_wait(&full[s], parity);
    if (wrong == Ring::release_early && lane == 0) mbarrier_arrive(&empty[s]);
    sum += tile[s][words - 1 - 2 * lane] + tile[s][lane + (warp - 1)]; // @use
    if (wrong != Ring::lane_releases_alone) __syncwarp();
    if (wrong == Ring::release_relaxed && lane == 0) arrive_relaxed(&empty[s]);
    else if (wrong == Ring::one_warp_releases && threadIdx.x == 64) mbarrier_arrive(&empty[s]);
    else if (wrong != Ring::release_early && wrong != Ring::one_warp_releases && lane == 0) mbarrier_arrive(&empty[s]);
  }
  out[threadIdx.x] = sum;
}
CASE(ordered_ring, 1, 96, ring<Ring::right>)
CASE(ordered_ring_of_one_stage, 1, 96, ring<Ring::right, 1, 5>)
CASE(ordered_ring_of_more_stages_than_tiles, 1, 96, ring<Ring::right, 4, 3>)
CASE(races_ring_look_at_nothing, 1, 96, ring<Ring::look_at_nothing, 3, 3>) // races load-use, load_half-use
CASE(races_ring_wait_relaxed, 1, 96, ring<Ring::wait_relaxed>) // races load-load, load-use, load_half-load_half, load_half-use
CASE(races_ring_release_early, 1, 96, ring<Ring::release_early>) // races load-use, load_half-use
CASE(races_ring_release_relaxed, 1, 96, ring<Ring::release_relaxed>) // races load-load, load-use, load_half-load_half, load_half-use
CASE(races_ring_lane_releases_alone, 1, 96, ring<Ring::lane_releases_alone>) // races load-use, load_half-use
CASE(races_ring_one_warp_releases, 1, 96, ring<Ring::one_warp_releases>) // races load-use, load_half-use
CASE(races_ring_few_bytes, 1, 96, ring<Ring::few_bytes, 3, 3>) // races load_half-use

// ---- a persistent kernel: stages and parities go on from tile to tile; results leave by bulk stores

enum class Persistent {
  right, parity_forgotten, no_fence, fence_by_who_stores, fence_before_the_writes, fence_of_global, no_wait_for_the_store,
  wait_without_barrier, no_commit, wait_for_all_but_one, second_buffer
};
template <Persistent wrong> __device__ __forceinline__ void persistent(int* out) {
  constexpr int stages = 2, steps = wrong == Persistent::parity_forgotten ? 2 : 3;
  constexpr int tiles = wrong == Persistent::parity_forgotten ? 2 : 4, words = 64;
  constexpr bool two = wrong == Persistent::second_buffer;
  __shared__ alignas(16) int tile[stages][words], result[two ? 2 : 1][words];
  __shared__ alignas(8) Barrier full[stages], empty[stages];
  const int t = threadIdx.x - 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < stages; ++s) {
      mbarrier_init(&full[s], 1);
      mbarrier_init(&empty[s], 2);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  int s = 0;
  unsigned parity = 0;
  auto next = [&] {
    if (++s == stages) {
      s = 0;
      parity ^= 1;
    }
  };
  if (t < 0) {
    if (lane != 0) return;
    for (int k = 0; k < tiles * steps; ++k, next()) {
      mbarrier_wait(&empty[s], parity ^ 1);
      mbarrier_arrive_expect(&full[s], words * 4);
      bulk_load(tile[s], input + k * words, words * 4, &full[s]); // @fill
    }
    return;
  }
  for (int i = 0; i < tiles; ++i) {
    if (wrong == Persistent::parity_forgotten) s = 0, parity = 0;
    int sum = 0;
    for (int k = 0; k < steps; ++k, next()) {
      mbarrier_wait(&full[s], parity);
      sum += tile[s][words - 1 - t]; // @read
      __syncwarp();
      if (wrong == Persistent::parity_forgotten && i) continue; // else who fills may wait for ever
      if (lane == 0) mbarrier_arrive(&empty[s]);
    }
    int* to = result[two ? i % 2 : 0];
    if (t == 0 && wrong != Persistent::no_wait_for_the_store) {
      bulk_wait_read<wrong == Persistent::wait_for_all_but_one || two ? 1 : 0>();
    }
    if (wrong != Persistent::wait_without_barrier) named_barrier<1, 64>();
    if (wrong == Persistent::fence_before_the_writes) fence_proxy_async();
    to[t] = sum; // @result
    if (wrong == Persistent::fence_of_global) fence_proxy_async_global();
    else if (wrong != Persistent::no_fence && wrong != Persistent::fence_by_who_stores &&
             wrong != Persistent::fence_before_the_writes)
      fence_proxy_async();
    named_barrier<1, 64>();
    if (t == 0) {
      if (wrong == Persistent::fence_by_who_stores) fence_proxy_async();
      bulk_store(stored + i * words, to, words * 4); // @store
      if (wrong != Persistent::no_commit) bulk_commit();
    }
  }
  if (t == 0) bulk_wait();
}
CASE(ordered_persistent, 1, 96, persistent<Persistent::right>)
CASE(ordered_persistent_fence_by_who_stores, 1, 96, persistent<Persistent::fence_by_who_stores>)
CASE(ordered_persistent_second_buffer, 1, 96, persistent<Persistent::second_buffer>)
CASE(races_persistent_parity_forgotten, 1, 96, persistent<Persistent::parity_forgotten>) // races fill-read
CASE(races_persistent_no_fence, 1, 96, persistent<Persistent::no_fence>) // races result-store
CASE(races_persistent_fence_before_the_writes, 1, 96, persistent<Persistent::fence_before_the_writes>) // races result-store
CASE(races_persistent_fence_of_global, 1, 96, persistent<Persistent::fence_of_global>) // races result-store
CASE(races_persistent_no_wait_for_the_store, 1, 96, persistent<Persistent::no_wait_for_the_store>) // races result-store
CASE(races_persistent_wait_without_barrier, 1, 96, persistent<Persistent::wait_without_barrier>) // races result-store
CASE(races_persistent_no_commit, 1, 96, persistent<Persistent::no_commit>) // races result-store
CASE(races_persistent_wait_for_all_but_one, 1, 96, persistent<Persistent::wait_for_all_but_one>) // races result-store

// ---- stages filled by cp.async, whose completion arrives; each thread releases for itself

enum class Copies { right, incremented, plain_arrival, arrival_before_the_copy, release_early, source_overwritten, source_after_phase };
template <Copies wrong> __device__ __forceinline__ void copies(int* out) {
  constexpr int stages = 2, tiles = 6, words = 64;
  __shared__ alignas(16) int tile[stages][words];
  __shared__ alignas(8) Barrier full[stages], empty[stages];
  const int t = threadIdx.x % 64;
  if (threadIdx.x == 0) {
    for (int s = 0; s < stages; ++s) {
      mbarrier_init(&full[s], 64);
      mbarrier_init(&empty[s], 64);
    }
  }
  __syncthreads();
  if (threadIdx.x < 64) {
    for (int k = 0; k < tiles; ++k) {
      const int s = k % stages;
      const unsigned at = shared_address(&full[s]);
      mbarrier_wait(&empty[s], (k / stages & 1) ^ 1);
      auto arrive = [&] {
        if (wrong == Copies::plain_arrival) mbarrier_arrive(&full[s]);
        else if (wrong != Copies::incremented)
          asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(at) : "memory");
        else {
          asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" ::"r"(at) : "memory");
          mbarrier_arrive(&full[s]);
        }
      };
      if (wrong == Copies::arrival_before_the_copy) arrive();
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(&tile[s][t])), "l"(__cvta_generic_to_global(input + k * words + t)) : "memory"); // @copy
      if (wrong != Copies::arrival_before_the_copy) arrive();
      if (wrong == Copies::source_after_phase) mbarrier_wait(&full[s], k / stages & 1);
      if (wrong == Copies::source_overwritten || wrong == Copies::source_after_phase) input[k * words + t] = 0; // @overwrite
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    return;
  }
  int sum = 0;
  for (int k = 0; k < tiles; ++k) {
    const int s = k % stages;
    mbarrier_wait(&full[s], k / stages & 1);
    if (wrong == Copies::release_early) mbarrier_arrive(&empty[s]);
    sum += tile[s][words - 1 - t]; // @take
    if (wrong != Copies::release_early) mbarrier_arrive(&empty[s]);
  }
  out[t] = sum;
}
CASE(ordered_copies, 1, 128, copies<Copies::right>)
CASE(ordered_copies_incremented, 1, 128, copies<Copies::incremented>)
CASE(ordered_copies_source_after_phase, 1, 128, copies<Copies::source_after_phase>)
CASE(races_copies_plain_arrival, 1, 128, copies<Copies::plain_arrival>) // races copy-copy, copy-take
CASE(races_copies_arrival_before_the_copy, 1, 128, copies<Copies::arrival_before_the_copy>) // races copy-copy, copy-take
CASE(races_copies_release_early, 1, 128, copies<Copies::release_early>) // races copy-take
CASE(races_copies_source_overwritten, 1, 128, copies<Copies::source_overwritten>) // races copy-overwrite

// ---- tiles changed in place between a bulk load and a bulk store, and stages that a bulk load fills again

enum class InPlace { right, no_store, no_fence, no_fence_no_store, release_before_the_store_has_read };
template <InPlace wrong> __device__ __forceinline__ void in_place(int*) {
  constexpr int stages = 2, tiles = 5, words = 32;
  constexpr bool stores = wrong != InPlace::no_store && wrong != InPlace::no_fence_no_store;
  __shared__ alignas(16) int tile[stages][words];
  __shared__ alignas(8) Barrier full[stages], empty[stages];
  const int lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < stages; ++s) {
      mbarrier_init(&full[s], 1);
      mbarrier_init(&empty[s], 1);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int k = 0; k < tiles; ++k) {
      const int s = k % stages;
      mbarrier_wait(&empty[s], (k / stages & 1) ^ 1);
      mbarrier_arrive_expect(&full[s], words * 4);
      bulk_load(tile[s], input + k * words, words * 4, &full[s]); // @in
    }
  } else if (threadIdx.x >= 32) {
    for (int k = 0; k < tiles; ++k) {
      const int s = k % stages;
      mbarrier_wait(&full[s], k / stages & 1);
      tile[s][lane] *= 3; // @change
      if (wrong != InPlace::no_fence && wrong != InPlace::no_fence_no_store) fence_proxy_async();
      __syncwarp();
      if (lane == 0) {
        if (stores) bulk_store(stored + k * words, tile[s], words * 4); // @leave
        if (stores) bulk_commit();
        if (stores && wrong != InPlace::release_before_the_store_has_read) bulk_wait_read<0>();
        mbarrier_arrive(&empty[s]);
      }
    }
    if (lane == 0) bulk_wait();
  }
}
CASE(ordered_in_place, 1, 64, in_place<InPlace::right>)
CASE(ordered_in_place_no_store, 1, 64, in_place<InPlace::no_store>)
CASE(races_in_place_no_fence, 1, 64, in_place<InPlace::no_fence>) // races change-leave, change-in
CASE(races_in_place_no_fence_no_store, 1, 64, in_place<InPlace::no_fence_no_store>) // races change-in
CASE(races_in_place_released_before_the_store_has_read, 1, 64, in_place<InPlace::release_before_the_store_has_read>) // races change-leave, in-leave

// ---- what a bulk copy overwrites: who knows that to be complete knows nothing of what came before it

enum class Over { told_with_the_bytes, told_by_a_barrier, told_to_the_leader, read_only };
template <Over how> __device__ __forceinline__ void overwritten(int* out) {
  __shared__ alignas(16) int tile[32];
  __shared__ alignas(8) Barrier full, empty;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    mbarrier_init(&full, 1);
    mbarrier_init(&empty, 32);
    fence_mbarrier_init();
  }
  __syncthreads();
  if (warp == 1) {
    if (how == Over::read_only) out[64 + lane] = tile[31 - lane];
    else tile[31 - lane] = lane; // @cleared
    fence_proxy_async();
    mbarrier_arrive(&empty);
  }
  if (how == Over::told_by_a_barrier) __syncthreads();
  if (threadIdx.x == 0) {
    if (how != Over::told_with_the_bytes) mbarrier_arrive_expect(&full, sizeof tile);
    mbarrier_wait(&empty, 0);
    if (how == Over::told_with_the_bytes) mbarrier_arrive_expect(&full, sizeof tile);
    bulk_load(tile, input, sizeof tile, &full); // @brought
  }
  if (warp == 2) {
    mbarrier_wait(&full, 0);
    out[lane] = tile[lane]; // @seen_after
  }
}
CASE(ordered_overwritten_told_with_the_bytes, 1, 96, overwritten<Over::told_with_the_bytes>)
CASE(ordered_overwritten_told_by_a_barrier, 1, 96, overwritten<Over::told_by_a_barrier>)
CASE(ordered_overwritten_read_only, 1, 96, overwritten<Over::read_only>)
CASE(races_overwritten_told_to_the_leader, 1, 96, overwritten<Over::told_to_the_leader>) // races cleared-seen_after

// ---- global memory between the proxies and between blocks

__device__ void raise_flag() { asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(&flag) : "memory"); }
__device__ void await_flag() {
  int seen = 0;
  while (!seen) asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(&flag) : "memory");
}
enum class Handed { fence_by_writer, fence_by_leader, fence_by_reader, no_fence, fence_of_shared, fence_before };
template <Handed how> __device__ __forceinline__ void written_then_bulk_loaded(int* out) {
  __shared__ alignas(16) int tile[64];
  __shared__ alignas(8) Barrier full;
  const int t = threadIdx.x;
  if (blockIdx.x == 0) {
    if (how == Handed::fence_before) fence_proxy_async_global();
    stored[t] = t; // @written
    if (how == Handed::fence_by_writer) fence_proxy_async_global();
    if (how == Handed::fence_of_shared) fence_proxy_async();
    __syncthreads();
    if (t == 0 && how == Handed::fence_by_leader) fence_proxy_async_global();
    if (t == 0) raise_flag();
  } else {
    if (t == 0) {
      mbarrier_init(&full, 1);
      fence_mbarrier_init();
      await_flag();
      if (how == Handed::fence_by_reader) asm volatile("fence.proxy.async;" ::: "memory");
      mbarrier_arrive_expect(&full, sizeof tile);
      bulk_load(tile, stored, sizeof tile, &full); // @loaded
    }
    __syncthreads();
    mbarrier_wait(&full, 0);
    out[t] = tile[63 - t];
  }
}
CASE(ordered_bulk_load_fence_by_writer, 2, 64, written_then_bulk_loaded<Handed::fence_by_writer>)
CASE(ordered_bulk_load_fence_by_leader, 2, 64, written_then_bulk_loaded<Handed::fence_by_leader>)
CASE(ordered_bulk_load_fence_by_reader, 2, 64, written_then_bulk_loaded<Handed::fence_by_reader>)
CASE(races_bulk_load_no_fence, 2, 64, written_then_bulk_loaded<Handed::no_fence>) // races loaded-written
CASE(races_bulk_load_fence_of_shared, 2, 64, written_then_bulk_loaded<Handed::fence_of_shared>) // races loaded-written
CASE(races_bulk_load_fence_before, 2, 64, written_then_bulk_loaded<Handed::fence_before>) // races loaded-written

enum class Store { right, wait_for_reads, no_wait, no_commit };
template <Store wrong> __device__ __forceinline__ void bulk_stored_then_read(int* out) {
  __shared__ alignas(16) int tile[64];
  const int t = threadIdx.x;
  if (blockIdx.x == 0) {
    tile[t] = t;
    fence_proxy_async();
    __syncthreads();
    if (t == 0) {
      bulk_store(stored, tile, sizeof tile); // @sent
      if (wrong != Store::no_commit) bulk_commit();
      if (wrong == Store::wait_for_reads) bulk_wait_read<0>();
      else if (wrong != Store::no_wait) bulk_wait();
      raise_flag();
    }
  } else {
    if (t == 0) await_flag();
    __syncthreads();
    out[t] = stored[63 - t]; // @received
  }
}
CASE(ordered_bulk_store, 2, 64, bulk_stored_then_read<Store::right>)
CASE(races_bulk_store_wait_for_reads, 2, 64, bulk_stored_then_read<Store::wait_for_reads>) // races received-sent
CASE(races_bulk_store_no_wait, 2, 64, bulk_stored_then_read<Store::no_wait>) // races received-sent
CASE(races_bulk_store_no_commit, 2, 64, bulk_stored_then_read<Store::no_commit>) // races received-sent

// ---- states in place of parities, and objects that become something else

template <int of_phase> __device__ __forceinline__ void states(int* out) { // the second wait asks for phase `of_phase`
  __shared__ int s[64];
  __shared__ alignas(8) Barrier barrier;
  const int t = threadIdx.x;
  if (t == 0) mbarrier_init(&barrier, 64);
  __syncthreads();
  auto arrive = [&] {
    Barrier state;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(shared_address(&barrier)) : "memory");
    return state;
  };
  auto wait = [&](Barrier state) {
    unsigned done = 0;
    while (!done)
      asm volatile("{ .reg .pred p; mbarrier.test_wait.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(shared_address(&barrier)), "l"(state) : "memory");
  };
  s[t] = t;
  const Barrier first = arrive();
  wait(first);
  const int other = s[63 - t]; // @seen
  const Barrier second = arrive();
  wait(of_phase ? second : first);
  s[t] = other; // @again
  out[t] = other;
}
CASE(ordered_states, 1, 64, states<1>)
CASE(races_states_of_the_phase_before, 1, 64, states<0>) // races again-seen

__device__ __forceinline__ void reused(int* out) {
  __shared__ alignas(16) int s[64];
  Barrier* barrier = reinterpret_cast<Barrier*>(s);
  const int t = threadIdx.x;
  if (t == 0) mbarrier_init(barrier, 64);
  __syncthreads();
  mbarrier_arrive(barrier);
  mbarrier_wait(barrier, 0);
  __syncthreads();
  if (t == 0) asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
  __syncthreads();
  s[t] = t;
  __syncthreads();
  out[t] = s[63 - t];
}
CASE(ordered_reused, 1, 64, reused)

int main(int, char** arguments) { run_cases(clear, arguments[1]); }
