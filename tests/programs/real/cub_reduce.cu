// cub::DeviceReduce: every algorithm, over several types, operators and sizes.
#include <cub/device/device_reduce.cuh>

#include <numeric>

#include "agree.h"

using namespace agree;

template <class T>
void sums(int size) {
  std::vector<T> in = values<T>(size, 1, 50);
  Array<T> device(in), out(1);
  two_phases([&](void* t, std::size_t& b) { return cub::DeviceReduce::Sum(t, b, device.data(), out.data(), size); });
  equal("Sum", size, out.host(), {std::accumulate(in.begin(), in.end(), T(0))});
}

struct Square {
  __host__ __device__ long long operator()(int x) const { return static_cast<long long>(x) * x; }
};

// Sixteen bits more than CUB can exchange in one word.
struct Affine {
  unsigned a, b;
};
struct Xor {
  __host__ __device__ unsigned operator()(unsigned x, unsigned y) const { return x ^ y; }
};
struct Wider {
  __host__ __device__ Affine operator()(Affine x, Affine y) const { return {x.a > y.a ? x.a : y.a, x.b + y.b}; }
};

void extrema(int size) {
  std::vector<int> in = values<int>(size, -5000, 5000, 1);
  Array<int> device(in), out(2);
  Array<std::int64_t> index(2);
  two_phases([&](void* t, std::size_t& b) { return cub::DeviceReduce::Min(t, b, device.data(), out.data(), size); });
  two_phases([&](void* t, std::size_t& b) { return cub::DeviceReduce::Max(t, b, device.data(), out.data() + 1, size); });
  if (size == 0) return;
  auto low = std::min_element(in.begin(), in.end()), high = std::max_element(in.begin(), in.end());
  equal("Min and Max", size, out.host(), {*low, *high});
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceReduce::ArgMin(t, b, device.data(), out.data(), index.data(), size);
  });
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceReduce::ArgMax(t, b, device.data(), out.data() + 1, index.data() + 1, size);
  });
  equal("ArgMin and ArgMax", size, out.host(), {*low, *high});
  equal("their places", size, index.host(), {low - in.begin(), high - in.begin()});
}

void own_operators(int size) {
  std::vector<unsigned> in = values<unsigned>(size, 0, 1 << 30, 2);
  std::vector<Affine> wide(size);
  for (int i = 0; i < size; ++i) wide[i] = {in[i], in[i] ^ 5u};
  Array<unsigned> device(in), out(1);
  Array<Affine> device_wide(wide), out_wide(1);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceReduce::Reduce(t, b, device.data(), out.data(), size, Xor{}, 77u);
  });
  equal("Reduce", size, out.host(), {std::accumulate(in.begin(), in.end(), 77u, Xor{})});
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceReduce::Reduce(t, b, device_wide.data(), out_wide.data(), size, Wider{}, Affine{1, 2});
  });
  equal("Reduce of structures", size, out_wide.host(), {std::accumulate(wide.begin(), wide.end(), Affine{1, 2}, Wider{})});
  std::vector<int> small = values<int>(size, -900, 900, 3);
  Array<int> device_small(small);
  Array<long long> squares(1);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceReduce::TransformReduce(t, b, device_small.data(), squares.data(), size, cuda::std::plus<>{}, Square{}, 3ll);
  });
  long long expected = 3;
  for (int x : small) expected += Square{}(x);
  equal("TransformReduce", size, squares.host(), {expected});
}

void by_key(int size) {
  std::vector<int> keys = runs<int>(size, 40), in = values<int>(size, -100, 100, 4), unique, expected;
  for (int i = 0; i < size; ++i) {
    if (i == 0 || keys[i] != keys[i - 1]) unique.push_back(keys[i]), expected.push_back(0);
    expected.back() += in[i];
  }
  Array<int> device_keys(keys), device(in), out_keys(size), out(size), count(1);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceReduce::ReduceByKey(t, b, device_keys.data(), out_keys.data(), device.data(), out.data(),
                                          count.data(), cuda::std::plus<>{}, size);
  });
  int found = count.host()[0];
  equal("ReduceByKey: keys", size, out_keys.host(found), unique);
  equal("ReduceByKey: sums", size, out.host(found), expected);
}

int main(int argument_count, char** arguments) {
  for (int size : sizes(argument_count, arguments, {0, 1, 33, 1000, 20011})) {
    sums<int>(size);
    sums<float>(size);
    sums<double>(size);
    sums<unsigned char>(size);
    sums<long long>(size);
    extrema(size);
    own_operators(size);
    by_key(size);
  }
  return conclude();
}
