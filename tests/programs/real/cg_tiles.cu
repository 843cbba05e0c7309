// Cooperative groups in blocks of odd shapes: tiles of all sizes with structures and doubles, scans and reductions that
// update atomics of block and device scope, groups that form inside branches and loops, copies by tiles of ranges that
// are aligned to anything, elected lanes, split barriers of blocks and grids one behind the other.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/atomic>

#include <utility>

#include "agree.h"

namespace cg = cooperative_groups;
using namespace agree;

// Eight bytes, the most that tiles of several warps take; the order of the operands matters.
struct Affine {
  unsigned a, b;
};
struct Compose {
  __host__ __device__ Affine operator()(const Affine& f, const Affine& g) const { return {f.a * g.a, f.b * g.a + g.b}; }
};
__host__ __device__ inline Affine affine(unsigned x) { return {2 * x + 1, x + 5}; }

template <int Size, int Threads>
__global__ void tile_kernel(const unsigned* in, unsigned* out, cuda::atomic<unsigned, cuda::thread_scope_device>* totals) {
  __shared__ cg::block_tile_memory<Threads> scratch;
  __shared__ unsigned block_memory[2];
  auto& block_totals = reinterpret_cast<cuda::atomic<unsigned, cuda::thread_scope_block>(&)[2]>(block_memory);
  auto block = cg::this_thread_block(scratch);
  auto tile = cg::tiled_partition<Size>(block);
  unsigned t = block.thread_rank(), n = block.num_threads(), mine = in[t];
  if (t < 2) new (&block_totals[t]) cuda::atomic<unsigned, cuda::thread_scope_block>(0);
  block.sync();
  Affine sum = cg::reduce(tile, affine(mine), [](const Affine& f, const Affine& g) { return Affine{f.a * g.a, f.b + g.b}; });
  out[t] = sum.a ^ sum.b;
  Affine before = cg::inclusive_scan(tile, affine(mine), Compose{});
  out[n + t] = before.a ^ before.b;
  out[2 * n + t] = unsigned(cg::reduce(tile, double(mine), cg::plus<double>()));
  // Whose turn it is, is anybody's choice: what each adds to and what it got must fit together.
  unsigned got = cg::exclusive_scan_update(tile, totals[0], mine, cg::plus<unsigned>());
  unsigned own = cg::exclusive_scan(tile, mine, cg::plus<unsigned>());
  out[3 * n + t] = tile.shfl(got, 0) == got - own;
  got = cg::inclusive_scan_update(tile, block_totals[0], mine, cg::plus<unsigned>());
  out[4 * n + t] = tile.shfl(got, 0) - tile.shfl(mine, 0) == got - own - mine;
  cg::reduce_update_async(tile, totals[1], mine, cg::bit_xor<unsigned>());
  cg::reduce_update_async(tile, block_totals[1], mine, cg::greater<unsigned>());
  cg::reduce_store_async(tile, cuda::atomic_ref<unsigned, cuda::thread_scope_block>(out[5 * n + tile.meta_group_rank()]), mine, cg::plus<unsigned>());
  block.sync();
  if (t < 2) out[6 * n + t] = block_totals[t].load(cuda::memory_order_relaxed);
}

template <int Size, int Threads>
void tiles(dim3 shape) {
  int n = shape.x * shape.y * shape.z;
  std::vector<unsigned> in = values<unsigned>(n, 0, 1000, Size), expected(6 * n + 2, 0x5a5a5a5a);
  unsigned total = 0, either = 0, high = 0;
  for (int t = 0; t < n; ++t) {
    int first = t / Size * Size;
    Affine sum{1, 0}, before{1, 0};
    unsigned plain = 0;
    for (int j = first; j < first + Size; ++j) {
      Affine f = affine(in[j]);
      sum = {sum.a * f.a, sum.b + f.b};
      if (j <= t) before = j == first ? f : Compose{}(f, before); // the later operand comes first
      plain += in[j];
    }
    expected[t] = sum.a ^ sum.b, expected[n + t] = before.a ^ before.b;
    expected[2 * n + t] = plain, expected[3 * n + t] = expected[4 * n + t] = 1, expected[5 * n + t / Size] = plain;
    total += in[t], either ^= in[t], high = std::max(high, in[t]);
  }
  expected[6 * n] = total, expected[6 * n + 1] = high;
  Array<unsigned> device(in), out(6 * n + 2);
  Array<cuda::atomic<unsigned, cuda::thread_scope_device>> totals(2);
  CHECK(cudaMemset(totals.data(), 0, 2 * sizeof(unsigned)));
  tile_kernel<Size, Threads><<<1, shape>>>(device, out, totals.data());
  equal("tiles", n, out.host(), expected);
  std::vector<unsigned> words(2);
  CHECK(cudaMemcpy(words.data(), totals.data(), sizeof(unsigned) * 2, cudaMemcpyDeviceToHost));
  equal("updates of device scope", n, words, {total, either});
}

// Groups that form where the data goes: in a loop that lanes leave one by one, and inside one another.
__global__ void divergent_kernel(const unsigned* in, unsigned* out, unsigned* slots) {
  auto block = cg::this_thread_block();
  unsigned t = block.thread_rank(), n = block.num_threads(), mine = in[t], rounds = 0, seen = 0;
  unsigned* own = slots + t / 32 * 32;
  for (unsigned left = mine % 5; left > 0; --left) {
    auto now = cg::coalesced_threads();
    own[t % 32] = t;
    now.sync();
    unsigned peer = now.shfl(t % 32, now.num_threads() - 1 - now.thread_rank());
    seen += own[peer] == t / 32 * 32 + peer;
    now.sync();
    auto label = cg::labeled_partition(now, mine % 3);
    rounds += cg::reduce(label, 1u, cg::plus<unsigned>()) == label.num_threads();
    auto half = cg::binary_partition(label, (mine & 1) != 0);
    rounds += half.shfl(half.num_threads(), 0) == half.size();
    rounds += cg::invoke_one_broadcast(now, [&] { return now.num_threads(); }) == now.num_threads();
  }
  out[t] = rounds, out[n + t] = seen;
  block.sync();
  if (mine % 2) {
    auto odd = cg::coalesced_threads();
    unsigned ticket = 0;
    cg::invoke_one(odd, [&] { ticket = atomicAdd(&slots[n], odd.num_threads()); });
    if (mine % 3 == 0) cg::coalesced_threads().sync();
    (void)ticket;
  }
}

void divergent(dim3 shape) {
  int n = shape.x * shape.y * shape.z;
  std::vector<unsigned> in = values<unsigned>(n, 0, 1000, n), expected(2 * n);
  unsigned odd = 0;
  for (int t = 0; t < n; ++t) expected[t] = 3 * (in[t] % 5), expected[n + t] = in[t] % 5, odd += in[t] % 2;
  Array<unsigned> device(in), out(2 * n), slots(std::vector<unsigned>((n + 31) / 32 * 32 + n, 0));
  divergent_kernel<<<1, shape>>>(device, out, slots);
  equal("groups that diverge", n, out.host(), expected);
  equal("one of each group", n, std::vector<unsigned>{slots.host()[n]}, {odd});
}

// Each tile copies a range for itself; `in_skew` and `out_skew` say how many elements off 16 bytes it begins.
constexpr int room = 256;
template <class T, int Size>
__global__ void copy_kernel(const T* in, T* out, int each, int in_skew, int out_skew) {
  extern __shared__ __align__(16) char memory[];
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<Size>(block);
  T* mine = reinterpret_cast<T*>(memory) + tile.meta_group_rank() * room + out_skew;
  in += tile.meta_group_rank() * room + in_skew;
  out += tile.meta_group_rank() * each;
  cg::memcpy_async(tile, mine, in, sizeof(T) * each);
  cg::wait(tile);
  for (int i = tile.thread_rank(); i < each; i += Size) out[i] = mine[each - 1 - i];
  tile.sync();
  // In elements, with bounds on both sides.
  cg::memcpy_async(tile, mine, each, in + 16, each / 2);
  cg::wait_prior<0>(tile);
  for (int i = tile.thread_rank(); i < each / 2; i += Size) out[i] = mine[i];
}

template <class T, int Size>
void copies(int tiles, int each, int in_skew, int out_skew) {
  std::vector<T> in = values<T>(tiles * room, 0, 120, each + in_skew), expected(tiles * each);
  for (int k = 0; k < tiles; ++k) {
    const T* from = &in[k * room + in_skew];
    for (int i = 0; i < each; ++i) expected[k * each + i] = i < each / 2 ? from[16 + i] : from[each - 1 - i];
  }
  Array<T> device(in), out(std::max(tiles * each, 1));
  copy_kernel<T, Size><<<1, tiles * Size, tiles * room * sizeof(T)>>>(device, out, each, in_skew, out_skew);
  equal("copies by tiles", each, out.host(tiles * each), expected);
}

// Barriers of blocks and of the grid, several of each in a row, the arrival apart from the wait.
__global__ void barrier_kernel(int* data, int* out, int rounds) {
  __shared__ int s[3];
  auto grid = cg::this_grid();
  auto block = cg::this_thread_block();
  int t = int(grid.thread_rank()), n = int(grid.num_threads()), sum = 0;
  for (int round = 0; round < rounds; ++round) {
    if (block.thread_rank() == block.num_threads() - 1) s[round % 3] = round + int(grid.block_rank());
    auto token = block.barrier_arrive();
    data[(round & 1) * n + t] = t * 3 + round;
    block.barrier_wait(std::move(token));
    auto arrival = grid.barrier_arrive();
    sum += s[round % 3];
    grid.barrier_wait(std::move(arrival));
    sum += data[(round & 1) * n + (t + n / 2 + 1) % n];
    if (round % 2) grid.sync(), grid.sync();
  }
  out[t] = sum;
}

void barriers(dim3 blocks, dim3 shape) {
  int rounds = 5, per = shape.x * shape.y * shape.z, n = per * blocks.x * blocks.y * blocks.z;
  std::vector<int> expected(n);
  for (int t = 0; t < n; ++t) {
    for (int round = 0; round < rounds; ++round) expected[t] += round + t / per + (t + n / 2 + 1) % n * 3 + round;
  }
  Array<int> data(2 * n), out(n);
  int *first = data, *second = out;
  void* arguments[] = {&first, &second, &rounds};
  CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(barrier_kernel), blocks, shape, arguments, 0, 0));
  equal("barriers in a row", n, out.host(), expected);
}

int main() {
  tiles<1, 32>(dim3(5, 3, 3));
  tiles<4, 64>(dim3(6, 2, 3));
  tiles<16, 128>(dim3(8, 8, 2));
  tiles<32, 1024>(dim3(32, 30));
  tiles<64, 256>(dim3(16, 4, 4));
  tiles<256, 512>(dim3(512));
  for (dim3 shape : {dim3(1), dim3(33), dim3(7, 5, 3), dim3(128)}) divergent(shape);
  copies<char, 32>(3, 100, 0, 0), copies<char, 32>(2, 77, 1, 1), copies<char, 32>(2, 150, 5, 13), copies<char, 32>(1, 99, 3, 4);
  copies<char, 32>(1, 0, 0, 0), copies<short, 16>(4, 50, 1, 0), copies<short, 16>(2, 97, 3, 7), copies<int, 32>(2, 129, 2, 3);
  copies<double, 4>(6, 19, 1, 0);
  barriers(dim3(1), dim3(1)), barriers(dim3(3), dim3(33)), barriers(dim3(2, 2), dim3(9, 3, 2));
  return conclude();
}
