// The PTX of what programs register with CUDA, as nvcc made it (tracer/cupti/images.h): libraries are compiled here,
// and opened by this process, which stands in for CUDA's runtime and is told of their fat binaries.
#include "tracer/cupti/images.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "trace_directory.h"
#include "tracer/compilers/made_code.h"

namespace {
std::vector<const void*> registered; // wrappers of fat binaries
}

extern "C" {
__attribute__((visibility("default"))) void** __cudaRegisterFatBinary(void* wrapper) {
  registered.push_back(wrapper);
  return nullptr;
}
__attribute__((visibility("default"))) void __cudaRegisterFatBinaryEnd(void**) {}
__attribute__((visibility("default"))) void __cudaUnregisterFatBinary(void**) {}
__attribute__((visibility("default"))) void __cudaRegisterFunction(void**, const char*, char*, const char*, int, void*,
                                                                   void*, void*, void*, int*) {}
__attribute__((visibility("default"))) void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int,
                                                              int) {}
__attribute__((visibility("default"))) char __cudaInitModule(void**) { return 0; }
}

namespace deadheat::cupti {
namespace {

constexpr int h200 = 90;
const std::string of_90 = "-gencode arch=compute_90,code=sm_90 ";
const std::string with_ptx = "-gencode arch=compute_90,code=compute_90 ";

class Images : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string(DEADHEAT_NVCC).empty()) GTEST_SKIP() << "no nvcc";
    std::ofstream(folder_.file("a.cu")) << "extern __device__ int twice(int);\n"
                                           "__global__ void k(int* p) { p[threadIdx.x] = twice(p[threadIdx.x]); }\n";
    std::ofstream(folder_.file("b.cu")) << "__device__ int twice(int x) { return 2 * x; }\n";
    std::ofstream(folder_.file("c.cu")) << "__global__ void k(int* p) { p[threadIdx.x] = 1; }\n";
  }

  bool nvcc(const std::string& words) {
    return std::system(("cd " + folder_.path() + " && " DEADHEAT_NVCC " -Xcompiler -fPIC " + words).c_str()) == 0;
  }
  // Of the library of these words for nvcc: the code of its one fat binary.
  Expected<DeviceCode> code(const std::string& words) {
    registered.clear();
    const std::string path = folder_.file("made.so");
    if (!nvcc("-shared -cudart none -o made.so " + words)) return Error{"nvcc made nothing", words, ""};
    void* const library = dlopen(path.c_str(), RTLD_LAZY);
    if (!library) return Error{dlerror(), path, ""};
    Expected<DeviceCode> found = registered.size() == 1
                                     ? device_code(registered.front(), h200)
                                     : Error{std::to_string(registered.size()) + " fat binaries", path, ""};
    dlclose(library);
    return found;
  }
  // Of a.cu and b.cu, compiled apart, each with flags of its own.
  Expected<DeviceCode> code_of_parts(const std::string& a, const std::string& b) {
    if (!nvcc("-dc " + a + "a.cu -o a.o") || !nvcc("-dc " + b + "b.cu -o b.o") ||
        !nvcc("-dlink " + with_ptx + "a.o b.o -lcudadevrt -o linked.o"))
      return Error{"nvcc made nothing", folder_.path(), ""};
    return code("a.o b.o linked.o -lcudadevrt");
  }
  trace::TestDirectory folder_;
};

TEST(CudaLibraries, AreKnownByTheirFiles) {
  EXPECT_TRUE(is_of_cuda_library("a fat binary of /opt/nvidia/cu13/lib/libcublasLt.so.13"));
  EXPECT_TRUE(is_of_cuda_library("/usr/lib/libcudnn_ops.so.9"));
  for (const char* other : {"", "tests/gpu/window.cu", "a fat binary", "a fat binary of /home/me/libcublas/run",
                            "a fat binary of /home/me/libmine.so", "libcublas_user.cu"}) {
    EXPECT_FALSE(is_of_cuda_library(other)) << other;
  }
}

TEST_F(Images, OneFile) {
  const Expected<DeviceCode> found = code(of_90 + with_ptx + "c.cu");
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_NE(found->text.find(".entry"), std::string::npos);
}

TEST_F(Images, WithoutPtxThereIsNone) {
  for (const char* other : {"", "-gencode arch=compute_100,code=compute_100 "}) {
    const Expected<DeviceCode> found = code(of_90 + other + "c.cu");
    ASSERT_TRUE(found) << found.error().message();
    EXPECT_EQ(found->text, "") << other;
  }
}

// Where it is another program's, the file is named whose kernels are not recorded.
TEST_F(Images, OtherPtxIsSaid) {
  const Expected<DeviceCode> found = code("-gencode arch=compute_90a,code=sm_90a " + with_ptx + "c.cu");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message(),
            "a fat binary of " + folder_.file("made.so") +
                ": the GPU runs machine code that was compiled for compute_90a, of which there is "
                "no PTX (build it with -gencode arch=compute_90a,code=compute_90a)");
}

// CUDA's device runtime comes along as machine code, and as PTX of the newest architecture alone.
TEST_F(Images, FilesCompiledApartAreLinked) {
  const Expected<DeviceCode> found = code_of_parts(of_90 + with_ptx, of_90 + with_ptx);
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_NE(found->text.find(".entry"), std::string::npos);
  EXPECT_NE(found->text.find("_Z5twicei"), std::string::npos);
}

TEST_F(Images, OneOfThemWithoutPtx) {
  const Expected<DeviceCode> found = code_of_parts(of_90 + with_ptx, of_90);
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message().find("some of them without PTX"), std::string::npos) << found.error().message();
}

// What a linker made is limited as its inputs are, each by itself or by how it was made.
TEST_F(Images, LinkedWithFewerRegisters) {
  ASSERT_TRUE(nvcc("-cubin -arch=sm_90 c.cu -o c.cubin") && nvcc("-cubin -arch=sm_90 -lineinfo c.cu -o linked.cubin"));
  const auto read = [&](const char* name) {
    const std::vector<char> bytes = trace::read_file(folder_.file(name));
    return std::string(bytes.begin(), bytes.end());
  };
  const std::string cubin = read("c.cubin"), linked = read("linked.cubin");
  keep_made_code(cubin.data(), {.text = ".version 9.0\n", .origin = "", .max_registers = 48});
  int link = 0;
  linker_begins(&link, 0);
  linker_given(&link, LinkerInput::machine_code, cubin);
  linker_made(&link, linked.data());
  EXPECT_EQ(made_code(linked).max_registers, 48u);
  linker_limited(&link, 32);
  linker_limited(&link, 64);
  linker_limited(&link, 0);
  linker_made(&link, linked.data());
  EXPECT_EQ(made_code(linked).max_registers, 32u);
  EXPECT_EQ(made_code(linked).text, ".version 9.0\n");
  linker_ends(&link);
}

// As nvcc -ptx and NVRTC begin theirs: the comment names a version, too.
TEST(ImagesOfText, BeginWithComments) {
  const std::string body = ".version 9.0\n.target sm_90\n.address_size 64\n";
  for (const std::string& before :
       {std::string(), std::string("//\n// Compiler Build ID: CL-1\n// release 13.0, V13.0.88\n//\n\n"),
        std::string("/* of a.cu, 13.0 */\n"), std::string("// \xc3\xa4.cu\n")}) {
    const std::string text = before + body;
    const Expected<DeviceCode> found = device_code(text.c_str(), 90);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->text, text);
    const trace::TestDirectory folder;
    std::ofstream(folder.file("k.ptx")) << text;
    const Expected<DeviceCode> of_file = device_code_of_file(folder.file("k.ptx"), 90);
    ASSERT_TRUE(of_file);
    EXPECT_EQ(of_file->text, text);
  }
  const Expected<DeviceCode> other = device_code("// 13.0\n.visible", 90);
  EXPECT_TRUE(other && other->text.empty());
}

} // namespace
} // namespace deadheat::cupti
