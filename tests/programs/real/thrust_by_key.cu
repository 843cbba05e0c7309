// Thrust: algorithms by key, set operations with values, searches in sorted ranges, and transformations with a stencil.
#include <thrust/binary_search.h>
#include <thrust/extrema.h>
#include <thrust/gather.h>
#include <thrust/merge.h>
#include <thrust/scan.h>
#include <thrust/set_operations.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/transform_scan.h>
#include <thrust/unique.h>

#include <numeric>

#include "agree_thrust.h"

using namespace agree;

struct Twice {
  __host__ __device__ int operator()(int x) const { return 2 * x + 1; }
};

void scans(int size) {
  std::vector<int> keys = runs<int>(size, 9, 1), in = values<int>(size, -50, 50, 2), by_key(in), exclusive(size);
  for (int i = 1; i < size; ++i)
    if (keys[i] == keys[i - 1]) by_key[i] += by_key[i - 1];
  for (int i = 0, sum = 3; i < size; ++i) exclusive[i] = sum, sum += 2 * in[i] + 1;
  Device with(keys), source(in), out(size);
  thrust::inclusive_scan_by_key(with.begin(), with.end(), source.begin(), out.begin());
  equal("inclusive_scan_by_key", size, back(out, size), by_key);
  thrust::transform_exclusive_scan(source.begin(), source.end(), out.begin(), Twice(), 3, thrust::plus<int>());
  equal("transform_exclusive_scan", size, back(out, size), exclusive);
}

void stencils(int size) {
  std::vector<int> in = values<int>(size, -50, 50, 3), stencil = values<int>(size, 0, 9, 4), changed(size, -1), map(size);
  std::vector<int> gathered(size, -1);
  for (int i = 0; i < size; ++i) map[i] = int(scatter(i) % size);
  for (int i = 0; i < size; ++i) {
    if (stencil[i] & 1) changed[i] = 2 * in[i] + 1, gathered[i] = in[map[i]];
  }
  Device source(in), with(stencil), places(map), out(size, -1);
  thrust::transform_if(source.begin(), source.end(), with.begin(), out.begin(), Twice(), Odd());
  equal("transform_if", size, back(out, size), changed);
  thrust::fill(out.begin(), out.end(), -1);
  thrust::gather_if(places.begin(), places.end(), with.begin(), source.begin(), out.begin(), Odd());
  equal("gather_if", size, back(out, size), gathered);
  is_true("min_element", size,
          thrust::min_element(source.begin(), source.end()) - source.begin() ==
              std::min_element(in.begin(), in.end()) - in.begin());
}

void sorted(int size) {
  std::vector<int> keys = values<int>(size, 0, size, 5), with = values<int>(size, 0, 1 << 20, 6), order(size);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return keys[a] < keys[b]; });
  std::vector<int> up, up_with;
  for (int i : order) up.push_back(keys[i]), up_with.push_back(with[i]);
  Device device(keys), device_with(with);
  thrust::stable_sort_by_key(device.begin(), device.end(), device_with.begin());
  equal("stable_sort_by_key: keys", size, back(device, size), up);
  equal("stable_sort_by_key: values", size, back(device_with, size), up_with);
  Device again(keys), again_with(with);
  thrust::sort_by_key(again.begin(), again.end(), again_with.begin());
  equal("sort_by_key", size, back(again, size), up);
  for (int key : {0, size / 2, size + 1}) {
    auto found = thrust::equal_range(device.begin(), device.end(), key);
    auto expected = std::equal_range(up.begin(), up.end(), key);
    is_true("equal_range", size, found.first - device.begin() == expected.first - up.begin() &&
                                     found.second - device.begin() == expected.second - up.begin());
  }
  std::vector<int> broken(up);
  if (size > 2) broken[size / 2] = -1;
  Device partly(broken);
  is_true("is_sorted_until", size,
          thrust::is_sorted_until(partly.begin(), partly.end()) - partly.begin() ==
              std::is_sorted_until(broken.begin(), broken.end()) - broken.begin());
  // The first of each run of keys.
  std::vector<int> once, once_with;
  for (int i = 0; i < size; ++i)
    if (i == 0 || up[i] != up[i - 1]) once.push_back(up[i]), once_with.push_back(up_with[i]);
  Device out(size), out_with(size);
  auto ends = thrust::unique_by_key_copy(device.begin(), device.end(), device_with.begin(), out.begin(), out_with.begin());
  equal("unique_by_key_copy: keys", size, back(out, ends.first - out.begin()), once);
  equal("unique_by_key_copy: values", size, back(out_with, ends.second - out_with.begin()), once_with);
  auto in_place = thrust::unique_by_key(device.begin(), device.end(), device_with.begin());
  equal("unique_by_key: keys", size, back(device, in_place.first - device.begin()), once);
  equal("unique_by_key: values", size, back(device_with, in_place.second - device_with.begin()), once_with);
}

// Two sorted ranges; values say where a key came from.
void sets(int size) {
  std::vector<int> a = runs<int>(size, 3, 7), b = runs<int>(size / 2 + 1, 2, 8), from_a(a.size()), from_b(b.size());
  std::iota(from_a.begin(), from_a.end(), 0);
  std::iota(from_b.begin(), from_b.end(), 1000000);
  using Pair = std::pair<int, int>;
  std::vector<Pair> left, right;
  for (std::size_t i = 0; i < a.size(); ++i) left.push_back({a[i], from_a[i]});
  for (std::size_t i = 0; i < b.size(); ++i) right.push_back({b[i], from_b[i]});
  auto less = [](const Pair& x, const Pair& y) { return x.first < y.first; };
  Device first(a), first_with(from_a), second(b), second_with(from_b), out(a.size() + b.size()), out_with(out.size());
  auto compare = [&](const char* what, std::size_t count, const std::vector<Pair>& expected) {
    std::vector<int> keys, with;
    for (const Pair& p : expected) keys.push_back(p.first), with.push_back(p.second);
    equal(what, size, back(out, count), keys);
    equal(what, size, back(out_with, count), with);
  };
  std::vector<Pair> expected;
  auto into = std::back_inserter(expected);
  std::merge(left.begin(), left.end(), right.begin(), right.end(), into, less);
  auto ends = thrust::merge_by_key(first.begin(), first.end(), second.begin(), second.end(), first_with.begin(),
                                   second_with.begin(), out.begin(), out_with.begin());
  compare("merge_by_key", ends.first - out.begin(), expected);
  expected.clear();
  std::set_union(left.begin(), left.end(), right.begin(), right.end(), into, less);
  ends = thrust::set_union_by_key(first.begin(), first.end(), second.begin(), second.end(), first_with.begin(),
                                  second_with.begin(), out.begin(), out_with.begin());
  compare("set_union_by_key", ends.first - out.begin(), expected);
  expected.clear();
  std::set_intersection(left.begin(), left.end(), right.begin(), right.end(), into, less);
  ends = thrust::set_intersection_by_key(first.begin(), first.end(), second.begin(), second.end(), first_with.begin(),
                                         out.begin(), out_with.begin());
  compare("set_intersection_by_key", ends.first - out.begin(), expected);
  expected.clear();
  std::set_difference(left.begin(), left.end(), right.begin(), right.end(), into, less);
  ends = thrust::set_difference_by_key(first.begin(), first.end(), second.begin(), second.end(), first_with.begin(),
                                       second_with.begin(), out.begin(), out_with.begin());
  compare("set_difference_by_key", ends.first - out.begin(), expected);
  expected.clear();
  std::set_symmetric_difference(left.begin(), left.end(), right.begin(), right.end(), into, less);
  ends = thrust::set_symmetric_difference_by_key(first.begin(), first.end(), second.begin(), second.end(),
                                                 first_with.begin(), second_with.begin(), out.begin(), out_with.begin());
  compare("set_symmetric_difference_by_key", ends.first - out.begin(), expected);
}

int main(int argument_count, char** arguments) {
  for (int size : sizes(argument_count, arguments, {1, 100, 1500})) scans(size), stencils(size), sorted(size), sets(size);
  return conclude();
}
