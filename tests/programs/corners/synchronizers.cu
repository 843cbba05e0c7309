// What is easily done wrong with libcu++ and cooperative groups: kernels named races_* leave out or misplace one call of
// the kernel beside them, ordered_*. corners.py reads the names; lines that end in "// @race" are the program's own.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/pipeline>
#include <cuda/ptx>
#include <cuda/semaphore>

#include <utility>

#include "check.h"

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;
#pragma nv_diag_suppress static_var_with_dynamic_init  // shared barriers, initialised by init()
using Barrier = cuda::barrier<cuda::thread_scope_block>;

constexpr int threads = 64;
__device__ alignas(16) int data[1024];
__global__ void clear() {
  for (int& value : data) value = 0;
}

// ---- cuda::barrier

enum class Wait { token, early, none };
template <Wait wait>
__device__ __forceinline__ void barrier_rounds(int* out) {
  __shared__ Barrier barrier;
  __shared__ int s[2][threads];
  const int t = threadIdx.x;
  if (t == 0) init(&barrier, threads);
  __syncthreads();
  int sum = 0;
  for (int round = 0; round < 3; ++round) {
    if (wait != Wait::early) s[round % 2][t] = t + round;
    Barrier::arrival_token token = barrier.arrive();
    if (wait == Wait::early) s[round % 2][t] = t + round;
    if (wait != Wait::none) barrier.wait(std::move(token));
    sum += s[round % 2][threads - 1 - t];
  }
  out[t] = sum;
}
__global__ void ordered_barrier_token(int* out) { barrier_rounds<Wait::token>(out); }
__global__ void races_barrier_token_not_waited_for(int* out) { barrier_rounds<Wait::none>(out); }
__global__ void races_barrier_arrival_before_the_write(int* out) { barrier_rounds<Wait::early>(out); }

template <int count>
__device__ __forceinline__ void barrier_count(int* out) { // 64 threads arrive
  __shared__ Barrier barrier;
  __shared__ int s[threads];
  const int t = threadIdx.x;
  if (t == 0) init(&barrier, count);
  __syncthreads();
  s[t] = t; // @race
  barrier.arrive_and_wait();
  out[t] = s[threads - 1 - t]; // @race
}
__global__ void ordered_barrier_of_all(int* out) { barrier_count<threads>(out); }
__global__ void races_barrier_of_half(int* out) { barrier_count<threads / 2>(out); }

// Half of the threads leave after the first round; those that stay take what they left.
template <bool drop_behind_write>
__device__ __forceinline__ void barrier_drop(int* out) {
  __shared__ Barrier barrier;
  __shared__ int s[threads];
  const int t = threadIdx.x;
  if (t == 0) init(&barrier, threads);
  __syncthreads();
  if (t >= threads / 2) {
    if (drop_behind_write) s[t] = t;
    barrier.arrive_and_drop();
    if (!drop_behind_write) s[t] = t; // @race
    return;
  }
  barrier.arrive_and_wait();
  int sum = s[t + threads / 2]; // @race
  s[t] = sum;
  barrier.arrive_and_wait();
  out[t] = s[threads / 2 - 1 - t];
}
__global__ void ordered_barrier_drop(int* out) { barrier_drop<true>(out); }
__global__ void races_barrier_drop(int* out) { barrier_drop<false>(out); }

// A barrier in global memory, for the first threads of all blocks.
template <cuda::thread_scope scope>
__global__ void make_barrier() {
  new (&data[128]) cuda::barrier<scope>(3);
}
template <cuda::thread_scope scope>
__device__ __forceinline__ void global_barrier(int* out) {
  auto& barrier = *reinterpret_cast<cuda::barrier<scope>*>(&data[128]);
  if (threadIdx.x != 0) return;
  const int b = blockIdx.x;
  for (int round = 0; round < 3; ++round) {
    data[round % 2 * 8 + b] = b + round; // @race
    barrier.arrive_and_wait();
    out[b] = data[round % 2 * 8 + (b + 1) % gridDim.x]; // @race
  }
}
__global__ void ordered_global_barrier(int* out) { global_barrier<cuda::thread_scope_device>(out); }
__global__ void races_global_barrier_of_block_scope(int* out) { global_barrier<cuda::thread_scope_block>(out); }

// ---- copies that arrive at a barrier

enum class Copy { waited, not_waited, own_only, refilled };
template <Copy copy>
__device__ __forceinline__ void barrier_copy(int* out) {
  __shared__ Barrier barrier;
  __shared__ alignas(16) int s[threads];
  cg::thread_block block = cg::this_thread_block();
  const int t = threadIdx.x;
  if (t == 0) init(&barrier, threads);
  __syncthreads();
  int sum = 0;
  for (int tile = 0; tile < 2; ++tile) {
    cuda::memcpy_async(block, s, data + tile * threads, sizeof(int) * threads, barrier); // @race
    Barrier::arrival_token token = barrier.arrive();
    if (copy != Copy::not_waited) barrier.wait(std::move(token));
    sum += s[threads - 1 - t]; // @race
    if (copy != Copy::refilled) __syncthreads();
  }
  out[t] = sum;
}
__global__ void ordered_barrier_copy(int* out) { barrier_copy<Copy::waited>(out); }
__global__ void races_barrier_copy_not_waited_for(int* out) { barrier_copy<Copy::not_waited>(out); }
__global__ void races_barrier_copy_into_what_is_read(int* out) { barrier_copy<Copy::refilled>(out); }

// In bulk, over what threads wrote themselves: with a fence between the proxies and without.
template <bool fence>
__device__ __forceinline__ void bulk_copy(int* out) {
  __shared__ Barrier barrier;
  __shared__ alignas(16) int s[threads];
  const int t = threadIdx.x;
  if (t == 0) {
    init(&barrier, threads);
    ptx::fence_proxy_async(ptx::space_shared);
  }
  s[t] = -t; // @race
  if (fence) ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  Barrier::arrival_token token;
  if (t == 0) {
    cuda::device::memcpy_async_tx(s, data, cuda::aligned_size_t<16>(sizeof s), barrier); // @race
    token = cuda::device::barrier_arrive_tx(barrier, 1, sizeof s);
  } else {
    token = barrier.arrive();
  }
  barrier.wait(std::move(token));
  out[t] = s[threads - 1 - t];
}
__global__ void ordered_bulk_copy(int* out) { bulk_copy<true>(out); }
__global__ void races_bulk_copy_without_a_fence(int* out) { bulk_copy<false>(out); }

// ---- cuda::pipeline

enum class Leave { nothing, wait, release, acquire };
template <Leave leave, int stages>
__device__ __forceinline__ void pipeline(int* out) {
  __shared__ int s[stages][threads];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
  cg::thread_block block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  const int t = threadIdx.x;
  int sum = 0, fetched = 0;
  for (int tile = 0; tile < 5; ++tile) {
    for (; fetched < 5 && fetched < tile + stages; ++fetched) {
      if (leave != Leave::acquire) pipe.producer_acquire();
      cuda::memcpy_async(block, s[fetched % stages], data + fetched * threads, sizeof(int) * threads, pipe); // @race
      pipe.producer_commit();
    }
    if (leave != Leave::wait) pipe.consumer_wait();
    if (leave == Leave::release) pipe.consumer_release();
    sum += s[tile % stages][threads - 1 - t]; // @race
    if (leave != Leave::release) pipe.consumer_release();
  }
  out[t] = sum;
}
__global__ void ordered_pipeline(int* out) { pipeline<Leave::nothing, 2>(out); }
__global__ void ordered_pipeline_of_one(int* out) { pipeline<Leave::nothing, 1>(out); }
__global__ void races_pipeline_not_waited_for(int* out) { pipeline<Leave::wait, 2>(out); }
__global__ void races_pipeline_released_early(int* out) { pipeline<Leave::release, 2>(out); }
__global__ void races_pipeline_not_acquired(int* out) { pipeline<Leave::acquire, 2>(out); }

// The pipeline of a thread knows its own copies only.
template <bool barrier>
__device__ __forceinline__ void pipeline_of_thread(int* out) {
  __shared__ int s[threads];
  auto pipe = cuda::make_pipeline();
  const int t = threadIdx.x;
  pipe.producer_acquire();
  cuda::memcpy_async(&s[t], &data[t], sizeof(int), pipe); // @race
  pipe.producer_commit();
  pipe.consumer_wait();
  if (barrier) __syncthreads();
  out[t] = s[threads - 1 - t]; // @race
  pipe.consumer_release();
}
__global__ void ordered_pipeline_of_thread(int* out) { pipeline_of_thread<true>(out); }
__global__ void races_pipeline_of_thread(int* out) { pipeline_of_thread<false>(out); }

// Warp 0 fills, warp 1 reads.
template <bool release_behind>
__device__ __forceinline__ void pipeline_roles(int* out) {
  __shared__ int s[2][32];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  cg::thread_block block = cg::this_thread_block();
  const int t = threadIdx.x % 32;
  const bool fills = threadIdx.x < 32;
  auto pipe = cuda::make_pipeline(block, &state, fills ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
  int sum = 0;
  for (int tile = 0; tile < 6; ++tile) {
    if (fills) {
      pipe.producer_acquire();
      s[tile % 2][t] = data[tile * 32 + t] + t; // @race
      pipe.producer_commit();
    } else {
      pipe.consumer_wait();
      if (!release_behind) pipe.consumer_release();
      sum = 3 * sum + s[tile % 2][31 - t]; // @race
      if (release_behind) pipe.consumer_release();
    }
  }
  if (!fills) out[t] = sum;
}
__global__ void ordered_pipeline_roles(int* out) { pipeline_roles<true>(out); }
__global__ void races_pipeline_roles(int* out) { pipeline_roles<false>(out); }

// ---- latch, semaphore, atomics

using Latch = cuda::latch<cuda::thread_scope_block>;

template <int count>
__device__ __forceinline__ void latch(int* out) { // 64 threads count down
  __shared__ alignas(Latch) char memory[sizeof(Latch)];
  Latch& latch = *reinterpret_cast<Latch*>(memory);
  __shared__ int s[threads];
  const int t = threadIdx.x;
  if (t == 0) new (&latch) Latch(count);
  __syncthreads();
  s[t] = t; // @race
  latch.count_down();
  if (count == threads) latch.wait();
  else while (!latch.try_wait() && t < 0) {
  }
  out[t] = s[threads - 1 - t]; // @race
}
__global__ void ordered_latch(int* out) { latch<threads>(out); }
__global__ void races_latch_asked_but_not_waited_for(int* out) { latch<2 * threads>(out); }

// All but one count down, thread 0 waits and reads what all wrote; counted short, it reads too early.
template <int count>
__device__ __forceinline__ void latch_count(int* out) {
  __shared__ alignas(Latch) char memory[sizeof(Latch)];
  Latch& latch = *reinterpret_cast<Latch*>(memory);
  __shared__ int s[threads];
  const int t = threadIdx.x;
  if (t == 0) new (&latch) Latch(count);
  __syncthreads();
  if (t > 0 && t <= count) {
    s[t] = t;
    latch.count_down();
  } else if (t > count) {
    s[t] = t; // @race
  } else {
    latch.wait();
    int sum = 0;
    for (int i = 1; i < threads; ++i) sum += s[i]; // @race
    out[0] = sum;
  }
}
__global__ void ordered_latch_of_all(int* out) { latch_count<threads - 1>(out); }
__global__ void races_latch_counted_short(int* out) { latch_count<threads - 2>(out); }

// A lock around a plain counter.
template <cuda::thread_scope scope>
__device__ __forceinline__ void semaphore(int* out) {
  using Semaphore = cuda::binary_semaphore<scope>;
  Semaphore* semaphore = reinterpret_cast<Semaphore*>(&data[128]);
  if (threadIdx.x == 0) {
    semaphore->acquire();
    data[0] = data[0] + 1; // @race
    semaphore->release();
  }
  out[blockIdx.x * threads + threadIdx.x] = 0;
}
template <cuda::thread_scope scope>
__global__ void make_semaphore() {
  new (&data[128]) cuda::binary_semaphore<scope>(1);
}
__global__ void ordered_semaphore(int* out) { semaphore<cuda::thread_scope_device>(out); }
__global__ void races_semaphore_of_block_scope(int* out) { semaphore<cuda::thread_scope_block>(out); }

// A flag that is waited for, of one order and scope each.
template <cuda::memory_order order, cuda::thread_scope scope>
__device__ __forceinline__ void flag(int* out) {
  cuda::atomic_ref<int, scope> flag(data[64]);
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    data[0] = 7; // @race
    flag.store(1, cuda::memory_order_release);
    flag.notify_all();
  } else {
    flag.wait(0, order);
    out[blockIdx.x] = data[0]; // @race
  }
}
__global__ void ordered_flag(int* out) { flag<cuda::memory_order_acquire, cuda::thread_scope_device>(out); }
__global__ void races_flag_relaxed(int* out) { flag<cuda::memory_order_relaxed, cuda::thread_scope_device>(out); }
__global__ void races_flag_of_block_scope(int* out) { flag<cuda::memory_order_acquire, cuda::thread_scope_block>(out); }

// Whoever comes first makes, the others wait: the idiom of call_once.
template <bool acquire>
__device__ __forceinline__ void once(int* out) {
  cuda::atomic_ref<int, cuda::thread_scope_device> state(data[64]);
  int expected = 0;
  if (state.compare_exchange_strong(expected, 1, cuda::memory_order_relaxed)) {
    data[0] = 9; // @race
    state.store(2, cuda::memory_order_release);
  } else {
    while (state.load(acquire ? cuda::memory_order_acquire : cuda::memory_order_relaxed) != 2) {
    }
  }
  out[blockIdx.x * threads + threadIdx.x] = data[0]; // @race
}
__global__ void ordered_once(int* out) { once<true>(out); }
__global__ void races_once(int* out) { once<false>(out); }

// ---- cooperative groups

enum class Group { block, tile, smaller, coalesced };
template <Group group>
__device__ __forceinline__ void group_sync(int* out) { // lanes read what lanes of their warp wrote
  __shared__ int s[threads];
  cg::thread_block block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  auto half = cg::tiled_partition<16>(warp);
  const int t = threadIdx.x;
  s[t] = t; // @race
  if (group == Group::block) block.sync();
  if (group == Group::tile) warp.sync();
  if (group == Group::smaller) half.sync();
  if (group == Group::coalesced && t % 2 == 0) cg::coalesced_threads().sync();
  out[t] = s[t / 32 * 32 + 31 - t % 32]; // @race
}
__global__ void ordered_group_block(int* out) { group_sync<Group::block>(out); }
__global__ void ordered_group_tile(int* out) { group_sync<Group::tile>(out); }
__global__ void races_group_of_half_a_warp(int* out) { group_sync<Group::smaller>(out); }
__global__ void races_group_of_every_other_lane(int* out) { group_sync<Group::coalesced>(out); }

template <bool behind>
__device__ __forceinline__ void invoke_one(int* out) {
  __shared__ int s;
  cg::thread_block block = cg::this_thread_block();
  cg::invoke_one(block, [&] { s = data[5] + 5; }); // @race
  if (behind) block.sync();
  out[threadIdx.x] = s; // @race
}
__global__ void ordered_invoke_one(int* out) { invoke_one<true>(out); }
__global__ void races_invoke_one(int* out) { invoke_one<false>(out); }

// Copies of a group in stages: waited for all but `prior`.
template <int prior, bool sync>
__device__ __forceinline__ void group_copy(int* out) {
  __shared__ alignas(16) int s[2][threads];
  cg::thread_block block = cg::this_thread_block();
  cg::memcpy_async(block, s[0], data, sizeof s[0]);
  int sum = 0;
  for (int tile = 0; tile < 4; ++tile) {
    cg::memcpy_async(block, s[(tile + 1) % 2], data + (tile + 1) * threads, sizeof s[0]); // @race
    cg::wait_prior<prior>(block);
    sum += s[tile % 2][threads - 1 - threadIdx.x]; // @race
    if (sync) block.sync();
  }
  cg::wait(block);
  out[threadIdx.x] = sum;
}
__global__ void ordered_group_copy(int* out) { group_copy<1, true>(out); }
__global__ void races_group_copy_of_two_stages(int* out) { group_copy<2, true>(out); }
__global__ void races_group_copy_into_what_is_read(int* out) { group_copy<1, false>(out); }

// One block's sum for all blocks, across the grid's barrier.
template <int kind>
__device__ __forceinline__ void grid(int* out) {
  cg::grid_group grid = cg::this_grid();
  const int t = static_cast<int>(grid.thread_rank()), n = static_cast<int>(grid.size());
  for (int round = 0; round < 3; ++round) {
    if (kind == 0 || kind == 1) data[round % 2 * 512 + t] = t + round;
    if (kind == 0) {
      grid.sync();
    } else if (kind == 1) {
      auto token = grid.barrier_arrive();
      if (t >= 0) grid.barrier_wait(std::move(token));
    } else if (kind == 2) {
      auto token = grid.barrier_arrive();
      data[round % 2 * 512 + t] = t + round; // @race
      grid.barrier_wait(std::move(token));
    } else {
      data[round % 2 * 512 + t] = t + round; // @race
      auto token = grid.barrier_arrive();
      out[t] = data[round % 2 * 512 + n - 1 - t]; // @race
      grid.barrier_wait(std::move(token));
    }
    if (kind < 3) out[t] = data[round % 2 * 512 + n - 1 - t]; // @race
  }
}
__global__ void ordered_grid_sync(int* out) { grid<0>(out); }
__global__ void ordered_grid_split(int* out) { grid<1>(out); }
__global__ void races_grid_write_behind_the_arrival(int* out) { grid<2>(out); }
__global__ void races_grid_read_before_the_wait(int* out) { grid<3>(out); }

int main() {
  int* out = zeros<int>(1024);
  struct Case {
    void (*kernel)(int*);
    int blocks, threads;
    bool cooperative = false;
    void (*before)() = nullptr;
  };
  const Case cases[] = {
      {ordered_barrier_token, 1, threads},
      {races_barrier_token_not_waited_for, 1, threads},
      {races_barrier_arrival_before_the_write, 1, threads},
      {ordered_barrier_of_all, 1, threads},
      {races_barrier_of_half, 1, threads},
      {ordered_barrier_drop, 1, threads},
      {races_barrier_drop, 1, threads},
      {ordered_global_barrier, 3, threads, false, make_barrier<cuda::thread_scope_device>},
      {races_global_barrier_of_block_scope, 3, threads, false, make_barrier<cuda::thread_scope_block>},
      {ordered_barrier_copy, 1, threads},
      {races_barrier_copy_not_waited_for, 1, threads},
      {races_barrier_copy_into_what_is_read, 1, threads},
      {ordered_bulk_copy, 1, threads},
      {races_bulk_copy_without_a_fence, 1, threads},
      {ordered_pipeline, 1, threads},
      {ordered_pipeline_of_one, 1, threads},
      {races_pipeline_not_waited_for, 1, threads},
      {races_pipeline_released_early, 1, threads},
      {races_pipeline_not_acquired, 1, threads},
      {ordered_pipeline_of_thread, 1, threads},
      {races_pipeline_of_thread, 1, threads},
      {ordered_pipeline_roles, 1, threads},
      {races_pipeline_roles, 1, threads},
      {ordered_latch, 1, threads},
      {races_latch_asked_but_not_waited_for, 1, threads},
      {ordered_latch_of_all, 1, threads},
      {races_latch_counted_short, 1, threads},
      {ordered_semaphore, 4, threads, false, make_semaphore<cuda::thread_scope_device>},
      {races_semaphore_of_block_scope, 4, threads, false, make_semaphore<cuda::thread_scope_block>},
      {ordered_flag, 3, threads},
      {races_flag_relaxed, 3, threads},
      {races_flag_of_block_scope, 3, threads},
      {ordered_once, 2, threads},
      {races_once, 2, threads},
      {ordered_group_block, 1, threads},
      {ordered_group_tile, 1, threads},
      {races_group_of_half_a_warp, 1, threads},
      {races_group_of_every_other_lane, 1, threads},
      {ordered_invoke_one, 1, threads},
      {races_invoke_one, 1, threads},
      {ordered_group_copy, 1, threads},
      {races_group_copy_of_two_stages, 1, threads},
      {races_group_copy_into_what_is_read, 1, threads},
      {ordered_grid_sync, 3, threads, true},
      {ordered_grid_split, 3, threads, true},
      {races_grid_write_behind_the_arrival, 3, threads, true},
      {races_grid_read_before_the_wait, 3, threads, true},
  };
  for (const Case& one : cases) {
    clear<<<1, 1>>>();
    if (one.before) one.before<<<1, 1>>>();
    void* arguments[] = {&out};
    if (one.cooperative)
      CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(one.kernel), dim3(one.blocks), dim3(one.threads), arguments, 0, 0));
    else
      one.kernel<<<one.blocks, one.threads>>>(out);
    CHECK(cudaDeviceSynchronize());
  }
  std::printf("%zu cases\n", sizeof cases / sizeof cases[0]);
}
