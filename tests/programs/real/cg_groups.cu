// Cooperative groups: blocks, tiles of all sizes (also of several warps), coalesced threads, labeled and binary
// partitions: synchronization, exchanges, votes, reduce, scan, invoke_one, memcpy_async.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/atomic>

#include <utility>

#include "agree.h"

namespace cg = cooperative_groups;
using namespace agree;

// What each thread got from each operation, a row an operation.
struct Rows {
  int* out;
  int width;
  __device__ void put(int row, int value) const { out[row * width + blockIdx.x * blockDim.x + threadIdx.x] = value; }
};

template <int Size>
__global__ void tile_kernel(const int* in, Rows rows, int* total) {
  cg::thread_block block = cg::this_thread_block();
  __shared__ cg::block_tile_memory<512> scratch;
  auto whole = cg::this_thread_block(scratch);
  auto tile = cg::tiled_partition<Size>(whole);
  int mine = in[blockIdx.x * blockDim.x + block.thread_rank()];
  rows.put(0, cg::reduce(tile, mine, cg::plus<int>()));
  rows.put(1, cg::reduce(tile, mine, cg::less<int>()));
  rows.put(2, cg::reduce(tile, mine, cg::bit_xor<int>()));
  rows.put(3, cg::inclusive_scan(tile, mine));
  rows.put(4, cg::exclusive_scan(tile, mine, cg::greater<int>()));
  rows.put(5, tile.shfl(mine, Size / 2) + 1000 * tile.shfl(mine, Size - 1));
  cg::reduce_update_async(tile, cuda::atomic_ref<int, cuda::thread_scope_device>(total[0]), mine, cg::plus<int>());
  rows.put(6, tile.any(mine > 95) + 2 * tile.all(mine > 5));
  rows.put(7, static_cast<int>(tile.meta_group_rank() * 1000 + tile.thread_rank()));
  // A value handed round through shared memory, ordered by nothing but the tile's own barrier.
  __shared__ int slots[256];
  slots[block.thread_rank()] = mine;
  tile.sync();
  int neighbour = block.thread_rank() / Size * Size + (tile.thread_rank() + 1) % Size;
  rows.put(8, slots[neighbour]);
}

template <int Size>
void tiles(int blocks, int threads) {
  int size = blocks * threads;
  std::vector<int> in = values<int>(size, 0, 100, Size), expected(9 * size);
  int total = 0;
  for (int i = 0; i < size; ++i) {
    int place = i % threads % Size, first = i - place;
    auto at = [&](int row) -> int& { return expected[row * size + i]; };
    at(1) = in[first];  // row 4: the first thread of an exclusive scan gets 0, whatever the operator
    bool any = false, all = true;
    for (int j = first; j < first + Size; ++j) {
      at(0) += in[j];
      at(1) = std::min(at(1), in[j]);
      at(2) ^= in[j];
      if (j <= i) at(3) += in[j];
      if (j < i) at(4) = std::max(at(4), in[j]);
      any |= in[j] > 95, all &= in[j] > 5;
    }
    at(5) = in[first + Size / 2] + 1000 * in[first + Size - 1];
    at(6) = any + 2 * all;
    at(7) = i % threads / Size * 1000 + place;
    at(8) = in[first + (place + 1) % Size];
    total += in[i];
  }
  Array<int> device(in), out(9 * size), sum(std::vector<int>(1, 0));
  tile_kernel<Size><<<blocks, threads>>>(device, Rows{out, size}, sum);
  equal("tiles", Size, out.host(), expected);
  equal("reduce_update_async", Size, sum.host(), {total});
}

// Groups that the data chooses: odd and even lanes, equal labels, those that took a branch.
__global__ void chosen_kernel(const int* in, Rows rows) {
  cg::thread_block block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  int mine = in[block.thread_rank()];
  auto half = cg::binary_partition(warp, mine % 2 == 0);
  rows.put(0, cg::reduce(half, mine, cg::plus<int>()));
  rows.put(1, static_cast<int>(half.size() * 100 + half.thread_rank()));
  auto label = cg::labeled_partition(warp, mine % 5);
  rows.put(2, cg::reduce(label, mine, cg::greater<int>()));
  rows.put(3, cg::exclusive_scan(label, mine));
  label.sync();
  warp.sync();  // else those that take the branch at once need not be all that take it
  rows.put(4, -1);
  if (mine > 40) {
    cg::coalesced_group now = cg::coalesced_threads();
    rows.put(4, cg::reduce(now, mine, cg::plus<int>()) + static_cast<int>(now.size()) * 100000);
    now.sync();
  }
  rows.put(5, static_cast<int>(warp.match_any(mine % 3)));
  auto quad = cg::tiled_partition<4>(warp);
  rows.put(6, quad.shfl_xor(mine, 2) * 1000 + quad.shfl_up(mine, 1));
}

void chosen() {
  constexpr int threads = 96;
  std::vector<int> in = values<int>(threads, 0, 90, 77), expected(7 * threads);
  for (int i = 0; i < threads; ++i) {
    int first = i / 32 * 32;
    auto at = [&](int row) -> int& { return expected[row * threads + i]; };
    at(4) = in[i] > 40 ? 0 : -1;
    for (int j = first; j < first + 32; ++j) {
      if (in[j] % 2 == in[i] % 2) at(0) += in[j], at(1) += 100 + (j < i);
      if (in[j] % 5 == in[i] % 5) at(2) = std::max(at(2), in[j]), at(3) += j < i ? in[j] : 0;
      if (in[i] > 40 && in[j] > 40) at(4) += in[j] + 100000;
      if (in[j] % 3 == in[i] % 3) at(5) |= 1 << (j - first);
    }
    at(6) = in[i / 4 * 4 + (i % 4 ^ 2)] * 1000 + in[i % 4 == 0 ? i : i - 1];
  }
  Array<int> device(in), out(7 * threads);
  chosen_kernel<<<1, threads>>>(device, Rows{out, threads});
  equal("partitions and coalesced threads", threads, out.host(), expected);
}

// The next piece is copied while this one is summed.
__global__ void copy_kernel(const int* in, int count, int* out) {
  extern __shared__ int buffer[];
  cg::thread_block block = cg::this_thread_block();
  int piece = block.size(), pieces = (count + piece - 1) / piece, sum = 0;
  auto fetch = [&](int which) {
    int length = min(piece, count - which * piece);
    cg::memcpy_async(block, buffer + which % 2 * piece, in + which * piece, sizeof(int) * length);
  };
  if (pieces > 0) fetch(0);
  for (int which = 0; which < pieces; ++which) {
    if (which + 1 < pieces) {
      fetch(which + 1);
      cg::wait_prior<1>(block);
    } else {
      cg::wait(block);
    }
    int length = min(piece, count - which * piece);
    // Reversed: what other threads copied.
    if (static_cast<int>(block.thread_rank()) < length) sum += (which + 1) * buffer[which % 2 * piece + length - 1 - block.thread_rank()];
    block.sync();
  }
  out[block.thread_rank()] = sum;
}

void copies(int count) {
  constexpr int threads = 64;
  std::vector<int> in = values<int>(count, 0, 100, 9), expected(threads);
  for (int which = 0; which * threads < count; ++which) {
    int length = std::min(threads, count - which * threads);
    for (int t = 0; t < length; ++t) expected[t] += (which + 1) * in[which * threads + length - 1 - t];
  }
  Array<int> device(in), out(threads);
  copy_kernel<<<1, threads, 2 * threads * sizeof(int)>>>(device, count, out);
  equal("memcpy_async", count, out.host(), expected);
}

// Split barriers and invoke_one of a block.
__global__ void block_kernel(int* out) {
  __shared__ int slots[128];
  cg::thread_block block = cg::this_thread_block();
  int t = block.thread_rank();
  for (int round = 0; round < 3; ++round) {
    slots[t] = t * (round + 1);
    auto token = block.barrier_arrive();
    int own = round;
    block.barrier_wait(std::move(token));
    own += slots[block.size() - 1 - t];
    block.sync();
    cg::invoke_one(block, [&] { out[block.size()] = own * 0 + round; });
    out[t] = own;
  }
}

void whole_blocks(int threads) {
  std::vector<int> expected(threads + 1, 2);
  for (int t = 0; t < threads; ++t) expected[t] = 2 + 3 * (threads - 1 - t);
  Array<int> out(threads + 1);
  block_kernel<<<1, threads>>>(out);
  equal("thread_block", threads, out.host(), expected);
}

// Sums over the whole grid, with a barrier between the rounds.
__global__ void grid_kernel(int* from, int* to, int rounds) {
  cg::grid_group grid = cg::this_grid();
  int t = static_cast<int>(grid.thread_rank()), size = static_cast<int>(grid.size());
  for (int round = 0; round < rounds; ++round) {
    to[t] = from[t] + from[(t + 1 + 32 * round) % size];
    auto token = grid.barrier_arrive();
    grid.barrier_wait(std::move(token));
    int* other = from;
    from = to;
    to = other;
  }
}

void grids(int blocks, int threads) {
  int size = blocks * threads, rounds = 4;
  std::vector<int> expected = values<int>(size, 0, 100, 10), next(size);
  Array<int> from(expected), to(size);
  for (int round = 0; round < rounds; ++round) {
    for (int t = 0; t < size; ++t) next[t] = expected[t] + expected[(t + 1 + 32 * round) % size];
    std::swap(expected, next);
  }
  int *first = from, *second = to;
  void* arguments[] = {&first, &second, &rounds};
  CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(grid_kernel), dim3(blocks), dim3(threads), arguments, 0, 0));
  equal("grid_group", size, from.host(), expected);
}

int main() {
  tiles<1>(1, 32);
  tiles<2>(1, 64);
  tiles<8>(2, 96);
  tiles<32>(2, 128);
  tiles<64>(2, 128);
  tiles<128>(1, 256);
  chosen();
  for (int count : {0, 1, 63, 64, 65, 500}) copies(count);
  for (int threads : {1, 32, 33, 128}) whole_blocks(threads);
  grids(1, 64);
  grids(5, 96);
  return conclude();
}
