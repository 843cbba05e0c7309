// Lines that are discarded: writes of 128 bytes, of what nobody knows.
#include "tests/unit/analyzer_traces.h"

namespace deadheat::test {
namespace {

constexpr std::uint64_t line = 128;

LittleTrace::SiteOf discard() {
  return {.access = AccessKind::write, .bytes = 16, .elements = 8, .opcode = "discard.global.L2"};
}
LittleTrace::SiteOf plain(AccessKind access, unsigned bytes) { return {.access = access, .bytes = bytes}; }

// Of a line's discard and an access of `bytes` bytes that begins `offset` behind the line's begin, by threads of two
// warps, the discard first or last, in memory as `before` leaves it.
using Before = void (*)(LittleTrace& trace, std::uint32_t launch);
std::vector<std::string> pair(
    AccessKind access, unsigned bytes, std::int64_t offset, bool first,
    Before before = [](LittleTrace&, std::uint32_t) {}) {
  LittleTrace trace;
  const auto d = trace.site(1, discard()), a = trace.site(2, plain(access, bytes));
  const std::uint64_t at = memory + 32 * line;
  const auto l = trace.launch();
  before(trace, l);
  if (first) trace.access(l, 0, 3, d, at);
  trace.access(l, 0, 40, a, at + std::uint64_t(offset));
  if (!first) trace.access(l, 0, 3, d, at);
  trace.end_launch(l);
  return trace.races();
}

const std::vector<std::string> one = {"1-2"}, none;

TEST(Discards, RaceWithWhateverTouchesAPartOfTheLine) {
  for (const AccessKind access : {AccessKind::read, AccessKind::write})
    for (const unsigned bytes : {1u, 2u, 4u, 8u, 16u})
      for (std::int64_t offset : {-std::int64_t(bytes), std::int64_t(0), std::int64_t(64 - bytes), std::int64_t(64),
                                  std::int64_t(line - bytes), std::int64_t(line)})
        for (const bool first : {false, true})
          EXPECT_EQ(pair(access, bytes, offset, first), offset >= 0 && offset < std::int64_t(line) ? one : none)
              << bytes << " bytes at " << offset;
}

// What is known of the line's page before: nothing; rows of warps; single words; single bytes.
TEST(Discards, WhateverIsKnownOfThePage) {
  constexpr Before all[] = {
      [](LittleTrace& trace, std::uint32_t launch) {
        const auto site = trace.site(3, plain(AccessKind::write, 4));
        trace::Access row;
        row.warp = {launch, 0, 1};
        row.module = 1;
        row.site = site;
        row.mask = ~0u;
        for (unsigned lane = 0; lane < 32; ++lane) row.address[lane] = memory + 32 * line + 4 * lane;
        trace.add(row);
        trace.block_barrier(launch, 0);
      },
      [](LittleTrace& trace, std::uint32_t launch) {
        trace.access(launch, 0, 40, trace.site(3, plain(AccessKind::write, 4)), memory + 32 * line + 8);
        trace.block_barrier(launch, 0);
      },
      [](LittleTrace& trace, std::uint32_t launch) {
        trace.access(launch, 0, 40, trace.site(3, plain(AccessKind::read, 1)), memory + 32 * line + 9);
        trace.block_barrier(launch, 0);
      }};
  for (const Before& before : all)
    for (const std::int64_t offset : {-4, 0, 8, 124, 128})
      for (const bool first : {false, true})
        EXPECT_EQ(pair(AccessKind::read, 4, offset, first, before), offset >= 0 && offset < 128 ? one : none)
            << &before - all << ": " << offset;
}

TEST(Discards, AreOrderedByABarrier) {
  LittleTrace trace;
  const auto r = trace.site(1, plain(AccessKind::read, 4)), d = trace.site(2, discard());
  const auto l = trace.launch();
  for (unsigned thread = 0; thread < 64; ++thread) trace.access(l, 0, thread, r, memory + 4 * thread);
  trace.block_barrier(l, 0);
  trace.access(l, 0, 0, d, memory);
  trace.access(l, 0, 33, d, memory + line);
  trace.block_barrier(l, 0);
  for (unsigned thread = 0; thread < 64; ++thread) trace.access(l, 0, thread, r, memory + 4 * (63 - thread));
  trace.end_launch(l);
  EXPECT_EQ(trace.races(), none);
}

// Each lane of a warp has a line of its own; those of the other warp are the next ones, so that all but one meet.
TEST(Discards, OfWholeWarps) {
  for (const unsigned apart : {1u, 32u}) {
    LittleTrace trace;
    const auto first = trace.site(1, discard()), second = trace.site(2, discard());
    const auto l = trace.launch();
    for (unsigned warp = 0; warp < 2; ++warp) {
      trace::Access access;
      access.warp = {l, 0, warp};
      access.module = 1;
      access.site = warp ? second : first;
      access.mask = ~0u;
      for (unsigned lane = 0; lane < 32; ++lane) access.address[lane] = memory + (lane + apart * warp) * line;
      trace.add(access);
    }
    trace.end_launch(l);
    const Analysis found = trace.analyze();
    ASSERT_EQ(found.races.size(), apart == 1 ? 1u : 0u);
    if (apart != 1) continue;
    EXPECT_EQ(found.races[0].occurrences, 31u * 8); // an access an element
    EXPECT_NE(found.races[0].why.find("whether they wrote the same values is not known"), std::string::npos);
    EXPECT_FALSE(found.races[0].same_value);
  }
}

// No device lets a line cross pages. A damaged trace may say so.
TEST(Discards, AcrossPagesInADamagedTrace) {
  for (const unsigned jobs : {1u, 3u})
    for (const std::uint64_t offset : {4096 - 64, 4096, 4096 + 60, 4096 + 64}) {
      LittleTrace trace;
      trace.jobs = jobs;
      const auto d = trace.site(1, discard()), r = trace.site(2, plain(AccessKind::read, 4));
      const auto l = trace.launch();
      trace.access(l, 0, 3, d, memory + 4096 - 64);
      trace.access(l, 0, 40, r, memory + offset);
      trace.end_launch(l);
      EXPECT_EQ(trace.races(), offset < 4096 + 64 ? one : none) << jobs << " jobs, " << offset;
    }
}

} // namespace
} // namespace deadheat::test
