// What the programs over Thrust share: vectors on the device, and a way back to the host.
#pragma once

#include <thrust/copy.h>
#include <thrust/device_vector.h>

#include <cstddef>
#include <vector>

#include "agree.h"

namespace agree {

using Device = thrust::device_vector<int>;

// The first `count` elements.
inline std::vector<int> back(const Device& from, std::size_t count) {
  std::vector<int> all(count);
  thrust::copy(from.begin(), from.begin() + count, all.begin());
  return all;
}

struct Odd {
  __host__ __device__ bool operator()(int x) const { return x & 1; }
};

}  // namespace agree
