// cub::DeviceTransform, DeviceFor, DeviceCopy and DeviceMemcpy: every algorithm, at several sizes.
#include <cub/device/device_copy.cuh>
#include <cub/device/device_for.cuh>
#include <cub/device/device_memcpy.cuh>
#include <cub/device/device_transform.cuh>

#include "agree.h"

using namespace agree;

struct Blend {
  __host__ __device__ int operator()(short a, int b) const { return 3 * a - b; }
};
struct Twice {
  __host__ __device__ int operator()(int a) const { return 2 * a + 1; }
};
struct Change {
  __host__ __device__ void operator()(int& x) const { x = 7 * x + 2; }
};
struct Count {
  unsigned* total;
  __device__ void operator()(int x) const { atomicAdd(total, static_cast<unsigned>(x)); }
};
struct Number {
  int* out;
  __device__ void operator()(int i) const { out[i] = 5 * i; }
};
struct Place {
  int* out;
  int width;
  __device__ void operator()(int place, int row, int column) const {
    // In CCCL 3.0.1 several blocks visit one place: a thread goes on by one block's items, not by the grid's
    // (for_each_in_extents_kernel.cuh:145). This race is the library's own mistake.
    out[place] = row * 1000 + column;  // @P
  }
};

void transforms(int size) {
  std::vector<short> a = values<short>(size, -300, 300, 1);
  std::vector<int> b = values<int>(size, -5000, 5000, 2), blended(size), doubled(size);
  for (int i = 0; i < size; ++i) blended[i] = Blend{}(a[i], b[i]), doubled[i] = Twice{}(b[i]);
  Array<short> device_a(a);
  Array<int> device_b(b), out(size);
  CHECK(cub::DeviceTransform::Transform(cuda::std::make_tuple(device_a.data(), device_b.data()), out.data(), size, Blend{}));
  equal("Transform of two", size, out.host(), blended);
  CHECK(cub::DeviceTransform::Transform(device_b.data(), out.data(), size, Twice{}));
  equal("Transform", size, out.host(), doubled);
}

// Looks at where its argument is, and from there into another array.
struct Beside {
  const int *in, *other;
  __device__ int operator()(const int& x) const { return x - 2 * other[&x - in]; }
};
struct BesideBoth {
  const short* a;
  const int* b;
  __device__ int operator()(const short& x, const int& y) const { return x * y + static_cast<int>((&x - a) - (&y - b)); }
};

void stable_addresses(int size) {
  std::vector<short> a = values<short>(size, -300, 300, 5);
  std::vector<int> b = values<int>(size, -5000, 5000, 6), other = values<int>(size, 0, 9, 7), beside(size), product(size);
  for (int i = 0; i < size; ++i) beside[i] = b[i] - 2 * other[i], product[i] = a[i] * b[i];
  Array<short> device_a(a);
  Array<int> device_b(b), device_other(other), out(size);
  CHECK(cub::DeviceTransform::TransformStableArgumentAddresses(device_b.data(), out.data(), size, Beside{device_b, device_other}));
  equal("TransformStableArgumentAddresses", size, out.host(), beside);
  CHECK(cub::DeviceTransform::TransformStableArgumentAddresses(cuda::std::make_tuple(device_a.data(), device_b.data()), out.data(), size,
                                                               BesideBoth{device_a, device_b}));
  equal("TransformStableArgumentAddresses of two", size, out.host(), product);
}

void loops(int size) {
  std::vector<int> in = values<int>(size, 0, 1000, 3), changed(in), counted(size);
  unsigned total = 0;
  for (int i = 0; i < size; ++i) Change{}(changed[i]), total += in[i], counted[i] = 5 * i;
  Array<int> device(in), some(in), out(size);
  Array<unsigned> sums(std::vector<unsigned>(2, 0));
  CHECK(cub::DeviceFor::ForEachCopy(device.data(), device.data() + size, Count{sums.data()}));
  CHECK(cub::DeviceFor::ForEachCopyN(device.data(), size, Count{sums.data() + 1}));
  equal("ForEachCopy and ForEachCopyN", size, sums.host(), {total, total});
  CHECK(cub::DeviceFor::ForEach(device.data(), device.data() + size, Change{}));
  equal("ForEach", size, device.host(), changed);
  CHECK(cub::DeviceFor::ForEachN(some.data(), size / 2, Change{}));
  std::copy(in.begin() + size / 2, in.end(), changed.begin() + size / 2);
  equal("ForEachN", size, some.host(), changed);
  CHECK(cub::DeviceFor::Bulk(size, Number{out.data()}));
  equal("Bulk", size, out.host(), counted);
  int width = 7, rows = size / width;
  std::vector<int> grid(rows * width);
  for (int i = 0; i < rows * width; ++i) grid[i] = i / width * 1000 + i % width;
  Array<int> places(rows * width);
  CHECK(cub::DeviceFor::ForEachInExtents(cuda::std::dextents<int, 2>(rows, width), Place{places.data(), width}));
  equal("ForEachInExtents", size, places.host(), grid);
}

// Ranges of very different lengths, each to a place that is aligned otherwise than its source.
void batches(int size) {
  const int lengths[] = {3, 0, 200, 17, 1, 1200, 64};
  std::vector<int> source, target, length;
  int used = 0;
  for (int i = 0; used < size; ++i) {
    int next = std::min(lengths[i % 7], size - used);
    source.push_back(used);
    target.push_back(used + i + 1);
    length.push_back(next);
    used += next;
  }
  int count = static_cast<int>(length.size()), room = size + count + 1;
  std::vector<unsigned char> in = values<unsigned char>(size, 0, 255, 4), expected(room, 0);
  for (int i = 0; i < count; ++i) std::copy_n(in.begin() + source[i], length[i], expected.begin() + target[i]);
  Array<unsigned char> device(in), out(std::vector<unsigned char>(room, 0)), again(std::vector<unsigned char>(room, 0));
  std::vector<const void*> from;
  std::vector<const unsigned char*> from_bytes;
  std::vector<void*> to;
  std::vector<unsigned char*> to_bytes;
  for (int i = 0; i < count; ++i) {
    from.push_back(device.data() + source[i]), from_bytes.push_back(device.data() + source[i]);
    to.push_back(out.data() + target[i]), to_bytes.push_back(again.data() + target[i]);
  }
  Array<const void*> device_from(from);
  Array<void*> device_to(to);
  Array<const unsigned char*> bytes_from(from_bytes);
  Array<unsigned char*> bytes_to(to_bytes);
  Array<int> device_length(length);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceMemcpy::Batched(t, b, device_from.data(), device_to.data(), device_length.data(), count);
  });
  equal("Memcpy::Batched", size, out.host(), expected);
  two_phases([&](void* t, std::size_t& b) {
    return cub::DeviceCopy::Batched(t, b, bytes_from.data(), bytes_to.data(), device_length.data(), count);
  });
  equal("Copy::Batched", size, again.host(), expected);
}

int main(int argument_count, char** arguments) {
  for (int size : sizes(argument_count, arguments, {0, 1, 33, 1000, 9001})) {
    transforms(size);
    stable_addresses(size);
    loops(size);
    batches(size);
  }
  return conclude();
}
