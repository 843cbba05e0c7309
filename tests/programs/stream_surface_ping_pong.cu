// Two surfaces take turns as input and output, in two streams: the second step must wait for the first.
#include "check.h"

constexpr int width = 32, height = 8;

__global__ void step(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int factor) {
  const int x = threadIdx.x, y = blockIdx.x;
  const int value = surf2Dread<int>(from, x * int(sizeof(int)), y);  // @A
  surf2Dwrite(factor * value + x, to, x * int(sizeof(int)), y);      // @B
}

static cudaSurfaceObject_t surface_over(cudaArray_t array) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaSurfaceObject_t surface;
  CHECK(cudaCreateSurfaceObject(&surface, &resource));
  return surface;
}

int main() {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
  constexpr size_t row = width * sizeof(int);
  const std::vector<int> input = numbers(width * height);
  cudaArray_t arrays[2];
  cudaSurfaceObject_t surfaces[2];
  for (int n = 0; n < 2; ++n) {
    CHECK(cudaMallocArray(&arrays[n], &format, width, height, cudaArraySurfaceLoadStore));
    CHECK(cudaMemcpy2DToArray(arrays[n], 0, 0, input.data(), row, row, height, cudaMemcpyHostToDevice));
    surfaces[n] = surface_over(arrays[n]);
  }
  CHECK(cudaDeviceSynchronize());
  cudaStream_t first = make_stream(), second = make_stream();
  step<<<height, width, 0, first>>>(surfaces[0], surfaces[1], 3);
#ifndef RACY
  cudaEvent_t done = make_event();
  CHECK(cudaEventRecord(done, first));
  CHECK(cudaStreamWaitEvent(second, done));
#endif
  step<<<height, width, 0, second>>>(surfaces[1], surfaces[0], 5);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  std::vector<int> out(width * height);
  CHECK(cudaMemcpy2DFromArray(out.data(), row, arrays[0], 0, 0, row, height, cudaMemcpyDeviceToHost));
  print_checksum(out.data(), out.size());
  for (int n = 0; n < 2; ++n) {
    CHECK(cudaDestroySurfaceObject(surfaces[n]));
    CHECK(cudaFreeArray(arrays[n]));
  }
}
