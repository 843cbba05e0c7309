// Loops that wait for values, and loops that take them as data: volatile and relaxed reads in both. Those of the first
// kind are synchronization; those of the second are reported where nothing orders them. In cases named races_* a fence,
// or the wait itself, is left out; in those named ordered_* none. corners.py reads the names, and which lines must race.
#include "cases.h"

constexpr int most_blocks = 40, most_rows = 256;
__device__ int x[most_rows];
__device__ int ready[most_rows], sums[most_blocks], totals[most_blocks], next_tile, rounds;
__global__ void clear() {
  for (int& value : x) value = 0;
  for (int& value : ready) value = 0;
  for (int& value : sums) value = 0;
  for (int& value : totals) value = 0;
  next_tile = rounds = 0;
}

template <class T> __device__ volatile T& as_volatile(T& value) { return const_cast<volatile T&>(value); }
__device__ int load_relaxed(const int* p) {
  int v;
  asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ void store_relaxed(int* p, int v) {
  asm volatile("st.relaxed.gpu.global.s32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
enum class Fences { both, none_before_flag, none_behind_flag };

// ---- a triangular system, a row a thread: each waits for the rows that it needs. Lanes of a warp wait for each other, so
// no thread may stay in a loop of its own: the address of what it polls moves on when the flag is set.

__device__ int column(int row, int k) { return row - 1 - 5 * k; } // the nearest first
template <Fences fences> __device__ __forceinline__ void solve_by_threads(int* out) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  int sum = row, k = 0;
  for (bool done = false; !done;) {
    if (column(row, k) < 0) {
      x[row] = sum; // @x
      if (fences != Fences::none_before_flag) __threadfence();
      as_volatile(ready[row]) = 1;
      done = true;
    } else if (as_volatile(ready[column(row, k)])) {
      if (fences != Fences::none_behind_flag) __threadfence();
      sum = (sum + x[column(row, k)]) % 1009; // @x_read
      ++k;
    }
  }
  out[row] = sum;
}
CASE(ordered_solve_by_threads, 2, 32, solve_by_threads<Fences::both>)
CASE(races_solve_by_threads_none_before_flag, 2, 32, solve_by_threads<Fences::none_before_flag>) // races x-x_read
CASE(races_solve_by_threads_none_behind_flag, 2, 32, solve_by_threads<Fences::none_behind_flag>) // races x-x_read

// The same with the columns in memory, and an inner loop over those that are ready.
__device__ int columns[most_rows * 4], starts[most_rows + 1];
template <Fences fences> __device__ __forceinline__ void solve_columns(int* out) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x, rows = gridDim.x * blockDim.x;
  if (row == 0) {
    int n = 0;
    for (int r = 0; r < rows; ++r) {
      starts[r] = n;
      for (int k = 0; k < 4 && column(r, k) >= 0; ++k) columns[n++] = column(r, k);
    }
    starts[rows] = n;
  }
  __syncthreads();
  int sum = row, k = starts[row];
  const int end = starts[row + 1];
  for (bool done = false; !done;) {
    while (k < end && as_volatile(ready[columns[k]])) {
      if (fences != Fences::none_behind_flag) __threadfence();
      sum = (sum + x[columns[k]]) % 1009; // @column_read
      ++k;
    }
    if (k == end) {
      x[row] = sum; // @column
      if (fences != Fences::none_before_flag) __threadfence();
      as_volatile(ready[row]) = 1;
      done = true;
    }
  }
  out[row] = sum;
}
CASE(ordered_solve_columns, 1, 64, solve_columns<Fences::both>)
CASE(races_solve_columns_none_before_flag, 1, 64, solve_columns<Fences::none_before_flag>) // races column-column_read
CASE(races_solve_columns_none_behind_flag, 1, 64, solve_columns<Fences::none_behind_flag>) // races column-column_read

// A row a warp: its lanes take turns at the columns, each waits for its own.
template <Fences fences> __device__ __forceinline__ void solve_by_warps(int* out) {
  const int lane = threadIdx.x % 32, row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  int sum = lane ? 0 : row, k = lane;
  while (row - 1 - k >= 0) {
    if (load_relaxed(&ready[row - 1 - k])) {
      if (fences != Fences::none_behind_flag) __threadfence();
      sum = (sum + as_volatile(x[row - 1 - k])) % 1009; // @warp_read
      k += 32;
    }
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (lane == 0) {
    as_volatile(x[row]) = out[row] = sum % 1009; // @warp
    if (fences != Fences::none_before_flag) __threadfence();
    store_relaxed(&ready[row], 1);
  }
}
CASE(ordered_solve_by_warps, 10, 128, solve_by_warps<Fences::both>)
CASE(races_solve_by_warps_none_before_flag, 10, 128, solve_by_warps<Fences::none_before_flag>) // races warp-warp_read
CASE(races_solve_by_warps_none_behind_flag, 10, 128, solve_by_warps<Fences::none_behind_flag>) // races warp-warp_read

// ---- look-back with values beside the flags, all of them volatile, or relaxed: a thread a block. The last blocks come
// first here, so that they find sums of single blocks.

template <Fences fences, bool relaxed> __device__ __forceinline__ void look_back(int* out) {
  __shared__ int before;
  const int me = gridDim.x - 1 - blockIdx.x;
  auto load = [](int& of) { return relaxed ? load_relaxed(&of) : as_volatile(of); }; // @load
  auto store = [](int& of, int v) { relaxed ? store_relaxed(&of, v) : void(as_volatile(of) = v); }; // @store
  auto publish = [&](int& at, int value, int state) {
    store(at, value);
    if (fences != Fences::none_before_flag) __threadfence();
    store(ready[me], state);
  };
  if (threadIdx.x == 0) {
    if (me) publish(sums[me], me + 1, 1);
    int sum = 0;
    for (int at = me - 1; at >= 0; --at) {
      int state;
      while ((state = load(ready[at])) == 0) {}
      if (fences != Fences::none_behind_flag) __threadfence();
      if (state == 2) {
        sum += load(totals[at]);
        break;
      }
      sum += load(sums[at]);
    }
    publish(totals[me], sum + me + 1, 2);
    before = sum;
  }
  __syncthreads();
  out[me * blockDim.x + threadIdx.x] = before + threadIdx.x;
}
CASE(ordered_look_back, 6, 32, look_back<Fences::both, false>)
CASE(ordered_look_back_relaxed, 6, 32, look_back<Fences::both, true>)
CASE(races_look_back_none_before_flag, 6, 32, look_back<Fences::none_before_flag, false>) // races load-store
CASE(races_look_back_none_behind_flag, 6, 32, look_back<Fences::none_behind_flag, false>) // races load-store
CASE(races_look_back_relaxed_none_before_flag, 6, 32, look_back<Fences::none_before_flag, true>) // races load-store
CASE(races_look_back_relaxed_none_behind_flag, 6, 32, look_back<Fences::none_behind_flag, true>) // races load-store

// A warp looks at the flags of 32 tiles at once, and at the values of those that count. Blocks have one tile after
// another.
template <Fences fences> __device__ __forceinline__ void look_back_by_warps(int* out) {
  __shared__ int tile;
  const int lane = threadIdx.x;
  if (lane == 0) tile = gridDim.x - 1 - blockIdx.x;
  for (;;) {
    __syncwarp();
    const int me = tile;
    __syncwarp();
    if (me >= most_blocks) return;
    if (lane == 0) {
      as_volatile(sums[me]) = me + 1; // @sum
      if (fences != Fences::none_before_flag) __threadfence();
      as_volatile(ready[me]) = 1;
    }
    int sum = 0;
    for (int window = me - 1; window >= 0; window -= 32) {
      const int at = window - lane;
      int state;
      do {
        state = at >= 0 ? as_volatile(ready[at]) : 2;
      } while (__any_sync(~0u, state == 0));
      if (fences != Fences::none_behind_flag) __threadfence();
      const unsigned whole = __ballot_sync(~0u, state == 2);
      const int last = whole ? __ffs(whole) - 1 : 31;
      int value = 0;
      if (lane <= last && at >= 0)
        value = lane == last && state == 2 ? as_volatile(totals[at]) : as_volatile(sums[at]); // @sum_read
      for (int d = 16; d > 0; d /= 2) value += __shfl_xor_sync(~0u, value, d);
      sum += value;
      if (whole) break;
    }
    if (lane == 0) {
      as_volatile(totals[me]) = sum + me + 1; // @total
      if (fences != Fences::none_before_flag) __threadfence();
      as_volatile(ready[me]) = 2;
      out[me] = sum;
      tile += gridDim.x;
    }
  }
}
CASE(ordered_look_back_by_warps, 4, 32, look_back_by_warps<Fences::both>)
CASE(races_look_back_by_warps_none_before_flag, 4, 32, look_back_by_warps<Fences::none_before_flag>) // races sum-sum_read, sum_read-total
CASE(races_look_back_by_warps_none_behind_flag, 4, 32, look_back_by_warps<Fences::none_behind_flag>) // races sum-sum_read, sum_read-total

// ---- a barrier of blocks: each thread of the first waits for another block's flag; and rounds of a counter

template <Fences fences> __device__ __forceinline__ void flags_of_all(int* out) {
  const int t = threadIdx.x, me = blockIdx.x, blocks = gridDim.x;
  for (int round = 1; round <= 2; ++round) {
    x[me * 32 + t] = round * t; // @mine
    __syncthreads();
    if (me == 0) {
      if (t && t < blocks) {
        while (as_volatile(ready[t]) != round) __nanosleep(20);
      }
      __syncthreads();
      if (fences != Fences::none_behind_flag) __threadfence();
      if (t < blocks) {
        __threadfence();
        as_volatile(sums[t]) = round;
      }
    } else if (t == 0) {
      if (fences != Fences::none_before_flag) __threadfence();
      as_volatile(ready[me]) = round;
    }
    if (t == 0) {
      while (as_volatile(sums[me]) < round) {}
      if (fences != Fences::none_behind_flag) __threadfence();
    }
    __syncthreads();
    out[me * 32 + t] += x[(me + 1) % blocks * 32 + 31 - t]; // @others
    __syncthreads();
    if (t == 0) {
      __threadfence();
      atomicAdd(&rounds, 1);
      for (int wait = 8; as_volatile(rounds) < blocks * round; wait = min(2 * wait, 64)) __nanosleep(wait);
      __threadfence();
    }
    __syncthreads();
  }
}
CASE(ordered_flags_of_all, 4, 32, flags_of_all<Fences::both>)
CASE(races_flags_of_all_none_before_flag, 4, 32, flags_of_all<Fences::none_before_flag>) // races mine-others

// ---- no waits: each reads what its neighbours write, a fixed number of times, whatever they have written by then

enum class Sweep { in_turn, apart };
template <Sweep sweep> __device__ __forceinline__ void sweeps(int* out) {
  const int t = threadIdx.x;
  as_volatile(x[t]) = t; // @first
#pragma unroll 1
  for (int step = 0; step < 3; ++step) {
    if (sweep == Sweep::in_turn) __syncthreads();
    const int left = as_volatile(x[t ? t - 1 : 31]); // @left
    if (sweep == Sweep::in_turn) __syncthreads();
    as_volatile(x[t]) = left + step; // @swept
  }
  out[t] = x[t];
}
CASE(ordered_sweeps, 1, 32, sweeps<Sweep::in_turn>)
CASE(races_sweeps_apart, 1, 32, sweeps<Sweep::apart>) // races first-left, left-swept

// ---- a reader that tries again until nobody wrote meanwhile

__device__ __forceinline__ void tries_again(int* out) {
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    for (int i = 1; i <= 3; ++i) {
      as_volatile(next_tile) = 2 * i - 1;
      __threadfence();
      for (int n = 0; n < 4; ++n) as_volatile(sums[n]) = i;
      __threadfence();
      as_volatile(next_tile) = 2 * i;
    }
  } else {
    int first, values[4];
    do {
      first = as_volatile(next_tile);
      __threadfence();
      for (int n = 0; n < 4; ++n) values[n] = as_volatile(sums[n]);
      __threadfence();
    } while (first % 2 || first != as_volatile(next_tile));
    out[blockIdx.x] = values[0] + values[1] - values[2] - values[3];
  }
}
CASE(ordered_tries_again, 3, 32, tries_again)

int main(int, char** arguments) { run_cases(clear, arguments[1]); }
