// cub::DeviceSelect and cub::DevicePartition: every algorithm, at several sizes.
#include <cub/device/device_partition.cuh>
#include <cub/device/device_select.cuh>

#include "agree.h"

using namespace agree;

struct Odd {
  __host__ __device__ bool operator()(int x) const { return x & 1; }
};
struct Below {
  int limit;
  __host__ __device__ bool operator()(int x) const { return x < limit; }
};

// A selection writes what it selected and how much that is.
template <class T, class Call>
void selects(const char* what, int size, const std::vector<T>& expected, Call call) {
  Array<T> out(size);
  Array<int> count(1);
  two_phases([&](void* t, std::size_t& b) { return call(t, b, out.data(), count.data()); });
  equal(what, size, out.host(count.host()[0]), expected);
}

template <class T>
void selections(int size) {
  std::vector<T> in = values<T>(size, 0, 100);
  std::vector<unsigned char> flags = values<unsigned char>(size, 0, 2, 1);
  std::vector<T> flagged, odd_flagged, odd, unique;
  for (int i = 0; i < size; ++i) {
    if (flags[i] != 0) flagged.push_back(in[i]);
    if (flags[i] & 1) odd_flagged.push_back(in[i]);
    if (Odd{}(in[i])) odd.push_back(in[i]);
  }
  Array<T> device(in);
  Array<unsigned char> device_flags(flags);
  selects("Select::Flagged", size, flagged, [&](void* t, std::size_t& b, T* out, int* count) {
    return cub::DeviceSelect::Flagged(t, b, device.data(), device_flags.data(), out, count, size);
  });
  selects("Select::FlaggedIf", size, odd_flagged, [&](void* t, std::size_t& b, T* out, int* count) {
    return cub::DeviceSelect::FlaggedIf(t, b, device.data(), device_flags.data(), out, count, size, Odd{});
  });
  selects("Select::If", size, odd, [&](void* t, std::size_t& b, T* out, int* count) {
    return cub::DeviceSelect::If(t, b, device.data(), out, count, size, Odd{});
  });
  std::vector<T> repeated = runs<T>(size, 30, 2);
  unique = repeated;
  unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
  Array<T> device_repeated(repeated);
  selects("Select::Unique", size, unique, [&](void* t, std::size_t& b, T* out, int* count) {
    return cub::DeviceSelect::Unique(t, b, device_repeated.data(), out, count, size);
  });
  Array<T> in_place(in);
  Array<int> count(1);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceSelect::If(t, b, in_place.data(), count.data(), size, Odd{});
  });
  equal("Select::If in place", size, in_place.host(count.host()[0]), odd);
}

void unique_by_key(int size) {
  std::vector<int> keys = runs<int>(size, 12, 3), unique, first;
  std::vector<int> in = values<int>(size, 0, 1000, 4);
  for (int i = 0; i < size; ++i) {
    if (i > 0 && keys[i] == keys[i - 1]) continue;
    unique.push_back(keys[i]);
    first.push_back(in[i]);
  }
  Array<int> device_keys(keys), device(in), out_keys(size), out(size), count(1);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceSelect::UniqueByKey(t, b, device_keys.data(), device.data(), out_keys.data(), out.data(), count.data(), size);
  });
  int found = count.host()[0];
  equal("Select::UniqueByKey: keys", size, out_keys.host(found), unique);
  equal("Select::UniqueByKey: values", size, out.host(found), first);
}

void partitions(int size) {
  std::vector<int> in = values<int>(size, 0, 99, 5);
  std::vector<char> flags = values<char>(size, 0, 1, 6);
  Array<int> device(in), out(size), count(1);
  Array<char> device_flags(flags);
  // What is chosen in order from the front, the others from the back in reverse order.
  auto expected = [&](auto chosen) {
    std::vector<int> front, back;
    for (int i = 0; i < size; ++i) (chosen(i) ? front : back).push_back(in[i]);
    front.insert(front.end(), back.rbegin(), back.rend());
    return front;
  };
  two_phases([&](void* t, std::size_t& b) {
    return cub::DevicePartition::Flagged(t, b, device.data(), device_flags.data(), out.data(), count.data(), size);
  });
  equal("Partition::Flagged", size, out.host(), expected([&](int i) { return flags[i]; }));
  two_phases([&](void* t, std::size_t& b) {
    return cub::DevicePartition::If(t, b, device.data(), out.data(), count.data(), size, Below{40});
  });
  equal("Partition::If", size, out.host(), expected([&](int i) { return in[i] < 40; }));

  Array<int> low(size), middle(size), rest(size), counts(2);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DevicePartition::If(t, b, device.data(), low.data(), middle.data(), rest.data(), counts.data(), size, Below{20}, Below{60});
  });
  std::vector<int> three[3];
  for (int x : in) three[x < 20 ? 0 : x < 60 ? 1 : 2].push_back(x);
  std::vector<int> found = counts.host();
  equal("Partition::If in three: first", size, low.host(found[0]), three[0]);
  equal("Partition::If in three: second", size, middle.host(found[1]), three[1]);
  equal("Partition::If in three: rest", size, rest.host(size - found[0] - found[1]), three[2]);
}

int main(int argument_count, char** arguments) {
  for (int size : sizes(argument_count, arguments, {0, 1, 33, 1000, 12007})) {
    selections<int>(size);
    selections<long long>(size);
    unique_by_key(size);
    partitions(size);
  }
  return conclude();
}
