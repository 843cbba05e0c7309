// CUB's block-wide sorts, exchanges, loads and stores, over block shapes and fillings.
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_store.cuh>

#include <numeric>

#include "agree.h"

using namespace agree;

struct Less {
  __host__ __device__ bool operator()(int a, int b) const { return a < b; }
};

template <int X, int Items, int Bits>
__global__ void radix_kernel(int* keys, int* with, int* striped) {
  using Sort = cub::BlockRadixSort<int, X, Items, int, Bits>;
  __shared__ typename Sort::TempStorage storage;
  int start = threadIdx.x * Items, key[Items], value[Items];
  for (int i = 0; i < Items; ++i) key[i] = keys[start + i], value[i] = with[start + i];
  Sort(storage).Sort(key, value);
  for (int i = 0; i < Items; ++i) keys[start + i] = key[i], with[start + i] = value[i];
  __syncthreads();
  Sort(storage).SortDescendingBlockedToStriped(key, value);
  for (int i = 0; i < Items; ++i) striped[i * X + threadIdx.x] = key[i];
}

template <int X, int Items, int Bits>
void radix_sorts() {
  std::vector<int> keys = values<int>(X * Items, -500, 500, 1), with = values<int>(X * Items, 0, 1 << 20, 2), order(X * Items);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return keys[a] < keys[b]; });
  std::vector<int> sorted, sorted_with;
  for (int place : order) sorted.push_back(keys[place]), sorted_with.push_back(with[place]);
  Array<int> device(keys), device_with(with), striped(X * Items);
  radix_kernel<X, Items, Bits><<<1, X>>>(device, device_with, striped);
  equal("BlockRadixSort: keys", X * Items, device.host(), sorted);
  equal("BlockRadixSort: values", X * Items, device_with.host(), sorted_with);
  std::reverse(sorted.begin(), sorted.end());
  equal("BlockRadixSort: descending, striped", X * Items, striped.host(), sorted);
}

template <int X, int Items>
__global__ void merge_kernel(const int* in, int valid, int* out) {
  using Sort = cub::BlockMergeSort<int, X, Items>;
  __shared__ typename Sort::TempStorage storage;
  int start = threadIdx.x * Items, key[Items];
  for (int i = 0; i < Items; ++i) key[i] = in[start + i];
  Sort(storage).Sort(key, Less{}, valid, 100000);
  for (int i = 0; i < Items; ++i) {
    if (start + i < valid) out[start + i] = key[i];
  }
}

template <int X, int Items>
void merge_sorts(int valid) {
  std::vector<int> in = values<int>(X * Items, -5000, 5000, 3), sorted(in.begin(), in.begin() + valid);
  std::sort(sorted.begin(), sorted.end());
  Array<int> device(in), out(valid);
  merge_kernel<X, Items><<<1, X>>>(device, valid, out);
  equal("BlockMergeSort", valid, out.host(), sorted);
}

// Every exchange there is, one after the other: where the element at place p of a blocked arrangement ends up.
template <int X, int Items, bool Slices>
__global__ void exchange_kernel(const int* in, const int* ranks, int* out) {
  using Exchange = cub::BlockExchange<int, X, Items, Slices>;
  __shared__ typename Exchange::TempStorage storage;
  int mine[Items], rank[Items], start = threadIdx.x * Items, size = X * Items;
  auto load = [&] {
    __syncthreads();
    for (int i = 0; i < Items; ++i) mine[i] = in[start + i], rank[i] = ranks[start + i];
  };
  auto store = [&](int which) {
    for (int i = 0; i < Items; ++i) out[which * size + start + i] = mine[i];
  };
  load(), Exchange(storage).BlockedToStriped(mine), store(0);
  load(), Exchange(storage).StripedToBlocked(mine), store(1);
  load(), Exchange(storage).BlockedToWarpStriped(mine), store(2);
  load(), Exchange(storage).WarpStripedToBlocked(mine), store(3);
  load(), Exchange(storage).ScatterToBlocked(mine, rank), store(4);
  load(), Exchange(storage).ScatterToStriped(mine, rank), store(5);
}

template <int X, int Items, bool Slices>
void exchanges() {
  constexpr int size = X * Items;
  std::vector<int> in = values<int>(size, 0, 9999, 4), ranks(size), order(size), expected(6 * size);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [](int a, int b) { return scatter(a) < scatter(b); });
  for (int i = 0; i < size; ++i) ranks[i] = order[i];
  for (int t = 0; t < X; ++t) {
    int first = t / 32 * 32, lanes = std::min(32, X - first);  // of its warp
    for (int i = 0; i < Items; ++i) {
      int blocked = t * Items + i, striped = i * X + t, warp_striped = first * Items + i * lanes + (t - first);
      expected[0 * size + blocked] = in[striped];
      expected[1 * size + striped / Items * Items + striped % Items] = in[blocked];
      expected[2 * size + blocked] = in[warp_striped];
      expected[3 * size + warp_striped] = in[blocked];
      expected[4 * size + ranks[blocked]] = in[blocked];
      int rank = ranks[blocked];
      expected[5 * size + rank % X * Items + rank / X] = in[blocked];
    }
  }
  Array<int> device(in), device_ranks(ranks), out(6 * size);
  exchange_kernel<X, Items, Slices><<<1, X>>>(device, device_ranks, out);
  equal("BlockExchange", size, out.host(), expected);
}

template <int X, int Items, cub::BlockLoadAlgorithm Load, cub::BlockStoreAlgorithm Store>
__global__ void copy_kernel(const int* in, int* out, int count) {
  using BlockLoad = cub::BlockLoad<int, X, Items, Load>;
  using BlockStore = cub::BlockStore<int, X, Items, Store>;
  __shared__ typename BlockLoad::TempStorage load;
  __shared__ typename BlockStore::TempStorage store;
  int start = blockIdx.x * X * Items, left = count - start, mine[Items];
  if (left >= X * Items) {
    BlockLoad(load).Load(in + start, mine);
    BlockStore(store).Store(out + start, mine);
  } else {
    BlockLoad(load).Load(in + start, mine, left, -1);
    BlockStore(store).Store(out + start, mine, left);
  }
}

template <cub::BlockLoadAlgorithm Load, cub::BlockStoreAlgorithm Store>
void copies(const char* what) {
  constexpr int threads = 64, each = 4;
  for (int size : {1, 255, 256, 1000}) {
    std::vector<int> in = values<int>(size, 0, 1 << 20, 5);
    Array<int> device(in), out(size);
    copy_kernel<threads, each, Load, Store><<<(size + 255) / 256, threads>>>(device, out, size);
    equal(what, size, out.host(), in);
  }
}

int main() {
  radix_sorts<32, 1, 4>();
  radix_sorts<128, 5, 4>();
  radix_sorts<96, 3, 6>();
  merge_sorts<64, 3>(192);
  merge_sorts<64, 3>(70);
  merge_sorts<128, 5>(1);
  exchanges<32, 4, false>();
  exchanges<128, 3, false>();
  exchanges<96, 4, true>();
  copies<cub::BLOCK_LOAD_DIRECT, cub::BLOCK_STORE_DIRECT>("BlockLoad and BlockStore, direct");
  copies<cub::BLOCK_LOAD_VECTORIZE, cub::BLOCK_STORE_VECTORIZE>("BlockLoad and BlockStore, vectors");
  copies<cub::BLOCK_LOAD_STRIPED, cub::BLOCK_STORE_STRIPED>("BlockLoad and BlockStore, striped, which agree with each other");
  copies<cub::BLOCK_LOAD_TRANSPOSE, cub::BLOCK_STORE_TRANSPOSE>("BlockLoad and BlockStore, transposing");
  copies<cub::BLOCK_LOAD_WARP_TRANSPOSE, cub::BLOCK_STORE_WARP_TRANSPOSE>("BlockLoad and BlockStore, transposing by warps");
  copies<cub::BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED, cub::BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED>("BlockLoad and BlockStore, in turns");
  return conclude();
}
