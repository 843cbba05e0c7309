// CUB's device-wide algorithms over elements of other sizes than a word's: 1 to 32 bytes, halves, complex numbers, bool;
// with operators that do not commute, and keys that a decomposer takes apart.
#include <cub/device/device_merge_sort.cuh>
#include <cub/device/device_partition.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_run_length_encode.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <thrust/complex.h>
#include <thrust/iterator/transform_iterator.h>

#include <numeric>

#include "agree.h"

using namespace agree;

// Two by two matrices, whose product does not commute: 4, 8, 16, 32 bytes.
template <class T>
struct Matrix {
  T a, b, c, d;
  __host__ __device__ bool operator==(const Matrix& o) const { return a == o.a && b == o.b && c == o.c && d == o.d; }
};
struct Product {
  template <class T>
  __host__ __device__ Matrix<T> operator()(const Matrix<T>& x, const Matrix<T>& y) const {
    return {T(x.a * y.a + x.b * y.c), T(x.a * y.b + x.b * y.d), T(x.c * y.a + x.d * y.c), T(x.c * y.b + x.d * y.d)};
  }
};
template <class T>
std::vector<Matrix<T>> matrices(int size, int seed) {
  std::vector<unsigned char> of = values<unsigned char>(4 * size, 0, 255, seed);
  std::vector<Matrix<T>> all(size);
  for (int i = 0; i < size; ++i) all[i] = {T(of[4 * i]), T(of[4 * i + 1]), T(of[4 * i + 2]), T(of[4 * i + 3])};
  return all;
}

template <class T>
void scans(int size) {
  std::vector<Matrix<T>> in = matrices<T>(size, 1), inclusive(in), exclusive(size);
  Matrix<T> one{1, 0, 0, 1}, all = one;
  for (int i = 0; i < size; ++i) exclusive[i] = all, all = Product{}(all, in[i]), inclusive[i] = all;
  Array<Matrix<T>> device(in), out(size), in_place(in), total(1);
  two_phases([&](void* t, std::size_t& b) { return cub::DeviceScan::ExclusiveScan(t, b, device.data(), out.data(), Product{}, one, size); });
  equal("ExclusiveScan of matrices", size, out.host(), exclusive);
  two_phases([&](void* t, std::size_t& b) { return cub::DeviceScan::InclusiveScan(t, b, in_place.data(), in_place.data(), Product{}, size); });
  equal("InclusiveScan of matrices in place", size, in_place.host(), inclusive);
}

// Keys of one byte, values of eight bytes.
void by_key(int size) {
  std::vector<unsigned char> keys = runs<unsigned char>(size, 300), unique;
  std::vector<Matrix<unsigned short>> in = matrices<unsigned short>(size, 2), scanned(size), reduced;
  std::vector<int> lengths;
  for (int i = 0; i < size; ++i) {
    bool starts = i == 0 || keys[i] != keys[i - 1];
    scanned[i] = starts ? in[i] : Product{}(scanned[i - 1], in[i]);
    if (starts) unique.push_back(keys[i]), reduced.push_back(in[i]), lengths.push_back(1);
    else reduced.back() = Product{}(reduced.back(), in[i]), ++lengths.back();
  }
  Array<unsigned char> device_keys(keys), out_keys(size);
  Array<Matrix<unsigned short>> device(in), out(size);
  Array<int> count(1), out_lengths(size);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceScan::InclusiveScanByKey(t, b, device_keys.data(), device.data(), out.data(), Product{}, size);
  });
  equal("InclusiveScanByKey", size, out.host(), scanned);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceReduce::ReduceByKey(t, b, device_keys.data(), out_keys.data(), device.data(), out.data(), count.data(), Product{}, size);
  });
  int found = count.host()[0];
  equal("ReduceByKey: keys", size, out_keys.host(found), unique);
  equal("ReduceByKey: products", size, out.host(found), reduced);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceRunLengthEncode::Encode(t, b, device_keys.data(), out_keys.data(), out_lengths.data(), count.data(), size);
  });
  equal("Encode of bytes", size, out_lengths.host(count.host()[0]), lengths);
}

struct ToComplex {
  __host__ __device__ thrust::complex<float> operator()(int x) const { return {float(x % 7), float(x % 5)}; }
};
void reductions(int size) {
  std::vector<int> in = values<int>(size, 0, 1000, 3);
  std::vector<__half> halves(size);
  thrust::complex<float> sum(0, 0);
  float half_sum = 0;
  for (int i = 0; i < size; ++i) sum += ToComplex{}(in[i]), halves[i] = __float2half(float(i % 512 == 0)), half_sum += i % 512 == 0;
  Array<int> device(in);
  Array<__half> device_half(halves), out_half(1);
  Array<thrust::complex<float>> out(1);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceReduce::Sum(t, b, thrust::make_transform_iterator(device.data(), ToComplex{}), out.data(), size);
  });
  equal("Sum of complex numbers", size, out.host(), {sum});
  two_phases([&](void* t, std::size_t& b) { return cub::DeviceReduce::Sum(t, b, device_half.data(), out_half.data(), size); });
  equal("Sum of halves", size, std::vector<float>{__half2float(out_half.host()[0])}, {half_sum});
}

struct Even {
  __host__ __device__ bool operator()(const Matrix<unsigned long long>& m) const { return m.a % 2 == 0; }
};
struct High {
  __host__ __device__ bool operator()(const Matrix<unsigned long long>& m) const { return m.b > 99; }
};
void choices(int size) {
  using Wide = Matrix<unsigned long long>;
  std::vector<Wide> in = matrices<unsigned long long>(size, 4), three[3];
  std::vector<bool> bits(size);
  std::vector<unsigned char> bytes = values<unsigned char>(size, 0, 1, 5), some;
  for (int i = 0; i < size; ++i) {
    three[Even{}(in[i]) ? 0 : High{}(in[i]) ? 1 : 2].push_back(in[i]);
    if (bytes[i]) some.push_back(static_cast<unsigned char>(i));
  }
  Array<Wide> device(in), first(size), second(size), rest(size);
  Array<int> counts(2);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DevicePartition::If(t, b, device.data(), first.data(), second.data(), rest.data(), counts.data(), size, Even{}, High{});
  });
  std::vector<int> found = counts.host();
  equal("Partition::If in three: first", size, first.host(found[0]), three[0]);
  equal("Partition::If in three: second", size, second.host(found[1]), three[1]);
  equal("Partition::If in three: rest", size, rest.host(size - found[0] - found[1]), three[2]);
  std::vector<unsigned char> places(size);
  for (int i = 0; i < size; ++i) places[i] = static_cast<unsigned char>(i);
  Array<unsigned char> device_places(places), out(size);
  Array<unsigned char> flags(bytes);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceSelect::Flagged(t, b, device_places.data(), reinterpret_cast<const bool*>(flags.data()), out.data(), counts.data(), size);
  });
  equal("Select::Flagged of bytes", size, out.host(counts.host()[0]), some);
}

// Sorted by the second member, then by the first.
struct Mixed {
  unsigned short low;
  signed char high;
};
struct Parts {
  __host__ __device__ cuda::std::tuple<signed char&, unsigned short&> operator()(Mixed& m) const { return {m.high, m.low}; }
};
struct ByA {
  template <class T>
  __host__ __device__ bool operator()(const T& x, const T& y) const { return x.a < y.a; }
};
void sorts(int size) {
  std::vector<int> of = values<int>(size, 0, 1 << 20, 6), order(size);
  std::vector<Mixed> mixed(size), sorted(size);
  std::vector<Matrix<unsigned short>> with = matrices<unsigned short>(size, 7), moved(size);
  std::memset(mixed.data(), 0, size * sizeof(Mixed));
  std::memset(sorted.data(), 0, size * sizeof(Mixed));
  for (int i = 0; i < size; ++i) mixed[i].low = of[i] % 16, mixed[i].high = static_cast<signed char>(of[i] / 16 % 8 - 4);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int i, int j) {
    return mixed[i].high != mixed[j].high ? mixed[i].high < mixed[j].high : mixed[i].low < mixed[j].low;
  });
  for (int i = 0; i < size; ++i) sorted[i].low = mixed[order[i]].low, sorted[i].high = mixed[order[i]].high, moved[i] = with[order[i]];
  Array<Mixed> device(mixed), out(size);
  Array<Matrix<unsigned short>> device_with(with), out_with(size);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceRadixSort::SortPairs(t, b, device.data(), out.data(), device_with.data(), out_with.data(), size, Parts{});
  });
  std::vector<Mixed> got = out.host();
  bool same_keys = true;
  for (int i = 0; i < size; ++i) same_keys &= got[i].low == sorted[i].low && got[i].high == sorted[i].high;
  is_true("SortPairs of structures: keys", size, same_keys);
  equal("SortPairs of structures: values", size, out_with.host(), moved);

  std::vector<__nv_bfloat16> floats(size);
  for (int i = 0; i < size; ++i) floats[i] = __float2bfloat16(float(of[i] % 255 - 127));
  Array<__nv_bfloat16> device_floats(floats), out_floats(size);
  two_phases([&](void* t, std::size_t& b) { return cub::DeviceRadixSort::SortKeysDescending(t, b, device_floats.data(), out_floats.data(), size); });
  std::sort(floats.begin(), floats.end(), [](__nv_bfloat16 x, __nv_bfloat16 y) { return __bfloat162float(y) < __bfloat162float(x); });
  equal("SortKeysDescending of bfloats", size, out_floats.host(), floats);

  using Wide = Matrix<unsigned long long>;
  std::vector<Wide> wide = matrices<unsigned long long>(size, 8);
  Array<Wide> device_wide(wide);
  two_phases([&](void* t, std::size_t& b) { return cub::DeviceMergeSort::StableSortKeys(t, b, device_wide.data(), size, ByA{}); });
  std::stable_sort(wide.begin(), wide.end(), ByA{});
  equal("StableSortKeys of 32 bytes", size, device_wide.host(), wide);
}

int main(int argument_count, char** arguments) {
  for (int size : sizes(argument_count, arguments, {0, 1, 33, 1000, 4099})) {
    scans<unsigned char>(size);
    scans<unsigned long long>(size);
    by_key(size);
    reductions(size);
    choices(size);
    sorts(size);
  }
  return conclude();
}
