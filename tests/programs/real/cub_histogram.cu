// cub::DeviceHistogram: even and given bins, one and several channels, whole arrays and regions with a pitch.
#define CCCL_IGNORE_DEPRECATED_API  // overloads with plain arrays are called too

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

// Bins of different widths in each of two channels; as a whole, and of rows all but the last pixels.
void channel_ranges(int size) {
  int rows = 5, columns = size / rows, pitch = columns + 2;
  std::vector<unsigned short> in = values<unsigned short>(2 * std::max(size, rows * pitch), 0, 1000, 4);
  std::vector<std::vector<int>> levels = {{0, 10, 11, 500, 900}, {-3, 250, 1001}};
  auto expected = [&](int channel, bool region) {
    std::vector<int> some;
    for (int i = 0; i < (region ? rows * pitch : size); ++i) {
      if (!region || i % pitch < columns) some.push_back(in[2 * i + channel]);
    }
    return counted(some, levels[channel]);
  };
  Array<unsigned short> device(in);
  Array<int> first_levels(levels[0]), second_levels(levels[1]), first(4), second(2);
  int* bins[2] = {first, second};
  const int counts[2] = {5, 3}, *edges[2] = {first_levels, second_levels}, even_counts[2] = {5, 3}, low[2] = {0, 0}, high[2] = {1000, 1002};
  auto check = [&](const char* what, bool region) {
    equal(what, size, first.host(), expected(0, region));
    equal(what, size, second.host(), expected(1, region));
  };
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceHistogram::MultiHistogramRange<2, 2>(t, b, device.data(), cuda::std::array<int*, 2>{first, second},
                                                           cuda::std::array<int, 2>{5, 3}, cuda::std::array<const int*, 2>{first_levels, second_levels}, size);
  });
  check("MultiHistogramRange", false);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceHistogram::MultiHistogramRange<2, 2>(t, b, device.data(), bins, counts, edges, columns, rows, pitch * 2 * sizeof(short));
  });
  check("MultiHistogramRange of a region", true);
  levels = {{0, 250, 500, 750, 1000}, {0, 501, 1002}};
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceHistogram::MultiHistogramEven<2, 2>(t, b, device.data(), bins, even_counts, low, high, columns, rows, pitch * 2 * sizeof(short));
  });
  check("MultiHistogramEven of a region", true);
}

int main(int argument_count, char** arguments) {
  for (int size : sizes(argument_count, arguments, {0, 1, 33, 1000, 20011})) {
    one_channel<int>(size, 10);
    one_channel<float>(size, 50);
    channels(size);
    region(size);
    channel_ranges(size);
  }
  return conclude();
}
