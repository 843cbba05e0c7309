// Algorithms that hand memory from block to block with loads, stores, atomics and fences of PTX: queue locks, sequence locks,
// rings, deques, look-back, barriers of bits, sums. In cases named races_* one ordering, scope or step is weakened, left out or
// misplaced, in those named ordered_* none. corners.py reads the names, and which lines must race.
#include "cases.h"

__device__ int next_of[16], must_wait[16], tail, flag, top, bottom, acks, sequence;
__device__ alignas(16) int data[1024];
__device__ alignas(16) unsigned long long words[64];
__global__ void clear() {
  tail = flag = top = bottom = acks = sequence = 0;
  for (int i = 0; i < 16; ++i) next_of[i] = must_wait[i] = 0;
  for (int& value : data) value = 0;
  for (auto& word : words) word = 0;
}

#define LOAD(name, how)                                                                       \
  __device__ int name(const int* p) {                                                         \
    int v;                                                                                    \
    asm volatile("ld." how ".global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");            \
    return v;                                                                                 \
  }
#define STORE(name, how) \
  __device__ void name(int* p, int v) { asm volatile("st." how ".global.s32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
#define EXCHANGE(name, how)                                                                                \
  __device__ int name(int* p, int v) {                                                                     \
    int old;                                                                                               \
    asm volatile("atom." how ".global.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");    \
    return old;                                                                                            \
  }
#define SWAP(name, how)                                                                                                     \
  __device__ int name(int* p, int seen, int v) {                                                                            \
    int old;                                                                                                                \
    asm volatile("atom." how ".global.cas.b32 %0, [%1], %2, %3;" : "=r"(old) : "l"(p), "r"(seen), "r"(v) : "memory");       \
    return old;                                                                                                             \
  }
#define REDUCE(name, how) \
  __device__ void name(int* p, int v) { asm volatile("red." how ".s32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
#define FENCE(name, how) \
  __device__ void name() { asm volatile("fence." how ";" ::: "memory"); }
LOAD(load_relaxed, "relaxed.gpu")
LOAD(load_acquire, "acquire.gpu")
LOAD(load_acquire_block, "acquire.cta")
LOAD(load_acquire_cluster, "acquire.cluster")
LOAD(load_acquire_system, "acquire.sys")
STORE(store_relaxed, "relaxed.gpu")
STORE(store_release, "release.gpu")
STORE(store_release_block, "release.cta")
STORE(store_release_system, "release.sys")
EXCHANGE(exchange_relaxed, "relaxed.gpu")
EXCHANGE(exchange_acquire, "acquire.gpu")
EXCHANGE(exchange_release, "release.gpu")
EXCHANGE(exchange_acq_rel, "acq_rel.gpu")
EXCHANGE(exchange_acq_rel_block, "acq_rel.cta")
SWAP(swap_relaxed, "relaxed.gpu")
SWAP(swap_release, "release.gpu")
REDUCE(add_release, "release.gpu.global.add")
REDUCE(add_relaxed, "relaxed.gpu.global.add")
REDUCE(add_release_block, "release.cta.global.add")
FENCE(fence_gpu, "acq_rel.gpu")
FENCE(fence_cluster, "acq_rel.cluster")
FENCE(fence_block, "acq_rel.cta")
FENCE(fence_system, "acq_rel.sys")
FENCE(fence_sc, "sc.gpu")
FENCE(fence_alias, "proxy.alias")
FENCE(fence_async, "proxy.async")

// So that those who wait for locks meet: whoever is the first inside waits until all have queued up. It orders nothing.
__device__ void queued_up() { add_relaxed(&acks, 1); }
__device__ void all_queue_up() {
  while (load_relaxed(&acks) < gridDim.x) {}
}

// ---- a queue lock of nodes (Mellor-Crummey and Scott), one thread a block, twice each

enum class Mcs {
  right, exchange_relaxed, exchange_release, exchange_acquire, exchange_of_block, link_relaxed, look_relaxed,
  spin_relaxed, pass_relaxed, give_up_relaxed
};
template <Mcs wrong> __device__ __forceinline__ void mcs(int* out) {
  if (threadIdx.x) return;
  const int me = blockIdx.x + 1;
  for (int round = 0; round < 2; ++round) {
    while (round == 1 && load_relaxed(&tail)) {} // @idle
    next_of[me] = 0; // @next
    must_wait[me] = 1; // @wait
    const int before = wrong == Mcs::exchange_relaxed   ? exchange_relaxed(&tail, me)
                       : wrong == Mcs::exchange_release ? exchange_release(&tail, me)
                       : wrong == Mcs::exchange_acquire ? exchange_acquire(&tail, me)
                       : wrong == Mcs::exchange_of_block ? exchange_acq_rel_block(&tail, me) // @exchange
                                                        : exchange_acq_rel(&tail, me);
    queued_up();
    if (before) {
      if (wrong == Mcs::link_relaxed) store_relaxed(&next_of[before], me);
      else store_release(&next_of[before], me); // @link
      while (wrong == Mcs::spin_relaxed ? load_relaxed(&must_wait[me]) : load_acquire(&must_wait[me])) {}
    }
    all_queue_up();
    data[0] += 1; // @critical
    int after;
    auto look = [&] { return after = wrong == Mcs::look_relaxed ? load_relaxed(&next_of[me]) : load_acquire(&next_of[me]); };
    if (!look()) {
      const int last = wrong == Mcs::give_up_relaxed ? swap_relaxed(&tail, me, 0) : swap_release(&tail, me, 0); // @give_up
      if (last == me) continue;
      while (!look()) {}
    }
    if (wrong == Mcs::pass_relaxed) store_relaxed(&must_wait[after], 0);
    else store_release(&must_wait[after], 0); // @pass
  }
}
CASE(ordered_mcs, 4, 32, mcs<Mcs::right>)
CASE(races_mcs_exchange_relaxed, 4, 32, mcs<Mcs::exchange_relaxed>) // races critical-critical, link-next
CASE(races_mcs_exchange_release, 4, 32, mcs<Mcs::exchange_release>) // races critical-critical, link-next
CASE(races_mcs_exchange_acquire, 4, 32, mcs<Mcs::exchange_acquire>) // races link-next
CASE(races_mcs_exchange_of_block, 4, 32, mcs<Mcs::exchange_of_block>) // races critical-critical, exchange-exchange, exchange-give_up, exchange-idle, link-next
CASE(races_mcs_link_relaxed, 4, 32, mcs<Mcs::link_relaxed>) // races pass-wait
CASE(races_mcs_look_relaxed, 4, 32, mcs<Mcs::look_relaxed>) // races pass-wait
CASE(races_mcs_spin_relaxed, 4, 32, mcs<Mcs::spin_relaxed>) // races critical-critical
CASE(races_mcs_pass_relaxed, 4, 32, mcs<Mcs::pass_relaxed>) // races critical-critical
CASE(races_mcs_give_up_relaxed, 4, 32, mcs<Mcs::give_up_relaxed>) // races critical-critical

// ---- a queue lock in which each waits at the node before it (Craig, Landin, Hagersten), and takes that over

enum class Clh { right, exchange_relaxed, spin_relaxed, leave_relaxed, leave_plain };
template <Clh wrong> __device__ __forceinline__ void clh(int* out) {
  if (threadIdx.x) return;
  int mine = blockIdx.x + 1; // node 0 is free
  for (int round = 0; round < 2; ++round) {
    must_wait[mine] = 1; // @enter
    const int before = wrong == Clh::exchange_relaxed ? exchange_relaxed(&tail, mine) : exchange_acq_rel(&tail, mine);
    queued_up();
    while (wrong == Clh::spin_relaxed ? load_relaxed(&must_wait[before]) : load_acquire(&must_wait[before])) {} // @spin
    all_queue_up();
    data[0] += 1; // @inside
    if (wrong == Clh::leave_relaxed) store_relaxed(&must_wait[mine], 0);
    else if (wrong == Clh::leave_plain) must_wait[mine] = 0; // @leave
    else store_release(&must_wait[mine], 0);
    mine = before;
  }
}
CASE(ordered_clh, 4, 32, clh<Clh::right>)
CASE(races_clh_exchange_relaxed, 4, 32, clh<Clh::exchange_relaxed>) // races enter-spin
CASE(races_clh_spin_relaxed, 4, 32, clh<Clh::spin_relaxed>) // races inside-inside
CASE(races_clh_leave_relaxed, 4, 32, clh<Clh::leave_relaxed>) // races inside-inside
CASE(races_clh_leave_plain, 4, 32, clh<Clh::leave_plain>) // races enter-leave, inside-inside, leave-spin

// ---- a sequence lock: one writes, the others read again until nobody wrote meanwhile

enum class Sequence { right, plain_write, plain_read, even_plain };
template <Sequence wrong> __device__ __forceinline__ void sequence_lock(int* out) {
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    for (int i = 1; i <= 3; ++i) {
      while (i == 2 && load_relaxed(&acks) < gridDim.x - 1) {} // so that all have begun to read; it orders nothing
      store_relaxed(&sequence, 2 * i - 1);
      fence_gpu();
      if (wrong == Sequence::plain_write) data[0] = i; // @write
      else store_relaxed(&data[0], i); // @write_strong
      store_relaxed(&data[1], -i);
      if (wrong == Sequence::even_plain) sequence = 2 * i; // @even
      else store_release(&sequence, 2 * i);
    }
  } else {
    int first, second, a, b;
    for (int turn = 0; turn < 2; ++turn) {
      do {
      first = load_acquire(&sequence); // @begin
      add_relaxed(&acks, 1);
      a = wrong == Sequence::plain_read ? data[0] : load_relaxed(&data[0]); // @read
      b = load_relaxed(&data[1]);
      fence_gpu();
      second = load_relaxed(&sequence); // @end
      } while (first != second || first % 2);
      out[blockIdx.x] += a + b;
    }
  }
}
CASE(ordered_sequence_lock, 3, 32, sequence_lock<Sequence::right>)
CASE(races_sequence_lock_plain_write, 3, 32, sequence_lock<Sequence::plain_write>) // races read-write
CASE(races_sequence_lock_plain_read, 3, 32, sequence_lock<Sequence::plain_read>) // races read-write_strong
CASE(races_sequence_lock_even_plain, 3, 32, sequence_lock<Sequence::even_plain>) // races begin-even, end-even

// ---- a ring between blocks: block 0 fills slots and counts epochs, the others read and acknowledge

enum class Ring {
  right, of_system, fences, epoch_relaxed, epoch_of_block, poll_relaxed, poll_of_block, poll_of_cluster, fence_before_poll,
  fence_of_block, fence_of_proxy, no_barrier_before_epoch, no_barrier_behind_poll, ack_relaxed, ack_of_block, ack_early,
  no_barrier_before_ack, an_epoch_early, acks_polled_relaxed
};
template <Ring how> __device__ __forceinline__ void ring(int* out) {
  constexpr int slots = 2, epochs = 5;
  const int t = threadIdx.x, readers = gridDim.x - 1;
  constexpr bool fences = how == Ring::fences || how == Ring::fence_of_block || how == Ring::fence_of_proxy;
  constexpr bool early = how == Ring::an_epoch_early;
  auto fence = [&] {
    if (how == Ring::fences) fence_gpu();
    if (how == Ring::fence_of_block) fence_block();
    if (how == Ring::fence_of_proxy) fence_alias(), fence_async();
  };
  int sum = 0;
  for (int e = 0; e < epochs; ++e) {
    int* slot = data + 64 * (e % slots);
    if (blockIdx.x == 0) {
      const int free_at = readers * (e - slots + (early ? 0 : 1));
      if (t == 0) {
        while ((how == Ring::acks_polled_relaxed || fences ? load_relaxed(&acks) : load_acquire(&acks)) < free_at) {} // @acks
        fence();
      }
      __syncthreads();
      slot[t] = e + t; // @fill
      if (how != Ring::no_barrier_before_epoch) __syncthreads();
      if (t == 0) {
        fence();
        if (fences || how == Ring::epoch_relaxed) store_relaxed(&flag, e + 1);
        else if (how == Ring::epoch_of_block) store_release_block(&flag, e + 1); // @epoch
        else if (how == Ring::of_system) store_release_system(&flag, e + 1);
        else store_release(&flag, e + 1); // @epoch_right
      }
    } else {
      if (t == 0) {
        if (how == Ring::fence_before_poll) fence_gpu();
        for (;;) {
          int seen;
          if (fences || how == Ring::poll_relaxed || how == Ring::fence_before_poll) seen = load_relaxed(&flag);
          else if (how == Ring::poll_of_block) seen = load_acquire_block(&flag); // @poll
          else if (how == Ring::poll_of_cluster) seen = load_acquire_cluster(&flag); // @poll_cluster
          else if (how == Ring::of_system) seen = load_acquire_system(&flag);
          else seen = load_acquire(&flag); // @poll_right
          if (seen > e) break;
        }
        fence();
      }
      if (how != Ring::no_barrier_behind_poll) __syncthreads();
      auto acknowledge = [&] {
        if (how != Ring::no_barrier_before_ack) __syncthreads();
        if (t) return;
        while (load_relaxed(&flag) < min(early ? e + 3 : e + 2, epochs)) {} // @next_is_there
        fence();
        if (fences || how == Ring::ack_relaxed) add_relaxed(&acks, 1);
        else if (how == Ring::ack_of_block) add_release_block(&acks, 1); // @ack
        else add_release(&acks, 1); // @ack_right
      };
      if (how == Ring::ack_early) acknowledge();
      sum += slot[63 - t]; // @empty
      if (how != Ring::ack_early) acknowledge();
    }
  }
  out[blockIdx.x * 64 + t] = sum;
}
CASE(ordered_ring, 3, 64, ring<Ring::right>)
CASE(ordered_ring_of_system, 3, 64, ring<Ring::of_system>)
CASE(ordered_ring_fences, 3, 64, ring<Ring::fences>)
CASE(races_ring_epoch_relaxed, 3, 64, ring<Ring::epoch_relaxed>) // races empty-fill
CASE(races_ring_epoch_of_block, 3, 64, ring<Ring::epoch_of_block>) // races empty-fill, epoch-next_is_there, epoch-poll_right
CASE(races_ring_poll_relaxed, 3, 64, ring<Ring::poll_relaxed>) // races empty-fill
CASE(races_ring_poll_of_block, 3, 64, ring<Ring::poll_of_block>) // races empty-fill, epoch_right-poll
CASE(races_ring_poll_of_cluster, 3, 64, ring<Ring::poll_of_cluster>) // races empty-fill, epoch_right-poll_cluster
CASE(races_ring_fence_before_poll, 3, 64, ring<Ring::fence_before_poll>) // races empty-fill
CASE(races_ring_fence_of_block, 3, 64, ring<Ring::fence_of_block>) // races empty-fill
CASE(races_ring_fence_of_proxy, 3, 64, ring<Ring::fence_of_proxy>) // races empty-fill
CASE(races_ring_no_barrier_before_epoch, 3, 64, ring<Ring::no_barrier_before_epoch>) // races empty-fill
CASE(races_ring_no_barrier_behind_poll, 3, 64, ring<Ring::no_barrier_behind_poll>) // races empty-fill
CASE(races_ring_ack_relaxed, 3, 64, ring<Ring::ack_relaxed>) // races empty-fill
CASE(races_ring_ack_of_block, 3, 64, ring<Ring::ack_of_block>) // races ack-ack, ack-acks, empty-fill
CASE(races_ring_ack_early, 3, 64, ring<Ring::ack_early>) // races empty-fill
CASE(races_ring_no_barrier_before_ack, 3, 64, ring<Ring::no_barrier_before_ack>) // races empty-fill
CASE(races_ring_an_epoch_early, 3, 64, ring<Ring::an_epoch_early>) // races empty-fill
CASE(races_ring_acks_polled_relaxed, 3, 64, ring<Ring::acks_polled_relaxed>) // races empty-fill

// ---- a barrier of the grid in which each block sets its bit

enum class Bits { right, bit_relaxed, poll_relaxed, mask_lacks_one };
template <Bits wrong> __device__ __forceinline__ void bits(int* out) {
  const int t = threadIdx.x, all = (1 << gridDim.x) - 1;
  data[blockIdx.x * 32 + t] = t; // @mine
  __syncthreads();
  if (t == 0) {
    const int bit = 1 << blockIdx.x;
    if (wrong == Bits::bit_relaxed) asm volatile("red.relaxed.gpu.global.or.b32 [%0], %1;" ::"l"(&flag), "r"(bit) : "memory");
    else asm volatile("red.release.gpu.global.or.b32 [%0], %1;" ::"l"(&flag), "r"(bit) : "memory");
    const int awaited = wrong == Bits::mask_lacks_one ? all - 8 : all;
    while (((wrong == Bits::poll_relaxed ? load_relaxed(&flag) : load_acquire(&flag)) & awaited) != awaited) {}
  }
  __syncthreads();
  for (int b = 0; b < gridDim.x; ++b) out[blockIdx.x * 32 + t] += data[b * 32 + 31 - t]; // @all
}
CASE(ordered_bits, 4, 32, bits<Bits::right>)
CASE(races_bits_relaxed, 4, 32, bits<Bits::bit_relaxed>) // races all-mine
CASE(races_bits_poll_relaxed, 4, 32, bits<Bits::poll_relaxed>) // races all-mine
CASE(races_bits_mask_lacks_one, 4, 32, bits<Bits::mask_lacks_one>) // races all-mine

// ---- a deque from which others steal (Chase and Lev; Lê and others for weak memory)

enum class Deque { right, push_unfenced, look_relaxed, payload_late };
template <Deque wrong> __device__ __forceinline__ void deque(int* out) {
  constexpr int tasks = 8;
  int* slots = data; // task numbers, plus one
  int* payload = data + 64;
  if (threadIdx.x) return;
  int sum = 0;
  if (blockIdx.x == 0) {
    for (int i = 0; i < tasks; ++i) {
      if (wrong != Deque::payload_late) payload[i] = 10 * i; // @payload
      const int b = load_relaxed(&bottom);
      store_relaxed(&slots[b], i + 1); // @slot
      if (wrong != Deque::push_unfenced) fence_gpu();
      store_relaxed(&bottom, b + 1);
    }
    for (int i = 0; i < tasks; ++i) {
      if (wrong == Deque::payload_late) payload[i] = 10 * i; // @payload_late
    }
    while (load_acquire(&top) < 2) {} // others have stolen
    for (;;) {
      const int b = load_relaxed(&bottom) - 1;
      store_relaxed(&bottom, b);
      fence_sc();
      const int t = load_relaxed(&top);
      if (t > b) {
        store_relaxed(&bottom, b + 1);
        break;
      }
      const int task = load_relaxed(&slots[b]);
      const bool mine = t < b || swap_relaxed(&top, t, t + 1) == t;
      if (t == b) store_relaxed(&bottom, b + 1);
      if (mine) sum += payload[task - 1];
      if (t == b) break;
    }
    store_release(&flag, 1);
  } else {
    for (int tries = 0; tries < 3;) {
      const int t = load_acquire(&top);
      fence_sc();
      const int b = wrong == Deque::look_relaxed ? load_relaxed(&bottom) : load_acquire(&bottom);
      if (t >= b) {
        if (load_acquire(&flag)) break;
        continue;
      }
      const int task = load_relaxed(&slots[t]); // @slot_read
      if (swap_relaxed(&top, t, t + 1) != t) continue;
      sum += payload[task - 1]; // @stolen
      ++tries;
    }
  }
  out[blockIdx.x] = sum;
}
CASE(ordered_deque, 3, 32, deque<Deque::right>)
CASE(races_deque_push_unfenced, 3, 32, deque<Deque::push_unfenced>) // races payload-stolen, slot-slot_read
CASE(races_deque_look_relaxed, 3, 32, deque<Deque::look_relaxed>) // races payload-stolen
CASE(races_deque_payload_late, 3, 32, deque<Deque::payload_late>) // races payload_late-stolen

// ---- look-back: each block's state is read by those behind it

enum class Look { one_word, one_wide_word, two_words_at_once, two_plain_words, value_apart, value_apart_unreleased, value_apart_unacquired };
template <Look how> __device__ __forceinline__ void look_back(int* out) {
  __shared__ int before;
  const int t = threadIdx.x, me = blockIdx.x;
  using Word = unsigned long long;
  auto publish = [&](Word state, Word sum) {
    if (how == Look::one_word) asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(&words[me]), "l"(state << 32 | sum) : "memory");
    else if (how == Look::one_wide_word) asm volatile("{ .reg .b128 q; mov.b128 q, {%0, %1}; st.relaxed.gpu.global.b128 [%2], q; }" ::"l"(state), "l"(sum), "l"(&words[2 * me]) : "memory");
    else if (how == Look::two_words_at_once) asm volatile("st.relaxed.gpu.global.v2.u64 [%2], {%0, %1};" ::"l"(state), "l"(sum), "l"(&words[2 * me]) : "memory");
    else if (how == Look::two_plain_words) asm volatile("st.global.v2.u64 [%2], {%0, %1};" ::"l"(state), "l"(sum), "l"(&words[2 * me]) : "memory"); // @state
    else {
      words[2 * me + 32 * (state == 2) + 1] = sum; // @value
      if (how == Look::value_apart_unreleased) store_relaxed(reinterpret_cast<int*>(&words[2 * me]), state);
      else store_release(reinterpret_cast<int*>(&words[2 * me]), state);
    }
  };
  auto look = [&](int at, Word& state, Word& sum) {
    if (how == Look::one_word) {
      asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(sum) : "l"(&words[at]) : "memory");
      state = sum >> 32, sum &= 0xffffffff;
    } else if (how == Look::one_wide_word) {
      asm volatile("{ .reg .b128 q; ld.relaxed.gpu.global.b128 q, [%2]; mov.b128 {%0, %1}, q; }" : "=l"(state), "=l"(sum) : "l"(&words[2 * at]) : "memory");
    } else if (how == Look::two_words_at_once) {
      asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(state), "=l"(sum) : "l"(&words[2 * at]) : "memory");
    } else if (how == Look::two_plain_words) {
      asm volatile("ld.global.v2.u64 {%0, %1}, [%2];" : "=l"(state), "=l"(sum) : "l"(&words[2 * at]) : "memory"); // @look
    } else {
      const int* p = reinterpret_cast<int*>(&words[2 * at]);
      state = how == Look::value_apart_unacquired ? load_relaxed(p) : load_acquire(p);
      if (state) sum = words[2 * at + 32 * (state == 2) + 1]; // @value_read
    }
  };
  if (t == 0) {
    Word sum = 0;
    if (me) publish(1, 10 + me);
    for (int at = me - 1; at >= 0; --at) {
      Word state, partial;
      do look(at, state, partial); while (state == 0);
      sum += partial;
      if (state == 2) break;
    }
    publish(2, sum + 10 + me);
    before = sum;
  }
  __syncthreads();
  out[me * 32 + t] = before + t;
}
CASE(ordered_look_back_one_word, 6, 32, look_back<Look::one_word>)
CASE(ordered_look_back_one_wide_word, 6, 32, look_back<Look::one_wide_word>)
CASE(ordered_look_back_two_words_at_once, 6, 32, look_back<Look::two_words_at_once>)
CASE(ordered_look_back_value_apart, 6, 32, look_back<Look::value_apart>)
CASE(races_look_back_two_plain_words, 6, 32, look_back<Look::two_plain_words>) // races look-state
CASE(races_look_back_value_apart_unreleased, 6, 32, look_back<Look::value_apart_unreleased>) // races value-value_read
CASE(races_look_back_value_apart_unacquired, 6, 32, look_back<Look::value_apart_unacquired>) // races value-value_read

// ---- a reduction over lanes, warps and blocks: the last block adds up

enum class Levels {
  right, no_barrier_of_warps, no_barrier_of_rounds, ticket_release, ticket_acquire, ticket_of_block, no_barrier_behind_ticket,
  every_warp_takes_a_ticket
};
template <Levels wrong> __device__ __forceinline__ void levels(int* out) {
  __shared__ int partial[2], last;
  const int t = threadIdx.x, warp = t / 32, lane = t % 32;
  auto over_block = [&](int v) {
    v = __reduce_add_sync(~0u, v);
    if (lane == 0) partial[warp] = v; // @partial
    if (wrong != Levels::no_barrier_of_warps) __syncthreads();
    v = partial[0] + partial[1]; // @partials
    if (wrong != Levels::no_barrier_of_rounds) __syncthreads();
    return v;
  };
  if (t == 0) last = 0;
  const int sum = over_block(t) + over_block(blockIdx.x);
  const bool takes = wrong == Levels::every_warp_takes_a_ticket ? lane == 0 : t == 0;
  if (t == 32) data[blockIdx.x] = sum; // @block_sum
  if (wrong != Levels::every_warp_takes_a_ticket) __syncthreads();
  if (takes) {
    int old;
    if (wrong == Levels::ticket_release) asm volatile("atom.release.gpu.global.add.s32 %0, [%1], 1;" : "=r"(old) : "l"(&acks) : "memory");
    else if (wrong == Levels::ticket_acquire) asm volatile("atom.acquire.gpu.global.add.s32 %0, [%1], 1;" : "=r"(old) : "l"(&acks) : "memory");
    else if (wrong == Levels::ticket_of_block) asm volatile("atom.acq_rel.cta.global.add.s32 %0, [%1], 1;" : "=r"(old) : "l"(&acks) : "memory"); // @ticket
    else asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;" : "=r"(old) : "l"(&acks) : "memory");
    if (t == 0) last = old >= int(gridDim.x) - 1; // @last
  }
  if (wrong != Levels::no_barrier_behind_ticket) __syncthreads();
  if (!last) return; // @is_last
  if (t < gridDim.x) out[t] = data[t]; // @sums
}
CASE(ordered_levels, 4, 64, levels<Levels::right>)
CASE(races_levels_no_barrier_of_warps, 4, 64, levels<Levels::no_barrier_of_warps>) // races partial-partials
CASE(races_levels_no_barrier_of_rounds, 4, 64, levels<Levels::no_barrier_of_rounds>) // races partial-partials
CASE(races_levels_ticket_release, 4, 64, levels<Levels::ticket_release>) // races block_sum-sums
CASE(races_levels_ticket_acquire, 4, 64, levels<Levels::ticket_acquire>) // races block_sum-sums
CASE(races_levels_ticket_of_block, 4, 64, levels<Levels::ticket_of_block>) // races block_sum-sums, ticket-ticket
CASE(races_levels_no_barrier_behind_ticket, 4, 64, levels<Levels::no_barrier_behind_ticket>) // races is_last-last
CASE(races_levels_every_warp_takes_a_ticket, 4, 64, levels<Levels::every_warp_takes_a_ticket>) // races block_sum-sums, sums-sums

int main(int, char** arguments) { run_cases(clear, arguments[1]); }
