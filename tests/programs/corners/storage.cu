// TempStorage of CUB's block-wide and warp-wide algorithms used twice: in kernels named ordered_* with a barrier between,
// in those named races_* without. corners.py reads the names; lines that end in "// @race" are the two uses.
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
#include <cub/warp/warp_exchange.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>

#include "check.h"

constexpr int threads = 64, items = 2, size = threads * items;
__device__ int data[size];
__global__ void fill() {
  for (int i = 0; i < size; ++i) data[i] = i * 37 % 101;
}

struct Mine {
  int v[items];
  __device__ Mine() {
    for (int i = 0; i < items; ++i) v[i] = data[threadIdx.x * items + i];
  }
  __device__ void keep(int* out) const {
    for (int i = 0; i < items; ++i) out[threadIdx.x * items + i] = v[i];
  }
};
struct Less {
  __device__ bool operator()(int a, int b) const { return a < b; }
};
struct Minus {
  __device__ int operator()(int a, int b) const { return a - b; }
};
struct Differ {
  __device__ bool operator()(int a, int b) const { return a != b; }
};
template <bool barrier>
__device__ void between() {
  if (barrier) __syncthreads();
}

template <bool barrier, cub::BlockScanAlgorithm how>
__device__ __forceinline__ void scan(int* out) {
  using Scan = cub::BlockScan<int, threads, how>;
  using Shuffle = cub::BlockShuffle<int, threads>;
  __shared__ union {
    typename Scan::TempStorage scan;
    typename Shuffle::TempStorage shuffle;
  } storage;
  Mine mine;
  Scan(storage.scan).InclusiveSum(mine.v, mine.v); // @race
  between<barrier>();
  Shuffle(storage.shuffle).Rotate(mine.v[0], mine.v[1], 5); // @race
  mine.keep(out);
}
// Each thread's partial has its own place, which a second scan writes again: ordered without a barrier, too.
__global__ void ordered_scan_own_places(int* out) {
  using Scan = cub::BlockScan<int, threads, cub::BLOCK_SCAN_RAKING>;
  __shared__ typename Scan::TempStorage storage;
  Mine mine;
  Scan(storage).InclusiveSum(mine.v, mine.v);
  Scan(storage).ExclusiveSum(mine.v, mine.v);
  mine.keep(out);
}
__global__ void ordered_scan_raking(int* out) { scan<true, cub::BLOCK_SCAN_RAKING>(out); }
__global__ void races_scan_raking(int* out) { scan<false, cub::BLOCK_SCAN_RAKING>(out); }
__global__ void ordered_scan_raking_memoize(int* out) { scan<true, cub::BLOCK_SCAN_RAKING_MEMOIZE>(out); }
__global__ void races_scan_raking_memoize(int* out) { scan<false, cub::BLOCK_SCAN_RAKING_MEMOIZE>(out); }
__global__ void ordered_scan_warps(int* out) { scan<true, cub::BLOCK_SCAN_WARP_SCANS>(out); }
__global__ void races_scan_warps(int* out) { scan<false, cub::BLOCK_SCAN_WARP_SCANS>(out); }

template <bool barrier, cub::BlockReduceAlgorithm how>
__device__ __forceinline__ void reduce(int* out) {
  using Reduce = cub::BlockReduce<int, threads, how>;
  __shared__ typename Reduce::TempStorage storage;
  Mine mine;
  mine.v[0] = Reduce(storage).Sum(mine.v); // @race
  between<barrier>();
  mine.v[1] = Reduce(storage).Sum(mine.v[1]); // @race
  if (threadIdx.x == 0) mine.keep(out);
}
__global__ void ordered_reduce_raking(int* out) { reduce<true, cub::BLOCK_REDUCE_RAKING>(out); }
__global__ void races_reduce_raking(int* out) { reduce<false, cub::BLOCK_REDUCE_RAKING>(out); }
__global__ void ordered_reduce_raking_commutative(int* out) { reduce<true, cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY>(out); }
__global__ void races_reduce_raking_commutative(int* out) { reduce<false, cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY>(out); }
__global__ void ordered_reduce_warps(int* out) { reduce<true, cub::BLOCK_REDUCE_WARP_REDUCTIONS>(out); }
__global__ void races_reduce_warps(int* out) { reduce<false, cub::BLOCK_REDUCE_WARP_REDUCTIONS>(out); }

template <bool barrier>
__device__ __forceinline__ void radix_sort(int* out) {
  using Sort = cub::BlockRadixSort<int, threads, items>;
  __shared__ typename Sort::TempStorage storage;
  Mine mine;
  Sort(storage).Sort(mine.v, 0, 4); // @race
  between<barrier>();
  Sort(storage).Sort(mine.v, 4, 8); // @race
  mine.keep(out);
}
__global__ void ordered_radix_sort(int* out) { radix_sort<true>(out); }
__global__ void races_radix_sort(int* out) { radix_sort<false>(out); }

template <bool barrier>
__device__ __forceinline__ void merge_sort(int* out) {
  using Sort = cub::BlockMergeSort<int, threads, items>;
  using Exchange = cub::BlockExchange<int, threads, items>;
  __shared__ union {
    typename Sort::TempStorage sort;
    typename Exchange::TempStorage exchange;
  } storage;
  Mine mine;
  Sort(storage.sort).Sort(mine.v, Less{}); // @race
  between<barrier>();
  Exchange(storage.exchange).BlockedToStriped(mine.v, mine.v); // @race
  mine.keep(out);
}
__global__ void ordered_merge_sort(int* out) { merge_sort<true>(out); }
__global__ void races_merge_sort(int* out) { merge_sort<false>(out); }

template <bool barrier, bool slices>
__device__ __forceinline__ void exchange(int* out) {
  using Exchange = cub::BlockExchange<int, threads, items, slices>;
  __shared__ typename Exchange::TempStorage storage;
  Mine mine;
  Exchange(storage).BlockedToStriped(mine.v, mine.v); // @race
  between<barrier>();
  if (slices) Exchange(storage).BlockedToWarpStriped(mine.v, mine.v); // @race
  else Exchange(storage).BlockedToStriped(mine.v, mine.v); // @race
  mine.keep(out);
}
__global__ void ordered_exchange(int* out) { exchange<true, false>(out); }
__global__ void races_exchange(int* out) { exchange<false, false>(out); }
__global__ void ordered_exchange_in_slices(int* out) { exchange<true, true>(out); }
__global__ void races_exchange_in_slices(int* out) { exchange<false, true>(out); }

template <bool barrier>
__device__ __forceinline__ void load_and_store(int* out) {
  using Load = cub::BlockLoad<int, threads, items, cub::BLOCK_LOAD_TRANSPOSE>;
  using Store = cub::BlockStore<int, threads, items, cub::BLOCK_STORE_WARP_TRANSPOSE>;
  __shared__ union {
    typename Load::TempStorage load;
    typename Store::TempStorage store;
  } storage;
  Mine mine;
  int v[items];
  Load(storage.load).Load(data, mine.v); // @race
  between<barrier>();
  Load(storage.load).Load(data, v, size - 3, 0); // @race
  __syncthreads();
  for (int i = 0; i < items; ++i) v[i] += mine.v[i];
  Store(storage.store).Store(out, v, size - 5);
}
__global__ void ordered_load_and_store(int* out) { load_and_store<true>(out); }
__global__ void races_load_and_store(int* out) { load_and_store<false>(out); }

template <bool barrier>
__device__ __forceinline__ void shuffle(int* out) {
  using Shuffle = cub::BlockShuffle<int, threads>;
  __shared__ typename Shuffle::TempStorage storage;
  Mine mine;
  Shuffle(storage).Up(mine.v, mine.v); // @race
  between<barrier>();
  Shuffle(storage).Rotate(mine.v[0], mine.v[1], 3); // @race
  mine.keep(out);
}
__global__ void ordered_shuffle(int* out) { shuffle<true>(out); }
__global__ void races_shuffle(int* out) { shuffle<false>(out); }

template <bool barrier>
__device__ __forceinline__ void neighbours(int* out) {
  using Flags = cub::BlockDiscontinuity<int, threads>;
  using Difference = cub::BlockAdjacentDifference<int, threads>;
  __shared__ union {
    typename Flags::TempStorage flags;
    typename Difference::TempStorage difference;
  } storage;
  Mine mine;
  int heads[items], left[items];
  Flags(storage.flags).FlagHeads(heads, mine.v, Differ{}); // @race
  between<barrier>();
  Difference(storage.difference).SubtractLeft(mine.v, left, Minus{}); // @race
  for (int i = 0; i < items; ++i) mine.v[i] = 2 * left[i] + heads[i];
  mine.keep(out);
}
__global__ void ordered_neighbours(int* out) { neighbours<true>(out); }
__global__ void races_neighbours(int* out) { neighbours<false>(out); }

template <bool barrier, cub::BlockHistogramAlgorithm how>
__device__ __forceinline__ void histogram(int* out) { // read before all have counted, or sorted again
  using Histogram = cub::BlockHistogram<unsigned char, threads, items, 16, how>;
  __shared__ typename Histogram::TempStorage storage;
  __shared__ int bins[16];
  Mine mine;
  unsigned char some[items];
  for (int i = 0; i < items; ++i) some[i] = mine.v[i] % 16;
  Histogram(storage).Histogram(some, bins); // @race
  between<barrier>();
  Histogram(storage).Composite(some, bins); // @race
  between<barrier>();
  out[threadIdx.x] = bins[threadIdx.x % 16]; // @race
}
__global__ void ordered_histogram_atomic(int* out) { histogram<true, cub::BLOCK_HISTO_ATOMIC>(out); }
__global__ void races_histogram_atomic(int* out) { histogram<false, cub::BLOCK_HISTO_ATOMIC>(out); }
__global__ void ordered_histogram_sort(int* out) { histogram<true, cub::BLOCK_HISTO_SORT>(out); }
__global__ void races_histogram_sort(int* out) { histogram<false, cub::BLOCK_HISTO_SORT>(out); }

template <bool barrier>
__device__ __forceinline__ void decode(int* out) {
  using Decode = cub::BlockRunLengthDecode<int, threads, items, 2>;
  __shared__ typename Decode::TempStorage storage;
  Mine mine;
  int lengths[items], decoded[2], total = 0;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < items; ++i) lengths[i] = 1 + (mine.v[i] + round) % 3;
    Decode decode(storage, mine.v, lengths, total); // @race
    decode.RunLengthDecode(decoded, 0); // @race
    for (int i = 0; i < 2; ++i) out[threadIdx.x * 2 + i] = decoded[i];
    between<barrier>();
  }
}
__global__ void ordered_decode(int* out) { decode<true>(out); }
__global__ void races_decode(int* out) { decode<false>(out); }

// Warps that share what each should have had for itself; and one warp's storage used twice.
enum class Warps { own, shared, unsynchronized };
template <Warps kind>
__device__ __forceinline__ void warp_exchange(int* out) {
  using Exchange = cub::WarpExchange<int, items>;
  using Sort = cub::WarpMergeSort<int, items>;
  __shared__ union {
    typename Exchange::TempStorage exchange;
    typename Sort::TempStorage sort;
  } storage[2];
  Mine mine;
  auto& own = storage[kind == Warps::shared ? 0 : threadIdx.x / 32];
  Sort(own.sort).Sort(mine.v, Less{}); // @race
  if (kind != Warps::unsynchronized) __syncwarp();
  Exchange(own.exchange).BlockedToStriped(mine.v, mine.v); // @race
  mine.keep(out);
}
__global__ void ordered_warp_exchange(int* out) { warp_exchange<Warps::own>(out); }
__global__ void races_warp_exchange_of_two_warps(int* out) { warp_exchange<Warps::shared>(out); }
__global__ void races_warp_exchange_unsynchronized(int* out) { warp_exchange<Warps::unsynchronized>(out); }

// A result that only thread 0 has, broadcast by memory.
template <bool barrier>
__device__ __forceinline__ void broadcast(int* out) {
  using Reduce = cub::BlockReduce<int, threads>;
  __shared__ typename Reduce::TempStorage storage;
  __shared__ int total;
  Mine mine;
  int sum = Reduce(storage).Sum(mine.v);
  if (threadIdx.x == 0) total = sum; // @race
  between<barrier>();
  out[threadIdx.x] = total; // @race
}
__global__ void ordered_broadcast(int* out) { broadcast<true>(out); }
__global__ void races_broadcast(int* out) { broadcast<false>(out); }

int main() {
  int* out = zeros<int>(size);
  void (*const cases[])(int*) = {
      ordered_scan_own_places, ordered_scan_raking, races_scan_raking, ordered_scan_raking_memoize, races_scan_raking_memoize, ordered_scan_warps,
      races_scan_warps, ordered_reduce_raking, races_reduce_raking, ordered_reduce_raking_commutative,
      races_reduce_raking_commutative, ordered_reduce_warps, races_reduce_warps, ordered_radix_sort, races_radix_sort,
      ordered_merge_sort, races_merge_sort, ordered_exchange, races_exchange, ordered_exchange_in_slices,
      races_exchange_in_slices, ordered_load_and_store, races_load_and_store, ordered_shuffle, races_shuffle,
      ordered_neighbours, races_neighbours, ordered_histogram_atomic, races_histogram_atomic, ordered_histogram_sort,
      races_histogram_sort, ordered_decode, races_decode, ordered_warp_exchange, races_warp_exchange_of_two_warps,
      races_warp_exchange_unsynchronized, ordered_broadcast, races_broadcast,
  };
  fill<<<1, 1>>>();
  for (auto* one : cases) one<<<1, threads>>>(out);
  CHECK(cudaDeviceSynchronize());
  std::printf("%zu cases\n", sizeof cases / sizeof cases[0]);
}
