// cub::DeviceRunLengthEncode and DeviceAdjacentDifference: every algorithm, at several sizes.
#include <cub/device/device_adjacent_difference.cuh>
#include <cub/device/device_run_length_encode.cuh>

#include "agree.h"

using namespace agree;

void encode(int size, int longest) {
  std::vector<int> in = runs<int>(size, longest), unique, length, place, long_place, long_length;
  for (int i = 0; i < size; ++i) {
    if (i == 0 || in[i] != in[i - 1]) unique.push_back(in[i]), length.push_back(0), place.push_back(i);
    ++length.back();
  }
  for (std::size_t r = 0; r < length.size(); ++r) {
    if (length[r] > 1) long_place.push_back(place[r]), long_length.push_back(length[r]);
  }
  Array<int> device(in), out(size), lengths(size), count(1);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceRunLengthEncode::Encode(t, b, device.data(), out.data(), lengths.data(), count.data(), size);
  });
  int found = count.host()[0];
  equal("Encode: keys", size, out.host(found), unique);
  equal("Encode: lengths", size, lengths.host(found), length);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceRunLengthEncode::NonTrivialRuns(t, b, device.data(), out.data(), lengths.data(), count.data(), size);
  });
  found = count.host()[0];
  equal("NonTrivialRuns: places", size, out.host(found), long_place);
  equal("NonTrivialRuns: lengths", size, lengths.host(found), long_length);
}

struct Away {
  __host__ __device__ int operator()(int a, int b) const { return 2 * a - b; }
};

void differences(int size) {
  std::vector<int> in = values<int>(size, -1000, 1000, 1), left(in), right(in);
  for (int i = 1; i < size; ++i) {
    left[i] = Away{}(in[i], in[i - 1]);
    right[i - 1] = Away{}(in[i - 1], in[i]);
  }
  Array<int> device(in), out(size), in_place(in), in_place_right(in);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceAdjacentDifference::SubtractLeftCopy(t, b, device.data(), out.data(), size, Away{});
  });
  equal("SubtractLeftCopy", size, out.host(), left);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceAdjacentDifference::SubtractRightCopy(t, b, device.data(), out.data(), size, Away{});
  });
  equal("SubtractRightCopy", size, out.host(), right);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceAdjacentDifference::SubtractLeft(t, b, in_place.data(), size, Away{});
  });
  equal("SubtractLeft in place", size, in_place.host(), left);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceAdjacentDifference::SubtractRight(t, b, in_place_right.data(), size, Away{});
  });
  equal("SubtractRight in place", size, in_place_right.host(), right);
}

int main(int argument_count, char** arguments) {
  for (int size : sizes(argument_count, arguments, {0, 1, 33, 1000, 12007})) {
    encode(size, 3);
    encode(size, 700);
    differences(size);
  }
  return conclude();
}
