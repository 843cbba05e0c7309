// cub::DeviceMergeSort and cub::DeviceMerge: every algorithm, at several sizes.
#include <cub/device/device_merge.cuh>
#include <cub/device/device_merge_sort.cuh>

#include <numeric>

#include "agree.h"

using namespace agree;

struct Less {
  template <class T>
  __host__ __device__ bool operator()(const T& a, const T& b) const { return a < b; }
};
// Several values are equal in this order: stability shows.
struct ByTens {
  __host__ __device__ bool operator()(int a, int b) const { return a / 10 < b / 10; }
};

template <class T, class Order>
std::vector<T> sorted(std::vector<T> all, Order order) {
  std::stable_sort(all.begin(), all.end(), order);
  return all;
}

void keys(int size) {
  std::vector<int> in = values<int>(size, 0, 999, 1);
  Array<int> stable(in), plain(in), source(in), out(size);
  two_phases([&](void* t, std::size_t& b) { return cub::DeviceMergeSort::StableSortKeys(t, b, stable.data(), size, ByTens{}); });
  equal("StableSortKeys", size, stable.host(), sorted(in, ByTens{}));
  two_phases([&](void* t, std::size_t& b) { return cub::DeviceMergeSort::SortKeys(t, b, plain.data(), size, Less{}); });
  equal("SortKeys", size, plain.host(), sorted(in, Less{}));
  two_phases([&](void* t, std::size_t& b) { return cub::DeviceMergeSort::SortKeysCopy(t, b, source.data(), out.data(), size, Less{}); });
  equal("SortKeysCopy", size, out.host(), sorted(in, Less{}));
  equal("SortKeysCopy: its input", size, source.host(), in);
  two_phases([&](void* t, std::size_t& b) { return cub::DeviceMergeSort::StableSortKeysCopy(t, b, source.data(), out.data(), size, ByTens{}); });
  equal("StableSortKeysCopy", size, out.host(), sorted(in, ByTens{}));
}

void pairs(int size) {
  std::vector<int> in = values<int>(size, 0, 99, 2), order(size);
  std::iota(order.begin(), order.end(), 0);
  std::vector<double> with = values<double>(size, 0, 1 << 20, 3), expected;
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return in[a] < in[b]; });
  for (int place : order) expected.push_back(with[place]);
  Array<int> stable(in), source(in), out(size);
  Array<double> stable_with(with), source_with(with), out_with(size);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceMergeSort::StableSortPairs(t, b, stable.data(), stable_with.data(), size, Less{});
  });
  equal("StableSortPairs: keys", size, stable.host(), sorted(in, Less{}));
  equal("StableSortPairs: values", size, stable_with.host(), expected);
  // No order of equal keys is promised here: what belongs to a key is checked by a key that occurs once.
  std::vector<int> once = values<int>(size, 0, 1 << 30, 8), with_once(once);
  for (int& x : with_once) x = static_cast<int>(3u * x + 1);
  Array<int> keys_once(once);
  Array<double> values_once(std::vector<double>(with_once.begin(), with_once.end()));
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceMergeSort::SortPairs(t, b, keys_once.data(), values_once.data(), size, Less{});
  });
  equal("SortPairs: keys", size, keys_once.host(), sorted(once, Less{}));
  std::vector<double> found = values_once.host(), belongs;
  for (int x : sorted(once, Less{})) belongs.push_back(static_cast<int>(3u * x + 1));
  equal("SortPairs: values", size, found, belongs);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceMergeSort::SortPairsCopy(t, b, source.data(), source_with.data(), out.data(), out_with.data(), size, Less{});
  });
  equal("SortPairsCopy: keys", size, out.host(), sorted(in, Less{}));
  equal("SortPairsCopy: values", size, out_with.host(), expected);
}

void merges(int size) {
  int other = size / 3 + 5;
  std::vector<int> a = sorted(values<int>(size, 0, 500, 4), Less{}), b = sorted(values<int>(other, 0, 500, 5), Less{});
  std::vector<int> with_a = values<int>(size, 0, 1 << 20, 6), with_b = values<int>(other, 0, 1 << 20, 7), with(size + other);
  std::vector<int> merged, order(size + other);
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(merged));
  auto key = [&](int i) { return i < size ? a[i] : b[i - size]; };
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int i, int j) { return key(i) < key(j); });
  for (int i = 0; i < size + other; ++i) with[i] = order[i] < size ? with_a[order[i]] : with_b[order[i] - size];
  Array<int> first(a), second(b), out(size + other), first_with(with_a), second_with(with_b), out_with(size + other);
  two_phases([&](void* t, std::size_t& bytes) {
    return cub::DeviceMerge::MergeKeys(t, bytes, first.data(), size, second.data(), other, out.data(), Less{});
  });
  equal("MergeKeys", size, out.host(), merged);
  two_phases([&](void* t, std::size_t& bytes) {
    return cub::DeviceMerge::MergePairs(t, bytes, first.data(), first_with.data(), size, second.data(), second_with.data(),
                                        other, out.data(), out_with.data(), Less{});
  });
  equal("MergePairs: keys", size, out.host(), merged);
  equal("MergePairs: values", size, out_with.host(), with);
}

int main(int argument_count, char** arguments) {
  for (int size : sizes(argument_count, arguments, {0, 1, 33, 1000, 9001})) {
    keys(size);
    pairs(size);
    merges(size);
  }
  return conclude();
}
