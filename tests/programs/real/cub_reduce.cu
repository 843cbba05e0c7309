// cub::DeviceReduce over several types, operators and sizes, against the same on the host.
#include <cub/device/device_reduce.cuh>

#include "check.h"

template <class T>
bool sum_agrees(int count) {
  std::vector<int> whole = numbers(count);
  std::vector<T> values(whole.begin(), whole.end());
  T *in = to_device(values), *out = zeros<T>(1), expected = 0;
  for (T value : values) expected += value;  // whole numbers: exact in every type used, in every order
  void* temporary = nullptr;
  std::size_t bytes = 0;
  CHECK(cub::DeviceReduce::Sum(temporary, bytes, in, out, count));
  CHECK(cudaMalloc(&temporary, bytes));
  CHECK(cub::DeviceReduce::Sum(temporary, bytes, in, out, count));
  return to_host(out, 1)[0] == expected;
}

bool maximum_agrees(int count) {
  std::vector<int> values = numbers(count);
  values[count / 2] = 5000;
  int *in = to_device(values), *out = zeros<int>(1);
  void* temporary = nullptr;
  std::size_t bytes = 0;
  CHECK(cub::DeviceReduce::Max(temporary, bytes, in, out, count));
  CHECK(cudaMalloc(&temporary, bytes));
  CHECK(cub::DeviceReduce::Max(temporary, bytes, in, out, count));
  return to_host(out, 1)[0] == 5000;
}

int main() {
  bool ok = sum_agrees<int>(1000) && sum_agrees<int>(100000) && sum_agrees<float>(50000) && sum_agrees<double>(20000) &&
            sum_agrees<long long>(70001) && maximum_agrees(100000);
  std::printf(ok ? "ok 341001 elements\n" : "wrong\n");
}
