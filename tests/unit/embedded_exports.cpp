// What the embedded runtime exports: every symbol of CUDA's own libcudart.so.13, at its version, those of libcuda.so.1,
// and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tracer/ptx/elf.h"

namespace {

// Defined global symbols with their versions, as `nm` lists them.
std::vector<std::string> exports_of(const std::string& library) {
  std::vector<std::string> names;
  std::FILE* pipe = popen(("nm -D --defined-only '" + library + "'").c_str(), "r");
  char line[4096];
  while (pipe && std::fgets(line, sizeof line, pipe)) {
    std::istringstream words(line);
    std::string address, kind, name;
    words >> address >> kind >> name;
    if (std::isupper(static_cast<unsigned char>(kind[0])) && kind != "A") names.push_back(name);
  }
  if (pipe) pclose(pipe);
  std::sort(names.begin(), names.end());
  return names;
}

TEST(EmbeddedExports, AreThoseOfTheRuntime) {
  std::vector<std::string> expected;
  std::ifstream list(EMBEDDED_DATA "cudart13_exports.txt");
  for (std::string name; std::getline(list, name);) expected.push_back(name + "@@libcudart.so.13");
  std::ifstream driver(EMBEDDED_DATA "cuda13_exports.txt"); // libcuda.so.1's, which that library finds here
  for (std::string name; std::getline(driver, name);) expected.push_back(name + "@@libcuda.so.1");
  std::sort(expected.begin(), expected.end());
  ASSERT_GT(expected.size(), 1000u);
  EXPECT_EQ(exports_of(EMBEDDED_LIBRARY), expected);
}

TEST(EmbeddedExports, CoverTheToolkitsLibrary) {
  const std::string theirs = CUDA_LIBRARIES "libcudart.so.13";
  if (!std::filesystem::exists(theirs)) GTEST_SKIP() << "no " << theirs;
  const std::vector<std::string> ours = exports_of(EMBEDDED_LIBRARY);
  for (const std::string& name : exports_of(theirs)) {
    EXPECT_TRUE(std::binary_search(ours.begin(), ours.end(), name)) << name << " is missing";
  }
}

// Whatever a program is linked with that was built with this toolkit.
TEST(EmbeddedExports, CoverTheToolkitsDriver) {
  const std::string theirs = CUDA_LIBRARIES "stubs/libcuda.so";
  if (!std::filesystem::exists(theirs)) GTEST_SKIP() << "no " << theirs;
  const std::vector<std::string> ours = exports_of(EMBEDDED_LIBRARY);
  for (const std::string& name : exports_of(theirs)) {
    EXPECT_TRUE(std::binary_search(ours.begin(), ours.end(), name + "@@libcuda.so.1")) << name << " is missing";
  }
}

TEST(EmbeddedExports, NameOfTheDriver) {
  deadheat::Expected<deadheat::ptx::MappedFile> file = deadheat::ptx::MappedFile::open(EMBEDDED_DRIVER);
  ASSERT_TRUE(file);
  deadheat::Expected<deadheat::ptx::ElfFile> elf = deadheat::ptx::read_elf(file->bytes(), EMBEDDED_DRIVER);
  ASSERT_TRUE(elf);
  EXPECT_EQ(elf->soname, "libcuda.so.1");
  EXPECT_NE(std::find(elf->needed.begin(), elf->needed.end(), "libcudart.so.13"), elf->needed.end());
}

TEST(EmbeddedExports, NameOfTheLibrary) {
  deadheat::Expected<deadheat::ptx::MappedFile> file = deadheat::ptx::MappedFile::open(EMBEDDED_LIBRARY);
  ASSERT_TRUE(file);
  deadheat::Expected<deadheat::ptx::ElfFile> elf = deadheat::ptx::read_elf(file->bytes(), EMBEDDED_LIBRARY);
  ASSERT_TRUE(elf);
  EXPECT_EQ(elf->soname, "libcudart.so.13");
  EXPECT_TRUE(std::none_of(elf->needed.begin(), elf->needed.end(), [](std::string_view name) {
    return name.find("LLVM") != std::string_view::npos;
  })) << "programs may have an LLVM of their own";
}

} // namespace
