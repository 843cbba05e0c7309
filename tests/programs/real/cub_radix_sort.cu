// cub::DeviceRadixSort: keys and pairs, up and down, in every kind of buffer, over types, bit ranges and sizes. Small
// inputs take one block, larger ones the onesweep kernels with their look-back.
#include <cub/device/device_radix_sort.cuh>

#include <cmath>
#include <numeric>

#include "agree.h"

using namespace agree;

// The order of a stable sort by `key`.
template <class Key>
std::vector<int> order_of(int size, bool down, Key key) {
  std::vector<int> order(size);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return down ? key(b) < key(a) : key(a) < key(b); });
  return order;
}

template <class T>
std::vector<T> gathered(const std::vector<T>& from, const std::vector<int>& order) {
  std::vector<T> out;
  for (int place : order) out.push_back(from[place]);
  return out;
}

template <class T>
void keys(int size, const std::vector<T>& in) {
  Array<T> device(in), out(size), front(in), back(size);
  two_phases([&](void* t, std::size_t& b) { return cub::DeviceRadixSort::SortKeys(t, b, device.data(), out.data(), size); });
  equal("SortKeys", size, out.host(), gathered(in, order_of(size, false, [&](int i) { return in[i]; })));
  cub::DoubleBuffer<T> both(front.data(), back.data());
  two_phases([&](void* t, std::size_t& b) { return cub::DeviceRadixSort::SortKeysDescending(t, b, both, size); });
  equal("SortKeysDescending of a double buffer", size, to_host(both.Current(), size),
        gathered(in, order_of(size, true, [&](int i) { return in[i]; })));
}

template <class T, class V>
void pairs(int size, const std::vector<T>& in) {
  std::vector<V> with = values<V>(size, 0, 100, 7);
  std::vector<int> up = order_of(size, false, [&](int i) { return in[i]; });
  std::vector<int> down = order_of(size, true, [&](int i) { return in[i]; });
  Array<T> device(in), out(size), front(in), back(size);
  Array<V> device_with(with), out_with(size), front_with(with), back_with(size);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceRadixSort::SortPairsDescending(t, b, device.data(), out.data(), device_with.data(), out_with.data(), size);
  });
  equal("SortPairsDescending: keys", size, out.host(), gathered(in, down));
  equal("SortPairsDescending: values", size, out_with.host(), gathered(with, down));
  cub::DoubleBuffer<T> both(front.data(), back.data());
  cub::DoubleBuffer<V> both_with(front_with.data(), back_with.data());
  two_phases([&](void* t, std::size_t& b) { return cub::DeviceRadixSort::SortPairs(t, b, both, both_with, size); });
  equal("SortPairs of double buffers: keys", size, to_host(both.Current(), size), gathered(in, up));
  equal("SortPairs of double buffers: values", size, to_host(both_with.Current(), size), gathered(with, up));
}

void some_bits(int size) {
  std::vector<unsigned> in = values<unsigned>(size, 0, 1 << 30, 8);
  Array<unsigned> device(in), out(size);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceRadixSort::SortKeys(t, b, device.data(), out.data(), size, 5, 18);
  });
  equal("SortKeys by bits 5 to 17", size, out.host(),
        gathered(in, order_of(size, false, [&](int i) { return in[i] >> 5 & 0x1fff; })));
}

int main(int argument_count, char** arguments) {
  for (int size : sizes(argument_count, arguments, {0, 1, 33, 1000, 9001})) {
    std::vector<float> reals = values<float>(size, -40000, 40000, 1);
    for (float& x : reals) x *= 0.37f;
    keys(size, reals);
    keys(size, values<unsigned char>(size, 0, 255, 2));
    keys(size, values<long long>(size, -(1ll << 60), 1ll << 60, 3));
    pairs<int, int>(size, values<int>(size, -300, 300, 4));
    pairs<unsigned short, double>(size, values<unsigned short>(size, 0, 65535, 5));
    some_bits(size);
  }
  return conclude();
}
