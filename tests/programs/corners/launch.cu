// Corners of what orders accesses inside a launch (PTX ISA 9.7.13, memory consistency model 8). In kernels named races_*
// two accesses are unordered, in those named ordered_* none are. corners.py reads the names.
#include "check.h"

__device__ int flag;
__device__ alignas(8) int data[64];

__global__ void clear() {
  flag = 0;
  for (int& value : data) value = 0;
}

// ---- barriers: kinds, counts, warps that lack lanes, places

__global__ void ordered_red(int* out) { // 48 threads
  __shared__ int s[48];
  const int t = threadIdx.x;
  s[t] = t;
  const int odd = __syncthreads_count(t & 1);
  out[t] = s[47 - t] + odd;
}
__device__ unsigned red_of_two_warps(int t) {
  unsigned more;
  asm volatile("{ .reg .pred p; setp.gt.u32 p, %1, 5; barrier.cta.red.popc.u32 %0, 1, 64, p; }" : "=r"(more) : "r"(t) : "memory");
  return more;
}
__global__ void ordered_red_counted(int* out) { // 96 threads
  __shared__ int s[96];
  const int t = threadIdx.x;
  s[t] = t;
  if (t < 64) out[t] = red_of_two_warps(t) + s[63 - t];
}
__global__ void races_red_counted(int* out) { // the third warp takes no part
  __shared__ int s[96];
  const int t = threadIdx.x;
  if (t < 64) {
    s[t] = t;
    out[t] = red_of_two_warps(t);
  } else {
    out[t] = s[t - 64];
  }
}
template <int threads> __device__ void meet() { asm volatile("barrier.cta.sync 1, %0;" ::"n"(threads) : "memory"); }
__global__ void ordered_count_changes(int* out) { // barrier 1: of two warps, of three, of two others
  __shared__ int s[96];
  const int t = threadIdx.x, warp = t / 32;
  s[t] = t;
  if (warp < 2) meet<64>();
  if (warp == 0) out[t] = s[t + 32];
  __syncthreads(); // else the third warp may come to the first meeting
  meet<96>();
  if (warp == 1) out[t] = s[t + 32];
  if (warp > 0) meet<64>();
  if (warp == 2) s[t - 32] = 7;
}
__global__ void races_count_changes(int* out) {
  __shared__ int s[96];
  const int t = threadIdx.x, warp = t / 32;
  s[t] = t; // @race
  if (warp < 2) meet<64>();
  if (warp == 0) out[t] = s[t + 64]; // @race
  __syncthreads();
  meet<96>();
}
__global__ void ordered_count_of_a_warp_of_few(int* out) { // 64 threads; some lanes of the second warp exit, two at a time
  __shared__ int s[64];
  const int t = threadIdx.x;
  if (t >= 40) {
    __syncwarp(3u << (t & 30));
    return;
  }
  s[t] = t;
  meet<64>();
  out[t] = s[39 - t];
}
__global__ void races_full_count(int* out) { // 80 threads, of which 64 stay: and as many are counted, of other warps
  __shared__ int s[80];
  const int t = threadIdx.x, warp = t / 32;
  if (t >= 48 && t < 64) return;
  s[t] = t; // @race
  if (warp != 1) meet<64>();
  if (warp == 0) out[t] = s[32 + t % 16]; // @race
}
__global__ void ordered_arrival_of_half_a_warp(int* out) { // 80 threads: the last warp has 16
  __shared__ int s[16];
  const int t = threadIdx.x, warp = t / 32;
  if (warp == 2) {
    s[t - 64] = t;
    asm volatile("barrier.cta.arrive 1, 64;" ::: "memory");
  } else if (warp == 0) {
    meet<64>();
    out[t] = s[t % 16];
  }
}
__global__ void ordered_two_places(int* out) {
  __shared__ int s[64];
  const int t = threadIdx.x;
  s[t] = t;
  if (t < 32) {
    asm volatile("barrier.cta.sync 0;" ::: "memory");
  } else {
    asm volatile("barrier.cta.sync 0;" ::: "memory");
  }
  out[t] = s[63 - t];
}
__global__ void ordered_exits(int* out) { // 64 threads, of which some leave without a trace and some after their last barrier
  __shared__ int s[64];
  const int t = threadIdx.x;
  if (t >= 40) return;
  s[t] = t;
  __syncthreads();
  out[t] = s[39 - t];
  if (t % 3 == 0) return;
  __syncthreads();
  s[t] = t;
  __syncthreads();
  const int other = t % 3 == 1 ? t + 1 : t - 1;
  if (other < 40) out[t] += s[other];
}
__global__ void races_exit(int* out) {
  __shared__ int s[64];
  const int t = threadIdx.x;
  s[t] = t;
  if (t >= 32) return;
  __syncthreads();
  out[t] = s[t + 32];
}

// ---- parts of a warp

__global__ void ordered_masks(int* out) {
  __shared__ int s[32];
  const int t = threadIdx.x;
  const unsigned half = t < 16 ? 0xffff : 0xffff0000;
  s[t] = t;
  __syncwarp(half);
  const int other = s[t ^ 1];
  __syncwarp(half);
  s[t] = other;
  if (t < 8 || t >= 24) return;
  __syncwarp(0x00ffff00);
  out[t] = s[31 - t];
}
__global__ void races_masks(int* out) {
  __shared__ int s[32];
  const int t = threadIdx.x;
  s[t] = t;
  if (t < 8 || t >= 24) return;
  __syncwarp(0x00ffff00);
  out[t] = s[t - 8];
}
__global__ void ordered_warp_in_two_places(int* out) {
  __shared__ int s[32];
  const int t = threadIdx.x;
  s[t] = t;
  if (t < 16) {
    s[t] += 1;
    __syncwarp();
  } else {
    s[t] += 2;
    __syncwarp();
  }
  out[t] = s[31 - t];
}

// ---- patterns: what is in `data` is handed over by `flag`, from the first block to the last

__device__ int read_acquire() {
  int value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(&flag) : "memory");
  return value;
}
__device__ int read_relaxed() {
  int value;
  asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(&flag) : "memory");
  return value;
}
__device__ void write_release() { asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(&flag) : "memory"); }
#define FIRST_BLOCK if (threadIdx.x == 0 && blockIdx.x == 0)
#define MIDDLE_BLOCK if (threadIdx.x == 0 && blockIdx.x > 0 && blockIdx.x + 1 < gridDim.x)
#define LAST_BLOCK if (threadIdx.x == 0 && blockIdx.x + 1 == gridDim.x)

__global__ void ordered_chain(int* out) {
  FIRST_BLOCK { data[0] = 5; write_release(); }
  MIDDLE_BLOCK {
    while (read_relaxed() != 1) {}
    atomicAdd(&flag, 1);
  }
  LAST_BLOCK {
    while (read_acquire() != 2) {}
    out[0] = data[0];
  }
}
__global__ void races_chain_of_block_scope(int* out) {
  FIRST_BLOCK { data[0] = 5; write_release(); } // @race
  MIDDLE_BLOCK {
    while (read_relaxed() != 1) {}
    atomicAdd_block(&flag, 1);
  }
  LAST_BLOCK {
    while (read_acquire() != 2) {}
    out[0] = data[0]; // @race
  }
}
__device__ int add_acquire(int value) {
  int old;
  asm volatile("atom.acquire.gpu.global.add.s32 %0, [%1], %2;" : "=r"(old) : "l"(&flag), "r"(value) : "memory");
  return old;
}
__global__ void ordered_reductions(int* out) { // red releases, red of another scope is a link, atom acquires
  FIRST_BLOCK { data[0] = 5; asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(&flag) : "memory"); }
  MIDDLE_BLOCK {
    while (read_relaxed() != 1) {}
    asm volatile("red.relaxed.sys.global.add.s32 [%0], 1;" ::"l"(&flag) : "memory");
  }
  LAST_BLOCK {
    while (add_acquire(0) != 2) {}
    out[0] = data[0];
  }
}
__global__ void races_relaxed_reduction(int* out) {
  FIRST_BLOCK { data[0] = 5; asm volatile("red.relaxed.gpu.global.add.s32 [%0], 1;" ::"l"(&flag) : "memory"); }
  LAST_BLOCK {
    while (add_acquire(0) != 1) {}
    out[0] = data[0];
  }
}
__global__ void ordered_failed_swap(int* out) { // it acquires though it writes nothing
  FIRST_BLOCK { data[0] = 5; write_release(); }
  LAST_BLOCK {
    int old = 0;
    while (old != 1) asm volatile("atom.acquire.gpu.global.cas.b32 %0, [%1], 7, 8;" : "=r"(old) : "l"(&flag) : "memory");
    out[0] = data[0];
  }
}
__global__ void ordered_system_scope(int* out) {
  FIRST_BLOCK { data[0] = 5; __threadfence_system(); atomicExch_system(&flag, 1); }
  LAST_BLOCK {
    while (atomicAdd(&flag, 0) != 1) {}
    __threadfence();
    out[0] = data[0];
  }
}
__global__ void races_flag_of_block_scope(int* out) {
  FIRST_BLOCK { data[0] = 5; __threadfence(); atomicExch_block(&flag, 1); } // @race
  LAST_BLOCK {
    while (atomicAdd(&flag, 0) != 1) {}
    __threadfence();
    out[0] = data[0]; // @race
  }
}
__global__ void ordered_barrier_then_flag(int* out) { // by one thread for its whole block, at both ends
  const int t = threadIdx.x;
  if (blockIdx.x == 0) {
    data[t] = t;
    __syncthreads();
    if (t == 0) { __threadfence(); atomicExch(&flag, 1); }
  } else {
    if (t == 0) {
      while (atomicAdd(&flag, 0) != 1) {}
      __threadfence();
    }
    __syncthreads();
    out[t] = data[63 - t];
  }
}
// Fence-SC order that the flag's reader tells: fences of others than who writes and reads the flag, barriers between.
template <int late_write, int early_read> __device__ __forceinline__ void fences_of_all(int* out) {
  const int t = threadIdx.x;
  if (blockIdx.x == 0) {
    if (!late_write) data[t] = t;
    __threadfence();
    if (late_write) data[t] = t;
    __syncthreads();
    if (t == 0) atomicAdd(&flag, 1);
  } else {
    if (t == 0) while (atomicAdd(&flag, 0) != 1) {}
    __syncthreads();
    const int early = early_read ? data[63 - t] : 0;
    __threadfence();
    out[t] = early + (early_read ? 0 : data[63 - t]);
  }
}
__global__ void ordered_fences_of_all(int* out) { fences_of_all<0, 0>(out); }
__global__ void races_write_after_the_fence(int* out) { fences_of_all<1, 0>(out); }
__global__ void races_read_before_the_fence(int* out) { fences_of_all<0, 1>(out); }
// The same of the warps of a block, whose fences reach the block.
template <int late_write, int early_read> __device__ __forceinline__ void fences_of_warps(int* out) {
  __shared__ int s[32];
  __shared__ volatile int ready;
  const int t = threadIdx.x, lane = t % 32;
  if (t == 0) ready = 0;
  __syncthreads();
  if (t < 32) {
    if (!late_write) s[lane] = t;
    __threadfence_block();
    if (late_write) s[lane] = t;
    __syncwarp();
    if (lane == 0) ready = 1;
  } else {
    if (lane == 0) while (ready != 1) {}
    __syncwarp();
    const int early = early_read ? s[31 - lane] : 0;
    __threadfence_block();
    out[t] = early + (early_read ? 0 : s[31 - lane]);
  }
}
__global__ void ordered_fences_of_warps(int* out) { fences_of_warps<0, 0>(out); }
__global__ void races_write_after_the_warps_fence(int* out) { fences_of_warps<1, 0>(out); }
__global__ void races_read_before_the_warps_fence(int* out) { fences_of_warps<0, 1>(out); }
// Lanes of one warp try and try again, in a function: who has the lock must get on.
__device__ __noinline__ bool taken(int* lock) { return atomicCAS(lock, 0, 1) == 0; }
__global__ void ordered_lock_tried_by_a_function(int* out) { // 37 threads
  for (bool done = false; !done;) {
    if (!taken(&flag)) continue;
    __threadfence();
    out[0] += threadIdx.x;
    __threadfence();
    atomicExch(&flag, 0);
    done = true;
  }
}
__global__ void ordered_volatile_flag(int* out) { // 64 threads
  __shared__ int s;
  __shared__ volatile int ready;
  const int t = threadIdx.x;
  if (t == 0) ready = 0;
  __syncthreads();
  if (t == 0) { s = out[0] + 5; __threadfence_block(); ready = 1; }
  if (t == 32) {
    while (ready != 1) {}
    __threadfence_block();
    out[1] = s;
  }
}
__global__ void races_volatile_flag(int* out) { // no fence before it
  __shared__ int s;
  __shared__ volatile int ready;
  const int t = threadIdx.x;
  if (t == 0) ready = 0;
  __syncthreads();
  if (t == 0) { s = out[0] + 5; ready = 1; }
  if (t == 32) {
    while (ready != 1) {}
    __threadfence_block();
    out[1] = s;
  }
}

// ---- sizes, and reads outside the model

__global__ void races_sizes(int*) {
  FIRST_BLOCK atomicAdd(reinterpret_cast<unsigned long long*>(data), 1ull);
  LAST_BLOCK atomicAdd(data + 1, 1);
}
__global__ void ordered_sizes(int*) { // neighbours
  FIRST_BLOCK atomicAdd(reinterpret_cast<unsigned long long*>(data), 1ull);
  LAST_BLOCK atomicAdd(data + 2, 1);
}
__global__ void races_half_word(int*) {
  FIRST_BLOCK atomicCAS(reinterpret_cast<unsigned short*>(data), static_cast<unsigned short>(0), static_cast<unsigned short>(1));
  LAST_BLOCK atomicAdd(data, 1);
}
__global__ void races_noncoherent_read(int* out) {
  const int t = threadIdx.x;
  if (blockIdx.x == 0) {
    data[t] = t;
  } else {
    out[t] = __ldg(&data[t]);
  }
}
__global__ void races_noncoherent_read_of_own_block(int* out) { // a barrier does not help: it is for read-only memory
  const int t = threadIdx.x;
  data[t] = t;
  __syncthreads();
  asm volatile("ld.global.nc.s32 %0, [%1];" : "=r"(out[t]) : "l"(&data[63 - t]));
}

int main() {
  int* out = zeros<int>(256);
  struct Case {
    void (*kernel)(int*);
    int blocks, threads;
  };
  const Case cases[] = {
      {ordered_red, 1, 48}, {ordered_red_counted, 1, 96}, {races_red_counted, 1, 96}, {ordered_count_changes, 1, 96},
      {races_count_changes, 1, 96}, {ordered_count_of_a_warp_of_few, 1, 64}, {races_full_count, 1, 80},
      {ordered_arrival_of_half_a_warp, 1, 80}, {ordered_two_places, 1, 64},
      {ordered_exits, 1, 64}, {races_exit, 1, 64}, {ordered_masks, 1, 32}, {races_masks, 1, 32},
      {ordered_warp_in_two_places, 1, 32}, {ordered_chain, 3, 32}, {races_chain_of_block_scope, 3, 32},
      {ordered_reductions, 3, 32}, {races_relaxed_reduction, 2, 32}, {ordered_failed_swap, 2, 32},
      {ordered_system_scope, 2, 32}, {races_flag_of_block_scope, 2, 32}, {ordered_barrier_then_flag, 2, 64},
      {ordered_fences_of_all, 2, 64}, {races_write_after_the_fence, 2, 64}, {races_read_before_the_fence, 2, 64},
      {ordered_fences_of_warps, 1, 64}, {races_write_after_the_warps_fence, 1, 64},
      {races_read_before_the_warps_fence, 1, 64}, {ordered_lock_tried_by_a_function, 2, 37}, {ordered_volatile_flag, 1, 64}, {races_volatile_flag, 1, 64}, {races_sizes, 2, 32}, {ordered_sizes, 2, 32},
      {races_half_word, 2, 32}, {races_noncoherent_read, 2, 64}, {races_noncoherent_read_of_own_block, 1, 64},
  };
  for (const Case& one : cases) {
    clear<<<1, 1>>>();
    one.kernel<<<one.blocks, one.threads>>>(out);
    CHECK(cudaDeviceSynchronize());
  }
  std::printf("%zu cases\n", sizeof cases / sizeof cases[0]);
}
