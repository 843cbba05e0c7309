// What NVRTC is asked for in place of the job, and what is kept of what it hands out (tracer/cupti/nvrtc.h).
#include "tracer/cupti/nvrtc.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tracer/cupti/made_code.h"

namespace deadheat::cupti {

// In their stead: what is kept.
namespace {
std::vector<DeviceCode> kept;
}
void keep_made_code(const void*, DeviceCode from) noexcept { kept.push_back(std::move(from)); }

namespace {

using Options = std::vector<std::string>;

// An NVRTC that knows some options, and hands out a text for each program.
std::vector<Options> compiled;
Options known;

int compile(NvrtcProgram, int count, const char* const* options) {
  compiled.emplace_back(options, options + (options ? count : 0));
  for (const std::string& option : compiled.back()) {
    if (std::find(known.begin(), known.end(), option) == known.end()) return 5; // NVRTC_ERROR_INVALID_OPTION
  }
  return 0;
}
int size(NvrtcProgram, std::size_t* bytes) { return *bytes = 64, 0; }
int text_size(NvrtcProgram, std::size_t* bytes) { return *bytes = sizeof ".version 9.0", 0; }
int hand_out(NvrtcProgram, char*) { return 0; }
int text(NvrtcProgram, char* to) { return std::memcpy(to, ".version 9.0", sizeof ".version 9.0"), 0; }
const Nvrtc real{compile, size, hand_out, text_size, text};

int ask(const Options& options) {
  std::vector<const char*> words;
  for (const std::string& option : options) words.push_back(option.c_str());
  return nvrtc_compile(real, &known, int(words.size()), words.data());
}

struct NvrtcTest : testing::Test {
  void SetUp() override {
    compiled.clear(), kept.clear();
    known = {"-arch=sm_90", "-lineinfo", "-maxrregcount=40", "--generate-line-info"};
  }
};

TEST_F(NvrtcTest, LinesAreAskedFor) {
  EXPECT_EQ(ask({"-arch=sm_90"}), 0);
  EXPECT_EQ(compiled, (std::vector<Options>{{"-arch=sm_90", "--generate-line-info"}}));
}

TEST_F(NvrtcTest, ButNotTwice) {
  EXPECT_EQ(ask({"-lineinfo", "-arch=sm_90"}), 0);
  EXPECT_EQ(compiled, (std::vector<Options>{{"-lineinfo", "-arch=sm_90"}}));
}

TEST_F(NvrtcTest, WhereTheyAreRefusedTheProgramIsCompiledAsAsked) {
  known.pop_back();
  EXPECT_EQ(ask({"-arch=sm_90"}), 0);
  EXPECT_EQ(compiled.back(), Options{"-arch=sm_90"});
}

TEST_F(NvrtcTest, ErrorsAreThoseOfWhatWasAskedFor) {
  EXPECT_EQ(ask({"-unknown"}), 5);
  EXPECT_EQ(compiled.back(), Options{"-unknown"});
}

TEST_F(NvrtcTest, TheTextIsKeptWithItsLimit) {
  ASSERT_EQ(ask({"-arch=sm_90", "-maxrregcount=40"}), 0);
  char cubin[64];
  EXPECT_EQ(nvrtc_hand_out(real, &known, cubin), 0);
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].text, ".version 9.0");
  EXPECT_EQ(kept[0].max_registers, 40u);
}

// cuDNN's options are each byte of theirs XOR 0xa9, and its PTX has instructions that ptxas does not know.
TEST_F(NvrtcTest, WhatIsAskedForInCodeIsLeftAlone) {
  std::string coded = "-arch=sm_90";
  for (char& letter : coded) letter = char(letter ^ 0xa9);
  known = {coded};
  EXPECT_EQ(ask({coded}), 0);
  EXPECT_EQ(compiled, (std::vector<Options>{{coded}}));
  char cubin[64];
  EXPECT_EQ(nvrtc_hand_out(real, &known, cubin), 0);
  EXPECT_TRUE(kept.empty());
}

TEST_F(NvrtcTest, OptionsThatAreNoneAreNvrtcsBusiness) {
  const char* const none[] = {nullptr};
  const Nvrtc refuses{[](NvrtcProgram, int count, const char* const* options) { return count == 1 && !*options ? 5 : 0; },
                      size, hand_out, text_size, text};
  EXPECT_EQ(nvrtc_compile(refuses, &known, 1, none), 5);
  EXPECT_EQ(ask({}), 0);
}

} // namespace
} // namespace deadheat::cupti
