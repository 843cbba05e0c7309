// CUB's block-wide ranking by radix digits: every algorithm, up and down, with the places where digits begin and their
// counts, over block shapes; and block-wide sorts of structures by their members.
#include <cub/block/block_radix_rank.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/radix_rank_sort_operations.cuh>

#include <numeric>

#include "agree.h"

using namespace agree;

// Writes how often each digit occurs.
template <int Bins>
struct Counts {
  int* out;
  int digits;
  __device__ void operator()(int (&bins)[Bins]) {
    for (int i = 0; i < Bins; ++i) {
      int digit = threadIdx.x * Bins + i;
      if (digit < digits) out[digit] = bins[i];
    }
  }
};

// Algorithms that match keys in a warp take them warp-striped, the others blocked.
template <int Items>
__host__ __device__ int place_of(bool warp_striped, int thread, int item) {
  return warp_striped ? thread / 32 * 32 * Items + item * 32 + thread % 32 : thread * Items + item;
}

template <class Rank, int Bits, int Items, bool WarpStriped, bool Counting>
__global__ void rank_kernel(const unsigned* in, int first_bit, int* ranks, int* begins, int* counts) {
  constexpr int bins = Rank::BINS_TRACKED_PER_THREAD, digits = 1 << Bits;
  __shared__ typename Rank::TempStorage storage;
  unsigned keys[Items];
  int rank[Items], begin[bins];
  for (int i = 0; i < Items; ++i) keys[i] = in[place_of<Items>(WarpStriped, threadIdx.x, i)];
  cub::BFEDigitExtractor<unsigned> digit(first_bit, Bits);
  if constexpr (Counting) {
    Rank(storage).RankKeys(keys, rank, digit, begin, Counts<bins>{counts, digits});
  } else {
    Rank(storage).RankKeys(keys, rank, digit, begin);
  }
  for (int i = 0; i < Items; ++i) ranks[place_of<Items>(WarpStriped, threadIdx.x, i)] = rank[i];
  for (int i = 0; i < bins; ++i) {
    if (threadIdx.x * bins + i < digits) begins[threadIdx.x * bins + i] = begin[i];
  }
}

template <class Rank, int Threads, int Bits, int Items, bool Down, bool WarpStriped, bool Counting>
void ranks(const char* what, int first_bit) {
  constexpr int size = Threads * Items, digits = 1 << Bits;
  std::vector<unsigned> in = values<unsigned>(size, 0, 1ll << 32, 1);
  std::vector<int> order(size), rank(size), begin(digits), count(digits);
  auto digit = [&](int i) { return in[i] >> first_bit & (digits - 1); };
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return Down ? digit(b) < digit(a) : digit(a) < digit(b); });
  for (int r = 0; r < size; ++r) rank[order[r]] = r;
  for (int i = 0; i < size; ++i) {
    ++count[digit(i)];
    for (unsigned d = 0; d < digits; ++d) begin[d] += Down ? digit(i) > d : digit(i) < d;
  }
  Array<unsigned> device(in);
  Array<int> out(size), begins(digits), counts(digits);
  rank_kernel<Rank, Bits, Items, WarpStriped, Counting><<<1, Threads>>>(device, first_bit, out, begins, counts);
  equal(what, Threads, out.host(), rank);
  equal(what, Threads, begins.host(), begin);
  if (Counting) equal(what, Threads, counts.host(), count);
}

struct Pixel {
  short row;
  float column;
};
struct ByRow {
  __host__ __device__ cuda::std::tuple<short&, float&> operator()(Pixel& p) const { return {p.row, p.column}; }
};

template <int X, int Y, int Items>
__global__ void sort_kernel(const Pixel* in, Pixel* up, Pixel* down, int* placed) {
  constexpr auto scans = cub::BLOCK_SCAN_WARP_SCANS;
  constexpr auto banks = cudaSharedMemBankSizeFourByte;
  using SortKeys = cub::BlockRadixSort<Pixel, X, Items, cub::NullType, 4, true, scans, banks, Y>;
  using SortPairs = cub::BlockRadixSort<Pixel, X, Items, int, 4, true, scans, banks, Y>;
  __shared__ union {
    typename SortKeys::TempStorage keys;
    typename SortPairs::TempStorage pairs;
  } storage;
  int t = threadIdx.y * X + threadIdx.x;
  Pixel keys[Items];
  int with[Items];
  for (int i = 0; i < Items; ++i) keys[i] = in[t * Items + i];
  SortKeys(storage.keys).Sort(keys, ByRow{});
  for (int i = 0; i < Items; ++i) up[t * Items + i] = keys[i];
  __syncthreads();
  for (int i = 0; i < Items; ++i) keys[i] = in[t * Items + i], with[i] = t * Items + i;
  SortPairs(storage.pairs).SortDescendingBlockedToStriped(keys, with, ByRow{});
  for (int i = 0; i < Items; ++i) down[i * X * Y + t] = keys[i], placed[i * X * Y + t] = with[i];
}

template <int X, int Y, int Items>
void sorts() {
  constexpr int size = X * Y * Items;
  std::vector<int> rows = values<int>(size, -4, 4, 2), columns = values<int>(size, -20, 20, 3), order(size);
  std::vector<Pixel> in(size), up, down;
  std::memset(in.data(), 0, size * sizeof(Pixel));  // padding too: cases are compared by their bytes
  for (int i = 0; i < size; ++i) in[i].row = static_cast<short>(rows[i]), in[i].column = static_cast<float>(columns[i]) / 4;
  auto before = [](const Pixel& a, const Pixel& b) { return a.row != b.row ? a.row < b.row : a.column < b.column; };
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return before(in[a], in[b]); });
  for (int place : order) up.push_back(in[place]);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return before(in[b], in[a]); });
  for (int place : order) down.push_back(in[place]);
  Array<Pixel> device(in), device_up(size), device_down(size);
  Array<int> placed(size);
  sort_kernel<X, Y, Items><<<1, dim3(X, Y)>>>(device, device_up, device_down, placed);
  // Field by field: copies of a structure need not keep its padding.
  auto agree_on = [&](const char* what, const std::vector<Pixel>& got, const std::vector<Pixel>& expected) {
    std::vector<float> a, b;
    for (int i = 0; i < size; ++i) a.insert(a.end(), {float(got[i].row), got[i].column}), b.insert(b.end(), {float(expected[i].row), expected[i].column});
    equal(what, size, a, b);
  };
  agree_on("BlockRadixSort of structures", device_up.host(), up);
  agree_on("BlockRadixSort of structures, descending, striped", device_down.host(), down);
  equal("BlockRadixSort of structures: values", size, placed.host(), order);
}

int main() {
  ranks<cub::BlockRadixRank<64, 4, false, false>, 64, 4, 3, false, false, false>("BlockRadixRank", 5);
  ranks<cub::BlockRadixRank<96, 5, true>, 96, 5, 2, true, false, false>("BlockRadixRank, memoized, descending", 0);
  ranks<cub::BlockRadixRank<50, 6, false, true, cub::BLOCK_SCAN_RAKING>, 50, 6, 1, false, false, false>("BlockRadixRank of 50", 26);
  ranks<cub::BlockRadixRankMatch<128, 5, false>, 128, 5, 4, false, true, true>("BlockRadixRankMatch", 3);
  ranks<cub::BlockRadixRankMatch<64, 6, true>, 64, 6, 2, true, true, false>("BlockRadixRankMatch, descending", 0);
  ranks<cub::BlockRadixRankMatchEarlyCounts<128, 7, false>, 128, 7, 3, false, true, true>("BlockRadixRankMatchEarlyCounts", 1);
  ranks<cub::BlockRadixRankMatchEarlyCounts<64, 8, false, cub::BLOCK_SCAN_WARP_SCANS, cub::WARP_MATCH_ATOMIC_OR>, 64, 8, 2, false, true, true>(
      "BlockRadixRankMatchEarlyCounts by atomics", 9);
  ranks<cub::BlockRadixRankMatchEarlyCounts<96, 5, false, cub::BLOCK_SCAN_RAKING_MEMOIZE, cub::WARP_MATCH_ANY, 2>, 96, 5, 3, false, true, false>(
      "BlockRadixRankMatchEarlyCounts in two parts", 20);
  sorts<32, 1, 2>();
  sorts<16, 6, 3>();
  return conclude();
}
