// The driver API, found by its name alone (dlopen, cuGetProcAddress): it runs a kernel, and in between asks for what
// the embedded device does not have. Words: "waits" for a value in memory, "machine" code, "nothing" of either.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

static const char* const ptx = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry fill(.param .u64 data) {
  .reg .b64 %a, %o;
  .reg .b32 %t;
  ld.param.u64 %a, [data];
  cvta.to.global.u64 %a, %a;
  mov.u32 %t, %tid.x;
  mul.wide.u32 %o, %t, 4;
  add.s64 %a, %a, %o;
  st.global.u32 [%a], %t;
  ret;
}
)";

int main(int, char** words) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (dlopen("libcuda.so", RTLD_NOW | RTLD_LOCAL) != library) std::printf("another driver by its other name\n");
  const auto look_up =
      library ? reinterpret_cast<decltype(&cuGetProcAddress)>(dlsym(library, "cuGetProcAddress_v2")) : nullptr;
  if (!look_up) {
    std::printf("no driver\n");
    return 3;
  }
  CUresult status = CUDA_SUCCESS;
  CUdriverProcAddressQueryResult found{};
  auto function = [&](const char* name, int version) {
    void* address = nullptr;
    look_up(name, &address, version, CU_GET_PROC_ADDRESS_DEFAULT, &found);
    return address;
  };
// As of that version of CUDA; cuda.h makes of the name the symbol whose type it is.
#define CALL(name, version, ...) (status = reinterpret_cast<decltype(&name)>(function(#name, version))(__VA_ARGS__))
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction fill = nullptr;
  CUdeviceptr data = 0;
  int last = 0;
  CALL(cuInit, 2000, 0);
  reinterpret_cast<CUresult (*)(CUcontext*, unsigned, CUdevice)>(function("cuCtxCreate", 3020))(&context, 0, 0);
  CALL(cuMemAlloc, 3020, &data, 32 * sizeof(int));
  if (std::strcmp(words[1], "waits") == 0) {
    CALL(cuStreamWaitValue32, 11070, nullptr, data, 0, CU_STREAM_WAIT_VALUE_EQ);
    std::printf("waits %d\n", int(status));
  }
  if (std::strcmp(words[1], "machine") == 0) {
    const unsigned char code[64] = {0x7F, 'E', 'L', 'F', 2, 1, 1};
    CALL(cuModuleLoadData, 2000, &module, code);
    std::printf("machine %d\n", int(status));
  }
  CALL(cuModuleLoadData, 2000, &module, ptx);
  CALL(cuModuleGetFunction, 2000, &fill, module, "fill");
  void* arguments[] = {&data};
  CALL(cuLaunchKernel, 4000, fill, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr);
  CALL(cuMemcpyDtoH, 3020, &last, data + 31 * sizeof(int), sizeof last);
  std::printf("last %d\n", last);
}
