// Thrust: transformations, reductions, scans, moves and queries on device vectors, at several sizes.
#include <thrust/adjacent_difference.h>
#include <thrust/copy.h>
#include <thrust/count.h>
#include <thrust/device_vector.h>
#include <thrust/equal.h>
#include <thrust/extrema.h>
#include <thrust/fill.h>
#include <thrust/find.h>
#include <thrust/for_each.h>
#include <thrust/gather.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/logical.h>
#include <thrust/mismatch.h>
#include <thrust/reduce.h>
#include <thrust/replace.h>
#include <thrust/reverse.h>
#include <thrust/scan.h>
#include <thrust/scatter.h>
#include <thrust/sequence.h>
#include <thrust/swap.h>
#include <thrust/tabulate.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>
#include <thrust/transform_scan.h>

#include <numeric>

#include "agree.h"

using namespace agree;

template <class T>
std::vector<T> back(const thrust::device_vector<T>& from, std::size_t count) {
  std::vector<T> all(count);
  thrust::copy(from.begin(), from.begin() + count, all.begin());
  return all;
}
template <class T>
std::vector<T> back(const thrust::device_vector<T>& from) { return back(from, from.size()); }

struct Square {
  __host__ __device__ long long operator()(int x) const { return static_cast<long long>(x) * x; }
};
struct Blend {
  __host__ __device__ int operator()(int a, int b) const { return 3 * a - b; }
};
struct Odd {
  __host__ __device__ bool operator()(int x) const { return x & 1; }
};
struct Change {
  template <class Pair>
  __host__ __device__ void operator()(Pair pair) const { thrust::get<1>(pair) += 2 * thrust::get<0>(pair); }
};

void moves(int size) {
  std::vector<int> in = values<int>(size, -999, 999, 1), other = values<int>(size, -999, 999, 2), order(size), expected(size);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [](int a, int b) { return scatter(a) < scatter(b); });
  thrust::device_vector<int> a(in.begin(), in.end()), b(other.begin(), other.end()), map(order.begin(), order.end()), out(size);
  thrust::transform(a.begin(), a.end(), b.begin(), out.begin(), Blend{});
  for (int i = 0; i < size; ++i) expected[i] = Blend{}(in[i], other[i]);
  equal("transform", size, back(out), expected);
  thrust::gather(map.begin(), map.end(), a.begin(), out.begin());
  for (int i = 0; i < size; ++i) expected[i] = in[order[i]];
  equal("gather", size, back(out), expected);
  thrust::scatter(a.begin(), a.end(), map.begin(), out.begin());
  for (int i = 0; i < size; ++i) expected[order[i]] = in[i];
  equal("scatter", size, back(out), expected);
  thrust::fill(out.begin(), out.end(), 3);
  thrust::scatter_if(a.begin(), a.end(), map.begin(), b.begin(), out.begin(), Odd{});
  std::fill(expected.begin(), expected.end(), 3);
  for (int i = 0; i < size; ++i) {
    if (Odd{}(other[i])) expected[order[i]] = in[i];
  }
  equal("scatter_if", size, back(out), expected);
  thrust::reverse_copy(a.begin(), a.end(), out.begin());
  std::reverse_copy(in.begin(), in.end(), expected.begin());
  equal("reverse_copy", size, back(out), expected);
  thrust::reverse(out.begin(), out.end());
  equal("reverse", size, back(out), in);
  thrust::replace_if(out.begin(), out.end(), Odd{}, 7);
  expected = in;
  std::replace_if(expected.begin(), expected.end(), Odd{}, 7);
  equal("replace_if", size, back(out), expected);
  thrust::sequence(out.begin(), out.end(), 10, 3);
  for (int i = 0; i < size; ++i) expected[i] = 10 + 3 * i;
  equal("sequence", size, back(out), expected);
  thrust::tabulate(out.begin(), out.end(), Square{});
  for (int i = 0; i < size; ++i) expected[i] = static_cast<int>(Square{}(i));
  equal("tabulate", size, back(out), expected);
  auto both = thrust::make_zip_iterator(a.begin(), out.begin());
  thrust::for_each(both, both + size, Change{});
  for (int i = 0; i < size; ++i) expected[i] += 2 * in[i];
  equal("for_each of pairs", size, back(out), expected);
  thrust::swap_ranges(a.begin(), a.end(), b.begin());
  equal("swap_ranges", size, back(a), other);
  equal("swap_ranges: the other", size, back(b), in);
}

void reductions(int size) {
  std::vector<int> in = values<int>(size, -999, 999, 3), other(in);
  if (size > 0) other[size * 2 / 3] += 1;
  thrust::device_vector<int> a(in.begin(), in.end()), b(other.begin(), other.end());
  long long squares = 0, products = 0;
  for (int i = 0; i < size; ++i) squares += Square{}(in[i]), products += static_cast<long long>(in[i]) * other[i];
  equal("reduce", size, {thrust::reduce(a.begin(), a.end())}, std::vector<int>{std::accumulate(in.begin(), in.end(), 0)});
  equal("transform_reduce", size, {thrust::transform_reduce(a.begin(), a.end(), Square{}, 0ll, thrust::plus<long long>())}, std::vector<long long>{squares});
  equal("inner_product", size, {thrust::inner_product(a.begin(), a.end(), b.begin(), 0ll)}, std::vector<long long>{products});
  equal("count_if", size, {static_cast<int>(thrust::count_if(a.begin(), a.end(), Odd{}))}, std::vector<int>{static_cast<int>(std::count_if(in.begin(), in.end(), Odd{}))});
  auto ends = thrust::minmax_element(a.begin(), a.end());
  auto expected_ends = std::make_pair(std::min_element(in.begin(), in.end()), std::max_element(in.begin(), in.end()));
  is_true("minmax_element", size, size == 0 || (*ends.first == *expected_ends.first && *ends.second == *expected_ends.second));
  is_true("max_element", size, thrust::max_element(a.begin(), a.end()) - a.begin() == expected_ends.second - in.begin());
  is_true("find", size, thrust::find(a.begin(), a.end(), 17) - a.begin() == std::find(in.begin(), in.end(), 17) - in.begin());
  is_true("mismatch", size, thrust::mismatch(a.begin(), a.end(), b.begin()).first - a.begin() == size * 2 / 3);
  is_true("equal", size, thrust::equal(a.begin(), a.end(), b.begin()) == (size == 0));
  is_true("any_of", size, thrust::any_of(a.begin(), a.end(), Odd{}) == std::any_of(in.begin(), in.end(), Odd{}));
}

void scans(int size) {
  std::vector<int> in = values<int>(size, -99, 99, 4), keys = runs<int>(size, 20), expected(size), unique, sums, scanned(size);
  std::partial_sum(in.begin(), in.end(), expected.begin());
  for (int i = 0; i < size; ++i) {
    bool starts = i == 0 || keys[i] != keys[i - 1];
    if (starts) unique.push_back(keys[i]), sums.push_back(0);
    scanned[i] = sums.back();
    sums.back() += in[i];
  }
  thrust::device_vector<int> a(in.begin(), in.end()), device_keys(keys.begin(), keys.end()), out(size), out_keys(size);
  thrust::inclusive_scan(a.begin(), a.end(), out.begin());
  equal("inclusive_scan", size, back(out), expected);
  thrust::exclusive_scan(a.begin(), a.end(), out.begin(), 5);
  std::exclusive_scan(in.begin(), in.end(), expected.begin(), 5);
  equal("exclusive_scan", size, back(out), expected);
  thrust::transform_inclusive_scan(a.begin(), a.end(), out.begin(), thrust::negate<int>(), thrust::maximum<int>());
  for (int i = 0; i < size; ++i) expected[i] = i == 0 ? -in[i] : std::max(expected[i - 1], -in[i]);
  equal("transform_inclusive_scan", size, back(out), expected);
  thrust::exclusive_scan_by_key(device_keys.begin(), device_keys.end(), a.begin(), out.begin());
  equal("exclusive_scan_by_key", size, back(out), scanned);
  auto ends = thrust::reduce_by_key(device_keys.begin(), device_keys.end(), a.begin(), out_keys.begin(), out.begin());
  equal("reduce_by_key: keys", size, back(out_keys, ends.first - out_keys.begin()), unique);
  equal("reduce_by_key: sums", size, back(out, ends.second - out.begin()), sums);
  thrust::adjacent_difference(a.begin(), a.end(), out.begin());
  std::adjacent_difference(in.begin(), in.end(), expected.begin());
  equal("adjacent_difference", size, back(out), expected);
}

int main(int argument_count, char** arguments) {
  for (int size : sizes(argument_count, arguments, {0, 1, 33, 1000, 9001})) {
    moves(size);
    reductions(size);
    scans(size);
  }
  return conclude();
}
