// cub::DeviceSegmentedReduce, DeviceSegmentedSort and DeviceSegmentedRadixSort: segments of very different lengths, some
// empty. Segmented sort has kernels of its own for small, middling and large segments.
#include <cub/device/device_segmented_radix_sort.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#include <cub/device/device_segmented_sort.cuh>

#include <numeric>

#include "agree.h"

using namespace agree;

// Where segments start, and where the last ends. `total` elements.
std::vector<int> offsets_of(int total) {
  const int lengths[] = {5, 0, 1, 40, 333, 17, 1500, 3, 0, 90};
  std::vector<int> offsets{0};
  for (int i = 0; offsets.back() < total; ++i) offsets.push_back(std::min(total, offsets.back() + lengths[i % 10]));
  return offsets;
}

void reductions(int size) {
  std::vector<int> offsets = offsets_of(size), in = values<int>(size, -1000, 1000, 1);
  int segments = static_cast<int>(offsets.size()) - 1;
  std::vector<int> sum(segments), low(segments, INT_MAX), high(segments, INT_MIN), place(segments, 1), either(segments, 64),
      low_place(segments, 1);
  for (int s = 0; s < segments; ++s) {
    for (int i = offsets[s]; i < offsets[s + 1]; ++i) {
      sum[s] += in[i];
      either[s] |= in[i];
      if (in[i] > high[s]) place[s] = i - offsets[s];
      if (in[i] < low[s]) low_place[s] = i - offsets[s];
      low[s] = std::min(low[s], in[i]);
      high[s] = std::max(high[s], in[i]);
    }
  }
  Array<int> device(in), starts(offsets), out(segments);
  Array<cub::KeyValuePair<int, int>> best(segments);
  const int *begin = starts.data(), *end = begin + 1;
  two_phases([&](void* t, std::size_t& b) { return cub::DeviceSegmentedReduce::Sum(t, b, device.data(), out.data(), segments, begin, end); });
  equal("SegmentedReduce::Sum", size, out.host(), sum);
  two_phases([&](void* t, std::size_t& b) { return cub::DeviceSegmentedReduce::Min(t, b, device.data(), out.data(), segments, begin, end); });
  equal("SegmentedReduce::Min", size, out.host(), low);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceSegmentedReduce::Reduce(t, b, device.data(), out.data(), segments, begin, end, cuda::std::bit_or<>{}, 64);
  });
  equal("SegmentedReduce::Reduce", size, out.host(), either);
  two_phases([&](void* t, std::size_t& b) { return cub::DeviceSegmentedReduce::ArgMax(t, b, device.data(), best.data(), segments, begin, end); });
  std::vector<int> found_place, found_value;
  for (const auto& pair : best.host()) found_place.push_back(pair.key), found_value.push_back(pair.value);
  equal("SegmentedReduce::ArgMax: place", size, found_place, place);
  equal("SegmentedReduce::ArgMax: value", size, found_value, high);
  two_phases([&](void* t, std::size_t& b) { return cub::DeviceSegmentedReduce::Max(t, b, device.data(), out.data(), segments, begin, end); });
  equal("SegmentedReduce::Max", size, out.host(), high);
  two_phases([&](void* t, std::size_t& b) { return cub::DeviceSegmentedReduce::ArgMin(t, b, device.data(), best.data(), segments, begin, end); });
  found_place.clear(), found_value.clear();
  for (const auto& pair : best.host()) found_place.push_back(pair.key), found_value.push_back(pair.value);
  equal("SegmentedReduce::ArgMin: place", size, found_place, low_place);
  equal("SegmentedReduce::ArgMin: value", size, found_value, low);
}

template <class T>
std::vector<int> order_of(const std::vector<T>& in, const std::vector<int>& offsets, bool down) {
  std::vector<int> order(in.size());
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
    std::stable_sort(order.begin() + offsets[s], order.begin() + offsets[s + 1],
                     [&](int a, int b) { return down ? in[b] < in[a] : in[a] < in[b]; });
  }
  return order;
}
template <class T>
std::vector<T> gathered(const std::vector<T>& from, const std::vector<int>& order) {
  std::vector<T> out;
  for (int place : order) out.push_back(from[place]);
  return out;
}

void sorts(int size) {
  std::vector<int> offsets = offsets_of(size), in = values<int>(size, -200, 200, 2), with = values<int>(size, 0, 1 << 20, 3);
  int segments = static_cast<int>(offsets.size()) - 1;
  std::vector<int> up = order_of(in, offsets, false), down = order_of(in, offsets, true);
  Array<int> device(in), starts(offsets), device_with(with), out(size), out_with(size), front(in), back(size);
  const int *begin = starts.data(), *end = begin + 1;
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceSegmentedSort::StableSortPairs(t, b, device.data(), out.data(), device_with.data(), out_with.data(), size, segments, begin, end);
  });
  equal("SegmentedSort::StableSortPairs: keys", size, out.host(), gathered(in, up));
  equal("SegmentedSort::StableSortPairs: values", size, out_with.host(), gathered(with, up));
  Array<int> again(size), again_with(size), other_front(in), other_back(size);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceSegmentedSort::SortPairs(t, b, device.data(), again.data(), device_with.data(), again_with.data(), size, segments, begin, end);
  });
  equal("SegmentedSort::SortPairs: keys", size, again.host(), gathered(in, up));
  cub::DoubleBuffer<int> both(front.data(), back.data()), other(other_front.data(), other_back.data());
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceSegmentedSort::StableSortKeysDescending(t, b, other, size, segments, begin, end);
  });
  equal("SegmentedSort::StableSortKeysDescending", size, to_host(other.Current(), size), gathered(in, down));
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceSegmentedSort::SortKeysDescending(t, b, both, size, segments, begin, end);
  });
  equal("SegmentedSort::SortKeysDescending", size, to_host(both.Current(), size), gathered(in, down));
}

void radix_sorts(int size) {
  std::vector<unsigned short> in = values<unsigned short>(size, 0, 999, 4);
  std::vector<int> offsets = offsets_of(size), with = values<int>(size, 0, 1 << 20, 5);
  int segments = static_cast<int>(offsets.size()) - 1;
  std::vector<int> up = order_of(in, offsets, false), down = order_of(in, offsets, true);
  Array<unsigned short> device(in), out(size);
  Array<int> starts(offsets), device_with(with), out_with(size);
  const int *begin = starts.data(), *end = begin + 1;
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceSegmentedRadixSort::SortPairsDescending(t, b, device.data(), out.data(), device_with.data(), out_with.data(), size, segments, begin, end);
  });
  equal("SegmentedRadixSort::SortPairsDescending: keys", size, out.host(), gathered(in, down));
  equal("SegmentedRadixSort::SortPairsDescending: values", size, out_with.host(), gathered(with, down));
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceSegmentedRadixSort::SortKeys(t, b, device.data(), out.data(), size, segments, begin, end, 0, 10);
  });
  equal("SegmentedRadixSort::SortKeys", size, out.host(), gathered(in, up));
}

int main(int argument_count, char** arguments) {
  for (int size : sizes(argument_count, arguments, {0, 1, 33, 1000, 5003})) {
    reductions(size);
    sorts(size);
    radix_sorts(size);
  }
  return conclude();
}
