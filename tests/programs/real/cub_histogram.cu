// cub::DeviceHistogram: even and given bins, one and several channels, whole arrays and regions with a pitch.
#include <cub/device/device_histogram.cuh>

#include "agree.h"

using namespace agree;

template <class T>
std::vector<int> counted(const std::vector<T>& in, const std::vector<T>& levels) {
  std::vector<int> bins(levels.size() - 1);
  for (T x : in) {
    for (std::size_t b = 0; b + 1 < levels.size(); ++b) bins[b] += levels[b] <= x && x < levels[b + 1];
  }
  return bins;
}

template <class T>
void one_channel(int size, int bins) {
  std::vector<T> in = values<T>(size, 0, 110, 1), levels;  // some beyond the last bin
  for (int b = 0; b <= bins; ++b) levels.push_back(static_cast<T>(b * (100 / bins)));
  Array<T> device(in);
  Array<int> out(bins);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceHistogram::HistogramEven(t, b, device.data(), out.data(), bins + 1, levels.front(), levels.back(), size);
  });
  equal("HistogramEven", size, out.host(), counted(in, levels));
  std::vector<T> uneven{3, 4, 20, 21, 90};
  Array<T> device_levels(uneven);
  Array<int> few(4);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceHistogram::HistogramRange(t, b, device.data(), few.data(), 5, device_levels.data(), size);
  });
  equal("HistogramRange", size, few.host(), counted(in, uneven));
}

// Pixels of four channels, of which three are counted; and of rows, all but the last two pixels.
void channels(int size) {
  std::vector<unsigned char> in = values<unsigned char>(4 * size, 0, 255, 2);
  std::vector<int> expected[3] = {std::vector<int>(256), std::vector<int>(256), std::vector<int>(256)};
  for (int i = 0; i < 4 * size; ++i) {
    if (i % 4 < 3) ++expected[i % 4][in[i]];
  }
  Array<unsigned char> device(in);
  Array<int> red(256), green(256), blue(256);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceHistogram::MultiHistogramEven<4, 3>(t, b, device.data(), cuda::std::array<int*, 3>{red, green, blue},
                                                          cuda::std::array<int, 3>{257, 257, 257}, cuda::std::array<int, 3>{0, 0, 0},
                                                          cuda::std::array<int, 3>{256, 256, 256}, size);
  });
  equal("MultiHistogramEven: first", size, red.host(), expected[0]);
  equal("MultiHistogramEven: second", size, green.host(), expected[1]);
  equal("MultiHistogramEven: third", size, blue.host(), expected[2]);
}

void region(int size) {
  int rows = 7, columns = size / rows, pitch = columns + 3;
  std::vector<int> in = values<int>(rows * pitch, 0, 63, 3), inside, levels;
  for (int i = 0; i < rows * pitch; ++i) {
    if (i % pitch < columns) inside.push_back(in[i]);
  }
  for (int b = 0; b <= 64; b += 8) levels.push_back(b);
  Array<int> device(in), out(8);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceHistogram::HistogramEven(t, b, device.data(), out.data(), 9, 0, 64, columns, rows, pitch * sizeof(int));
  });
  equal("HistogramEven of a region", size, out.host(), counted(inside, levels));
}

int main(int argument_count, char** arguments) {
  for (int size : sizes(argument_count, arguments, {0, 1, 33, 1000, 20011})) {
    one_channel<int>(size, 10);
    one_channel<float>(size, 50);
    channels(size);
    region(size);
  }
  return conclude();
}
