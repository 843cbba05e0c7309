// cub::DeviceScan, a decoupled look-back over many tiles, against the same on the host.
#include <cub/device/device_scan.cuh>

#include "check.h"

template <class T>
bool scan_agrees(int count, bool inclusive) {
  std::vector<int> whole = numbers(count);
  std::vector<T> values(whole.begin(), whole.end()), expected(count);
  T sum = 0;
  for (int i = 0; i < count; ++i) {
    if (inclusive) sum += values[i];
    expected[i] = sum;
    if (!inclusive) sum += values[i];
  }
  T *in = to_device(values), *out = zeros<T>(count);
  void* temporary = nullptr;
  std::size_t bytes = 0;
  auto scan = [&] {
    return inclusive ? cub::DeviceScan::InclusiveSum(temporary, bytes, in, out, count)
                     : cub::DeviceScan::ExclusiveSum(temporary, bytes, in, out, count);
  };
  CHECK(scan());
  CHECK(cudaMalloc(&temporary, bytes));
  CHECK(scan());
  return to_host(out, count) == expected;
}

int main() {
  bool ok = scan_agrees<int>(100000, true) && scan_agrees<int>(3000, false) && scan_agrees<long long>(50001, false) &&
            scan_agrees<float>(40000, true);
  std::printf(ok ? "ok 193001 elements\n" : "wrong\n");
}
