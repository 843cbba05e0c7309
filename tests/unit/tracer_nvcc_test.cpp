// What nvcc is told so that what it makes in a recorded job holds PTX.
#include "tracer/cupti/nvcc.h"

#include <gtest/gtest.h>

#include <fstream>

namespace deadheat::cupti {
namespace {

using Words = std::vector<std::string>;
std::string added(const Words& arguments) { return flags_to_add(arguments); }

TEST(Nvcc, PtxOfEachMachineCode) {
  EXPECT_EQ(added({"-gencode=arch=compute_90a,code=sm_90a", "-c", "a.cu"}),
            "-gencode arch=compute_90a,code=compute_90a -lineinfo");
  EXPECT_EQ(added({"--generate-code", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_80,code=sm_90"}),
            "-gencode arch=compute_80,code=compute_80 -lineinfo");
  EXPECT_EQ(added({"--generate-code=arch=compute_90,code=[compute_90,sm_90]"}), "-lineinfo");
  EXPECT_EQ(added({"-gencode", "arch=compute_90,code=\"sm_90,compute_90\""}), "-lineinfo");
  EXPECT_EQ(added({"-gencode=arch=compute_90,code=sm_90", "-gencode=arch=compute_90,code=compute_90"}), "-lineinfo");
  EXPECT_EQ(added({"-arch=compute_80", "-code=sm_80,sm_86"}), "-gencode arch=compute_80,code=compute_80 -lineinfo");
}

TEST(Nvcc, WhatHoldsPtxAnyway) {
  EXPECT_EQ(added({"a.cu"}), "-lineinfo");
  EXPECT_EQ(added({"-arch=sm_90a", "a.cu"}), "-lineinfo");
  EXPECT_EQ(added({"-arch", "sm_90", "-lineinfo"}), "");
  EXPECT_EQ(added({"-gencode=arch=compute_90,code=sm_90", "-G"}), "-gencode arch=compute_90,code=compute_90");
}

TEST(Nvcc, OneFileForOneArchitecture) {
  EXPECT_EQ(added({"-cubin", "-gencode", "arch=compute_90a,code=sm_90a"}), "-lineinfo");
  EXPECT_EQ(added({"--ptx", "-arch=sm_90"}), "-lineinfo");
  EXPECT_EQ(added({"-dlto", "-gencode=arch=compute_90,code=sm_90"}), "-lineinfo");
  EXPECT_EQ(added({"-dc", "-gencode=arch=compute_90,code=[sm_90,lto_90]"}), "-lineinfo");
  EXPECT_EQ(added({"-arch=native"}), "-lineinfo");
  EXPECT_EQ(added({"--keep", "-gencode=arch=compute_90,code=sm_90"}), "-lineinfo"); // or a.sm_90.cubin, not a.cubin
  EXPECT_EQ(added({"-save-temps", "-gencode=arch=compute_90,code=sm_90"}), "-lineinfo");
}

TEST(Nvcc, ValuesAreNoOptions) {
  EXPECT_EQ(added({"-Xcompiler", "-E", "-gencode=arch=compute_90,code=sm_90"}),
            "-gencode arch=compute_90,code=compute_90 -lineinfo");
  EXPECT_EQ(added({"-o", "-ptx", "-D", "G", "-gencode"}), "-lineinfo");
}

TEST(Nvcc, EnvironmentAndFiles) {
  const std::string path = testing::TempDir() + "nvcc_options";
  std::ofstream(path) << "-gencode 'arch=compute_75,code=sm_75'\n--options-file " << path << "\n";
  EXPECT_EQ(flags_to_add(expanded_arguments({"--options-file", path}, "-gencode arch=compute_86,code=sm_86",
                                            "-gencode \"arch=compute_90,code=sm_90\" -lineinfo")),
            "-gencode arch=compute_75,code=compute_75 -gencode arch=compute_86,code=compute_86 "
            "-gencode arch=compute_90,code=compute_90");
  EXPECT_EQ(flags_to_add(expanded_arguments({"--options-file", "/nowhere"}, nullptr, nullptr)), "-lineinfo");
}

} // namespace
} // namespace deadheat::cupti
