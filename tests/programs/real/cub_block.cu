// CUB's block-wide reductions, scans, shuffles, heads and tails, differences and histograms, over block shapes.
#include <cub/block/block_adjacent_difference.cuh>
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_run_length_decode.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_shuffle.cuh>

#include "agree.h"

using namespace agree;

// Every kernel here runs one block of X by Y threads with `items` elements a thread.
constexpr int items = 3;

template <int X, int Y>
__device__ int rank() {
  return threadIdx.y * X + threadIdx.x;
}
struct Larger {
  __host__ __device__ int operator()(int a, int b) const { return a > b ? a : b; }
};

template <int X, int Y, cub::BlockReduceAlgorithm How>
__global__ void reduce_kernel(const int* in, int valid, int* out) {
  using Reduce = cub::BlockReduce<int, X, How, Y>;
  __shared__ typename Reduce::TempStorage storage;
  int mine[items];
  for (int i = 0; i < items; ++i) mine[i] = in[rank<X, Y>() * items + i];
  int sum = Reduce(storage).Sum(mine);
  __syncthreads();
  int some = Reduce(storage).Sum(mine[0], valid);
  __syncthreads();
  int high = Reduce(storage).Reduce(mine[0], Larger{});
  if (rank<X, Y>() == 0) out[0] = sum, out[1] = some, out[2] = high;
}

template <int X, int Y, cub::BlockReduceAlgorithm How>
void reduces(const char* what, int valid) {
  constexpr int threads = X * Y;
  std::vector<int> in = values<int>(threads * items, -1000, 1000, 1), expected(3);
  expected[2] = in[0];
  for (int i = 0; i < threads * items; ++i) expected[0] += in[i];
  for (int t = 0; t < threads; ++t) {
    if (t < valid) expected[1] += in[t * items];
    expected[2] = std::max(expected[2], in[t * items]);
  }
  Array<int> device(in), out(3);
  reduce_kernel<X, Y, How><<<1, dim3(X, Y)>>>(device, valid, out);
  equal(what, threads, out.host(), expected);
}

// Carries the sum from one tile to the next.
struct Carry {
  int total;
  __device__ int operator()(int tile) {
    int before = total;
    total += tile;
    return before;
  }
};

template <int X, int Y, cub::BlockScanAlgorithm How>
__global__ void scan_kernel(const int* in, int* inclusive, int* exclusive, int* high, int* total, int tiles) {
  using Scan = cub::BlockScan<int, X, How, Y>;
  __shared__ typename Scan::TempStorage storage;
  Carry carry{100};
  for (int tile = 0; tile < tiles; ++tile) {
    int start = (tile * X * Y + rank<X, Y>()) * items, mine[items], result[items], sum;
    for (int i = 0; i < items; ++i) mine[i] = in[start + i];
    Scan(storage).InclusiveSum(mine, result, sum);
    for (int i = 0; i < items; ++i) inclusive[start + i] = result[i];
    if (rank<X, Y>() == 0) total[tile] = sum;
    __syncthreads();
    Scan(storage).ExclusiveSum(mine, result, carry);
    for (int i = 0; i < items; ++i) exclusive[start + i] = result[i];
    __syncthreads();
    Scan(storage).ExclusiveScan(mine, result, -7, Larger{});
    for (int i = 0; i < items; ++i) high[start + i] = result[i];
    __syncthreads();
  }
}

template <int X, int Y, cub::BlockScanAlgorithm How>
void scans(const char* what) {
  constexpr int tiles = 2, tile = X * Y * items, size = tiles * tile;
  std::vector<int> in = values<int>(size, -50, 100, 2), inclusive(size), exclusive(size), high(size), total(tiles);
  for (int i = 0, carried = 100, sum = 0, most = 0; i < size; ++i) {
    if (i % tile == 0) sum = 0, most = -7;
    exclusive[i] = carried;
    carried += in[i];
    inclusive[i] = sum += in[i];
    total[i / tile] = sum;
    high[i] = most;
    most = std::max(most, in[i]);
  }
  Array<int> device(in), a(size), b(size), c(size), d(tiles);
  scan_kernel<X, Y, How><<<1, dim3(X, Y)>>>(device, a, b, c, d, tiles);
  equal(what, X * Y, a.host(), inclusive);
  equal("BlockScan::ExclusiveSum over tiles", X * Y, b.host(), exclusive);
  equal("BlockScan::ExclusiveScan", X * Y, c.host(), high);
  equal("BlockScan: aggregates", X * Y, d.host(), total);
}

struct Differ {
  __host__ __device__ bool operator()(int a, int b) const { return a != b; }
};
struct Minus {
  __host__ __device__ int operator()(int a, int b) const { return a - b; }
};

template <int X>
__global__ void neighbours_kernel(const int* in, int* heads, int* tails, int* left, int* right, int* offset, int* rotated, int* up, int valid) {
  using Discontinuity = cub::BlockDiscontinuity<int, X>;
  using Difference = cub::BlockAdjacentDifference<int, X>;
  using Shuffle = cub::BlockShuffle<int, X>;
  __shared__ union {
    typename Discontinuity::TempStorage discontinuity;
    typename Difference::TempStorage difference;
    typename Shuffle::TempStorage shuffle;
  } storage;
  int start = threadIdx.x * items, mine[items], a[items], b[items];
  for (int i = 0; i < items; ++i) mine[i] = in[start + i];
  Discontinuity(storage.discontinuity).FlagHeadsAndTails(a, b, mine, Differ{});
  for (int i = 0; i < items; ++i) heads[start + i] = a[i], tails[start + i] = b[i];
  __syncthreads();
  Difference(storage.difference).SubtractLeft(mine, a, Minus{});
  __syncthreads();
  Difference(storage.difference).SubtractRightPartialTile(mine, b, Minus{}, valid);
  for (int i = 0; i < items; ++i) left[start + i] = a[i], right[start + i] = b[i];
  __syncthreads();
  int got = -1;
  Shuffle(storage.shuffle).Offset(mine[0], got, 2);
  offset[threadIdx.x] = threadIdx.x + 2 < X ? got : -1;
  __syncthreads();
  Shuffle(storage.shuffle).Rotate(mine[0], rotated[threadIdx.x], X / 2);
  __syncthreads();
  Shuffle(storage.shuffle).Up(mine, a);
  if (threadIdx.x == 0) a[0] = -1;
  for (int i = 0; i < items; ++i) up[start + i] = a[i];
}

template <int X>
void neighbours(int valid) {
  constexpr int size = X * items;
  std::vector<int> in = runs<int>(size, 4, 3), heads(size), tails(size), left(in), right(in), offset(X), rotated(X), up(size, -1);
  for (int i = 0; i < size; ++i) {
    heads[i] = i == 0 || in[i] != in[i - 1];
    tails[i] = i == size - 1 || in[i] != in[i + 1];
    if (i > 0) left[i] = in[i] - in[i - 1], up[i] = in[i - 1];
    if (i + 1 < valid) right[i] = in[i] - in[i + 1];
  }
  for (int t = 0; t < X; ++t) {
    offset[t] = t + 2 < X ? in[(t + 2) * items] : -1;
    rotated[t] = in[(t + X / 2) % X * items];
  }
  Array<int> device(in), a(size), b(size), c(size), d(size), e(X), f(X), g(size);
  neighbours_kernel<X><<<1, X>>>(device, a, b, c, d, e, f, g, valid);
  equal("BlockDiscontinuity: heads", X, a.host(), heads);
  equal("BlockDiscontinuity: tails", X, b.host(), tails);
  equal("BlockAdjacentDifference::SubtractLeft", X, c.host(), left);
  equal("BlockAdjacentDifference::SubtractRightPartialTile", X, d.host(), right);
  equal("BlockShuffle::Offset", X, e.host(), offset);
  equal("BlockShuffle::Rotate", X, f.host(), rotated);
  equal("BlockShuffle::Up", X, g.host(), up);
}

template <int X, cub::BlockHistogramAlgorithm How>
__global__ void histogram_kernel(const unsigned char* in, unsigned* out) {
  using Histogram = cub::BlockHistogram<unsigned char, X, items, 64, How>;
  __shared__ typename Histogram::TempStorage storage;
  __shared__ unsigned bins[64];
  unsigned char mine[items];
  for (int i = 0; i < items; ++i) mine[i] = in[threadIdx.x * items + i];
  Histogram(storage).Histogram(mine, bins);
  __syncthreads();
  Histogram(storage).Composite(mine, bins);
  __syncthreads();
  for (int b = threadIdx.x; b < 64; b += X) out[b] = bins[b];
}

template <int X, cub::BlockHistogramAlgorithm How>
void histograms(const char* what) {
  std::vector<unsigned char> in = values<unsigned char>(X * items, 0, 63, 4);
  std::vector<unsigned> expected(64);
  for (unsigned char x : in) expected[x] += 2;
  Array<unsigned char> device(in);
  Array<unsigned> out(64);
  histogram_kernel<X, How><<<1, X>>>(device, out);
  equal(what, X, out.host(), expected);
}

template <int X>
__global__ void decode_kernel(const int* keys, const int* lengths, int* out, int* total) {
  using Decode = cub::BlockRunLengthDecode<int, X, 2, 4>;
  __shared__ typename Decode::TempStorage storage;
  int key[2], length[2], size = 0;
  for (int i = 0; i < 2; ++i) key[i] = keys[threadIdx.x * 2 + i], length[i] = lengths[threadIdx.x * 2 + i];
  Decode decode(storage, key, length, size);
  for (int done = 0; done < size; done += X * 4) {
    int mine[4];
    decode.RunLengthDecode(mine, done);
    for (int i = 0; i < 4; ++i) {
      int at = done + threadIdx.x * 4 + i;
      if (at < size) out[at] = mine[i];
    }
  }
  if (threadIdx.x == 0) *total = size;
}

template <int X>
void decodes() {
  std::vector<int> keys = values<int>(2 * X, -99, 99, 5), lengths = values<int>(2 * X, 1, 9, 6), expected;
  for (int r = 0; r < 2 * X; ++r) expected.insert(expected.end(), lengths[r], keys[r]);
  Array<int> device(keys), device_lengths(lengths), out(expected.size()), total(1);
  decode_kernel<X><<<1, X>>>(device, device_lengths, out, total);
  equal("BlockRunLengthDecode", X, out.host(), expected);
  equal("BlockRunLengthDecode: size", X, total.host(), {static_cast<int>(expected.size())});
}

int main() {
  reduces<32, 1, cub::BLOCK_REDUCE_WARP_REDUCTIONS>("BlockReduce in one warp", 1);
  reduces<128, 1, cub::BLOCK_REDUCE_WARP_REDUCTIONS>("BlockReduce by warps", 77);
  reduces<100, 1, cub::BLOCK_REDUCE_WARP_REDUCTIONS>("BlockReduce of 100", 100);
  reduces<16, 9, cub::BLOCK_REDUCE_RAKING>("BlockReduce by raking", 33);
  reduces<64, 3, cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY>("BlockReduce by commutative raking", 192);
  reduces<1, 1, cub::BLOCK_REDUCE_WARP_REDUCTIONS>("BlockReduce of one", 1);
  scans<128, 1, cub::BLOCK_SCAN_RAKING>("BlockScan by raking");
  scans<32, 3, cub::BLOCK_SCAN_RAKING_MEMOIZE>("BlockScan by raking, memoized");
  scans<96, 1, cub::BLOCK_SCAN_WARP_SCANS>("BlockScan by warps");
  scans<50, 1, cub::BLOCK_SCAN_RAKING>("BlockScan of 50");
  neighbours<33>(40);
  neighbours<128>(384);
  neighbours<1>(1);
  histograms<128, cub::BLOCK_HISTO_ATOMIC>("BlockHistogram by atomics");
  histograms<96, cub::BLOCK_HISTO_SORT>("BlockHistogram by sorting");
  decodes<32>();
  decodes<96>();
  return conclude();
}
