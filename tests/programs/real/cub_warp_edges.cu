// CUB's warp-wide algorithms where their usual use ends: segments, partial warps, initial values, scattered items, pairs,
// exchanges through shuffles, striped and partial loads and stores.
#include <cub/warp/warp_exchange.cuh>
#include <cub/warp/warp_load.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#include <cub/warp/warp_store.cuh>

#include <numeric>

#include "agree.h"

using namespace agree;

constexpr int threads = 64;
struct Larger {
  __host__ __device__ int operator()(int a, int b) const { return a > b ? a : b; }
};
struct Less {
  __host__ __device__ bool operator()(int a, int b) const { return a < b; }
};
// More than a shuffle moves at a time: goes through shared memory or in parts.
struct Wide {
  long long sum;
  int most;
  short count;
};
struct Join {
  __host__ __device__ Wide operator()(const Wide& a, const Wide& b) const {
    return {a.sum + b.sum, a.most > b.most ? a.most : b.most, static_cast<short>(a.count + b.count)};
  }
};

// Rows of `out`, `threads` values each. Segments begin at `head` and end at `tail`; only what their first lanes hold counts.
template <int Width>
__global__ void segments_kernel(const int* in, int valid, int* out) {
  using Reduce = cub::WarpReduce<int, Width>;
  using WideReduce = cub::WarpReduce<Wide, Width>;
  __shared__ typename Reduce::TempStorage storage[threads / Width];
  __shared__ typename WideReduce::TempStorage wide_storage[threads / Width];
  int t = threadIdx.x, warp = t / Width, lane = t % Width, mine = in[t], row = 0;
  bool head = lane % 3 == 0, tail = lane % 3 == 2 || lane == Width - 1;
  auto store = [&](int value, bool counts) {
    out[row++ * threads + t] = counts ? value : 0;
    __syncwarp();
  };
  Reduce reduce(storage[warp]);
  store(reduce.TailSegmentedSum(mine, tail), head);
  store(reduce.HeadSegmentedReduce(mine, head, Larger{}), head);
  store(reduce.TailSegmentedReduce(mine, tail, Larger{}), head);
  store(reduce.Sum(mine, valid), lane == 0);
  Wide all = WideReduce(wide_storage[warp]).Reduce(Wide{mine, mine, 1}, Join{});
  store(static_cast<int>(all.sum), lane == 0), store(all.most, lane == 0), store(all.count, lane == 0);
}

template <int Width>
void segments(int valid) {
  std::vector<int> in = values<int>(threads, -100, 100, Width), expected(7 * threads);
  for (int t = 0; t < threads; ++t) {
    int lane = t % Width, end = std::min(t + 3, t - lane + Width);
    if (lane % 3 == 0) {
      expected[t] = std::accumulate(&in[t], &in[0] + end, 0);
      expected[threads + t] = expected[2 * threads + t] = *std::max_element(&in[t], &in[0] + end);
    }
    if (lane > 0) continue;
    expected[3 * threads + t] = std::accumulate(&in[t], &in[t] + valid, 0);
    expected[4 * threads + t] = std::accumulate(&in[t], &in[t] + Width, 0);
    expected[5 * threads + t] = *std::max_element(&in[t], &in[t] + Width);
    expected[6 * threads + t] = Width;
  }
  Array<int> device(in), out(7 * threads);
  segments_kernel<Width><<<1, threads>>>(device, valid, out);
  equal("WarpReduce of segments", Width, out.host(), expected);
}

template <int Width>
__global__ void scan_kernel(const int* in, int* out) {
  using Scan = cub::WarpScan<int, Width>;
  __shared__ typename Scan::TempStorage storage[threads / Width];
  int t = threadIdx.x, lane = t % Width, mine = in[t], row = 0, result, before, total;
  Scan scan(storage[t / Width]);
  auto store = [&](int value) {
    out[row++ * threads + t] = value;
    __syncwarp();
  };
  scan.ExclusiveSum(mine, result, total), store(result), store(total);
  scan.InclusiveScan(mine, result, Larger{}, total), store(result), store(total);
  scan.InclusiveScan(mine, result, 30, Larger{}), store(result);
  scan.ExclusiveScan(mine, result, 30, Larger{}, total), store(result), store(total);
  scan.ExclusiveScan(mine, result, Larger{}), store(lane == 0 ? 0 : result);
  scan.Scan(mine, result, before, Larger{}), store(result), store(lane == 0 ? 0 : before);
  scan.Scan(mine, result, before, 40, Larger{}), store(result), store(before);
}

template <int Width>
void scans() {
  std::vector<int> in = values<int>(threads, -100, 100, 10 + Width), expected(12 * threads);
  for (int t = 0; t < threads; ++t) {
    int lane = t % Width, *first = &in[t - lane], top = *std::max_element(first, first + Width);
    int high = *std::max_element(first, first + lane + 1), old = lane == 0 ? INT_MIN : *std::max_element(first, first + lane);
    int sum = std::accumulate(first, first + lane, 0), total = std::accumulate(first, first + Width, 0);
    // An initial value belongs to what a scan gives, not to its aggregate of one warp.
    const int row[12] = {sum,  total, high, top, std::max(30, high), std::max(30, old), top, lane == 0 ? 0 : old,
                         high, lane == 0 ? 0 : old, std::max(40, high), std::max(40, old)};
    for (int r = 0; r < 12; ++r) expected[r * threads + t] = row[r];
  }
  Array<int> device(in), out(12 * threads);
  scan_kernel<Width><<<1, threads>>>(device, out);
  equal("WarpScan", Width, out.host(), expected);
}

// Items a thread: as many as lanes in a logical warp, which an exchange through shuffles asks for.
template <int Width, cub::WarpExchangeAlgorithm How>
__global__ void exchange_kernel(const int* in, int* out) {
  using Exchange = cub::WarpExchange<int, Width, Width, How>;
  __shared__ typename Exchange::TempStorage storage[threads / Width];
  int t = threadIdx.x, first = t / Width * Width * Width, lane = t % Width, mine[Width], got[Width];
  Exchange exchange(storage[t / Width]);
  for (int i = 0; i < Width; ++i) mine[i] = in[first + lane * Width + i];
  exchange.BlockedToStriped(mine, got);
  for (int i = 0; i < Width; ++i) out[first + i * Width + lane] = got[i];
  __syncwarp();
  exchange.StripedToBlocked(got, mine);
  for (int i = 0; i < Width; ++i) out[threads * Width + first + lane * Width + i] = mine[i];
  __syncwarp();
  if constexpr (How == cub::WARP_EXCHANGE_SMEM) {
    int ranks[Width];
    for (int i = 0; i < Width; ++i) ranks[i] = (lane * Width + i) * 5 % (Width * Width);
    exchange.ScatterToStriped(mine, got, ranks);
    for (int i = 0; i < Width; ++i) out[2 * threads * Width + first + i * Width + lane] = got[i];
  }
}

template <int Width, cub::WarpExchangeAlgorithm How>
void exchanges(const char* what) {
  constexpr int size = threads * Width, warp = Width * Width, rows = How == cub::WARP_EXCHANGE_SMEM ? 3 : 2;
  std::vector<int> in = values<int>(size, 0, 9999, 20), expected(in);
  expected.insert(expected.end(), in.begin(), in.end());
  expected.resize(rows * size);
  for (int i = 0; rows == 3 && i < size; ++i) expected[2 * size + i / warp * warp + i % warp * 5 % warp] = in[i];
  Array<int> device(in), out(rows * size);
  exchange_kernel<Width, How><<<1, threads>>>(device, out);
  equal(what, Width, out.host(), expected);
}

// Of each warp's tile, the first `valid` items are loaded, sorted with what belongs to them, and stored.
template <int Width, int Items, cub::WarpLoadAlgorithm Load, cub::WarpStoreAlgorithm Store>
__global__ void sort_kernel(const int* in, int valid, int* keys_out, int* with_out) {
  using Sort = cub::WarpMergeSort<int, Items, Width, int>;
  using WarpLoad = cub::WarpLoad<int, Items, Load, Width>;
  using WarpStore = cub::WarpStore<int, Items, Store, Width>;
  __shared__ union {
    typename Sort::TempStorage sort;
    typename WarpLoad::TempStorage load;
    typename WarpStore::TempStorage store;
  } storage[threads / Width];
  int warp = threadIdx.x / Width, first = warp * Width * Items, keys[Items], with[Items];
  WarpLoad(storage[warp].load).Load(in + first, keys, valid, 1 << 20);
  for (int i = 0; i < Items; ++i) with[i] = keys[i] * 2 + 1;
  __syncwarp();
  Sort(storage[warp].sort).StableSort(keys, with, Less{}, valid, 1 << 20);
  __syncwarp();
  WarpStore(storage[warp].store).Store(keys_out + first, keys, valid);
  __syncwarp();
  WarpStore(storage[warp].store).Store(with_out + first, with, valid);
}

template <int Width, int Items, cub::WarpLoadAlgorithm Load, cub::WarpStoreAlgorithm Store>
void sorts(const char* what, int valid) {
  constexpr int tile = Width * Items, size = threads * Items;
  std::vector<int> in = values<int>(size, 0, 999, 30), keys(in), with(size);
  for (int first = 0; first < size; first += tile) {
    std::sort(&keys[first], &keys[first] + valid);
    std::fill(&keys[first] + valid, &keys[first] + tile, 0x5a5a5a5a);
    for (int i = 0; i < tile; ++i) with[first + i] = i < valid ? keys[first + i] * 2 + 1 : 0x5a5a5a5a;
  }
  Array<int> device(in), out(size), out_with(size);
  sort_kernel<Width, Items, Load, Store><<<1, threads>>>(device, valid, out, out_with);
  equal(what, Width, out.host(), keys);
  equal(what, Width, out_with.host(), with);
}

// Striped loads and stores agree with each other about where an item is.
template <int Width, int Items>
__global__ void copy_kernel(const int* in, int valid, int* out) {
  using Load = cub::WarpLoad<int, Items, cub::WARP_LOAD_STRIPED, Width>;
  using Store = cub::WarpStore<int, Items, cub::WARP_STORE_STRIPED, Width>;
  __shared__ typename Load::TempStorage load[threads / Width];
  __shared__ typename Store::TempStorage store[threads / Width];
  int warp = threadIdx.x / Width, first = warp * Width * Items, mine[Items];
  Load(load[warp]).Load(in + first, mine, valid);
  Store(store[warp]).Store(out + first, mine, valid);
  Load(load[warp]).Load(in + first, mine);
  for (int i = 0; i < Items; ++i) out[threads * Items + first + i * Width + threadIdx.x % Width] = mine[i];
}

template <int Width, int Items>
void copies(int valid) {
  std::vector<int> in = values<int>(threads * Items, 0, 999, 40), expected(in);
  for (int i = 0; i < threads * Items; ++i) {
    if (i % (Width * Items) >= valid) expected[i] = 0x5a5a5a5a;
  }
  expected.insert(expected.end(), in.begin(), in.end());
  Array<int> device(in), out(expected.size());
  copy_kernel<Width, Items><<<1, threads>>>(device, valid, out);
  equal("WarpLoad and WarpStore, striped", Width, out.host(), expected);
}

int main() {
  segments<32>(32), segments<32>(5);
  segments<16>(1), segments<8>(7), segments<4>(4);
  scans<32>(), scans<16>(), scans<4>();
  exchanges<16, cub::WARP_EXCHANGE_SMEM>("WarpExchange through shared memory");
  exchanges<4, cub::WARP_EXCHANGE_SMEM>("WarpExchange through shared memory");
  exchanges<8, cub::WARP_EXCHANGE_SHUFFLE>("WarpExchange through shuffles");
  exchanges<32, cub::WARP_EXCHANGE_SHUFFLE>("WarpExchange through shuffles");
  sorts<32, 3, cub::WARP_LOAD_DIRECT, cub::WARP_STORE_DIRECT>("WarpMergeSort of pairs", 50);
  sorts<16, 2, cub::WARP_LOAD_TRANSPOSE, cub::WARP_STORE_TRANSPOSE>("WarpMergeSort of pairs, transposing", 1);
  sorts<8, 4, cub::WARP_LOAD_VECTORIZE, cub::WARP_STORE_VECTORIZE>("WarpMergeSort of pairs, vectors", 31);
  copies<32, 2>(64), copies<16, 3>(20), copies<4, 1>(0);
  return conclude();
}
