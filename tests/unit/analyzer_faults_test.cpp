// Synchronization errors are one entry a source line, however many instructions and launches it is.
#include "tests/unit/analyzer_traces.h"

namespace deadheat::test {
namespace {

class Faults : public ::testing::Test {
 protected:
  LittleTrace trace;
  void error(std::uint32_t launch, std::uint32_t thread, std::uint32_t site, const std::string& text) {
    trace.add(trace::SyncError{launch, 0, thread, 1, site, text});
  }
  std::uint32_t barrier(std::uint32_t line) {
    return trace.site(line, {.kind = SiteKind::barrier, .opcode = "barrier.sync.aligned"});
  }
};

TEST_F(Faults, InstructionsOfALineAreOneEntry) {
  const std::uint32_t sites[] = {barrier(7), barrier(7), barrier(8), barrier(7)};
  for (int i = 0; i < 2; ++i) {
    const auto l = trace.launch();
    for (std::uint32_t site : sites) error(l, site, site, "barrier " + std::to_string(16 + site) + " of 16");
    trace.end_launch(l);
  }
  const auto found = trace.analyze().sync_errors;
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].side.source[0].line, 7u);
  EXPECT_EQ(found[0].side.name.thread, 0u);
  EXPECT_EQ(found[0].occurrences, 6u);
  EXPECT_EQ(found[0].text, "barrier 16 of 16; likewise 5 more");
  EXPECT_EQ(found[1].occurrences, 2u);
  EXPECT_EQ(found[1].text, "barrier 18 of 16; likewise 1 more");
}

TEST_F(Faults, WhatIsSaidOfALineIsNotMixed) {
  const auto first = barrier(7), second = barrier(7);
  const auto l = trace.launch();
  error(l, 0, first, "barrier 16 of 16");
  error(l, 0, second, "lanes of one warp are at different barriers");
  trace.end_launch(l);
  const auto found = trace.analyze().sync_errors;
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].text, "barrier 16 of 16");
  EXPECT_EQ(found[1].occurrences, 1u);
}

TEST_F(Faults, DeadlocksAreNotJoined) {
  const auto site = barrier(7);
  for (int i = 0; i < 2; ++i) {
    const auto l = trace.launch();
    error(l, 0, site, "deadlock: launch " + std::to_string(l));
    trace.end_launch(l);
  }
  EXPECT_EQ(trace.analyze().sync_errors.size(), 2u);
}

} // namespace
} // namespace deadheat::test
