// An image is warped out of an array, with bilinear filtering, while a copy in another stream refills the array.
#include "check.h"

constexpr int width = 64, height = 16;

__global__ void warp_image(cudaTextureObject_t image, int* out) {
  const int x = threadIdx.x, y = blockIdx.x;
  out[y * width + x] = int(tex2D<float>(image, x + 0.75f, y + 1.0f));  // @A
}

int main() {
  // Multiples of 16: weights of quarters and halves give whole numbers.
  std::vector<float> image, next;
  for (int value : numbers(width * height)) {
    image.push_back(16.0f * value);
    next.push_back(16.0f * (value + 1));
  }
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array;
  CHECK(cudaMallocArray(&array, &format, width, height));
  constexpr size_t row = width * sizeof(float);
  CHECK(cudaMemcpy2DToArray(array, 0, 0, image.data(), row, row, height, cudaMemcpyHostToDevice));
  CHECK(cudaDeviceSynchronize());
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc sampling = {};
  sampling.addressMode[0] = sampling.addressMode[1] = cudaAddressModeClamp;
  sampling.filterMode = cudaFilterModeLinear;
  cudaTextureObject_t texture;
  CHECK(cudaCreateTextureObject(&texture, &resource, &sampling, nullptr));

  int* out = zeros<int>(width * height);
  const float* refill = pinned(next);
  cudaStream_t warps = make_stream(), fills = make_stream();
  warp_image<<<height, width, 0, warps>>>(texture, out);
#ifndef RACY
  cudaEvent_t warped = make_event();
  CHECK(cudaEventRecord(warped, warps));
  CHECK(cudaStreamWaitEvent(fills, warped));
#endif
  CHECK(cudaMemcpy2DToArrayAsync(array, 0, 0, refill, row, row, height, cudaMemcpyHostToDevice, fills));
  report(out, width * height);
  CHECK(cudaDestroyTextureObject(texture));
  CHECK(cudaFreeArray(array));
}
