// Vectors that carry data beside a flag, which their reader polls (NCCL's LL and LL128 protocols), and what looks like
// them. A reader that waits for one flag takes the data of that very read: the slot's next write must come behind it, and
// in cases named races_* nothing sees to that. In those named ordered_* it does, or what is read need not be of one write.
// corners.py reads the names, and which lines must race.
#include "cases.h"

constexpr int lanes = 32, steps = 4;
__device__ alignas(128) int4 slots[256];
__device__ int heads[256], started, claimed, taken;
__device__ unsigned long long words[64];
__global__ void clear() {
  for (int4& slot : slots) slot = {0, 0, 0, 0};
  for (int& head : heads) head = 0;
  for (unsigned long long& word : words) word = 0;
  started = claimed = taken = 0;
}

__device__ void store(int* p, int v) { asm volatile("st.volatile.global.s32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
__device__ int load(const int* p) {
  int v;
  asm volatile("ld.volatile.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ void store(int2* p, int2 v) {
  asm volatile("st.volatile.global.v2.s32 [%0], {%1, %2};" ::"l"(p), "r"(v.x), "r"(v.y) : "memory");
}
__device__ int2 load(const int2* p) {
  int2 v;
  asm volatile("ld.volatile.global.v2.s32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p) : "memory");
  return v;
}
__device__ void store(int4* p, int4 v) {
  asm volatile("st.volatile.global.v4.s32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
__device__ int4 load(const int4* p) {
  int4 v;
  asm volatile("ld.volatile.global.v4.s32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
  return v;
}
__device__ void store_relaxed(int4* p, int4 v) {
  asm volatile("st.relaxed.gpu.global.v4.s32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
__device__ int4 load_relaxed(const int4* p) {
  int4 v;
  asm volatile("ld.relaxed.gpu.global.v4.s32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
  return v;
}
// The second block has begun, and looks: the first one's writes are seen one by one.
__device__ void meet() {
  if (blockIdx.x == 1) {
    __syncthreads();
    if (threadIdx.x == 0) store(&started, 1);
  } else if (threadIdx.x == 0) {
    while (!load(&started)) {}
  }
  __syncthreads();
}

// ---- a slot a lane, which is filled again and again; block 1 tells when it has taken what was there

enum class Credit { each_lane, by_barrier, by_vote, by_atomic, time };
template <Credit credit> __device__ bool tells() {
  if (credit == Credit::by_barrier || credit == Credit::by_atomic) __syncthreads();
  if (credit == Credit::by_vote) return __all_sync(~0u, 1) && threadIdx.x == 0;
  return credit == Credit::each_lane || threadIdx.x == 0;
}
template <Credit credit> __device__ void give(int step) {
  if (credit == Credit::time) return;
  int* const head = heads + (credit == Credit::each_lane ? threadIdx.x : 0);
  if (!tells<credit>()) return;
  if (credit == Credit::by_atomic) atomicAdd(head, 1);
  else store(head, step + 1);
}
template <Credit credit> __device__ void await(int step) {
  if (credit == Credit::time) {
    for (int n = 0; n < 2000 && step; ++n) load(&heads[100]); // enough, mostly
    return;
  }
  const int* const head = heads + (credit == Credit::each_lane ? threadIdx.x : 0);
  while (load(head) < step) {}
}
template <Credit credit> __device__ __forceinline__ void filled_again(int* out) {
  const int t = threadIdx.x;
  int sum = 0;
  meet();
  for (int step = 0; step < steps; ++step) {
    if (blockIdx.x == 0) {
      await<credit>(step);
      store(slots + t, {step + t, step + 1, 7 * step, step + 1}); // @fill
    } else {
      int4 v;
      do v = load(slots + t); // @take
      while (v.y != step + 1 || v.w != step + 1);
      sum = 3 * sum + v.x + v.z;
      if (credit == Credit::time) out[64 * step + t] = sum;
      give<credit>(step);
    }
  }
  if (blockIdx.x == 1) out[1024 + t] = sum;
}
CASE(ordered_each_lane_tells, 2, lanes, filled_again<Credit::each_lane>)
CASE(ordered_one_tells_behind_a_barrier, 2, 2 * lanes, filled_again<Credit::by_barrier>)
CASE(ordered_one_tells_behind_a_vote, 2, lanes, filled_again<Credit::by_vote>)
CASE(races_a_time_that_is_long_enough, 2, lanes, filled_again<Credit::time>) // races fill-take
CASE(ordered_one_counts_behind_a_barrier, 2, 2 * lanes, filled_again<Credit::by_atomic>)

// ---- both blocks send and receive: neither is more than a step ahead, which is one too many where there is one slot

enum class Shape { two, four, first_look, abort, stores_between, relaxed };
template <Shape shape, int depth> __device__ __forceinline__ void exchange(int* out) {
  const int t = threadIdx.x, me = blockIdx.x;
  int sum = 0;
  for (int step = 0; step < steps; ++step) {
    int4* const mine = slots + 32 * (2 * (step % depth) + me) + t;
    int4* const theirs = slots + 32 * (2 * (step % depth) + 1 - me) + t;
    const int flag = step + 1;
    if (shape == Shape::two) {
      store((int2*)theirs, {step + t, flag}); // @fill_two
      int2 v;
      do v = load((const int2*)mine); while (v.y != flag); // @take_two
      sum = 3 * sum + v.x;
    } else if (shape == Shape::relaxed) {
      store_relaxed(theirs, {step + t, flag, 7 * step, flag}); // @fill_relaxed
      int4 v;
      do v = load_relaxed(mine); while (v.y != flag || v.w != flag); // @take_relaxed
      sum = 3 * sum + v.x + v.z;
    } else {
      store(theirs, {step + t, flag, 7 * step, flag}); // @fill_four
      int4 v;
      if (shape == Shape::first_look) {
        v = load(mine); // @take_four
        while (v.y != flag || v.w != flag) v = load(mine); // @take_four
      } else if (shape == Shape::abort) {
        int spins = 0;
        do {
          v = load(mine); // @take_four
          if (++spins == 1000) {
            if (load(&heads[9])) break;
            spins = 0;
          }
        } while (v.y != flag || v.w != flag);
      } else {
        do v = load(mine); while (v.y != flag || v.w != flag); // @take_four
      }
      sum = 3 * sum + v.x + v.z;
      if (shape == Shape::stores_between) out[1024 * (me + 1) + 64 * step + t] = sum;
    }
  }
  out[64 * me + t] = sum;
}
CASE(races_exchange_two, 2, lanes, exchange<Shape::two, 1>) // races fill_two-take_two
CASE(races_exchange_four, 2, lanes, exchange<Shape::four, 1>) // races fill_four-take_four
CASE(races_exchange_relaxed, 2, lanes, exchange<Shape::relaxed, 1>) // races fill_relaxed-take_relaxed
CASE(races_exchange_first_look, 2, lanes, exchange<Shape::first_look, 1>) // races fill_four-take_four
CASE(races_exchange_that_may_be_aborted, 2, lanes, exchange<Shape::abort, 1>) // races fill_four-take_four
CASE(races_exchange_stores_between, 2, lanes, exchange<Shape::stores_between, 1>) // races fill_four-take_four
CASE(ordered_exchange_two, 2, lanes, exchange<Shape::two, 2>)
CASE(ordered_exchange_four, 2, lanes, exchange<Shape::four, 2>)
CASE(ordered_exchange_relaxed, 2, lanes, exchange<Shape::relaxed, 2>)
CASE(ordered_exchange_first_look, 2, lanes, exchange<Shape::first_look, 2>)
CASE(ordered_exchange_that_may_be_aborted, 2, lanes, exchange<Shape::abort, 2>)

// ---- lines of 128 bytes, of which the last element of every eighth lane is the flag: the others wait by a vote, or get
// it by a shuffle

enum class Line { vote, shuffle };
template <Line how, bool credit> __device__ __forceinline__ void lines(int* out) {
  const int t = threadIdx.x;
  const bool has_flag = t % 8 == 7;
  int sum = 0;
  meet();
  for (int step = 0; step < steps; ++step) {
    const int flag = step + 1;
    if (blockIdx.x == 0) {
      await<credit ? Credit::by_vote : Credit::time>(step);
      store(slots + t, {step + t, t - step, 5 * step, has_flag ? flag : 9 * step}); // @fill_line
      continue;
    }
    int4 v;
    if (how == Line::vote) {
      bool again;
      do {
        v = load(slots + t); // @take_line
        again = has_flag && v.w != flag;
      } while (__any_sync(~0u, again));
    } else {
      int seen;
      do {
        v = load(slots + t); // @take_line
        seen = __shfl_sync(~0u, v.w, t | 7);
      } while (__any_sync(~0u, seen != flag));
    }
    sum = 3 * sum + v.x + v.y + v.z + (has_flag ? 0 : v.w);
    if (credit) give<Credit::by_vote>(step);
  }
  if (blockIdx.x == 1) out[t] = sum;
}
CASE(races_line_by_vote, 2, lanes, lines<Line::vote, false>) // races fill_line-take_line
CASE(races_line_by_shuffle, 2, lanes, lines<Line::shuffle, false>) // races fill_line-take_line
CASE(ordered_line_by_vote, 2, lanes, lines<Line::vote, true>)
CASE(ordered_line_by_shuffle, 2, lanes, lines<Line::shuffle, true>)

// ---- what need not be of one write: it is newer than what was waited for, or checked

// Polled until nothing in it is -0.0; three buffers in turn, and who reads one clears the one that is two ahead.
__device__ void lamport(int* out) {
  const int t = threadIdx.x, me = blockIdx.x, empty = int(0x80000000);
  int4* const all = slots;
  auto at = [&](int step, int block) { return all + 32 * (2 * (step % 3) + block) + t; };
  for (int buffer = 0; buffer < 3; ++buffer) store(at(buffer, me), {empty, empty, empty, empty});
  __syncthreads();
  __threadfence();
  if (t == 0) {
    atomicAdd(&started, 1);
    while (load(&started) < 2) {}
    __threadfence();
  }
  __syncthreads();
  int sum = 0;
  for (int step = 0; step < 3 * steps; ++step) {
    store(at(step, 1 - me), {step + 1, t + 1, step + t + 1, 5});
    store(at(step + 2, me), {empty, empty, empty, empty});
    int4 v;
    do v = load(at(step, me));
    while (v.x == empty || v.y == empty || v.z == empty || v.w == empty);
    sum += v.x + v.y + v.z + v.w;
  }
  out[64 * me + t] = sum;
}
CASE(ordered_lamport, 2, lanes, lamport)

// Of a generation, or a later one.
__device__ void at_least(int* out) {
  const int t = threadIdx.x;
  meet();
  if (blockIdx.x == 0) {
    for (int generation = 1; generation <= steps; ++generation) store((int2*)slots + t, {generation, 5 * generation});
  } else {
    int2 v;
    do v = load((const int2*)slots + t); while (v.x < 2);
    out[t] = v.y;
  }
}
CASE(ordered_at_least, 2, lanes, at_least)

// Whatever was written last, as a whole: both numbers are the same, or even.
template <bool parity> __device__ __forceinline__ void snapshot(int* out) {
  const int t = threadIdx.x;
  meet();
  if (blockIdx.x == 0) {
    for (int i = 1; i <= steps; ++i) {
      if (parity) store(slots + t, {2 * i - 1, 0, 0, 2 * i - 1});
      store(slots + t, {2 * i, i, -i, 2 * i});
    }
  } else {
    int4 v;
    if (parity) do v = load(slots + t); while (v.x & 1);
    else do v = load(slots + t); while (v.x != v.w);
    out[t] = v.y + v.z;
  }
}
CASE(ordered_snapshot, 2, lanes, snapshot<false>)
CASE(ordered_snapshot_of_even_number, 2, lanes, snapshot<true>)

// A sequence that is looked at again.
__device__ void sequence(int* out) {
  const int t = threadIdx.x;
  meet();
  if (blockIdx.x == 0) {
    for (int i = 1; i <= steps; ++i) store(slots + t, {i, 3 * i, -i, 0});
  } else {
    int4 v, w;
    do {
      v = load(slots + t);
      w = load(slots + t);
    } while (v.x != w.x);
    out[t] = v.y + v.z;
  }
}
CASE(ordered_sequence, 2, lanes, sequence)

// Look-back: a sum of one tile, then of all up to it; whoever finds either goes on. As elements, and in one word; by a
// bit that stays.
enum class Status { elements, word, bit };
template <Status status> __device__ __forceinline__ void look_back(int* out) {
  if (threadIdx.x) return;
  const int me = blockIdx.x, value = 3 * me + 1;
  int2* const tiles = (int2*)slots;
  volatile unsigned long long* const tile_words = words;
  int before = 0;
  if (status == Status::word) tile_words[me] = 1ull << 32 | unsigned(value);
  else store(tiles + me, {1, value});
  for (int last = me - 1; last >= 0; --last) {
    int state, sum;
    if (status == Status::word) {
      unsigned long long word;
      do word = tile_words[last]; while (word >> 32 == 0);
      state = int(word >> 32), sum = int(word);
    } else {
      int2 v;
      if (status == Status::elements) do v = load(tiles + last); while (v.x == 0);
      else do v = load(tiles + last); while ((v.x & 1) != 1);
      state = v.x, sum = v.y;
    }
    before += sum;
    if (state >= 2) break;
  }
  if (status == Status::word) tile_words[me] = 3ull << 32 | unsigned(before + value);
  else store(tiles + me, {3, before + value});
  out[me] = before + value;
}
CASE(ordered_look_back, 6, 32, look_back<Status::elements>)
CASE(ordered_look_back_in_one_word, 6, 32, look_back<Status::word>)
CASE(ordered_look_back_by_a_bit, 6, 32, look_back<Status::bit>)

// Who looks at two slots, and takes what comes first.
__device__ void either_of_two(int* out) {
  const int t = threadIdx.x;
  meet();
  if (blockIdx.x == 0) {
    store(slots + t, {1, 5, 0, 0});
    store(slots + t, {2, 6, 0, 0});
    store(slots + 64 + t, {1, 7, 0, 0});
    store(slots + t, {3, 8, 0, 0});
  } else {
    int result = -1;
    for (;;) {
      const int4 v = load(slots + t);
      if (v.x == 4) {
        result = v.y;
        break;
      }
      const int4 w = load(slots + 64 + t);
      if (w.x == 1) {
        result = w.y;
        break;
      }
    }
    out[t] = result >= 0;
  }
}
CASE(ordered_either_of_two, 2, lanes, either_of_two)

// A mailbox that several look into: who claims it takes what he read.
__device__ void mailbox(int* out) {
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    for (int letter = 1; letter <= 4; ++letter) {
      while (load(&taken) != letter - 1) {}
      store(slots, {letter, 5 * letter, 0, 0});
    }
  } else {
    for (int letter = 1; letter <= 4; ++letter) {
      int4 v;
      do v = load(slots);
      while (v.x != letter && load(&taken) < letter);
      if (v.x != letter || atomicCAS(&claimed, letter - 1, letter) != letter - 1) continue;
      out[letter] = v.y;
      store(&taken, letter);
    }
  }
}
CASE(ordered_mailbox, 3, 32, mailbox)

// The same once more, and what is read again behind the wait.
__device__ void written_twice(int* out) {
  const int t = threadIdx.x;
  meet();
  if (blockIdx.x == 0) {
    store(slots + t, {5 + t, 1, 0, 1});
    store(slots + t, {5 + t, 1, 0, 1});
  } else {
    int4 v;
    do v = load(slots + t); while (v.y != 1);
    out[t] = v.x;
  }
}
CASE(ordered_written_twice, 2, lanes, written_twice)
__device__ void read_again(int* out) {
  const int t = threadIdx.x;
  int sum = 0;
  meet();
  for (int step = 0; step < steps; ++step) {
    if (blockIdx.x == 0) {
      await<Credit::each_lane>(step);
      store(slots + t, {step + t, step + 1, 7 * step, step + 1});
    } else {
      while (load(slots + t).y != step + 1) {}
      __threadfence();
      const int4 v = load(slots + t);
      sum += v.x + v.z;
      __threadfence();
      give<Credit::each_lane>(step);
    }
  }
  if (blockIdx.x == 1) out[t] = sum;
}

CASE(ordered_read_again, 2, lanes, read_again)

int main(int, char** arguments) { run_cases(clear, arguments[1]); }
