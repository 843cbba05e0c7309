// Clusters of two blocks that use each other's shared memory: cluster barriers whole, split and relaxed, flags and mbarriers
// of the other block, bulk copies between blocks and into both. In cases named races_* one step is left out, weakened or
// misplaced, in those named ordered_* none; in those named errs_* a block need not exist when its memory is used. corners.py reads the names, and which lines must race.
#include "../async.h"
#include "cases.h"

__device__ alignas(16) int input[1024];
__global__ void clear() {
  for (int i = 0; i < 1024; ++i) input[i] = i;
}

using Barrier = std::uint64_t;

__device__ unsigned rank_in_cluster() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ unsigned peer_address(const void* pointer, unsigned rank) {
  unsigned address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(pointer)), "r"(rank));
  return address;
}
__device__ int load_peer(unsigned address) {
  int value;
  asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}
__device__ void store_peer(unsigned address, int value) {
  asm volatile("st.shared::cluster.s32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}
__device__ void wait_of_cluster(Barrier* barrier, unsigned parity) {
  unsigned done = 0;
  while (!done) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  }
}
__device__ void fence_cluster() { asm volatile("fence.acq_rel.cluster;" ::: "memory"); }
__device__ void fence_cta() { asm volatile("fence.acq_rel.cta;" ::: "memory"); }
__device__ void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// ---- each block reads the other's

enum class Swap {
  right, fenced, unfenced, fence_of_the_block, fence_of_inits, fence_before_the_write, written_late, read_early, no_barrier
};
template <Swap wrong> __device__ __forceinline__ void swap(int* out) {
  __shared__ int s[64];
  const int t = threadIdx.x;
  const unsigned peer = rank_in_cluster() ^ 1;
  cluster_sync(); // the other is there
  int read = 0;
  if (wrong == Swap::fence_before_the_write) fence_cluster();
  if (wrong != Swap::written_late) s[t] = t; // @write
  if (wrong == Swap::fenced) fence_cluster();
  if (wrong == Swap::fence_of_the_block) fence_cta();
  if (wrong == Swap::fence_of_inits) fence_mbarrier_init();
  if (wrong == Swap::right || wrong == Swap::written_late || wrong == Swap::read_early) cluster_arrive();
  else if (wrong != Swap::no_barrier) cluster_arrive_relaxed();
  if (wrong == Swap::written_late) s[t] = t; // @write_late
  if (wrong == Swap::read_early) read = load_peer(peer_address(&s[63 - t], peer)); // @read_early
  if (wrong != Swap::no_barrier) cluster_wait();
  if (wrong != Swap::read_early) read = load_peer(peer_address(&s[63 - t], peer)); // @read
  out[blockIdx.x * 64 + t] = read;
  cluster_sync(); // the other has read
}
CLUSTER_CASE(ordered_swap, 2, 64, swap<Swap::right>)
CLUSTER_CASE(ordered_swap_relaxed_behind_a_fence, 2, 64, swap<Swap::fenced>)
CLUSTER_CASE(races_swap_relaxed, 2, 64, swap<Swap::unfenced>) // races read-write
CLUSTER_CASE(races_swap_relaxed_behind_a_fence_of_the_block, 2, 64, swap<Swap::fence_of_the_block>) // races read-write
CLUSTER_CASE(races_swap_relaxed_behind_a_fence_of_inits, 2, 64, swap<Swap::fence_of_inits>) // races read-write
CLUSTER_CASE(races_swap_relaxed_fence_before_the_write, 2, 64, swap<Swap::fence_before_the_write>) // races read-write
CLUSTER_CASE(races_swap_written_late, 2, 64, swap<Swap::written_late>) // races read-write_late
CLUSTER_CASE(races_swap_read_early, 2, 64, swap<Swap::read_early>) // races read_early-write
CLUSTER_CASE(races_swap_no_barrier, 2, 64, swap<Swap::no_barrier>) // races read-write

// Several rounds: who writes again must know that the other has read.
template <bool both> __device__ __forceinline__ void rounds(int* out) {
  __shared__ int s[2][32];
  const int t = threadIdx.x;
  const unsigned peer = rank_in_cluster() ^ 1;
  int sum = 0;
  cluster_sync();
  for (int i = 0; i < 4; ++i) {
    int* mine = s[both ? i % 2 : 0];
    mine[t] = t + i; // @put
    cluster_sync();
    sum += load_peer(peer_address(&mine[31 - t], peer)); // @get
  }
  out[blockIdx.x * 32 + t] = sum;
  cluster_sync();
}
CLUSTER_CASE(ordered_rounds_in_two_buffers, 2, 32, rounds<true>)
CLUSTER_CASE(races_rounds_in_one_buffer, 2, 32, rounds<false>) // races get-put

// ---- a value pushed into the other block, and an arrival at its mbarrier behind it

enum class Push { right, arrival_of_block_scope, wait_of_block_scope, relaxed, relaxed_behind_fence, wait_relaxed, leader_alone, arrives_before };
template <Push wrong> __device__ __forceinline__ void push(int* out) {
  __shared__ int s[32];
  __shared__ alignas(8) Barrier full;
  const int t = threadIdx.x;
  if (t == 0) {
    mbarrier_init(&full, wrong == Push::leader_alone ? 1 : 32);
    fence_mbarrier_init();
  }
  cluster_sync();
  if (rank_in_cluster() == 0) {
    const unsigned there = peer_address(&full, 1);
    auto arrive = [&] {
      if (wrong == Push::relaxed_behind_fence) fence_cluster();
      if (wrong == Push::arrival_of_block_scope)
        asm volatile("mbarrier.arrive.release.cta.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
      else if (wrong == Push::relaxed || wrong == Push::relaxed_behind_fence)
        asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
      else if (wrong != Push::leader_alone || t == 0)
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
    };
    if (wrong == Push::arrives_before) arrive();
    store_peer(peer_address(&s[t], 1), t); // @pushed
    if (wrong != Push::arrives_before) arrive();
  } else {
    if (wrong == Push::wait_of_block_scope) {
      mbarrier_wait(&full, 0);
    } else if (wrong == Push::wait_relaxed) {
      unsigned done = 0;
      while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(shared_address(&full)) : "memory");
    } else {
      wait_of_cluster(&full, 0);
    }
    out[t] = s[31 - t]; // @taken
  }
  cluster_sync();
}
CLUSTER_CASE(ordered_push, 2, 32, push<Push::right>)
CLUSTER_CASE(ordered_push_relaxed_behind_fence, 2, 32, push<Push::relaxed_behind_fence>)
CLUSTER_CASE(races_push_arrival_of_block_scope, 2, 32, push<Push::arrival_of_block_scope>) // races pushed-taken
CLUSTER_CASE(races_push_wait_of_block_scope, 2, 32, push<Push::wait_of_block_scope>) // races pushed-taken
CLUSTER_CASE(races_push_relaxed, 2, 32, push<Push::relaxed>) // races pushed-taken
CLUSTER_CASE(races_push_wait_relaxed, 2, 32, push<Push::wait_relaxed>) // races pushed-taken
CLUSTER_CASE(races_push_leader_alone, 2, 32, push<Push::leader_alone>) // races pushed-taken
CLUSTER_CASE(races_push_arrives_before, 2, 32, push<Push::arrives_before>) // races pushed-taken

// ---- what makes an mbarrier known to the other block

enum class Init { relaxed_behind_its_fence, relaxed_behind_a_fence, fence_of_another_thread, released, relaxed };
template <Init how> __device__ __forceinline__ void init(int*) {
  __shared__ alignas(8) Barrier full;
  const int t = threadIdx.x;
  const unsigned peer = rank_in_cluster() ^ 1;
  if (t == 0) mbarrier_init(&full, 32); // @made
  if (t == 0 && how == Init::relaxed_behind_its_fence) fence_mbarrier_init();
  if (t == 0 && how == Init::relaxed_behind_a_fence) fence_cluster();
  __syncwarp();
  if (t == 1 && how == Init::fence_of_another_thread) fence_mbarrier_init();
  if (how == Init::released) cluster_arrive();
  else cluster_arrive_relaxed();
  cluster_wait();
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(peer_address(&full, peer)) : "memory"); // @arrives
  cluster_sync();
}
CLUSTER_CASE(ordered_init, 2, 32, init<Init::relaxed_behind_its_fence>)
CLUSTER_CASE(ordered_init_released, 2, 32, init<Init::released>)
CLUSTER_CASE(ordered_init_behind_a_fence, 2, 32, init<Init::relaxed_behind_a_fence>)
CLUSTER_CASE(races_init_fence_of_another_thread, 2, 32, init<Init::fence_of_another_thread>) // races arrives-made
CLUSTER_CASE(races_init_relaxed, 2, 32, init<Init::relaxed>) // races arrives-made

// ---- fences of what is done to shared memory alone

enum class Restricted { shared, released_only, acquired_only, global };
template <Restricted what> __device__ __forceinline__ void restricted(int* out) {
  __shared__ int s[32];
  const int t = threadIdx.x;
  const unsigned peer = rank_in_cluster() ^ 1;
  if (what == Restricted::global) input[blockIdx.x * 32 + t] = t; // @kept
  else s[t] = t; // @kept_here
  if (what != Restricted::acquired_only) asm volatile("fence.release.sync_restrict::shared::cta.cluster;" ::: "memory");
  cluster_arrive_relaxed();
  cluster_wait();
  if (what == Restricted::global) out[blockIdx.x * 32 + t] = input[(blockIdx.x ^ 1) * 32 + t]; // @looked_up
  else out[blockIdx.x * 32 + t] = load_peer(peer_address(&s[31 - t], peer)); // @looked_up_there
  cluster_sync();
}
CLUSTER_CASE(ordered_restricted, 2, 32, restricted<Restricted::shared>)
CLUSTER_CASE(races_restricted_global, 2, 32, restricted<Restricted::global>) // races kept-looked_up
CLUSTER_CASE(races_restricted_unreleased, 2, 32, restricted<Restricted::acquired_only>) // races kept_here-looked_up_there

template <bool global> __device__ __forceinline__ void restricted_acquire(int* out) { // by a flag that the peer polls
  __shared__ int s[32];
  __shared__ int raised;
  const int t = threadIdx.x;
  if (t == 0) raised = 0;
  cluster_sync();
  if (rank_in_cluster() == 0) {
    if (t == 0) {
      if (global) input[0] = 3; // @put
      else s[0] = 3; // @put_here
      fence_cluster();
      asm volatile("st.relaxed.cluster.shared::cluster.s32 [%0], 1;" ::"r"(peer_address(&raised, 1)) : "memory");
    }
  } else if (t == 0) {
    for (int seen = 0, tries = 0; !seen && tries < 1 << 20; ++tries)
      asm volatile("ld.relaxed.cluster.shared::cta.s32 %0, [%1];" : "=r"(seen) : "r"(shared_address(&raised)) : "memory");
    asm volatile("fence.acquire.sync_restrict::shared::cluster.cluster;" ::: "memory");
    if (global) out[0] = input[0]; // @got
    else out[0] = load_peer(peer_address(&s[0], 0));
  }
  cluster_sync();
}
CLUSTER_CASE(ordered_restricted_acquire, 2, 32, restricted_acquire<false>)
CLUSTER_CASE(races_restricted_acquire_of_global, 2, 32, restricted_acquire<true>) // races got-put

// ---- proxy fences of one direction: a buffer goes back to the block that fills it by a bulk copy

__device__ void release_to_async() {
  asm volatile("fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;" ::: "memory");
}
__device__ void acquire_in_async() {
  asm volatile("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;" ::: "memory");
}
enum class Back { read, written, read_unreleased, written_unreleased };
template <Back what> __device__ __forceinline__ void handed_back(int* out) {
  constexpr int words = 32;
  __shared__ alignas(16) int source[words], buffer[words];
  __shared__ alignas(8) Barrier full;
  const int t = threadIdx.x;
  source[t] = t;
  buffer[t] = 0;
  if (t == 0) {
    mbarrier_init(&full, 1);
    fence_mbarrier_init();
  }
  fence_proxy_async();
  cluster_sync();
  int sum = 0;
  const bool reads = what == Back::read || what == Back::read_unreleased;
  if (rank_in_cluster() == 1) {
    if (t == 0) mbarrier_arrive_expect(&full, words * 4);
    if (reads) sum = buffer[words - 1 - t]; // @emptied
    else buffer[words - 1 - t] = t; // @scribbled
  }
  if (what == Back::read || what == Back::written) release_to_async();
  if (what == Back::written_unreleased) cluster_arrive();
  else cluster_arrive_relaxed();
  cluster_wait();
  if (rank_in_cluster() == 0 && t == 0) {
    acquire_in_async();
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(peer_address(buffer, 1)), "r"(shared_address(source)), "n"(words * 4), "r"(peer_address(&full, 1)) : "memory"); // @filled_again
  }
  if (rank_in_cluster() == 1) {
    mbarrier_wait(&full, 0);
    out[t] = sum + buffer[t];
  }
  cluster_sync();
}
CLUSTER_CASE(ordered_handed_back_read, 2, 32, handed_back<Back::read>)
CLUSTER_CASE(ordered_handed_back_written, 2, 32, handed_back<Back::written>)
CLUSTER_CASE(races_handed_back_read_unreleased, 2, 32, handed_back<Back::read_unreleased>) // races emptied-filled_again
CLUSTER_CASE(races_handed_back_written_unreleased, 2, 32, handed_back<Back::written_unreleased>) // races filled_again-scribbled

template <bool fenced> __device__ __forceinline__ void tensor_map_fences(int* out) { // data beside a tensor map
  __shared__ int raised;
  const int t = threadIdx.x;
  if (t == 0) raised = 0;
  cluster_sync();
  if (t == 0 && rank_in_cluster() == 0) {
    input[0] = 3; // @described
    if (fenced) asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
    asm volatile("st.relaxed.cluster.shared::cluster.s32 [%0], 1;" ::"r"(peer_address(&raised, 1)) : "memory");
  } else if (t == 0) {
    for (int seen = 0, tries = 0; !seen && tries < 1 << 20; ++tries)
      asm volatile("ld.relaxed.cluster.shared::cta.s32 %0, [%1];" : "=r"(seen) : "r"(shared_address(&raised)) : "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(input) : "memory");
    out[0] = input[0]; // @copied_by
  }
  cluster_sync();
}
CLUSTER_CASE(ordered_tensor_map_fences, 2, 32, tensor_map_fences<true>)
CLUSTER_CASE(races_tensor_map_fence_of_the_reader_alone, 2, 32, tensor_map_fences<false>) // races copied_by-described

// ---- a ring from one block's shared memory into the other's, by bulk copies; stages come back by remote arrivals

enum class Relay {
  right, no_proxy_fence, wait_of_block_scope, arrival_of_block_scope, release_early
};
template <Relay wrong> __device__ __forceinline__ void relay(int* out) {
  constexpr int stages = 2, tiles = 6, words = 32;
  __shared__ alignas(16) int source[stages][words], target[stages][words];
  __shared__ alignas(8) Barrier full[stages], empty[stages];
  const int t = threadIdx.x;
  if (t == 0) {
    for (int s = 0; s < stages; ++s) {
      mbarrier_init(&full[s], 1);
      mbarrier_init(&empty[s], 1);
    }
    fence_mbarrier_init();
  }
  cluster_arrive_relaxed();
  cluster_wait();
  if (rank_in_cluster() == 0) {
    for (int k = 0; k < tiles; ++k) {
      const int s = k % stages;
      if (wrong == Relay::wait_of_block_scope) mbarrier_wait(&empty[s], (k / stages & 1) ^ 1);
      else wait_of_cluster(&empty[s], (k / stages & 1) ^ 1);
      source[s][t] = k + t; // @made_up
      if (wrong != Relay::no_proxy_fence) fence_proxy_async();
      __syncwarp();
      if (t == 0) {
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(peer_address(target[s], 1)), "r"(shared_address(source[s])), "n"(words * 4), "r"(peer_address(&full[s], 1)) : "memory"); // @passed
      }
      __syncwarp();
    }
  } else {
    int sum = 0;
    if (t == 0) for (int s = 0; s < stages; ++s) mbarrier_arrive_expect(&full[s], words * 4);
    for (int k = 0; k < tiles; ++k) {
      const int s = k % stages;
      auto release = [&] {
        __syncwarp();
        if (t != 0) return;
        if (k + stages < tiles) mbarrier_arrive_expect(&full[s], words * 4);
        const unsigned there = peer_address(&empty[s], 0);
        if (wrong == Relay::arrival_of_block_scope)
          asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
        else
          asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
      };
      mbarrier_wait(&full[s], k / stages & 1);
      if (wrong == Relay::release_early) release();
      sum += target[s][words - 1 - t]; // @used
      if (wrong != Relay::release_early) release();
    }
    out[t] = sum;
  }
  cluster_sync();
}
CLUSTER_CASE(ordered_relay, 2, 32, relay<Relay::right>)
CLUSTER_CASE(races_relay_no_proxy_fence, 2, 32, relay<Relay::no_proxy_fence>) // races made_up-passed
CLUSTER_CASE(ordered_relay_wait_of_block_scope, 2, 32, relay<Relay::wait_of_block_scope>) // what was read, or is complete, is handed back
CLUSTER_CASE(ordered_relay_arrival_of_block_scope, 2, 32, relay<Relay::arrival_of_block_scope>)
CLUSTER_CASE(races_relay_release_early, 2, 32, relay<Relay::release_early>) // races passed-used

// ---- each block loads half of a tile into both, and waits until both have used the stage

enum class Multicast { right, own_release_alone, release_of_block_scope, wait_of_block_scope, release_early };
template <Multicast wrong> __device__ __forceinline__ void multicast(int* out) {
  constexpr int stages = 2, tiles = 5, words = 32;
  __shared__ alignas(16) int tile[stages][words];
  __shared__ alignas(8) Barrier full[stages], empty[stages];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const unsigned rank = rank_in_cluster();
  if (threadIdx.x == 0) {
    for (int s = 0; s < stages; ++s) {
      mbarrier_init(&full[s], 1);
      mbarrier_init(&empty[s], wrong == Multicast::own_release_alone ? 1 : 2);
    }
    fence_mbarrier_init();
  }
  cluster_sync();
  if (threadIdx.x == 0) {
    for (int k = 0; k < tiles; ++k) {
      const int s = k % stages;
      if (wrong == Multicast::wait_of_block_scope) mbarrier_wait(&empty[s], (k / stages & 1) ^ 1);
      else wait_of_cluster(&empty[s], (k / stages & 1) ^ 1);
      mbarrier_arrive_expect(&full[s], words * 4);
      const int half = rank * words / 2;
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(shared_address(tile[s] + half)), "l"(__cvta_generic_to_global(input + k * words + half)), "n"(words * 2), "r"(shared_address(&full[s])), "h"(short(3)) : "memory"); // @cast
    }
  } else if (warp == 1) {
    int sum = 0;
    for (int k = 0; k < tiles; ++k) {
      const int s = k % stages;
      auto release = [&] {
        __syncwarp();
        const unsigned there = peer_address(&empty[s], lane & 1);
        if (lane > 1 || (wrong == Multicast::own_release_alone && lane != rank)) return;
        if (wrong == Multicast::release_of_block_scope)
          asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
        else
          asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
      };
      mbarrier_wait(&full[s], k / stages & 1);
      if (wrong == Multicast::release_early) release();
      sum += tile[s][words - 1 - lane]; // @caught
      if (wrong != Multicast::release_early) release();
    }
    out[rank * 32 + lane] = sum;
  }
  __syncwarp();
  cluster_sync();
}
CLUSTER_CASE(ordered_multicast, 2, 64, multicast<Multicast::right>)
CLUSTER_CASE(races_multicast_own_release_alone, 2, 64, multicast<Multicast::own_release_alone>) // races cast-cast, cast-caught
CLUSTER_CASE(ordered_multicast_release_of_block_scope, 2, 64, multicast<Multicast::release_of_block_scope>)
CLUSTER_CASE(ordered_multicast_wait_of_block_scope, 2, 64, multicast<Multicast::wait_of_block_scope>)
CLUSTER_CASE(races_multicast_release_early, 2, 64, multicast<Multicast::release_early>) // races cast-caught

// ---- flags in the other block

enum class Flag { right, stored_for_the_block, loaded_for_the_block, relaxed_load, relaxed_load_and_fence, weak };
template <Flag how> __device__ __forceinline__ void flag(int* out) {
  __shared__ int s[32], ready;
  const int t = threadIdx.x;
  if (t == 0) ready = 0;
  cluster_sync();
  if (rank_in_cluster() == 0) {
    s[t] = t; // @set
    __syncwarp();
    const unsigned there = peer_address(&ready, 1);
    if (t == 0) {
      if (how == Flag::stored_for_the_block) asm volatile("st.release.cta.shared::cluster.s32 [%0], 1;" ::"r"(there) : "memory"); // @raise
      else if (how == Flag::weak) store_peer(there, 1); // @raise_weak
      else asm volatile("st.release.cluster.shared::cluster.s32 [%0], 1;" ::"r"(there) : "memory");
    }
  } else {
    int seen = 0;
    const unsigned here = shared_address(&ready);
    if (t == 0) {
      while (!seen) {
        if (how == Flag::loaded_for_the_block) asm volatile("ld.acquire.cta.shared::cta.s32 %0, [%1];" : "=r"(seen) : "r"(here) : "memory"); // @poll
        else if (how == Flag::relaxed_load || how == Flag::relaxed_load_and_fence) asm volatile("ld.relaxed.cluster.shared::cta.s32 %0, [%1];" : "=r"(seen) : "r"(here) : "memory");
        else asm volatile("ld.acquire.cluster.shared::cta.s32 %0, [%1];" : "=r"(seen) : "r"(here) : "memory"); // @poll_right
      }
      if (how == Flag::relaxed_load_and_fence) fence_cluster();
    }
    __syncwarp();
    out[t] = load_peer(peer_address(&s[31 - t], 0)); // @look
  }
  cluster_sync();
}
CLUSTER_CASE(ordered_flag, 2, 32, flag<Flag::right>)
CLUSTER_CASE(ordered_flag_relaxed_load_and_fence, 2, 32, flag<Flag::relaxed_load_and_fence>)
CLUSTER_CASE(races_flag_stored_for_the_block, 2, 32, flag<Flag::stored_for_the_block>) // races look-set, poll_right-raise
CLUSTER_CASE(races_flag_loaded_for_the_block, 2, 32, flag<Flag::loaded_for_the_block>) // races look-set, clusters.cu:0-poll
CLUSTER_CASE(races_flag_relaxed_load, 2, 32, flag<Flag::relaxed_load>) // races look-set
CLUSTER_CASE(races_flag_weak, 2, 32, flag<Flag::weak>) // races look-set, poll_right-raise_weak

// ---- memory of a block that need not exist: who uses it goes first, so that the run is kind

enum class Life {
  right, relaxed, by_mbarrier, no_barrier_before, no_barrier_behind, barrier_in_front, arrives_only, another_mbarrier,
  writes_at_once
};
template <Life how> __device__ __forceinline__ void life(int* out) {
  __shared__ int s[32];
  __shared__ alignas(8) Barrier read;
  const int t = threadIdx.x;
  constexpr unsigned user = how == Life::writes_at_once || how == Life::barrier_in_front ? 0 : 1, owner = user ^ 1;
  const unsigned rank = rank_in_cluster();
  if (how == Life::by_mbarrier || how == Life::another_mbarrier) {
    if (t == 0) mbarrier_init(&read, 32);
    if (t == 0) fence_mbarrier_init();
  }
  if (rank == owner && how != Life::no_barrier_before && how != Life::writes_at_once) s[t] = t;
  if (how != Life::no_barrier_before && how != Life::writes_at_once) cluster_sync();
  if (rank == user) {
    if (how == Life::barrier_in_front) cluster_sync();
    if (how == Life::no_barrier_before || how == Life::writes_at_once) store_peer(peer_address(&s[t], owner), t);
    else out[t] = load_peer(peer_address(&s[31 - t], owner));
    if (how == Life::by_mbarrier) // of whatever scope
      asm volatile("mbarrier.arrive.release.cta.shared::cluster.b64 _, [%0];" ::"r"(peer_address(&read, owner)) : "memory");
    if (how == Life::another_mbarrier)
      asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(shared_address(&read)) : "memory");
  } else {
    if (how == Life::barrier_in_front) cluster_sync();
    if (how == Life::by_mbarrier) mbarrier_wait(&read, 0);
    for (int i = 0; i < 100; ++i) __nanosleep(1000); // on a GPU, too, the other is soon done
  }
  if (how == Life::right || how == Life::no_barrier_before) cluster_sync();
  if (how == Life::relaxed) {
    cluster_arrive_relaxed();
    cluster_wait();
  }
  if (how == Life::arrives_only && rank == owner) cluster_arrive_relaxed();
}
CLUSTER_CASE(ordered_life, 2, 32, life<Life::right>)
CLUSTER_CASE(ordered_life_relaxed, 2, 32, life<Life::relaxed>)
CLUSTER_CASE(ordered_life_by_mbarrier, 2, 32, life<Life::by_mbarrier>)
CLUSTER_CASE(errs_life_no_barrier_before, 2, 32, life<Life::no_barrier_before>)
CLUSTER_CASE(errs_life_no_barrier_behind, 2, 32, life<Life::no_barrier_behind>)
CLUSTER_CASE(errs_life_barrier_in_front, 2, 32, life<Life::barrier_in_front>)
CLUSTER_CASE(errs_life_arrives_only, 2, 32, life<Life::arrives_only>)
CLUSTER_CASE(errs_life_another_mbarrier, 2, 32, life<Life::another_mbarrier>)
CLUSTER_CASE(errs_life_writes_at_once, 2, 32, life<Life::writes_at_once>)

int main(int, char** arguments) { run_cases(clear, arguments[1]); }
