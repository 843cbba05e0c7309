// libcu++'s barriers of block scope, mbarriers underneath: arrivals with tokens, counts and drops, completion functions,
// waits by parity and with a limit of time, and asynchronous copies that arrive at them; several shapes of blocks.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/ptx>
#include <cuda/std/chrono>

#include <utility>

#include "agree.h"

namespace cg = cooperative_groups;
using namespace agree;
#pragma nv_diag_suppress static_var_with_dynamic_init  // shared barriers, initialised by init()
using Barrier = cuda::barrier<cuda::thread_scope_block>;

// Rounds of a stencil on a ring in shared memory: write, arrive, do something else, wait, read the neighbours.
__global__ void ring_kernel(const int* in, int* out, int rounds) {
  extern __shared__ int memory[];  // two buffers
  __shared__ Barrier barrier;
  unsigned t = threadIdx.x, n = blockDim.x;
  if (t == 0) init(&barrier, n);
  __syncthreads();
  int mine = in[blockIdx.x * n + t];
  for (int round = 0; round < rounds; ++round) {
    int* now = memory + round % 2 * n;
    now[t] = mine;
    Barrier::arrival_token token = barrier.arrive();
    mine *= 3;
    barrier.wait(std::move(token));
    mine += now[(t + 1) % n] - now[(t + n - 1) % n];
  }
  out[blockIdx.x * n + t] = mine;
}

// A tree: the upper half leaves after each step. Whoever has left is not waited for.
__global__ void drop_kernel(const int* in, int* out) {
  extern __shared__ int memory[];
  int* s = memory;
  __shared__ Barrier barrier;
  unsigned t = threadIdx.x, n = blockDim.x;
  if (t == 0) init(&barrier, n);
  __syncthreads();
  s[t] = in[blockIdx.x * n + t];
  for (unsigned half = n / 2; half > 0; half /= 2) {
    if (t >= half) {
      barrier.arrive_and_drop();
      return;
    }
    barrier.arrive_and_wait();
    s[t] += s[t + half];
  }
  out[blockIdx.x] = s[0];
}

// Warp 0 produces, the others consume; full and empty barriers, waits by parity, arrivals of several at once.
__global__ void parity_kernel(const int* in, int* out, int tiles) {
  __shared__ int tile[2][32];
  __shared__ Barrier full[2], empty[2];
  unsigned lane = threadIdx.x % 32, warps = blockDim.x / 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; ++s) init(&full[s], 32), init(&empty[s], warps - 1);
  }
  __syncthreads();
  in += blockIdx.x * tiles * 32, out += blockIdx.x * (warps - 1) * 32;
  int sum = 0;
  for (int i = 0; i < tiles; ++i) {
    int s = i % 2;
    if (threadIdx.x < 32) {
      empty[s].wait_parity((i / 2 + 1) % 2);
      tile[s][lane] = in[i * 32 + lane];
      (void)full[s].arrive();
    } else {
      while (!full[s].try_wait_parity_for(i / 2 % 2, cuda::std::chrono::microseconds(10))) {
      }
      sum = 7 * sum + tile[s][(lane + threadIdx.x / 32) % 32];
      __syncwarp();
      if (lane == 0) (void)empty[s].arrive(1);
    }
  }
  if (threadIdx.x >= 32) out[threadIdx.x - 32] = sum;
}

// A completion function, of a barrier for warps that are not all of the block.
struct Count {
  int* phases;
  __device__ void operator()() noexcept { *phases += 1; }
};
__global__ void completion_kernel(int* out, int rounds) {
  __shared__ int phases;
  __shared__ cuda::std::aligned_storage<sizeof(cuda::barrier<cuda::thread_scope_block, Count>),
                                        alignof(cuda::barrier<cuda::thread_scope_block, Count>)>::type memory;
  auto* barrier = reinterpret_cast<cuda::barrier<cuda::thread_scope_block, Count>*>(&memory);
  unsigned half = blockDim.x / 2;
  if (threadIdx.x == 0) {
    phases = 0;
    new (barrier) cuda::barrier<cuda::thread_scope_block, Count>(half, Count{&phases});
  }
  __syncthreads();
  if (threadIdx.x >= half) return;
  int seen = 0;
  for (int round = 0; round < rounds; ++round) {
    barrier->arrive_and_wait();
    seen = 5 * seen + phases;
    barrier->arrive_and_wait();
  }
  out[blockIdx.x * half + threadIdx.x] = seen;
}

// cuda::memcpy_async by each thread for itself (an arrival of the copy), by the block together, and in bulk by one
// thread, which says how many bytes will come; all on one barrier, phase by phase.
__global__ void copies_kernel(const int4* in, int4* out) {
  extern __shared__ __align__(16) int4 buffer[];
  __shared__ Barrier barrier;
  unsigned t = threadIdx.x, n = blockDim.x;
  if (t == 0) {
    init(&barrier, n);
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  }
  __syncthreads();
  in += blockIdx.x * 4 * n, out += blockIdx.x * 4 * n;
  cuda::memcpy_async(&buffer[t], &in[t], cuda::aligned_size_t<16>(16), barrier);
  barrier.arrive_and_wait();
  out[t] = buffer[n - 1 - t];
  cuda::memcpy_async(cg::this_thread_block(), buffer + n, in + n, sizeof(int4) * n, barrier);
  barrier.arrive_and_wait();
  out[n + t] = buffer[2 * n - 1 - t];
  Barrier::arrival_token token;
  if (t == 0) {
    cuda::device::memcpy_async_tx(buffer + 2 * n, in + 2 * n, cuda::aligned_size_t<16>(sizeof(int4) * n), barrier);
    token = cuda::device::barrier_arrive_tx(barrier, 1, sizeof(int4) * n);
  } else {
    token = barrier.arrive(1);
  }
  barrier.wait(std::move(token));
  out[2 * n + t] = buffer[3 * n - 1 - t];
  // Back the other way, in bulk.
  buffer[3 * n + t] = in[3 * n + n - 1 - t];
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  __syncthreads();
  if (t == 0) {
    cuda::ptx::cp_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared, out + 3 * n, buffer + 3 * n,
                             std::uint32_t(sizeof(int4) * n));
    cuda::ptx::cp_async_bulk_commit_group();
    cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>{});
  }
  __syncthreads();
  if (t == 0) barrier.~Barrier();
}

void ring(int blocks, int threads, int rounds) {
  std::vector<int> in = values<int>(blocks * threads, -50, 50, threads), expected(in);
  for (int b = 0; b < blocks; ++b) {
    int* ring = &expected[b * threads];
    for (int round = 0; round < rounds; ++round) {
      std::vector<int> now(ring, ring + threads);
      for (int t = 0; t < threads; ++t)
        ring[t] = 3 * now[t] + now[(t + 1) % threads] - now[(t + threads - 1) % threads];
    }
  }
  Array<int> from(in), out(in.size());
  ring_kernel<<<blocks, threads, 2 * threads * sizeof(int)>>>(from, out, rounds);
  equal("arrive and wait", in.size(), out.host(), expected);
}

void drop(int blocks, int threads) {
  std::vector<int> in = values<int>(blocks * threads, 0, 1000, threads), expected(blocks);
  for (int i = 0; i < blocks * threads; ++i) expected[i / threads] += in[i];
  Array<int> from(in), out(blocks);
  drop_kernel<<<blocks, threads, threads * sizeof(int)>>>(from, out);
  equal("arrive and drop", in.size(), out.host(), expected);
}

void parity(int blocks, int warps, int tiles) {
  std::vector<int> in = values<int>(blocks * tiles * 32, 0, 9, warps), expected(blocks * (warps - 1) * 32);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    int block = i / ((warps - 1) * 32), t = i % ((warps - 1) * 32) + 32;
    unsigned sum = 0;
    for (int k = 0; k < tiles; ++k) sum = 7 * sum + in[(block * tiles + k) * 32 + (t % 32 + t / 32) % 32];
    expected[i] = int(sum);
  }
  Array<int> from(in), out(expected.size());
  parity_kernel<<<blocks, 32 * warps>>>(from, out, tiles);
  equal("wait by parity", in.size(), out.host(), expected);
}

void completion(int blocks, int threads, int rounds) {
  unsigned seen = 0;
  for (int round = 0; round < rounds; ++round) seen = 5 * seen + 2 * round + 1;
  std::vector<int> expected(blocks * (threads / 2), int(seen));
  Array<int> out(expected.size());
  completion_kernel<<<blocks, threads>>>(out, rounds);
  equal("completion function", expected.size(), out.host(), expected);
}

void copies(int blocks, int threads) {
  std::size_t size = std::size_t(blocks) * threads * 4;
  std::vector<int> in = values<int>(4 * size, 0, 1 << 30, threads), expected(4 * size);
  for (std::size_t i = 0; i < size; ++i) {
    std::size_t part = i / threads, t = i % threads, from = part * threads + threads - 1 - t;
    for (int k = 0; k < 4; ++k) expected[4 * i + k] = in[4 * from + k];
  }
  Array<int> from(in), out(in.size());
  copies_kernel<<<blocks, threads, 4 * threads * sizeof(int4)>>>(reinterpret_cast<int4*>(from.data()),
                                                                  reinterpret_cast<int4*>(out.data()));
  equal("copies that arrive", size, out.host(), expected);
}

int main() {
  ring(1, 1, 3), ring(2, 33, 4), ring(3, 128, 5), ring(1, 500, 3);
  drop(2, 2), drop(3, 64), drop(1, 256);
  parity(1, 2, 3), parity(2, 4, 8), parity(1, 9, 5);
  completion(1, 2, 4), completion(2, 128, 3);
  copies(1, 32), copies(2, 100), copies(1, 256);
  return conclude();
}
