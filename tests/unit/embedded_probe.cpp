// What some 300 calls return, right and wrong ones, against what they return on a GPU. embedded/probe.expected and
// fault.expected are the output of probe.cu and fault.cu on an H200 (CUDA 13.0), but for the lines that are listed as
// differences here.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "embedded_support.h"

namespace deadheat::embedded_test {

static std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}
static std::vector<std::string> lines_of_file(const char* name) {
  std::ifstream file(std::string(EMBEDDED_DATA) + name);
  std::ostringstream text;
  text << file.rdbuf();
  return lines_of(text.str());
}

// Features that the embedded device does not have (textures, clusters, registered host memory, inter-process memory),
// sizes of queues that it does not have either.
static bool may_differ(const std::string& line) {
  return line.rfind("attr ", 0) == 0 || line.rfind("limit ", 0) == 0 || line.rfind("cc 9.0", 0) == 0;
}

TEST(EmbeddedProbe, ReturnsWhatAGpuReturns) {
  const Ran ran = run("probe", {});
  EXPECT_EQ(ran.status, 0);
  const std::vector<std::string> expected = lines_of_file("probe.expected"), found = lines_of(ran.output);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (may_differ(expected[i])) continue;
    EXPECT_EQ(found[i], expected[i]) << "line " << i + 1;
  }
}

// CUB asks which PTX was taken, and refuses where it compiled nothing for the answer.
TEST(EmbeddedProbe, PtxIsOfTheVersionThatItWasCompiledFor) {
  const Ran ran = run("older", {});
  EXPECT_NE(ran.output.find(" ptx 75 bin 90\n"), std::string::npos) << ran.output;
}

TEST(EmbeddedProbe, FaultsStickAsOnAGpu) {
  const std::vector<std::string> expected = lines_of_file("fault.expected");
  ASSERT_EQ(expected.size(), 4u);
  for (int kind = 0; kind < 4; ++kind) { // a null page, a misaligned address, a trap, an assertion
    const Ran ran = run("fault", {std::to_string(kind)});
    EXPECT_EQ(ran.output, expected[kind] + "\n");
    EXPECT_EQ(ran.status, 0);
  }
}

} // namespace deadheat::embedded_test
