// Ends while there is work, as the argument says:
// launched    a kernel that nobody waits for is the last thing that main does
// destructor  the destructor of a static object launches one, and waits for it
// thread      another thread launches kernels, each for the first time, while main returns
// Each kernel is another: compiled when it begins.
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>

template <int N>
__global__ void fill(int* data) {
  for (int i = 0; i < N; ++i) data[threadIdx.x] = data[threadIdx.x] * N + __popc(i + threadIdx.x);
}

int* data = nullptr;

struct Last {
  ~Last() {
    fill<100><<<1, 64>>>(data);
    std::printf("destructor: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  }
};

template <int... N>
void launch(std::integer_sequence<int, N...>) {
  const auto wait = [](auto... launched) { cudaDeviceSynchronize(); };
  (wait((fill<N + 10><<<1, 64>>>(data), 0)), ...);
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

int main(int count, char** arguments) {
  const std::string how = count > 1 ? arguments[1] : "";
  cudaMalloc(&data, 64 * sizeof(int));
  cudaMemset(data, 0, 64 * sizeof(int));
  fill<1><<<1, 64>>>(data);
  cudaDeviceSynchronize();
  if (how == "launched") fill<2><<<1, 64>>>(data);
  if (how == "destructor") static Last last;
  if (how == "thread") {
    std::thread(launch<0, 1, 2, 3, 4, 5, 6, 7>, std::make_integer_sequence<int, 8>()).detach();
    std::this_thread::sleep_for(std::chrono::milliseconds(count > 2 ? std::stoi(arguments[2]) : 0));
  }
  std::printf("main ends\n");
}
