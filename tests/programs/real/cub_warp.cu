// CUB's warp-wide reductions, scans, sorts, exchanges, loads and stores, with whole and smaller logical warps.
#include <cub/warp/warp_exchange.cuh>
#include <cub/warp/warp_load.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#include <cub/warp/warp_store.cuh>

#include "agree.h"

using namespace agree;

constexpr int threads = 96;
struct Larger {
  __host__ __device__ int operator()(int a, int b) const { return a > b ? a : b; }
};
struct Less {
  __host__ __device__ bool operator()(int a, int b) const { return a < b; }
};

// Of `out`, seven rows of `threads`.
template <int Width>
__global__ void reduce_scan_kernel(const int* in, int valid, int* out) {
  using Reduce = cub::WarpReduce<int, Width>;
  using Scan = cub::WarpScan<int, Width>;
  __shared__ typename Reduce::TempStorage reduce[threads / Width];
  __shared__ typename Scan::TempStorage scan[threads / Width];
  int t = threadIdx.x, warp = t / Width, lane = t % Width, mine = in[t], result;
  bool head = lane % 5 == 0;
  result = Reduce(reduce[warp]).Sum(mine);
  out[t] = lane == 0 ? result : 0;
  __syncwarp();
  result = Reduce(reduce[warp]).Reduce(mine, Larger{}, min(valid, Width));
  out[threads + t] = lane == 0 ? result : 0;
  __syncwarp();
  result = Reduce(reduce[warp]).HeadSegmentedSum(mine, head);
  out[2 * threads + t] = head || lane == 0 ? result : 0;
  __syncwarp();
  int total;
  Scan(scan[warp]).InclusiveSum(mine, result, total);
  out[3 * threads + t] = result;
  out[4 * threads + t] = total;
  __syncwarp();
  Scan(scan[warp]).ExclusiveScan(mine, result, -3, Larger{});
  out[5 * threads + t] = result;
  __syncwarp();
  out[6 * threads + t] = Scan(scan[warp]).Broadcast(mine, Width - 1);
}

template <int Width>
void reduces_and_scans(int valid) {
  std::vector<int> in = values<int>(threads, -100, 100, Width), expected(7 * threads);
  for (int t = 0; t < threads; ++t) {
    int lane = t % Width, first = t - lane;
    int* row = &expected[0];
    for (int j = first; j < first + Width; ++j) {
      row[4 * threads + t] += in[j];
      if (lane == 0) row[t] += in[j];
      if (j <= t) row[3 * threads + t] += in[j];
    }
    if (lane == 0) row[threads + t] = *std::max_element(&in[t], &in[t] + std::min(valid, Width));
    if (lane % 5 == 0) {
      for (int j = t; j < std::min(t + 5, first + Width); ++j) row[2 * threads + t] += in[j];
    }
    row[5 * threads + t] = -3;
    for (int j = first; j < t; ++j) row[5 * threads + t] = std::max(row[5 * threads + t], in[j]);
    row[6 * threads + t] = in[first + Width - 1];
  }
  Array<int> device(in), out(7 * threads);
  reduce_scan_kernel<Width><<<1, threads>>>(device, valid, out);
  equal("WarpReduce and WarpScan", Width, out.host(), expected);
}

template <int Width, int Items, cub::WarpLoadAlgorithm Load, cub::WarpStoreAlgorithm Store>
__global__ void sort_kernel(const int* in, int* out, int* striped) {
  using Sort = cub::WarpMergeSort<int, Items, Width>;
  using WarpLoad = cub::WarpLoad<int, Items, Load, Width>;
  using WarpStore = cub::WarpStore<int, Items, Store, Width>;
  using Exchange = cub::WarpExchange<int, Items, Width>;
  __shared__ typename Sort::TempStorage sort[threads / Width];
  __shared__ typename WarpLoad::TempStorage load[threads / Width];
  __shared__ typename WarpStore::TempStorage store[threads / Width];
  __shared__ typename Exchange::TempStorage exchange[threads / Width];
  int warp = threadIdx.x / Width, lane = threadIdx.x % Width, mine[Items];
  WarpLoad(load[warp]).Load(in + warp * Width * Items, mine);
  Sort(sort[warp]).Sort(mine, Less{});
  int copy[Items];
  Exchange(exchange[warp]).BlockedToStriped(mine, copy);
  for (int i = 0; i < Items; ++i) striped[warp * Width * Items + i * Width + lane] = copy[i];
  WarpStore(store[warp]).Store(out + warp * Width * Items, mine);
}

template <int Width, int Items, cub::WarpLoadAlgorithm Load, cub::WarpStoreAlgorithm Store>
void sorts(const char* what) {
  std::vector<int> in = values<int>(threads * Items, -999, 999, 40 + Width), expected(in);
  for (int warp = 0; warp < threads / Width; ++warp)
    std::sort(expected.begin() + warp * Width * Items, expected.begin() + (warp + 1) * Width * Items);
  Array<int> device(in), out(in.size()), striped(in.size());
  sort_kernel<Width, Items, Load, Store><<<1, threads>>>(device, out, striped);
  equal(what, Width, out.host(), expected);
  equal("WarpExchange::BlockedToStriped", Width, striped.host(), expected);
}

int main() {
  reduces_and_scans<32>(32);
  reduces_and_scans<32>(1);
  reduces_and_scans<16>(11);
  reduces_and_scans<8>(8);
  reduces_and_scans<4>(3);
  reduces_and_scans<2>(2);
  reduces_and_scans<1>(1);
  sorts<32, 3, cub::WARP_LOAD_DIRECT, cub::WARP_STORE_DIRECT>("WarpMergeSort, direct");
  sorts<16, 4, cub::WARP_LOAD_TRANSPOSE, cub::WARP_STORE_TRANSPOSE>("WarpMergeSort, transposing");
  sorts<8, 4, cub::WARP_LOAD_VECTORIZE, cub::WARP_STORE_VECTORIZE>("WarpMergeSort, vectors");
  sorts<4, 5, cub::WARP_LOAD_DIRECT, cub::WARP_STORE_TRANSPOSE>("WarpMergeSort of small warps");
  return conclude();
}
