// cub::DeviceSegmentedSort and DeviceSegmentedRadixSort: the directions that cub_segments.cu leaves out, in plain arrays
// and in double buffers, over segments of very different lengths.
#include <cub/device/device_segmented_radix_sort.cuh>
#include <cub/device/device_segmented_sort.cuh>

#include <numeric>

#include "agree.h"

using namespace agree;

using Key = float;
using Value = unsigned short;

// One case: what the segments hold, where they are on the device, and what each order makes of them.
struct Case {
  int size, segments;
  std::vector<int> offsets;
  std::vector<Key> keys;
  std::vector<Value> with;
  Array<int> starts;
  Array<Key> device;
  Array<Value> device_with;

  Case(int size, std::vector<int> offsets)
      : size(size), segments(static_cast<int>(offsets.size()) - 1), offsets(offsets), keys(values<Key>(size, -90, 90, 1)),
        with(values<Value>(size, 0, 65535, 2)), starts(offsets), device(keys), device_with(with) {}

  std::vector<int> order(bool down) const {
    std::vector<int> all(size);
    std::iota(all.begin(), all.end(), 0);
    for (int s = 0; s < segments; ++s) {
      std::stable_sort(all.begin() + offsets[s], all.begin() + offsets[s + 1],
                       [&](int a, int b) { return down ? keys[b] < keys[a] : keys[a] < keys[b]; });
    }
    return all;
  }
};

template <class T>
std::vector<T> gathered(const std::vector<T>& from, const std::vector<int>& order) {
  std::vector<T> out;
  for (int place : order) out.push_back(from[place]);
  return out;
}

// `call(storage, bytes, in, out, ...)` for keys in plain arrays and in a double buffer; then for pairs.
template <class Plain, class Both>
void keys(const char* what, const Case& c, bool down, Plain plain, Both both) {
  std::vector<Key> expected = gathered(c.keys, c.order(down));
  Array<Key> out(c.size), front(c.keys), back(c.size);
  two_phases([&](void* t, std::size_t& b) { return plain(t, b, c.device.data(), out.data()); });
  equal(what, c.size, out.host(), expected);
  cub::DoubleBuffer<Key> buffer(front.data(), back.data());
  two_phases([&](void* t, std::size_t& b) { return both(t, b, buffer); });
  equal(what, c.size, to_host(buffer.Current(), c.size), expected);
}
template <class Plain, class Both>
void pairs(const char* what, const Case& c, bool down, Plain plain, Both both) {
  std::vector<int> order = c.order(down);
  Array<Key> out(c.size), front(c.keys), back(c.size);
  Array<Value> out_with(c.size), front_with(c.with), back_with(c.size);
  two_phases([&](void* t, std::size_t& b) {
    return plain(t, b, c.device.data(), out.data(), c.device_with.data(), out_with.data());
  });
  equal(what, c.size, out.host(), gathered(c.keys, order));
  equal(what, c.size, out_with.host(), gathered(c.with, order));
  cub::DoubleBuffer<Key> buffer(front.data(), back.data());
  cub::DoubleBuffer<Value> buffer_with(front_with.data(), back_with.data());
  two_phases([&](void* t, std::size_t& b) { return both(t, b, buffer, buffer_with); });
  equal(what, c.size, to_host(buffer.Current(), c.size), gathered(c.keys, order));
  equal(what, c.size, to_host(buffer_with.Current(), c.size), gathered(c.with, order));
}

// Plain arrays in and out, and a double buffer, are overloads of one name.
#define OF_KEYS(Algorithm)                                                                                                   \
  [&](void* t, std::size_t& b, const Key* in, Key* out) { return Algorithm(t, b, in, out, c.size, c.segments, begin, end); }, \
      [&](void* t, std::size_t& b, cub::DoubleBuffer<Key>& keys) { return Algorithm(t, b, keys, c.size, c.segments, begin, end); }
#define OF_PAIRS(Algorithm)                                                                              \
  [&](void* t, std::size_t& b, const Key* in, Key* out, const Value* with, Value* out_with) {            \
    return Algorithm(t, b, in, out, with, out_with, c.size, c.segments, begin, end);                     \
  },                                                                                                     \
      [&](void* t, std::size_t& b, cub::DoubleBuffer<Key>& keys, cub::DoubleBuffer<Value>& with) {       \
        return Algorithm(t, b, keys, with, c.size, c.segments, begin, end);                              \
      }

void sorts(const Case& c) {
  const int *begin = c.starts.data(), *end = begin + 1;
  using Sort = cub::DeviceSegmentedSort;
  keys("SegmentedSort::SortKeys", c, false, OF_KEYS(Sort::SortKeys));
  keys("SegmentedSort::StableSortKeys", c, false, OF_KEYS(Sort::StableSortKeys));
  // No order of equal keys is promised here; CCCL 3.0.1 sorts stably for all that.
  pairs("SegmentedSort::SortPairsDescending", c, true, OF_PAIRS(Sort::SortPairsDescending));
  pairs("SegmentedSort::StableSortPairsDescending", c, true, OF_PAIRS(Sort::StableSortPairsDescending));
}

void radix_sorts(const Case& c) {
  const int *begin = c.starts.data(), *end = begin + 1;
  using Sort = cub::DeviceSegmentedRadixSort;
  keys("SegmentedRadixSort::SortKeysDescending", c, true, OF_KEYS(Sort::SortKeysDescending));
  pairs("SegmentedRadixSort::SortPairs", c, false, OF_PAIRS(Sort::SortPairs));
}

int main(int argument_count, char** arguments) {
  const int lengths[] = {2, 0, 700, 31, 1, 33, 0, 2100, 8, 130};
  for (int size : sizes(argument_count, arguments, {0, 1, 40, 1700})) {
    std::vector<int> offsets{0};
    for (int i = 0; offsets.back() < size; ++i) offsets.push_back(std::min(size, offsets.back() + lengths[i % 10]));
    Case c(size, offsets);
    sorts(c);
    radix_sorts(c);
  }
  return conclude();
}
