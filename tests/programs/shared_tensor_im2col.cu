// A convolution by tiles of pixels: for each place in the filter an im2col copy brings the pixels below it, with zeros
// around the images. The racy twin's barrier stands before the reads, so that it brings the next ones while some threads
// still read.
#include "tensors.h"

constexpr int channels = 4, width = 6, height = 5, images = 2, filter = 3, pixels = 32;
constexpr int all_pixels = width * height * images;

CUtensorMap map_of_images(int* data) {
  alignas(64) CUtensorMap map;
  const cuuint64_t size[] = {channels, width, height, images};
  const cuuint64_t stride[] = {channels * 4, channels * width * 4, channels * width * height * 4};
  const int lower[] = {-1, -1}, upper[] = {-1, -1};
  const cuuint32_t step[] = {1, 1, 1, 1};
  check_driver(driver_function<decltype(&cuTensorMapEncodeIm2col)>("cuTensorMapEncodeIm2col")(
                   &map, CU_TENSOR_MAP_DATA_TYPE_INT32, 4, data, size, stride, lower, upper, channels, pixels, step,
                   CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
               "cuTensorMapEncodeIm2col");
  return map;
}

__global__ void convolve(const __grid_constant__ CUtensorMap map, const int* weights, int* out) {
  __shared__ alignas(128) int box[pixels][channels];
  __shared__ std::uint64_t barrier;
  const int first = blockIdx.x * pixels, pixel = first + int(threadIdx.x);
  if (threadIdx.x == 0) {
    mbarrier_init(&barrier, 1);
    fence_proxy_async();
  }
  __syncthreads();
  int sum = 0;
  for (int place = 0; place < filter * filter; ++place) {
    if (threadIdx.x == 0) {
      mbarrier_arrive_expect(&barrier, sizeof box);
      const int x = first % width - 1, y = first / width % height - 1, n = first / (width * height);
      tensor_pixels(box, &map, 0, x, y, n, place % filter, place / filter, &barrier);  // @A
    }
    mbarrier_wait(&barrier, place & 1);
#ifdef RACY
    __syncthreads();
#endif
    for (int c = 0; c < channels; ++c) sum += weights[place * channels + c] * box[threadIdx.x][c];  // @B
#ifndef RACY
    __syncthreads();
#endif
  }
  if (pixel < all_pixels) out[pixel] = sum;
}

int main() {
  int* in = to_device(numbers(channels * all_pixels));
  int* weights = to_device(numbers(filter * filter * channels));
  int* out = zeros<int>(all_pixels);
  convolve<<<(all_pixels + pixels - 1) / pixels, pixels>>>(map_of_images(in), weights, out);
  report(out, all_pixels);
}
