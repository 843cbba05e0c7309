// Races that one message should have ordered are one fault: what mends it orders all. Those of two messages are two.
#include "tests/unit/analyzer_traces.h"

namespace deadheat::test {
namespace {

class BrokenMessages : public ::testing::Test {
 protected:
  LittleTrace trace;
  static constexpr std::uint64_t data = memory, more = data + 0x1000, flag = data + 0x2000;
  std::uint32_t launch_ = trace.launch(2, {3, 1, 1}, {32, 1, 1});
  std::uint32_t write_data_ = trace.site(10, {.access = AccessKind::write});
  std::uint32_t write_more_ = trace.site(11, {.access = AccessKind::write});
  std::uint32_t read_data_ = trace.site(20, {.access = AccessKind::read});
  std::uint32_t read_more_ = trace.site(21, {.access = AccessKind::read});

  std::uint32_t strong(std::uint32_t line, AccessKind kind, bool in_loop) {
    return trace.site(line, {.access = kind, .ordering = Ordering::relaxed, .scope = Scope::gpu, .in_loop = in_loop});
  }
  void tell(std::uint32_t site, std::uint64_t address) { trace.access(launch_, 0, 0, site, address, 1); }
  void hear(std::uint32_t site, std::uint64_t address) { trace.access(launch_, 1, 0, site, address, 1); }
  std::vector<Race> races() {
    trace.end_launch(launch_);
    return trace.analyze().races;
  }
  void expect_one_that_says(const std::string& text, const std::string& and_not) {
    const std::vector<Race> found = races();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_NE(found[0].why.find(text), std::string::npos) << found[0].why;
    EXPECT_EQ(found[0].why.find(and_not), std::string::npos) << found[0].why;
  }
};

TEST_F(BrokenMessages, TwoArraysBehindOneFlag) {
  tell(write_data_, data);
  tell(write_more_, more);
  tell(strong(12, AccessKind::write, false), flag);
  hear(strong(19, AccessKind::read, true), flag);
  hear(read_data_, data);
  hear(read_more_, more);
  const std::vector<Race> found = races();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].same_fault_as, 0u);
  EXPECT_EQ(found[1].same_fault_as, found[0].id);
  EXPECT_NE(found[0].why.find("that message, put right, orders 1 other race of the same fault"), std::string::npos)
      << found[0].why;
}

// scan[i] = x; __threadfence(); flag[i] = 1; all on one line, as are the wait and the read.
TEST_F(BrokenMessages, AFlagOnTheLineOfItsData) {
  tell(write_data_, data);
  tell(strong(10, AccessKind::write, false), flag);
  hear(strong(20, AccessKind::read, true), flag);
  hear(read_data_, data);
  expect_one_that_says("but the write releases nothing", "alone orders nothing");
}

TEST_F(BrokenMessages, TwoArraysBehindAFlagEach) {
  const std::uint32_t raise = strong(12, AccessKind::write, false), raise_more = strong(13, AccessKind::write, false);
  const std::uint32_t wait = strong(18, AccessKind::read, true), wait_more = strong(19, AccessKind::read, true);
  tell(write_data_, data);
  tell(raise, flag);
  hear(wait, flag);
  hear(read_data_, data);
  tell(write_more_, more);
  tell(raise_more, flag + 64);
  hear(wait_more, flag + 64);
  hear(read_more_, more);
  const std::vector<Race> found = races();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].same_fault_as, 0u);
}

// The last block's sum: what it reads by volatile loads tells nothing of what it reads behind, the ticket does.
TEST_F(BrokenMessages, ArraysOfStrongAccessesBehindATicket) {
  const std::uint32_t write_one = strong(10, AccessKind::write, false),
                      write_other = strong(11, AccessKind::write, false);
  const std::uint32_t draw = strong(12, AccessKind::atomic, false);
  const std::uint32_t read_other = strong(20, AccessKind::read, false), read_one = strong(21, AccessKind::read, false);
  for (std::uint32_t thread = 0; thread < 32; ++thread)
    trace.access(launch_, 0, thread, write_one, data + 4 * thread, 1);
  for (std::uint32_t thread = 0; thread < 32; ++thread)
    trace.access(launch_, 0, thread, write_other, more + 4 * thread, 1);
  for (std::uint32_t n = 0; n < 64; ++n) tell(write_other, more + 4 * (32 + n)); // more than are remembered of one line
  trace.fence(launch_, 0, 0, Scope::gpu);
  tell(draw, flag);
  hear(draw, flag);
  hear(read_other, more);
  hear(read_one, data);
  const std::vector<Race> found = races();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].same_fault_as, found[0].id);
  for (const Race& race : found)
    EXPECT_NE(race.why.find("writes at a.cu:12 what the block of the second reads at a.cu:12, but the read acquires"),
              std::string::npos)
        << race.why;
}

TEST_F(BrokenMessages, NumbersDrawnFromACounterTellNothing) {
  const std::uint32_t draw = strong(12, AccessKind::atomic, false);
  tell(write_data_, data);
  tell(write_more_, more);
  tell(draw, flag);
  hear(draw, flag);
  hear(read_data_, data);
  hear(read_more_, more);
  for (const Race& race : races()) EXPECT_EQ(race.same_fault_as, 0u) << race.why;
}

// A third block hands on what the first told it, and all raise a counter besides: that is no message of theirs.
TEST_F(BrokenMessages, CountersOfAllAreNoneWhereTheSecondWaitsForAThirdBlock) {
  const std::uint32_t raise = strong(12, AccessKind::write, false), count = strong(13, AccessKind::atomic, false);
  const std::uint32_t wait = strong(19, AccessKind::read, true);
  tell(write_data_, data);
  tell(count, flag + 128);
  trace.access(launch_, 2, 0, raise, flag + 64, 1);
  hear(wait, flag + 64);
  hear(count, flag + 128);
  hear(read_data_, data);
  expect_one_that_says("waits at a.cu:19 for what the block of the first does not write", "a.cu:13");
}
TEST_F(BrokenMessages, WhoPolledBeforeTheFirstRaisedTheFlagWaitsForNobodyElse) {
  const std::uint32_t raise = strong(12, AccessKind::write, false), wait = strong(19, AccessKind::read, true);
  const std::uint32_t look = strong(18, AccessKind::read, false);
  tell(write_data_, data);
  hear(wait, flag);
  tell(raise, flag);
  hear(look, flag);
  hear(read_data_, data);
  expect_one_that_says("writes at a.cu:12 what the block of the second reads at a.cu:18", "third");
}

// What the report says of the data (lines 10 and 20) of block 0, which tells at line 12 by one flag.
struct Told {
  LittleTrace trace;
  std::uint32_t launch = trace.launch(2, {3, 1, 1}, {32, 1, 1});
  static constexpr std::uint64_t data = memory, flag = data + 0x2000, other_flag = flag + 64;

  Told& by(std::uint32_t block, std::uint32_t line, AccessKind kind, std::uint64_t address,
           Ordering ordering = Ordering::weak, Scope scope = Scope::gpu, std::uint32_t thread = 0) {
    trace.access(launch, block, thread,
                 trace.site(line, {.access = kind,
                                   .ordering = ordering,
                                   .scope = ordering == Ordering::weak ? Scope::none : scope,
                                   .in_loop = kind == AccessKind::read}),
                 address, 1);
    return *this;
  }
  Told& read(std::uint32_t block, std::uint32_t line, std::uint64_t address, Ordering ordering = Ordering::weak) {
    return by(block, line, AccessKind::read, address, ordering);
  }
  Told& write(std::uint32_t block, std::uint32_t line, std::uint64_t address, Ordering ordering = Ordering::weak,
              Scope scope = Scope::gpu, std::uint32_t thread = 0) {
    return by(block, line, AccessKind::write, address, ordering, scope, thread);
  }
  std::string why() { // empty: they are ordered
    trace.end_launch(launch);
    for (const Race& race : trace.analyze().races)
      if (race.first.source.at(0).line + race.second.source.at(0).line == 30) return race.why;
    return "";
  }
};

void expect_says(const std::string& why, const std::string& text, const std::string& and_not) {
  EXPECT_NE(why.find(text), std::string::npos) << why;
  EXPECT_EQ(why.find(and_not), std::string::npos) << why;
}

// Block 2 hears it at line 13, and tells at line 14 what block 1 hears at line 19.
std::string handed_on(Ordering told, Ordering heard, Ordering handed, Ordering taken, Scope scope = Scope::gpu,
                      std::uint32_t by = 0) {
  Told all;
  all.write(0, 10, Told::data).write(0, 12, Told::flag, told).read(2, 13, Told::flag, heard);
  all.write(2, 14, Told::other_flag, handed, scope, by).read(1, 19, Told::other_flag, taken);
  return all.read(1, 20, Told::data).why();
}

TEST(HandedOn, SaysWhichOfTheTwoMessagesLacksWhat) {
  using enum Ordering;
  const std::string both =
      "a third block reads at a.cu:13 what the block of the first writes at a.cu:12, and writes at "
      "a.cu:14 what the block of the second reads at a.cu:19, but the ";
  EXPECT_EQ(handed_on(release, acquire, release, acquire), "");
  expect_says(handed_on(relaxed, acquire, release, acquire), both + "write at a.cu:12 releases nothing", "acquires");
  expect_says(handed_on(release, relaxed, release, acquire), both + "read at a.cu:13 acquires nothing", "releases");
  expect_says(handed_on(release, acquire, relaxed, acquire), both + "write at a.cu:14 releases nothing", "acquires");
  expect_says(handed_on(release, acquire, release, relaxed), both + "read at a.cu:19 acquires nothing", "releases");
  expect_says(handed_on(release, relaxed, relaxed, acquire), "; the write at a.cu:14 releases nothing", "a.cu:12 rel");
  expect_says(handed_on(release, acquire, release, acquire, Scope::cta),
              both + "write at a.cu:14 has block (.cta) scope", "s nothing:");
  expect_says(handed_on(release, acquire, release, acquire, Scope::gpu, 1),
              "but another thread of the third block makes the write at a.cu:14 than the read at a.cu:13",
              "s nothing:");
}

// Between the release at line 12 and the read at line 19 somebody else writes the flag at line 13.
std::string written_between(AccessKind kind, Ordering ordering, Scope scope) {
  Told all;
  all.write(0, 10, Told::data).write(0, 12, Told::flag, Ordering::release);
  all.by(2, 13, kind, Told::flag, ordering, scope).read(1, 19, Told::flag, Ordering::acquire);
  return all.read(1, 20, Told::data).why();
}

TEST(BrokenChains, AreNamed) {
  using enum Ordering;
  const std::string store = "but the store at a.cu:13, by another thread, overwrites that before it is read";
  for (const Ordering ordering : {relaxed, volatile_, release})
    expect_says(written_between(AccessKind::write, ordering, Scope::gpu), store, "s nothing:");
  EXPECT_EQ(written_between(AccessKind::atomic, relaxed, Scope::gpu), "");
  expect_says(written_between(AccessKind::atomic, relaxed, Scope::cta),
              "but the atomic operation at a.cu:13, by another thread, comes in between with block (.cta) scope only",
              "overwrites");
  // What the thread itself stores behind its release is a part of that.
  Told own;
  own.write(0, 10, Told::data).write(0, 12, Told::flag, release, Scope::cta).write(0, 13, Told::flag, relaxed);
  expect_says(own.read(1, 19, Told::flag, acquire).read(1, 20, Told::data).why(),
              "but the release at a.cu:12, of which the write is a part, has block (.cta) scope", "s nothing:");
}

// An mbarrier that another warp uses before it need have been made.
TEST(MadeMbarriers, OrderNothingWithTheirOwnInitialization) {
  LittleTrace trace;
  trace.kernel(
      "mbarrier.init.shared::cta.b64 [%r1], 64;\n"
      "mbarrier.arrive.shared::cta.b64 %rd1, [%r1];");
  const std::uint32_t launch = trace.launch(2, {1, 1, 1}, {64, 1, 1});
  const auto at = [&](trace::Mbarrier::What what, std::uint32_t site, std::uint32_t warp) {
    trace::Mbarrier record;
    record.what = what;
    record.warp = {launch, 0, warp};
    record.module = 1;
    record.site = site;
    record.mask = 1;
    record.address[0] = 64;
    record.count[0] = 1;
    trace.add(record);
  };
  at(trace::Mbarrier::What::init, 0, 0);
  at(trace::Mbarrier::What::arrive, 1, 0);
  at(trace::Mbarrier::What::arrive, 1, 1);
  trace.end_launch(launch);
  const std::vector<Race> races = trace.analyze().races;
  ASSERT_EQ(races.size(), 1u);
  EXPECT_NE(races[0].why.find("orders nothing with its own initialization (the first)"), std::string::npos)
      << races[0].why;
  EXPECT_EQ(races[0].why.find("waits for no phase"), std::string::npos) << races[0].why;
}

} // namespace
} // namespace deadheat::test
