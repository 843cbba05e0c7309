// A kernel writes the right half of an image while the left half is downloaded: no race. One column more is one.
#include "check.h"

constexpr int width = 64, height = 8;
#ifdef RACY
constexpr int columns = width / 2 + 1;
#else
constexpr int columns = width / 2;
#endif

__global__ void right_half(unsigned char* image) {
  image[blockIdx.x * width + width / 2 + threadIdx.x] = static_cast<unsigned char>(threadIdx.x + 9);  // @A
}

int main() {
  unsigned char* image = to_device(std::vector<unsigned char>(width * height, 3));
  unsigned char* host = pinned(std::vector<unsigned char>(width * height, 0));
  cudaStream_t first = make_stream(), second = make_stream();
  right_half<<<height, width / 2, 0, first>>>(image);
  CHECK(cudaMemcpy2DAsync(host, width, image, width, columns, height, cudaMemcpyDeviceToHost, second));
  report(image, width * height);
  print_checksum(host, width * height);
}
