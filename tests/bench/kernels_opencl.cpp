#include "kernels_opencl.h"

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

namespace {

void check(cl_int status, const char* what) {
  if (status == CL_SUCCESS) return;
  std::fprintf(stderr, "OpenCL: %s: error %d\n", what, int(status));
  std::exit(2);
}

class Device final : public OpenClDevice {
 public:
  bool open(const std::string& file) {
    setenv("POCL_MAX_PTHREAD_COUNT", "1", 1); // as everything else here: one thread
    cl_platform_id platforms[8];
    cl_uint count = 0;
    if (clGetPlatformIDs(8, platforms, &count) != CL_SUCCESS) count = 0;
    cl_device_id device = nullptr;
    for (cl_uint n = 0; n < count && !device; ++n)
      if (clGetDeviceIDs(platforms[n], CL_DEVICE_TYPE_CPU, 1, &device, nullptr) != CL_SUCCESS) device = nullptr;
    if (!device) {
      std::fprintf(stderr, "no OpenCL device on the CPU: apt-get install pocl-opencl-icd\n");
      return false;
    }
    cl_int status = 0;
    context_ = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &status);
    check(status, "context");
    queue_ = clCreateCommandQueue(context_, device, 0, &status);
    check(status, "queue");
    std::ifstream in(file);
    std::stringstream text;
    text << in.rdbuf();
    const std::string source = text.str();
    const char* bytes = source.c_str();
    program_ = clCreateProgramWithSource(context_, 1, &bytes, nullptr, &status);
    check(status, "program");
    if (clBuildProgram(program_, 1, &device, "", nullptr, nullptr) != CL_SUCCESS) {
      std::vector<char> log(1 << 16);
      clGetProgramBuildInfo(program_, device, CL_PROGRAM_BUILD_LOG, log.size(), log.data(), nullptr);
      std::fprintf(stderr, "OpenCL: %s\n", log.data());
      return false;
    }
    return true;
  }

  std::uint64_t upload(const void* bytes, std::size_t size) override {
    cl_int status = 0;
    buffers_.push_back(
        clCreateBuffer(context_, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, size, const_cast<void*>(bytes), &status));
    check(status, "buffer");
    return buffers_.size() - 1;
  }
  void download(std::uint64_t buffer, void* bytes, std::size_t size) override {
    check(clEnqueueReadBuffer(queue_, buffers_[buffer], CL_TRUE, 0, size, bytes, 0, nullptr, nullptr), "read");
  }
  void buffer_argument(const char* kernel, unsigned index, std::uint64_t buffer) override {
    value_argument(kernel, index, &buffers_[buffer], sizeof(cl_mem));
  }
  void value_argument(const char* kernel, unsigned index, const void* bytes, std::size_t size) override {
    check(clSetKernelArg(find(kernel), index, size, bytes), "argument");
  }
  void launch(const char* kernel, const std::size_t (&blocks)[2], const std::size_t (&threads)[2]) override {
    const std::size_t global[2] = {blocks[0] * threads[0], blocks[1] * threads[1]};
    check(clEnqueueNDRangeKernel(queue_, find(kernel), 2, nullptr, global, threads, 0, nullptr, nullptr), "launch");
    check(clFinish(queue_), "finish");
  }

 private:
  cl_kernel find(const char* name) {
    auto [at, fresh] = kernels_.emplace(name, nullptr);
    cl_int status = CL_SUCCESS;
    if (fresh) at->second = clCreateKernel(program_, name, &status);
    check(status, name);
    return at->second;
  }
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  cl_program program_ = nullptr;
  std::vector<cl_mem> buffers_;
  std::map<std::string, cl_kernel> kernels_;
};

} // namespace

std::unique_ptr<OpenClDevice> OpenClDevice::create(const std::string& source_file) {
  auto device = std::make_unique<Device>();
  if (!device->open(source_file)) return nullptr;
  return device;
}
