// cub::DeviceScan, a decoupled look-back over many tiles: every algorithm, over several types, operators and sizes.
#include <cub/device/device_scan.cuh>

#include "agree.h"

using namespace agree;

// Composition of maps x -> a x + b modulo 2^32: associative and not commutative.
struct Affine {
  unsigned a, b;
};
struct Then {
  __host__ __device__ Affine operator()(Affine first, Affine second) const {
    return {first.a * second.a, first.b * second.a + second.b};
  }
};
struct Larger {
  __host__ __device__ int operator()(int x, int y) const { return x > y ? x : y; }
};
struct SameTens {
  __host__ __device__ bool operator()(int x, int y) const { return x / 10 == y / 10; }
};

template <class T, class Operator>
std::vector<T> inclusive(const std::vector<T>& in, Operator next) {
  std::vector<T> out(in);
  for (std::size_t i = 1; i < out.size(); ++i) out[i] = next(out[i - 1], out[i]);
  return out;
}
template <class T, class Operator>
std::vector<T> exclusive(const std::vector<T>& in, Operator next, T start) {
  std::vector<T> out(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    out[i] = start;
    start = next(start, in[i]);
  }
  return out;
}
struct Plus {
  template <class T>
  __host__ __device__ T operator()(T x, T y) const { return x + y; }
};

template <class T>
void sums(int size) {
  std::vector<T> in = values<T>(size, 0, 7);
  Array<T> device(in), out(size);
  two_phases([&](void* t, std::size_t& b) { return cub::DeviceScan::InclusiveSum(t, b, device.data(), out.data(), size); });
  equal("InclusiveSum", size, out.host(), inclusive(in, Plus{}));
  two_phases([&](void* t, std::size_t& b) { return cub::DeviceScan::ExclusiveSum(t, b, device.data(), out.data(), size); });
  equal("ExclusiveSum", size, out.host(), exclusive(in, Plus{}, T(0)));
}

void in_place(int size) {
  std::vector<int> in = values<int>(size, -9, 9, 1);
  Array<int> once(in), again(in);
  two_phases([&](void* t, std::size_t& b) { return cub::DeviceScan::InclusiveSum(t, b, once.data(), size); });
  two_phases([&](void* t, std::size_t& b) { return cub::DeviceScan::ExclusiveSum(t, b, again.data(), size); });
  equal("InclusiveSum in place", size, once.host(), inclusive(in, Plus{}));
  equal("ExclusiveSum in place", size, again.host(), exclusive(in, Plus{}, 0));
}

void own_operators(int size) {
  std::vector<unsigned> numbers = values<unsigned>(2 * size, 0, 1 << 30, 2);
  std::vector<Affine> in(size);
  for (int i = 0; i < size; ++i) in[i] = {numbers[2 * i] | 1, numbers[2 * i + 1]};
  Array<Affine> device(in), out(size), start(std::vector<Affine>{{7, 9}});
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceScan::InclusiveScan(t, b, device.data(), out.data(), Then{}, size);
  });
  equal("InclusiveScan", size, out.host(), inclusive(in, Then{}));
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceScan::ExclusiveScan(t, b, device.data(), out.data(), Then{}, Affine{3, 5}, size);
  });
  equal("ExclusiveScan", size, out.host(), exclusive(in, Then{}, Affine{3, 5}));
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceScan::ExclusiveScan(t, b, device.data(), out.data(), Then{}, cub::FutureValue<Affine>(start.data()), size);
  });
  equal("ExclusiveScan from a later value", size, out.host(), exclusive(in, Then{}, Affine{7, 9}));
  std::vector<int> plain = values<int>(size, -1000, 1000, 3), expected = inclusive(plain, Larger{});
  for (int& x : expected) x = std::max(x, 200);
  Array<int> device_plain(plain), highest(size);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceScan::InclusiveScanInit(t, b, device_plain.data(), highest.data(), Larger{}, 200, size);
  });
  equal("InclusiveScanInit", size, highest.host(), expected);
}

void by_key(int size) {
  std::vector<int> keys = runs<int>(size, 9), in = values<int>(size, -100, 100, 4), sum(size), sum_before(size), high(size),
      high_before(size);
  for (int i = 0; i < size; ++i) {
    bool starts = i == 0 || keys[i] / 10 != keys[i - 1] / 10;
    sum_before[i] = starts ? 0 : sum[i - 1];
    sum[i] = sum_before[i] + in[i];
    high_before[i] = starts ? -50 : std::max(high_before[i - 1], in[i - 1]);
    high[i] = starts ? in[i] : std::max(high[i - 1], in[i]);
  }
  Array<int> device_keys(keys), device(in), out(size);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceScan::InclusiveSumByKey(t, b, device_keys.data(), device.data(), out.data(), size, SameTens{});
  });
  equal("InclusiveSumByKey", size, out.host(), sum);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceScan::ExclusiveSumByKey(t, b, device_keys.data(), device.data(), out.data(), size, SameTens{});
  });
  equal("ExclusiveSumByKey", size, out.host(), sum_before);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceScan::InclusiveScanByKey(t, b, device_keys.data(), device.data(), out.data(), Larger{}, size, SameTens{});
  });
  equal("InclusiveScanByKey", size, out.host(), high);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceScan::ExclusiveScanByKey(t, b, device_keys.data(), device.data(), out.data(), Larger{}, -50, size, SameTens{});
  });
  equal("ExclusiveScanByKey", size, out.host(), high_before);
}

int main(int argument_count, char** arguments) {
  for (int size : sizes(argument_count, arguments, {0, 1, 33, 1000, 20011})) {
    sums<int>(size);
    sums<float>(size);
    sums<unsigned char>(size);
    sums<long long>(size);
    in_place(size);
    own_operators(size);
    by_key(size);
  }
  return conclude();
}
