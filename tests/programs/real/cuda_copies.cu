// libcu++'s asynchronous copies: of every element size and alignment, by threads, tiles and blocks of one to three
// dimensions, that arrive at barriers and pipelines; pipelines made twice over one state, split by a count, two at once;
// the wrappers of mbarrier and bulk instructions; pointers with properties.
#include <cooperative_groups.h>
#include <cuda/annotated_ptr>
#include <cuda/barrier>
#include <cuda/discard_memory>
#include <cuda/pipeline>
#include <cuda/ptx>
#include <cuda/std/chrono>

#include <utility>

#include "agree.h"

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;
using namespace agree;
#pragma nv_diag_suppress static_var_with_dynamic_init  // shared barriers, initialised by init()
using Barrier = cuda::barrier<cuda::thread_scope_block>;

template <int Bytes>
struct Element {
  unsigned char byte[Bytes];
};

// By the block, then by each tile of eight, then by each thread; all wait at one barrier, phase by phase.
template <class T>
__global__ void sizes_kernel(const T* in, T* out, int count, int skew) {
  extern __shared__ __align__(16) char memory[];
  __shared__ Barrier barrier;
  T* buffer = reinterpret_cast<T*>(memory);
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<8>(block);
  int t = block.thread_rank(), n = block.num_threads();
  if (t == 0) init(&barrier, n);
  block.sync();
  cuda::memcpy_async(block, buffer + skew, in + skew, sizeof(T) * (count - skew), barrier);
  barrier.arrive_and_wait();
  for (int i = t; i < count - skew; i += n) out[i] = buffer[count - 1 - i];
  barrier.arrive_and_wait();
  int each = count / tile.meta_group_size(), first = tile.meta_group_rank() * each;
  cuda::memcpy_async(tile, buffer + first, in + first, sizeof(T) * each, barrier);
  (void)barrier.arrive();
  barrier.wait_parity(false);
  for (int i = t; i < each * int(tile.meta_group_size()); i += n) out[count + i] = buffer[i];
  barrier.arrive_and_wait();
  if (t < count) cuda::memcpy_async(buffer + t, in + count - 1 - t, sizeof(T), barrier);
  barrier.arrive_and_wait();
  if (t < count) out[2 * count + t] = buffer[min(n, count) - 1 - t];
}

template <class T>
void sizes(dim3 shape, int count, int skew) {
  int n = shape.x * shape.y * shape.z, tiles = n / 8, each = count / tiles;
  std::vector<unsigned char> bytes = values<unsigned char>(count * sizeof(T), 0, 255, count);
  std::vector<T> in(count), expected(3 * count);
  std::memcpy(in.data(), bytes.data(), bytes.size());
  std::memset(expected.data(), 0x5a, 3 * count * sizeof(T));
  for (int i = 0; i < count - skew; ++i) expected[i] = in[count - 1 - i];
  for (int i = 0; i < each * tiles; ++i) expected[count + i] = in[i];
  for (int i = 0; i < std::min(n, count); ++i) expected[2 * count + i] = in[count - 1 - (std::min(n, count) - 1 - i)];
  Array<T> device(in), out(3 * count);
  sizes_kernel<T><<<1, shape, (count + 1) * sizeof(T)>>>(device, out, count, skew);
  equal("copies of elements", sizeof(T), out.host(), expected);
}

// Two pipelines at once, the second of other stages, made again over the same state when they have ended; `producers`
// threads of the second produce, the others consume.
__global__ void pipelines_kernel(const int* in, int* out, int tiles, int producers) {
  extern __shared__ int words[];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> first_state;
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 3> second_state;
  auto block = cg::this_thread_block();
  int t = block.thread_rank(), n = block.num_threads(), sum = 0;
  for (int turn = 0; turn < 2; ++turn) {
    auto all = cuda::make_pipeline(block, &first_state);
    auto parted = cuda::make_pipeline(block, &second_state, producers);
    bool produces = t < producers;
    for (int tile = 0; tile < tiles; ++tile) {
      int* a = words + tile % 2 * n;
      all.producer_acquire();
      cuda::memcpy_async(block, a, in + tile * n, sizeof(int) * n, all);
      all.producer_commit();
      if (produces) {
        parted.producer_acquire();
        for (int i = t; i < n; i += producers)
          cuda::memcpy_async(words + (2 + tile % 3) * n + i, in + tile * n + i, cuda::aligned_size_t<4>(sizeof(int)), parted);
        parted.producer_commit();
      }
      while (!all.consumer_wait_for(cuda::std::chrono::microseconds(1))) {
      }
      sum = 3 * sum + a[(t + 1) % n];
      all.consumer_release();
      if (!produces) {
        parted.consumer_wait();
        sum += words[(2 + tile % 3) * n + n - 1 - t];
        parted.consumer_release();
      }
    }
    bool ended = all.quit();
    out[n + t] = ended; // one of the threads, or one of each warp: the last
    block.sync();
  }
  out[t] = sum;
}

void pipelines(dim3 shape, int tiles, int producers) {
  int n = shape.x * shape.y * shape.z;
  std::vector<int> in = values<int>(tiles * n, 0, 50, n), expected(n);
  for (int t = 0; t < n; ++t) {
    unsigned sum = 0;
    for (int turn = 0; turn < 2; ++turn) {
      for (int tile = 0; tile < tiles; ++tile) sum = 3 * sum + in[tile * n + (t + 1) % n] + (t < producers ? 0 : in[tile * n + n - 1 - t]);
    }
    expected[t] = int(sum);
  }
  Array<int> device(in), out(2 * n);
  pipelines_kernel<<<1, shape, 5 * n * sizeof(int)>>>(device, out, tiles, producers);
  equal("two pipelines", n, out.host(n), expected);
}

// The instructions themselves: an mbarrier of a cluster's blocks, bulk copies both ways, sums in bulk, stores that arrive
// at another block's barrier.
__global__ void __cluster_dims__(2, 1, 1) instructions_kernel(const int* in, int* out, int* sums, int rounds) {
  extern __shared__ __align__(16) int tile[]; // two of them
  __shared__ std::uint64_t full, arrived;
  __shared__ alignas(16) int there[4];
  auto cluster = cg::this_cluster();
  int t = threadIdx.x, n = blockDim.x, b = blockIdx.x;
  if (t == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::mbarrier_init(&arrived, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::fence_proxy_async(ptx::space_shared);
  }
  cluster.sync();
  for (int round = 0; round < rounds; ++round) {
    const int* from = in + (b * rounds + round) * n;
    if (t == 0) {
      ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, sizeof(int) * n);
      ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile, from, std::uint32_t(sizeof(int) * n), &full);
    }
    while (!ptx::mbarrier_try_wait_parity(&full, round & 1)) {
    }
    tile[n + t] = 2 * tile[n - 1 - t] + 1;
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (t == 0) {
      ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out + (b * rounds + round) * n, tile + n, std::uint32_t(sizeof(int) * n));
      ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, sums, tile + n, std::uint32_t(sizeof(int) * n));
      ptx::cp_async_bulk_commit_group();
      ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>{});
      // A word for the other block, which waits for as many bytes.
      ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cluster, ptx::space_shared, &arrived, sizeof(int));
      unsigned other = cluster.block_rank() ^ 1;
      ptx::st_async(cluster.map_shared_rank(&there[0], other), tile[n] + round, cluster.map_shared_rank(&arrived, other));
      while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &arrived, round & 1)) {
      }
      sums[n + b * rounds + round] = there[0];
    }
    ptx::barrier_cluster_arrive(ptx::sem_release);
    ptx::barrier_cluster_wait(ptx::sem_acquire);
  }
  if (t == 0) ptx::cp_async_bulk_wait_group(ptx::n32_t<0>{});
}

void instructions(int blocks, int threads, int rounds) {
  std::vector<int> in = values<int>(blocks * threads * rounds, 0, 1000, threads), expected(in.size()), sums(threads + blocks * rounds);
  for (int part = 0; part < blocks * rounds; ++part) {
    for (int t = 0; t < threads; ++t) {
      expected[part * threads + t] = 2 * in[part * threads + threads - 1 - t] + 1;
      sums[t] += expected[part * threads + t];
    }
    sums[threads + ((part / rounds ^ 1) * rounds + part % rounds)] = expected[part * threads] + part % rounds;
  }
  Array<int> device(in), out(in.size()), sum(std::vector<int>(sums.size(), 0));
  instructions_kernel<<<blocks, threads, 2 * threads * sizeof(int)>>>(device, out, sum, rounds);
  equal("instructions", threads, out.host(), expected);
  equal("sums in bulk and words of the other block", threads, sum.host(), sums);
}

// Hints, which change nothing but speed.
__global__ void hints_kernel(cuda::annotated_ptr<const int, cuda::access_property::streaming> in,
                             cuda::annotated_ptr<int, cuda::access_property::persisting> out, int* scratch) {
  extern __shared__ int words[];
  cuda::annotated_ptr<int, cuda::access_property::shared> s(words);
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  s[t] = in[i];
  scratch[i] = 3 * in[i];
  __syncthreads();
  int mine = s[blockDim.x - 1 - t] + scratch[blockIdx.x * blockDim.x + blockDim.x - 1 - t];
  __syncthreads();
  if (t == 0) {
    cuda::apply_access_property(scratch + blockIdx.x * blockDim.x, blockDim.x * sizeof(int), cuda::access_property::normal{});
    cuda::discard_memory(scratch + blockIdx.x * blockDim.x, blockDim.x * sizeof(int));
  }
  out[i] = mine;
}

void hints(int blocks, int threads) {
  std::vector<int> in = values<int>(blocks * threads, 0, 100, 1), expected(in.size());
  for (int i = 0; i < blocks * threads; ++i) expected[i] = 4 * in[i / threads * threads + threads - 1 - i % threads];
  Array<int> device(in), out(in.size()), scratch(in.size());
  hints_kernel<<<blocks, threads, threads * sizeof(int)>>>(
      cuda::annotated_ptr<const int, cuda::access_property::streaming>(device.data()),
      cuda::annotated_ptr<int, cuda::access_property::persisting>(out.data()), scratch);
  equal("annotated pointers", in.size(), out.host(), expected);
}

int main() {
  sizes<Element<1>>(dim3(24), 100, 0), sizes<Element<1>>(dim3(8, 3, 3), 77, 3), sizes<Element<2>>(dim3(40), 33, 1);
  sizes<Element<12>>(dim3(64), 70, 1), sizes<int>(dim3(16, 2), 129, 1), sizes<double>(dim3(56), 57, 0);
  sizes<int4>(dim3(32, 4), 128, 2);
  pipelines(dim3(2), 3, 1), pipelines(dim3(11, 3, 2), 5, 17), pipelines(dim3(128), 4, 32);
  instructions(2, 32, 3), instructions(4, 100, 2);
  hints(2, 64), hints(3, 33);
  return conclude();
}
