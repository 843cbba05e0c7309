// Kernels that overwrite what they read through the non-coherent cache: no race, where the value is needed before.
#include "tests/unit/analyzer_traces.h"

namespace deadheat::test {
namespace {

constexpr std::uint32_t read = 0, write = 1;
const char* const stored = "ld.global.nc.u32 %r1, [%rd1];\nadd.u32 %r2, %r1, 1;\nst.global.u32 [%rd2], %r2;";
const char* const kept = "ld.global.nc.u32 %r1, [%rd1];\nbar.sync 0;\nst.global.u32 [%rd2], %r1;";
const char* const dropped = "ld.global.nc.u32 %r1, [%rd1];\nst.global.u32 [%rd2], %r2;\nst.shared.u32 [%r3], %r1;";
const char* const shuffled =
    "ld.global.nc.u32 %r1, [%rd1];\nshfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;\nst.global.u32 [%rd2], %r2;";

// One thread reads, and behind a barrier of the block `writer` writes there.
std::vector<Race> races_of(const char* body, std::uint32_t writer, bool barrier = true, bool read_first = true) {
  LittleTrace trace;
  trace.kernel(body);
  const std::uint32_t store = body == shuffled || body == kept ? write + 1 : write;
  const auto launch = trace.launch();
  trace.access(launch, 0, 0, read_first ? read : store, memory);
  if (barrier) trace.block_barrier(launch, 0);
  trace.access(launch, 0, writer, read_first ? store : read, memory);
  trace.end_launch(launch);
  return trace.analyze().races;
}

TEST(InPlace, WhoStoresWhatItComputedHasRead) {
  EXPECT_EQ(races_of(stored, 0).size(), 0u);
  EXPECT_EQ(races_of(stored, 0, false).size(), 0u);
  EXPECT_EQ(races_of(stored, 40).size(), 0u);
  EXPECT_EQ(races_of(stored, 40, false).size(), 1u); // nothing orders them
  EXPECT_EQ(races_of(kept, 0).size(), 0u);
  EXPECT_EQ(races_of(kept, 40).size(), 1u); // the barrier may come before the value
  EXPECT_EQ(races_of(shuffled, 0).size(), 0u);
  EXPECT_EQ(races_of(shuffled, 40).size(), 0u);
  EXPECT_EQ(races_of(shuffled, 40, false).size(), 1u);
}

TEST(InPlace, WhatIsNeededOnlyLaterMayBeReadLater) {
  const std::vector<Race> races = races_of(dropped, 0);
  ASSERT_EQ(races.size(), 1u);
  EXPECT_NE(races[0].why.find("may be read behind the write as well"), std::string::npos) << races[0].why;
}

TEST(InPlace, WhatIsWrittenFirst) {
  for (const std::uint32_t writer : {0u, 40u}) {
    const std::vector<Race> races = races_of(stored, writer, true, false);
    ASSERT_EQ(races.size(), 1u);
    EXPECT_NE(races[0].why.find("no synchronization orders it"), std::string::npos) << races[0].why;
  }
}

} // namespace
} // namespace deadheat::test
