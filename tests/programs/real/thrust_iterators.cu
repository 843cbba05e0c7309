// Thrust over iterators that are no arrays, and over elements that are no numbers: zipped, permuted, counted, transformed
// and discarded; complex numbers, pairs and structures; operators that do not commute; empty ranges.
#include <thrust/binary_search.h>
#include <thrust/complex.h>
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/constant_iterator.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/discard_iterator.h>
#include <thrust/iterator/permutation_iterator.h>
#include <thrust/iterator/reverse_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/transform_output_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/partition.h>
#include <thrust/reduce.h>
#include <thrust/remove.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/unique.h>

#include <numeric>

#include "agree_thrust.h"

using namespace agree;
using Complex = thrust::complex<double>;

template <class T>
std::vector<T> taken(const thrust::device_vector<T>& from, std::size_t count) {
  std::vector<T> all(count);
  thrust::copy(from.begin(), from.begin() + count, all.begin());
  return all;
}

struct ToComplex {
  __host__ __device__ Complex operator()(int i) const { return {double(i % 3), double(i % 2)}; }
};
struct Affine { // x -> a x + b, twelve bytes
  unsigned a, b, steps;
};
struct Then {
  __host__ __device__ Affine operator()(const Affine& f, const Affine& g) const { return {f.a * g.a, f.b * g.a + g.b, f.steps + g.steps}; }
};
struct ToAffine {
  __host__ __device__ Affine operator()(int x) const { return {unsigned(x) | 1, unsigned(x) + 3, 1}; }
};
struct Halve {
  __host__ __device__ int operator()(int x) const { return x / 2; }
};
struct Tens {
  __host__ __device__ int operator()(int x) const { return x / 10; }
};
struct Both {
  template <class Pair>
  __host__ __device__ bool operator()(const Pair& pair) const { return (thrust::get<0>(pair) + thrust::get<1>(pair)) % 3 == 0; }
};
struct FirstIsEqual {
  template <class Pair, class Other>
  __host__ __device__ bool operator()(const Pair& x, const Other& y) const { return thrust::get<0>(x) == thrust::get<0>(y); }
};

void run(int size) {
  std::vector<int> in = values<int>(size, 0, 999, 1), order(size);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [](int a, int b) { return scatter(a) < scatter(b); });
  Device a(in.begin(), in.end()), map(order.begin(), order.end()), out(size), more(size);
  auto count = thrust::counting_iterator<int>(0);

  Complex sum = thrust::reduce(thrust::make_transform_iterator(count, ToComplex{}), thrust::make_transform_iterator(count + size, ToComplex{}));
  Complex expected_sum = 0;
  for (int i = 0; i < size; ++i) expected_sum += ToComplex{}(i);
  equal("reduce of complex numbers", size, std::vector<Complex>{sum}, {expected_sum});

  thrust::device_vector<Affine> scanned(size);
  auto steps = thrust::make_transform_iterator(thrust::make_permutation_iterator(a.begin(), map.begin()), ToAffine{});
  thrust::inclusive_scan(steps, steps + size, scanned.begin(), Then{});
  std::vector<Affine> all(size);
  for (int i = 0; i < size; ++i) all[i] = i == 0 ? ToAffine{}(in[order[i]]) : Then{}(all[i - 1], ToAffine{}(in[order[i]]));
  equal("inclusive_scan of what a permutation shows", size, taken(scanned, size), all);

  // Counts of runs: keys by a function, values a constant, keys out to nowhere.
  auto tens = thrust::make_transform_iterator(count, Tens{});
  auto ends = thrust::reduce_by_key(tens, tens + size, thrust::make_constant_iterator(2), thrust::make_discard_iterator(), out.begin());
  std::vector<int> counts((size + 9) / 10, 20);
  if (size % 10) counts.back() = 2 * (size % 10);
  equal("reduce_by_key with a constant", size, back(out, ends.second - out.begin()), counts);

  auto halves = thrust::make_transform_output_iterator(out.begin(), Halve{});
  thrust::copy(thrust::make_reverse_iterator(a.end()), thrust::make_reverse_iterator(a.begin()), halves);
  std::vector<int> expected(size);
  for (int i = 0; i < size; ++i) expected[i] = in[size - 1 - i] / 2;
  equal("copy backwards through a function", size, back(out, size), expected);

  // Scattered through a permutation: every place is written once.
  thrust::transform(a.begin(), a.end(), count, thrust::make_permutation_iterator(out.begin(), map.begin()), thrust::plus<int>());
  for (int i = 0; i < size; ++i) expected[order[i]] = in[i] + i;
  equal("transform to permuted places", size, back(out, size), expected);

  auto pairs = thrust::make_zip_iterator(a.begin(), count);
  auto kept = thrust::copy_if(pairs, pairs + size, thrust::make_zip_iterator(out.begin(), more.begin()), Both{});
  std::vector<int> first, second;
  for (int i = 0; i < size; ++i) {
    if ((in[i] + i) % 3 == 0) first.push_back(in[i]), second.push_back(i);
  }
  std::size_t found = thrust::get<0>(kept.get_iterator_tuple()) - out.begin();
  equal("copy_if of pairs", size, back(out, found), first);
  equal("copy_if of pairs: places", size, back(more, found), second);

  // In place: sorted by keys along with two values, unique by the first, odd ones to the front.
  Device keys(in.begin(), in.end()), x(order.begin(), order.end()), y(in.begin(), in.end());
  thrust::stable_sort_by_key(keys.begin(), keys.end(), thrust::make_zip_iterator(x.begin(), y.begin()));
  std::vector<int> by(size), moved(size);
  std::iota(by.begin(), by.end(), 0);
  std::stable_sort(by.begin(), by.end(), [&](int i, int j) { return in[i] < in[j]; });
  for (int i = 0; i < size; ++i) moved[i] = order[by[i]];
  equal("stable_sort_by_key of pairs", size, back(x, size), moved);
  auto rows = thrust::make_zip_iterator(keys.begin(), x.begin());
  auto last = thrust::unique(rows, rows + size, FirstIsEqual{});
  std::vector<int> unique, of;
  for (int i = 0; i < size; ++i) {
    if (i == 0 || in[by[i]] != in[by[i - 1]]) unique.push_back(in[by[i]]), of.push_back(moved[i]);
  }
  equal("unique of pairs", size, back(x, last - rows), of);
  int stay = thrust::stable_partition(x.begin(), x.begin() + of.size(), Odd{}) - x.begin();
  std::stable_partition(of.begin(), of.end(), Odd{});
  equal("stable_partition", size, back(x, of.size()), of);
  int gone = thrust::remove_if(x.begin(), x.begin() + of.size(), count, Odd{}) - x.begin();
  std::vector<int> left;
  for (std::size_t i = 0; i < of.size(); i += 2) left.push_back(of[i]);
  equal("remove_if by a counter", size, back(x, gone), left);
  (void)stay;

  // Where each number would be inserted, of a sorted range that is only computed.
  thrust::lower_bound(tens, tens + size, a.begin(), a.end(), out.begin());
  for (int i = 0; i < size; ++i) expected[i] = std::min(10 * in[i], size);
  equal("lower_bound in a function", size, back(out, size), expected);
}

int main(int argument_count, char** arguments) {
  for (int size : sizes(argument_count, arguments, {0, 1, 33, 1000, 4099})) run(size);
  return conclude();
}
