// The families of the driver's entry points in embedded/driver.cu: what the program prints, and what is said on
// standard error.
#include <gtest/gtest.h>

#include "embedded_support.h"

namespace deadheat::embedded_test {

namespace {

Ran run_driver(const std::vector<std::string>& words) {
  return run("driver", words, "", {"LD_PRELOAD=" EMBEDDED_DRIVER}, /*preload=*/false);
}

struct DriverFamily {
  const char* name;
  const char* output;
  const char* errors;
};
void PrintTo(const DriverFamily& f, std::ostream* out) { *out << f.name; }

class DriverEntryPoints : public testing::TestWithParam<DriverFamily> {};

TEST_P(DriverEntryPoints, DoWhatTheyAreFor) {
  const Ran ran = run_driver({GetParam().name});
  EXPECT_EQ(ran.output, GetParam().output);
  EXPECT_EQ(ran.errors, GetParam().errors);
  EXPECT_EQ(ran.status, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Embedded, DriverEntryPoints,
    testing::Values(
        DriverFamily{"errors",
                     "CUDA_ERROR_NOT_INITIALIZED\n"
                     "CUDA_ERROR_INVALID_VALUE\n"
                     "CUDA_ERROR_INVALID_CONTEXT\n"
                     "CUDA_ERROR_INVALID_CONTEXT\n"
                     "CUDA_ERROR_INVALID_DEVICE\n"
                     "1\n"
                     "2 3020\n"
                     "CUDA_ERROR_INVALID_VALUE\n"
                     "CUDA_ERROR_INVALID_VALUE\n"
                     "CUDA_ERROR_INVALID_HANDLE\n"
                     "CUDA_ERROR_INVALID_HANDLE\n"
                     "1\n"
                     "CUDA_ERROR_INVALID_CONTEXT\n"
                     "CUDA_ERROR_INVALID_CONTEXT\n"
                     "CUDA_ERROR_CONTEXT_IS_DESTROYED\n"
                     "0\n"
                     "CUDA_ERROR_INVALID_CONTEXT\n"
                     "CUDA_ERROR_INVALID_VALUE\n",
                     ""},
        DriverFamily{"device",
                     "deadheat embedded (sm_90)|17179869184|deadheat|9.0|1024|1|0|0000:00:00.0\n"
                     "CUDA_ERROR_INVALID_VALUE\n"
                     "16777216\n",
                     ""},
        DriverFamily{"modules",
                     "'' 0 ''\n"
                     "CUDA_ERROR_NOT_FOUND\n"
                     "2 1 add 1024 90 16 4\n"
                     "4 5\n"
                     "7\n"
                     "CUDA_ERROR_NOT_FOUND\n"
                     "CUDA_ERROR_INVALID_HANDLE\n"
                     "CUDA_ERROR_INVALID_PTX\n"
                     "'a module loaded from memory:1:1: expected a directive, found 'this'' 67\n"
                     "CUDA_ERROR_FILE_NOT_FOUND\n"
                     "CUDA_ERROR_NO_BINARY_FOR_GPU\n"
                     "9\n",
                     "deadheat: a module loaded from memory:1:1: expected a directive, found 'this'\n"
                     "deadheat: a module loaded from memory: machine code cannot run on the embedded device (load PTX "
                     "or a fat binary that holds it)\n"},
        DriverFamily{"linker",
                     "CUDA_ERROR_FILE_NOT_FOUND\n"
                     "3\n"
                     "CUDA_ERROR_NOT_SUPPORTED\n"
                     "CUDA_ERROR_INVALID_IMAGE\n"
                     "CUDA_ERROR_INVALID_HANDLE\n",
                     "deadheat: cuLinkAddData: NVVM IR is not supported by the embedded device\n"
                     "deadheat: the linker was given nothing\n"},
        DriverFamily{"memory",
                     "512 0 2 1 0\n"
                     "5050505\n"
                     "CUDA_ERROR_NOT_SUPPORTED\n"
                     "CUDA_ERROR_INVALID_VALUE\n"
                     "1 48\n"
                     "2 1 0 0\n"
                     "2 1 1 0\n"
                     "2 1 0 1\n"
                     "1 1 0 0\n"
                     "CUDA_ERROR_INVALID_VALUE\n"
                     "CUDA_ERROR_INVALID_VALUE\n"
                     "CUDA_ERROR_NOT_SUPPORTED\n"
                     "CUDA_ERROR_NOT_SUPPORTED\n",
                     "deadheat: cuMemcpy3D: a copy of a CUDA array is not supported by the embedded device\n"
                     "deadheat: cuMemAddressReserve is not supported by the embedded device\n"
                     "deadheat: cuStreamWaitValue32_v2 is not supported by the embedded device\n"},
        DriverFamily{"graphs",
                     "3 1 64\n"
                     "9 100\n"
                     "34\n"
                     "1 206\n"
                     "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE\n",
                     ""},
        DriverFamily{"launches",
                     "6\n"
                     "CUDA_ERROR_INVALID_VALUE\n"
                     "CUDA_ERROR_INVALID_VALUE\n"
                     "8\n"
                     "16 264 1024\n"
                     "host function\n"
                     "CUDA_SUCCESS\n",
                     ""},
        DriverFamily{"lookups",
                     "1 1\n"
                     "1\n"
                     "1 1\n"
                     "1 1\n"
                     "CUDA_ERROR_INVALID_VALUE\n"
                     "1\n"
                     "CUDA_ERROR_NOT_SUPPORTED\n",
                     ("deadheat: " EMBEDDED_PROGRAMS
                      "driver links the CUDA runtime statically, which finds no device behind the embedded one: "
                      "link it with -cudart shared\n")}),
    [](const testing::TestParamInfo<DriverFamily>& info) { return std::string(info.param.name); });

// Each says so once, however often it is called, and returns CUDA_ERROR_NOT_SUPPORTED.
TEST(RefusedDriverEntryPoints, SayItOnce) {
  std::vector<std::string> words = {"refused"};
  std::string errors;
  for (const char* name : {
#define X(name) #name,
#include "replay/embedded/driver/unsupported.def"
#undef X
       }) {
    words.push_back(name);
    errors += std::string("deadheat: ") + name + " is not supported by the embedded device\n";
  }
  const Ran ran = run_driver(words);
  EXPECT_EQ(ran.output, std::to_string(2 * (words.size() - 1)) + " refused\n");
  EXPECT_EQ(ran.errors, errors);
  EXPECT_EQ(ran.status, 0);
}

} // namespace

} // namespace deadheat::embedded_test
