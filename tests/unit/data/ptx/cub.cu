// CUB: block and device algorithms.
#include <cub/cub.cuh>

template <int threads>
__global__ void block_sort(const unsigned* in, unsigned* out) {
  using Sort = cub::BlockRadixSort<unsigned, threads, 4, float>;
  __shared__ typename Sort::TempStorage storage;
  unsigned keys[4];
  float values[4];
  for (int i = 0; i < 4; ++i) {
    keys[i] = in[threadIdx.x * 4 + i];
    values[i] = float(i);
  }
  Sort(storage).Sort(keys, values);
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = keys[i] + unsigned(values[i]);
}

__global__ void block_scan(const double* in, double* out) {
  using Scan = cub::BlockScan<double, 256>;
  __shared__ typename Scan::TempStorage storage;
  double value = in[threadIdx.x];
  Scan(storage).InclusiveSum(value, value);
  out[threadIdx.x] = value;
}

void use(void* temporary, size_t& bytes, unsigned* a, unsigned* b, float* f, int n) {
  block_sort<128><<<1, 128>>>(a, b);
  block_scan<<<1, 256>>>(nullptr, nullptr);
  cub::DeviceReduce::Sum(temporary, bytes, f, f, n);
  cub::DeviceScan::ExclusiveSum(temporary, bytes, a, b, n);
  cub::DeviceRadixSort::SortKeys(temporary, bytes, a, b, n);
}
