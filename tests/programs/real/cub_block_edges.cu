// What CUB's block-wide algorithms do at a tile's edges and beyond: neighbours in other tiles, partial tiles, items that
// are left out, initial values, prefixes, direct loads and stores, and blocks of three dimensions.
#include <cub/block/block_adjacent_difference.cuh>
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_run_length_decode.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_shuffle.cuh>
#include <cub/block/block_store.cuh>

#include <numeric>

#include "agree.h"

using namespace agree;

// Blocks of X by 2 by 2 threads, three items a thread.
constexpr int items = 3;
template <int X>
__device__ int rank() {
  return cub::RowMajorTid(X, 2, 2);
}
template <int X>
dim3 shape() {
  return dim3(X, 2, 2);
}

struct Differ {
  __host__ __device__ bool operator()(int a, int b) const { return a != b; }
};
struct Minus {
  __host__ __device__ int operator()(int a, int b) const { return a - 3 * b; }
};
struct Larger {
  __host__ __device__ int operator()(int a, int b) const { return a > b ? a : b; }
};
struct Less {
  __host__ __device__ bool operator()(int a, int b) const { return a < b; }
};

// What is before and behind the tile.
constexpr int before = 1, behind = 77;

// Rows of `out`, X * 4 * items each.
template <int X>
__global__ void neighbours_kernel(const int* in, int valid, int* out) {
  using Flags = cub::BlockDiscontinuity<int, X, 2, 2>;
  using Difference = cub::BlockAdjacentDifference<int, X, 2, 2>;
  __shared__ union {
    typename Flags::TempStorage flags;
    typename Difference::TempStorage difference;
  } storage;
  int start = rank<X>() * items, row = 0, mine[items], a[items], b[items], preds[items];
  for (int i = 0; i < items; ++i) mine[i] = in[start + i];
  auto store = [&](const int (&from)[items]) {
    for (int i = 0; i < items; ++i) out[row * X * 4 * items + start + i] = from[i];
    ++row;
    __syncthreads();
  };
  Flags flags(storage.flags);
  flags.FlagHeads(a, mine, Differ{}), store(a);
  flags.FlagHeads(a, mine, preds, Differ{}, before), store(a), store(preds);
  flags.FlagTails(a, mine, Differ{}), store(a);
  flags.FlagTails(a, mine, Differ{}, behind), store(a);
  flags.FlagHeadsAndTails(a, before, b, behind, mine, Differ{}), store(a), store(b);
  Difference difference(storage.difference);
  difference.SubtractLeft(mine, a, Minus{}, before), store(a);
  difference.SubtractLeftPartialTile(mine, a, Minus{}, valid), store(a);
  difference.SubtractLeftPartialTile(mine, a, Minus{}, valid, before), store(a);
  difference.SubtractRight(mine, a, Minus{}), store(a);
  difference.SubtractRight(mine, a, Minus{}, behind), store(a);
}

template <int X>
void neighbours(int valid) {
  constexpr int size = X * 4 * items;
  std::vector<int> in = runs<int>(size, 4, 3), expected;
  in[0] = before, in[size - 1] = behind;
  auto row = [&](auto item) {
    for (int i = 0; i < size; ++i) expected.push_back(item(i));
  };
  auto left = [&](int i) { return i == 0 ? before : in[i - 1]; };
  auto right = [&](int i) { return i == size - 1 ? behind : in[i + 1]; };
  row([&](int i) { return i == 0 || in[i] != in[i - 1]; });
  row([&](int i) { return in[i] != left(i); });
  row(left);
  row([&](int i) { return i == size - 1 || in[i] != in[i + 1]; });
  row([&](int i) { return in[i] != right(i); });
  row([&](int i) { return in[i] != left(i); });
  row([&](int i) { return in[i] != right(i); });
  row([&](int i) { return Minus{}(in[i], left(i)); });
  row([&](int i) { return i == 0 || i >= valid ? in[i] : Minus{}(in[i], in[i - 1]); });
  row([&](int i) { return i >= valid ? in[i] : Minus{}(in[i], left(i)); });
  row([&](int i) { return i == size - 1 ? in[i] : Minus{}(in[i], in[i + 1]); });
  row([&](int i) { return Minus{}(in[i], right(i)); });
  Array<int> device(in), out(expected.size());
  neighbours_kernel<X><<<1, shape<X>()>>>(device, valid, out);
  equal("BlockDiscontinuity and BlockAdjacentDifference", X * 4, out.host(), expected);
}

// Carries the largest value from one tile to the next.
struct Highest {
  int so_far;
  __device__ int operator()(int tile) {
    int old = so_far;
    so_far = max(so_far, tile);
    return old;
  }
};

// Rows of `out`, X * 4 values each; items are single.
template <int X, cub::BlockScanAlgorithm How>
__global__ void scan_kernel(const int* in, int* out) {
  using Scan = cub::BlockScan<int, X, How, 2, 2>;
  __shared__ typename Scan::TempStorage storage;
  int t = rank<X>(), mine = in[t], result, total, row = 0;
  auto store = [&](int value) {
    out[row++ * X * 4 + t] = value;
    __syncthreads();
  };
  Scan scan(storage);
  scan.InclusiveSum(mine, result, total), store(result), store(total);
  scan.ExclusiveSum(mine, result), store(result);
  scan.InclusiveScan(mine, result, Larger{}), store(result);
  scan.ExclusiveScan(mine, result, -5, Larger{}, total), store(result), store(total);
  Highest highest{10};
  scan.InclusiveScan(mine, result, Larger{}, highest), store(result);
  scan.ExclusiveScan(mine, result, Larger{}, highest), store(result);
  int two[2] = {mine, in[(t + 1) % (X * 4)]};
  scan.InclusiveScan(two, two, 20, Larger{}, total), store(two[1]), store(total);
}

template <int X, cub::BlockScanAlgorithm How>
void scans() {
  constexpr int size = X * 4;
  std::vector<int> in = values<int>(size, -60, 60, 4), sum(in), high(in), expected;
  for (int i = 1; i < size; ++i) sum[i] += sum[i - 1], high[i] = std::max(high[i - 1], high[i]);
  int top = high[size - 1];
  auto row = [&](auto item) {
    for (int i = 0; i < size; ++i) expected.push_back(item(i));
  };
  row([&](int i) { return sum[i]; });
  row([&](int) { return sum[size - 1]; });
  row([&](int i) { return sum[i] - in[i]; });
  row([&](int i) { return high[i]; });
  row([&](int i) { return i == 0 ? -5 : std::max(-5, high[i - 1]); });
  row([&](int) { return std::max(top, top); });
  row([&](int i) { return std::max(10, high[i]); });
  row([&](int i) { return std::max({10, top, i == 0 ? 10 : high[i - 1]}); });
  row([&](int i) { return std::max({20, high[i], in[(i + 1) % size]}); });
  row([&](int) { return std::max(20, top); });
  Array<int> device(in), out(expected.size());
  scan_kernel<X, How><<<1, shape<X>()>>>(device, out);
  equal("BlockScan of single items", size, out.host(), expected);
}

// Rows of `out`, X * 4 * items each.
template <int X>
__global__ void exchange_kernel(const int* in, const int* ranks, const int* valid, int* out) {
  using Exchange = cub::BlockExchange<int, X, items, false, 2, 2>;
  using Shuffle = cub::BlockShuffle<int, X, 2, 2>;
  __shared__ union {
    typename Exchange::TempStorage exchange;
    typename Shuffle::TempStorage shuffle;
  } storage;
  constexpr int threads = X * 4;
  int t = rank<X>(), mine[items], to[items], is_valid[items], got[items], end;
  for (int i = 0; i < items; ++i) mine[i] = in[t * items + i], to[i] = ranks[t * items + i], is_valid[i] = valid[t * items + i];
  auto striped = [&](int row) {
    for (int i = 0; i < items; ++i) out[row * threads * items + i * threads + t] = got[i];
    __syncthreads();
  };
  Exchange(storage.exchange).ScatterToStriped(mine, got, to), striped(0);
  // Places that nothing is scattered to hold what lay there.
  for (int i = 0; i < items; ++i) to[i] = is_valid[i] ? to[i] : -1;
  Exchange(storage.exchange).ScatterToStripedGuarded(mine, got, to), striped(1);
  for (int i = 0; i < items; ++i) to[i] = ranks[t * items + i];
  Exchange(storage.exchange).ScatterToStripedFlagged(mine, got, to, is_valid), striped(2);
  Exchange(storage.exchange).BlockedToStriped(mine, got), striped(3);
  Shuffle(storage.shuffle).Down(mine, got, end);
  if (t == threads - 1) got[items - 1] = -1;
  for (int i = 0; i < items; ++i) out[4 * threads * items + t * items + i] = got[i];
  __syncthreads();
  Shuffle(storage.shuffle).Up(mine, got, end);
  if (t == 0) got[0] = end;
  for (int i = 0; i < items; ++i) out[5 * threads * items + t * items + i] = got[i];
}

template <int X>
void exchanges() {
  constexpr int size = X * 4 * items;
  std::vector<int> in = values<int>(size, 0, 9999, 5), ranks(size), valid = values<int>(size, 0, 1, 6), expected(6 * size);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::sort(ranks.begin(), ranks.end(), [](int a, int b) { return scatter(a) < scatter(b); });
  for (int i = 0; i < size; ++i) {
    expected[ranks[i]] = expected[size + ranks[i]] = expected[2 * size + ranks[i]] = in[i];
    expected[3 * size + i] = in[i];
    expected[4 * size + i] = i == size - 1 ? -1 : in[i + 1];
    expected[5 * size + i] = i == 0 ? in[size - 1] : in[i - 1];
  }
  Array<int> device(in), device_ranks(ranks), device_valid(valid), out(6 * size);
  exchange_kernel<X><<<1, shape<X>()>>>(device, device_ranks, device_valid, out);
  equal("BlockExchange and BlockShuffle", X * 4, out.host(), expected);
}

// Rows of `out`, X * 4 * items each, of which the first `valid` items are copied.
template <int X>
__global__ void copy_kernel(const int* in, int valid, int* out) {
  int t = rank<X>(), mine[items], size = X * 4 * items, quad[4];
  cub::LoadDirectBlocked(t, in, mine), cub::StoreDirectBlocked(t, out, mine);
  cub::LoadDirectBlocked(t, in, mine, valid), cub::StoreDirectBlocked(t, out + size, mine, valid);
  cub::LoadDirectBlocked(t, in, mine, valid, -1), cub::StoreDirectBlocked(t, out + 2 * size, mine);
  cub::LoadDirectStriped<X * 4>(t, in, mine), cub::StoreDirectStriped<X * 4>(t, out + 3 * size, mine);
  cub::LoadDirectStriped<X * 4>(t, in, mine, valid), cub::StoreDirectStriped<X * 4>(t, out + 4 * size, mine, valid);
  cub::LoadDirectStriped<X * 4>(t, in, mine, valid, -1), cub::StoreDirectStriped<X * 4>(t, out + 5 * size, mine);
  cub::LoadDirectWarpStriped(t, in, mine), cub::StoreDirectWarpStriped(t, out + 6 * size, mine);
  cub::LoadDirectWarpStriped(t, in, mine, valid), cub::StoreDirectWarpStriped(t, out + 7 * size, mine, valid);
  cub::LoadDirectWarpStriped(t, in, mine, valid, -1), cub::StoreDirectWarpStriped(t, out + 8 * size, mine);
  if (t < size / 4) cub::LoadDirectBlockedVectorized(t, const_cast<int*>(in), quad), cub::StoreDirectBlockedVectorized(t, out + 9 * size, quad);
}

template <int X>
void copies(int valid) {
  constexpr int size = X * 4 * items, rest = 0x5a5a5a5a;
  std::vector<int> in = values<int>(size, 0, 9999, 7), expected;
  for (int row = 0; row < 10; ++row) {
    for (int i = 0; i < size; ++i) expected.push_back(i < valid || row % 3 == 0 ? in[i] : row % 3 == 1 ? rest : -1);
  }
  Array<int> device(in), out(10 * size);
  copy_kernel<X><<<1, shape<X>()>>>(device, valid, out);
  equal("LoadDirect… and StoreDirect…", X * 4, out.host(), expected);
}

template <int X>
__global__ void sort_kernel(const int* in, int valid, int* keys_out, int* with_out, int* highest, unsigned* histogram_out) {
  using Merge = cub::BlockMergeSort<int, X, items, int, 2, 2>;
  using Radix = cub::BlockRadixSort<int, X, items, int, 4, false, cub::BLOCK_SCAN_RAKING, cudaSharedMemBankSizeFourByte, 2, 2>;
  using Histogram = cub::BlockHistogram<int, X, items, 32, cub::BLOCK_HISTO_SORT, 2, 2>;
  using Reduce = cub::BlockReduce<int, X, cub::BLOCK_REDUCE_WARP_REDUCTIONS, 2, 2>;
  __shared__ union {
    typename Merge::TempStorage merge;
    typename Radix::TempStorage radix;
    typename Histogram::TempStorage histogram;
    typename Reduce::TempStorage reduce;
  } storage;
  __shared__ unsigned bins[32];
  int t = rank<X>(), size = X * 4 * items, row = 0, key[items], with[items];
  auto load = [&] {
    __syncthreads();
    for (int i = 0; i < items; ++i) key[i] = in[t * items + i], with[i] = t * items + i;
  };
  auto store = [&](bool striped, int count) {
    for (int i = 0; i < items; ++i) {
      int place = striped ? i * X * 4 + t : t * items + i;
      if (place < count) keys_out[row * size + place] = key[i], with_out[row * size + place] = with[i];
    }
    ++row;
  };
  load(), Merge(storage.merge).StableSort(key, with, Less{}), store(false, size);
  load(), Merge(storage.merge).StableSort(key, with, Less{}, valid, 1 << 20), store(false, valid);
  load(), Radix(storage.radix).SortDescending(key, with), store(false, size);
  load(), Radix(storage.radix).SortBlockedToStriped(key, with, 0, 5), store(true, size);
  load();
  Histogram(storage.histogram).InitHistogram(bins);
  Histogram(storage.histogram).Composite(key, bins);
  __syncthreads();
  if (t < 32) histogram_out[t] = bins[t];
  load();
  int most = Reduce(storage.reduce).Reduce(key, Larger{});
  __syncthreads();
  int some = Reduce(storage.reduce).Reduce(key[0], Larger{}, (valid + items - 1) / items);
  if (t == 0) highest[0] = most, highest[1] = some;
}

template <int X>
void sorts(int valid) {
  constexpr int size = X * 4 * items;
  std::vector<int> in = values<int>(size, 0, 31, 8), keys, with, order(size), high(2, 0);
  std::vector<unsigned> counts(32);
  for (int i = 0; i < size; ++i) {
    ++counts[in[i]];
    high[0] = std::max(high[0], in[i]);
    if (i % items == 0 && i < valid) high[1] = std::max(high[1], in[i]);
  }
  for (int row = 0; row < 4; ++row) {
    int count = row == 1 ? valid : size;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.begin() + count, [&](int a, int b) { return row == 2 ? in[b] < in[a] : in[a] < in[b]; });
    for (int i = 0; i < size; ++i) {
      keys.push_back(i < count ? in[order[i]] : 0x5a5a5a5a);
      with.push_back(i < count ? order[i] : 0x5a5a5a5a);
    }
  }
  Array<int> device(in), out(4 * size), out_with(4 * size), highest(2);
  Array<unsigned> histogram(32);
  sort_kernel<X><<<1, shape<X>()>>>(device, valid, out, out_with, highest, histogram);
  equal("BlockMergeSort and BlockRadixSort: keys", X * 4, out.host(), keys);
  equal("BlockMergeSort and BlockRadixSort: values", X * 4, out_with.host(), with);
  equal("BlockHistogram::Composite", X * 4, histogram.host(), counts);
  equal("BlockReduce", X * 4, highest.host(), high);
}

// Runs given by where they begin; each decoded item says where in its run it is.
template <int X>
__global__ void decode_kernel(const int* keys, const int* begins, int size, int* out, int* offsets) {
  using Decode = cub::BlockRunLengthDecode<int, X, 1, 4, int, 2, 2>;
  __shared__ typename Decode::TempStorage storage;
  int t = rank<X>(), key[1] = {keys[t]}, begin[1] = {begins[t]};
  Decode decode(storage, key, begin);
  for (int done = 0; done < size; done += X * 4 * 4) {
    int mine[4], offset[4];
    decode.RunLengthDecode(mine, offset, done);
    for (int i = 0; i < 4; ++i) {
      int at = done + t * 4 + i;
      if (at < size) out[at] = mine[i], offsets[at] = offset[i];
    }
  }
}

template <int X>
void decodes() {
  std::vector<int> keys = values<int>(4 * X, -99, 99, 9), lengths = values<int>(4 * X, 1, 9, 10), begins, expected, offsets;
  for (int r = 0; r < 4 * X; ++r) {
    begins.push_back(static_cast<int>(expected.size()));
    for (int i = 0; i < lengths[r]; ++i) expected.push_back(keys[r]), offsets.push_back(i);
  }
  int size = static_cast<int>(expected.size());
  Array<int> device(keys), device_begins(begins), out(size), out_offsets(size);
  decode_kernel<X><<<1, shape<X>()>>>(device, device_begins, size, out, out_offsets);
  equal("BlockRunLengthDecode from places", X * 4, out.host(), expected);
  equal("BlockRunLengthDecode: places in runs", X * 4, out_offsets.host(), offsets);
}

int main() {
  for (int valid : {1, 40, 96}) neighbours<8>(valid), copies<8>(valid), sorts<8>(valid);
  for (int valid : {0, 250, 384}) neighbours<32>(valid), copies<32>(valid);
  sorts<16>(150);
  scans<8, cub::BLOCK_SCAN_WARP_SCANS>();
  scans<24, cub::BLOCK_SCAN_RAKING>();
  exchanges<8>();
  exchanges<32>();
  decodes<8>();
  decodes<24>();
  return conclude();
}
