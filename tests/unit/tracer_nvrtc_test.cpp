// What NVRTC is asked for in place of the job, and what is kept of what it hands out (tracer/compilers/nvrtc.h).
#include "tracer/compilers/nvrtc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tracer/compilers/made_code.h"

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

int calls = 0, last_count = 0;
const char* const* last_options = nullptr;
template <int status>
Nvrtc answering() {
  Nvrtc one = real;
  one.compile = [](NvrtcProgram, int count, const char* const* options) {
    ++calls, last_count = count, last_options = options;
    return status;
  };
  return one;
}

int ask(const Options& options) {
  std::vector<const char*> words;
  for (const std::string& option : options) words.push_back(option.c_str());
  return nvrtc_compile(real, &known, int(words.size()), words.data());
}

struct NvrtcTest : testing::Test {
  void SetUp() override {
    compiled.clear(), kept.clear();
    calls = 0;
    known = {"-arch=sm_90", "-lineinfo", "-maxrregcount=40", "--generate-line-info"};
  }
};

TEST_F(NvrtcTest, LinesAreAskedFor) {
  EXPECT_EQ(ask({"-arch=sm_90"}), 0);
  EXPECT_EQ(compiled, (std::vector<Options>{{"--generate-line-info", "-arch=sm_90"}}));
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

// Such options need not even be strings.
TEST_F(NvrtcTest, WhatIsAskedForInCodeIsNotLookedAt) {
  const char* const words[] = {"private", reinterpret_cast<const char*>(7), nullptr};
  EXPECT_EQ(nvrtc_compile(answering<0>(), &known, 3, words), 0);
  EXPECT_EQ(calls, 1);
}

TEST_F(NvrtcTest, WrongArgumentsAreNvrtcsBusiness) {
  const char* const none[] = {nullptr};
  const char* const one[] = {"-arch=sm_90"};
  for (const auto& [count, options] : {std::pair{1, none}, {-1, one}, {2, static_cast<const char* const*>(nullptr)}}) {
    calls = 0;
    EXPECT_EQ(nvrtc_compile(answering<3>(), &known, count, options), 3);
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(last_count, count);
    EXPECT_EQ(last_options, options);
  }
  EXPECT_EQ(ask({}), 0);
}

// Only an option may be what NVRTC does not like of the library's: a compilation that fails, or that the job cancels
// (nvrtcSetFlowCallback), is not begun again.
TEST_F(NvrtcTest, OtherErrorsAreFinal) {
  const char* const one[] = {"-arch=sm_90"};
  EXPECT_EQ(nvrtc_compile(answering<6>(), &known, 1, one), 6);
  EXPECT_EQ(nvrtc_compile(answering<16>(), &known, 1, one), 16);
  EXPECT_EQ(calls, 2);
}

TEST_F(NvrtcTest, WhatTheJobThrowsComesBack) {
  Nvrtc throws = real;
  throws.compile = [](NvrtcProgram, int, const char* const*) -> int { throw ++calls; };
  const char* const one[] = {"-arch=sm_90"};
  EXPECT_THROW(nvrtc_compile(throws, &known, 1, one), int);
  EXPECT_EQ(calls, 1);
}

TEST_F(NvrtcTest, RegistersAreLimitedInManyWords) {
  for (const Options& options : std::vector<Options>{{"-maxrregcount=32"},
                                                     {"--maxrregcount=32"},
                                                     {"-maxrregcount", "32"},
                                                     {"-Xptxas=-maxrregcount=32"},
                                                     {"-Xptxas", "--maxrregcount=32"},
                                                     {"--ptxas-options=-v,-maxrregcount=32"},
                                                     {"-maxrregcount=64", "-Xptxas", "-maxrregcount 32"}}) {
    known = {"--generate-line-info"};
    known.insert(known.end(), options.begin(), options.end());
    kept.clear();
    ASSERT_EQ(ask(options), 0);
    char cubin[64];
    ASSERT_EQ(nvrtc_hand_out(real, &known, cubin), 0);
    ASSERT_EQ(kept.size(), 1u);
    EXPECT_EQ(kept[0].max_registers, 32u) << options.front();
  }
}

} // namespace
} // namespace deadheat::cupti
