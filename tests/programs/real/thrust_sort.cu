// Thrust: sorting, searching, merging, sets, uniqueness and partitions on device vectors, at several sizes.
#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/merge.h>
#include <thrust/partition.h>
#include <thrust/remove.h>
#include <thrust/set_operations.h>
#include <thrust/sort.h>
#include <thrust/unique.h>

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

struct ByTens {
  __host__ __device__ bool operator()(int a, int b) const { return a / 10 > b / 10; }
};
struct Odd {
  __host__ __device__ bool operator()(int x) const { return x & 1; }
};

void sorts(int size) {
  std::vector<int> in = values<int>(size, -999, 999, 1), sorted(in), by_tens(in), order(size), sorted_with(size);
  std::sort(sorted.begin(), sorted.end());
  std::stable_sort(by_tens.begin(), by_tens.end(), ByTens{});
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return in[a] < in[b]; });
  thrust::device_vector<int> plain(in.begin(), in.end()), other(plain), keys(plain), with(size);
  thrust::sort(plain.begin(), plain.end());
  equal("sort", size, back(plain), sorted);
  thrust::stable_sort(other.begin(), other.end(), ByTens{});
  equal("stable_sort", size, back(other), by_tens);
  for (int i = 0; i < size; ++i) sorted_with[i] = i;
  thrust::copy(sorted_with.begin(), sorted_with.end(), with.begin());
  thrust::stable_sort_by_key(keys.begin(), keys.end(), with.begin());
  equal("stable_sort_by_key: keys", size, back(keys), sorted);
  equal("stable_sort_by_key: values", size, back(with), order);
  is_true("is_sorted", size, thrust::is_sorted(keys.begin(), keys.end()));
}

void searches(int size) {
  std::vector<int> in = runs<int>(size, 4), wanted = values<int>(200, -2, size / 2 + 2, 2), low, high, found;
  for (int x : wanted) {
    low.push_back(std::lower_bound(in.begin(), in.end(), x) - in.begin());
    high.push_back(std::upper_bound(in.begin(), in.end(), x) - in.begin());
    found.push_back(std::binary_search(in.begin(), in.end(), x));
  }
  thrust::device_vector<int> device(in.begin(), in.end()), asked(wanted.begin(), wanted.end()), out(wanted.size());
  thrust::lower_bound(device.begin(), device.end(), asked.begin(), asked.end(), out.begin());
  equal("lower_bound", size, back(out), low);
  thrust::upper_bound(device.begin(), device.end(), asked.begin(), asked.end(), out.begin());
  equal("upper_bound", size, back(out), high);
  thrust::binary_search(device.begin(), device.end(), asked.begin(), asked.end(), out.begin());
  equal("binary_search", size, back(out), found);
}

void sets(int size) {
  std::vector<int> a = runs<int>(size, 3, 3), b = runs<int>(size / 2 + 7, 2, 4), merged, both, either, only, one;
  for (int& x : b) x += size / 8;
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(merged));
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(either));
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(only));
  std::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(one));
  thrust::device_vector<int> first(a.begin(), a.end()), second(b.begin(), b.end()), out(a.size() + b.size());
  auto taken = [&](auto end) { return back(out, end - out.begin()); };
  equal("merge", size, taken(thrust::merge(first.begin(), first.end(), second.begin(), second.end(), out.begin())), merged);
  equal("set_intersection", size, taken(thrust::set_intersection(first.begin(), first.end(), second.begin(), second.end(), out.begin())), both);
  equal("set_union", size, taken(thrust::set_union(first.begin(), first.end(), second.begin(), second.end(), out.begin())), either);
  equal("set_difference", size, taken(thrust::set_difference(first.begin(), first.end(), second.begin(), second.end(), out.begin())), only);
  equal("set_symmetric_difference", size, taken(thrust::set_symmetric_difference(first.begin(), first.end(), second.begin(), second.end(), out.begin())), one);
}

void selections(int size) {
  std::vector<int> in = values<int>(size, 0, 999, 5), odd, rest, unique = runs<int>(size, 6, 6), repeated(unique);
  for (int x : in) (Odd{}(x) ? odd : rest).push_back(x);
  unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
  thrust::device_vector<int> device(in.begin(), in.end()), out(size), more(size), twice(repeated.begin(), repeated.end());
  equal("copy_if", size, back(out, thrust::copy_if(device.begin(), device.end(), out.begin(), Odd{}) - out.begin()), odd);
  equal("unique_copy", size, back(out, thrust::unique_copy(twice.begin(), twice.end(), out.begin()) - out.begin()), unique);
  auto ends = thrust::partition_copy(device.begin(), device.end(), out.begin(), more.begin(), Odd{});
  equal("partition_copy: chosen", size, back(out, ends.first - out.begin()), odd);
  equal("partition_copy: others", size, back(more, ends.second - more.begin()), rest);
  thrust::device_vector<int> left(device), parted(device);
  left.erase(thrust::remove_if(left.begin(), left.end(), Odd{}), left.end());
  equal("remove_if", size, back(left), rest);
  thrust::stable_partition(parted.begin(), parted.end(), Odd{});
  odd.insert(odd.end(), rest.begin(), rest.end());
  equal("stable_partition", size, back(parted), odd);
}

int main(int argument_count, char** arguments) {
  for (int size : sizes(argument_count, arguments, {0, 1, 33, 1000, 9001})) {
    sorts(size);
    searches(size);
    sets(size);
    selections(size);
  }
  return conclude();
}
