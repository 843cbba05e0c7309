// The families of the driver's entry points in embedded/driver.cu: what the program prints, and what is said on
// standard error.
#include <gtest/gtest.h>

#include "embedded_support.h"

namespace deadheat::embedded_test {

namespace {

Ran run_driver(const std::vector<std::string>& words) {
  return run("driver", words, "", {"LD_PRELOAD=" EMBEDDED_DRIVER}, /*preload=*/false);
}

class DriverEntryPoints : public testing::TestWithParam<Family> {};

TEST_P(DriverEntryPoints, DoWhatTheyAreFor) {
  expect_ran(run_driver({GetParam().name}), GetParam().output, GetParam().errors);
}

INSTANTIATE_TEST_SUITE_P(
    Embedded, DriverEntryPoints,
    testing::Values(
        Family{"errors",
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
        Family{"device",
               "deadheat embedded (sm_90)|17179869184|deadheat|9.0|1024|1|0|0000:00:00.0\n"
               "CUDA_ERROR_INVALID_VALUE\n"
               "16777216\n",
               ""},
        Family{"modules",
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
        Family{"linker",
               "CUDA_ERROR_FILE_NOT_FOUND\n"
               "3\n"
               "CUDA_ERROR_NOT_SUPPORTED\n"
               "CUDA_ERROR_INVALID_IMAGE\n"
               "CUDA_ERROR_INVALID_HANDLE\n",
               "deadheat: cuLinkAddData: NVVM IR is not supported by the embedded device\n"
               "deadheat: the linker was given nothing\n"},
        Family{"memory",
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
        Family{"graphs",
               "3 1 64\n"
               "9 100\n"
               "34\n"
               "1 206\n"
               "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE\n",
               ""},
        Family{"launches",
               "6\n"
               "CUDA_ERROR_INVALID_VALUE\n"
               "CUDA_ERROR_INVALID_VALUE\n"
               "8\n"
               "16 264 1024\n"
               "host function\n"
               "CUDA_SUCCESS\n",
               ""},
        Family{
            "lookups",
            "1 1\n"
            "1\n"
            "1 1\n"
            "1 1\n"
            "CUDA_ERROR_INVALID_VALUE\n"
            "1\n"
            "CUDA_ERROR_NOT_SUPPORTED\n",
            ("deadheat: " EMBEDDED_PROGRAMS
             "driver links the CUDA runtime statically and has no symbols of CUDA 13's, which finds no device behind "
             "the embedded one: link it with -cudart shared\n")}),
    [](const testing::TestParamInfo<Family>& info) { return std::string(info.param.name); });

// Each says so once, however often it is called, and returns CUDA_ERROR_NOT_SUPPORTED.
TEST(RefusedDriverEntryPoints, SayItOnce) {
  expect_refusals(
      {
#define X(name) #name,
#include "replay/embedded/driver/unsupported.def"
#undef X
      },
      run_driver);
}

} // namespace

} // namespace deadheat::embedded_test
