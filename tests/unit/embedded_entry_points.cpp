// The families of entry points in embedded/entry_points.cu: what the program prints, with nothing on standard error but
// what is listed.
#include <gtest/gtest.h>

#include "embedded_support.h"

namespace deadheat::embedded_test {

namespace {

class EntryPoints : public testing::TestWithParam<Family> {};

TEST_P(EntryPoints, DoWhatTheyAreFor) {
  expect_ran(run("entry_points", {GetParam().name}), GetParam().output, GetParam().errors);
}

INSTANTIATE_TEST_SUITE_P(
    Embedded, EntryPoints,
    testing::Values(
        Family{"graph_memory",
               "14 1 1 0 256\n0 left\n9\ncudaErrorInvalidValue\ncudaErrorInvalidValue\ncudaSuccess\n9\n", ""},
        Family{"graph_events", "1\ncudaErrorInvalidValue\n5 cudaSuccess\n2 1 1\n", ""},
        Family{"graph_symbols",
               "cudaErrorInvalidValue\n70 80\n71 81\ncudaErrorGraphExecUpdateFailure\n2\ncooperative 1\n", ""},
        Family{"user_objects", "cudaErrorInvalidValue\n0\n10\ncudaErrorInvalidValue\n", ""},
        Family{
            "library",
            "1 1 times\ncudaErrorSymbolNotFound\n15\ncudaErrorSymbolNotFound\n4 1500\ncudaErrorInvalidResourceHandle\n"
            "cudaErrorInvalidResourceHandle\ncudaErrorInvalidPtx\ncudaErrorInvalidKernelImage\ncudaErrorFileNotFound\n",
            "deadheat: a library loaded from memory:1:1: expected a directive, found 'this'\n"},
        Family{"managed", "1 0 0\n0 -2\n-1 -2 -2\n0 -1\n-1 1\ncudaErrorInvalidValue\ncudaErrorInvalidValue\n", ""},
        Family{"batches",
               "569:EFIJUVYZ\ncudaErrorInvalidValue\n1 cudaSuccess\ncudaErrorNotSupported\n0 bytes of logs\n", ""},
        Family{
            "registered",
            "cudaErrorHostMemoryNotRegistered\ncudaErrorHostMemoryAlreadyRegistered\n"
            "cudaErrorHostMemoryAlreadyRegistered\n1 1 1 2\n1 1\n2\n5 5 0\n20 122 122 0\n77\n1\n"
            "cudaErrorInvalidValue\ncudaErrorInvalidValue\ncudaErrorInvalidValue\ncudaErrorNotSupported\n78\n",
            "deadheat: cudaHostRegister: I/O memory and read-only memory are not supported by the embedded device\n"},
        Family{
            "arrays",
            "cudaErrorInvalidChannelDescriptor\ncudaErrorInvalidValue\ncudaErrorInvalidValue\ncudaErrorInvalidValue\n"
            "cudaErrorInvalidValue\ncudaErrorNotSupported\n32 2 4 3 0 2\ncudaErrorInvalidValue\nrows 4 5 6 7\n"
            "count 2 3 4 5\ncudaErrorInvalidValue\nbetween 2 3 4 5\nvolume 5 6 7 1\ncudaErrorInvalidValue\n1 1 1 3\n"
            "node 9 10 11 10\n1 1\ncudaErrorInvalidValue\ncudaErrorInvalidValue\ncudaSuccess\ncudaSuccess\n"
            "cudaErrorInvalidValue\ncudaSuccess\n",
            "deadheat: sparse arrays and arrays that are mapped later are not supported by the embedded device\n"},
        Family{"clusters", "8 64\n32\ncudaErrorInvalidClusterSize\n16 8\n", ""},
        Family{"callbacks", "41\n10\n42\n20\n30\n", ""},
        Family{"atomics", "cudaSuccess\n0 0\ncudaErrorInvalidValue\ncudaErrorInvalidDevice\ncudaErrorInvalidDevice\n",
               ""}),
    [](const testing::TestParamInfo<Family>& info) { return std::string(info.param.name); });

// What a program prints, and the fault that ends it, of which it must be told.
struct Faulty {
  const char *name, *output, *error;
};

TEST(Textures, EndInTheirFaults) {
  const Faulty all[] = {
      {"textures",
       "4 5 7 7\ncudaErrorInvalidValue\ncudaErrorInvalidValue\ncudaErrorInvalidFilterSetting\ncudaErrorInvalidValue\n"
       "cudaSuccess\n0 3\ncudaErrorIllegalAddress\n",
       "deadheat: use after free: kernel row_of"},
      {"destroyed", "cudaErrorIllegalAddress\n", ": the texture object was destroyed before the launch\n"},
      {"outside", "cudaErrorIllegalAddress\n", ": coordinates outside of the surface\n"}};
  for (const Faulty& one : all) {
    const Ran ran = run("entry_points", {one.name});
    EXPECT_EQ(ran.output, one.output);
    EXPECT_NE(ran.errors.find(one.error), std::string::npos) << ran.errors;
  }
}

// Each says so once, however often it is called, and returns cudaErrorNotSupported.
TEST(RefusedEntryPoints, SayItOnce) {
  expect_refusals(
      {
#define X(name) #name,
#include "replay/embedded/unsupported.def"
#undef X
      },
      [](const std::vector<std::string>& words) { return run("entry_points", words); });
}

} // namespace

} // namespace deadheat::embedded_test
