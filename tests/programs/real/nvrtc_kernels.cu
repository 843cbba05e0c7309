// Kernels compiled at run time: NVRTC to PTX, loaded as a library, with globals, templates by name and shared memory.
#include <nvrtc.h>

#include "agree.h"

using namespace agree;

#define NVRTC(call)                                                                     \
  do {                                                                                  \
    nvrtcResult status = (call);                                                        \
    if (status != NVRTC_SUCCESS) std::printf("%s\n", nvrtcGetErrorString(status)), std::exit(4); \
  } while (0)

const char* const source = R"(
extern "C" __global__ void saxpy(float a, const float* x, float* y, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = a * x[i] + y[i];
}

template <class T>
__global__ void block_sums(const T* in, T* out, int count) {
  extern __shared__ __align__(16) unsigned char bytes[];
  T* shared = reinterpret_cast<T*>(bytes);
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  shared[t] = i < count ? in[i] : T(0);
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (t < half) shared[t] += shared[t + half];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = shared[0];
}
)";

class Program {
 public:
  explicit Program(std::initializer_list<const char*> names) {
    NVRTC(nvrtcCreateProgram(&program_, source, "kernels.cu", 0, nullptr, nullptr));
    for (const char* name : names) NVRTC(nvrtcAddNameExpression(program_, name));
    const char* options[] = {"--gpu-architecture=compute_90", "--std=c++17", "-lineinfo"};
    nvrtcResult status = nvrtcCompileProgram(program_, 3, options);
    if (status != NVRTC_SUCCESS) {
      std::size_t size = 0;
      nvrtcGetProgramLogSize(program_, &size);
      std::string log(size, ' ');
      nvrtcGetProgramLog(program_, log.data());
      std::printf("%s\n", log.c_str());
      std::exit(4);
    }
    std::size_t size = 0;
    NVRTC(nvrtcGetPTXSize(program_, &size));
    std::vector<char> ptx(size);
    NVRTC(nvrtcGetPTX(program_, ptx.data()));
    CHECK(cudaLibraryLoadData(&library_, ptx.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  }
  ~Program() {
    cudaLibraryUnload(library_);
    nvrtcDestroyProgram(&program_);
  }
  // By the name in the source; templates by an expression that was given at first.
  void* kernel(const char* name, bool expression = false) {
    if (expression) NVRTC(nvrtcGetLoweredName(program_, name, &name));
    cudaKernel_t found = nullptr;
    CHECK(cudaLibraryGetKernel(&found, library_, name));
    return reinterpret_cast<void*>(found);
  }

 private:
  nvrtcProgram program_ = nullptr;
  cudaLibrary_t library_ = nullptr;
};

void saxpy(Program& program, int size) {
  std::vector<float> x = values<float>(size, -100, 100, 1), y = values<float>(size, -100, 100, 2), expected(size);
  for (int i = 0; i < size; ++i) expected[i] = 3 * x[i] + y[i];
  Array<float> device_x(x), device_y(y);
  float a = 3, *in = device_x, *out = device_y;
  void* arguments[] = {&a, &in, &out, &size};
  CHECK(cudaLaunchKernel(program.kernel("saxpy"), dim3((size + 127) / 128), dim3(128), arguments, 0, nullptr));
  equal("saxpy", size, device_y.host(), expected);
}

template <class T>
void sums(Program& program, const char* name, int size) {
  constexpr int threads = 64;
  int blocks = (size + threads - 1) / threads;
  std::vector<T> in = values<T>(size, 0, 9, 3), expected(blocks);
  for (int i = 0; i < size; ++i) expected[i / threads] += in[i];
  Array<T> device(in), out(blocks);
  T *from = device, *to = out;
  void* arguments[] = {&from, &to, &size};
  CHECK(cudaLaunchKernel(program.kernel(name, true), dim3(blocks), dim3(threads), arguments, threads * sizeof(T), nullptr));
  equal(name, size, out.host(), expected);
}

int main() {
  Program program{"block_sums<int>", "block_sums<double>"};
  for (int size : {1, 127, 128, 1000}) {
    saxpy(program, size);
    sums<int>(program, "block_sums<int>", size);
    sums<double>(program, "block_sums<double>", size);
  }
  return conclude();
}
