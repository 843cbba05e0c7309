// Two runs side by side, on logs written by hand.
#include "replay/search/interleaving.h"

#include <gtest/gtest.h>

namespace deadheat::search {
namespace {

using device::Performed;

constexpr AccessKind read = AccessKind::read, write = AccessKind::write;
enum : std::uint64_t { x = 0x1000, y = 0x2000 };

// Steps of threads of one block of launch 1 (operation 4).
struct Writer {
  Log log;
  std::map<std::uint32_t, std::uint64_t> performed;
  Writer& did(std::uint32_t thread, std::uint32_t site, AccessKind access, std::uint64_t address, std::uint64_t value) {
    Performed p;
    p.operation = 4;
    p.launch = p.module = 1;
    p.thread = thread;
    p.site = site;
    p.nth = performed[thread]++;
    p.access = access;
    p.address = address;
    p.bytes = 4;
    p.wrote = access != AccessKind::read;
    (p.wrote ? p.written : p.read) = value;
    log.push_back(p);
    return *this;
  }
};
AccessName name(std::uint32_t thread, std::uint32_t site, std::uint64_t nth = 0) {
  return {4, 1, 0, thread, 1, site, nth};
}
const Site* no_site(std::uint32_t, std::uint32_t) { return nullptr; }

// Thread 0 writes x and reads y; thread 40 writes y and reads x. Thread 7 is somebody else.
Log in_turn() {
  Writer w;
  w.did(0, 1, write, x, 5).did(0, 2, read, y, 0).did(7, 9, write, 0x3000, 1);
  w.did(40, 3, write, y, 6).did(40, 4, read, x, 5);
  return w.log;
}

TEST(Interleaving, StepsOfTheTwoThreadsWhereTheyPart) {
  Writer b; // the second thread's write comes before the first's read
  b.did(0, 1, write, x, 5).did(40, 3, write, y, 6).did(0, 2, read, y, 6).did(7, 9, write, 0x3000, 1);
  b.did(40, 4, read, x, 5);
  const SideBySide sides = side_by_side(in_turn(), b.log, {name(0, 2), name(40, 3)}, no_site);
  ASSERT_EQ(sides.a.size(), 4u); // thread 7 is left out
  ASSERT_EQ(sides.b.size(), 4u);
  EXPECT_FALSE(sides.b[0].parts);
  EXPECT_TRUE(sides.a[1].parts);
  EXPECT_TRUE(sides.b[1].parts);
  EXPECT_EQ(sides.a[1].op, "read");
  EXPECT_EQ(sides.a[1].read, 0u);
  EXPECT_EQ(sides.b[1].op, "write");
  EXPECT_TRUE(sides.b[1].second);
  EXPECT_EQ(sides.b[2].read, 6u);
  EXPECT_FALSE(sides.b[2].second);
}

TEST(Interleaving, AnOldValueParts) {
  Log b = in_turn();
  b[4].read = 0;
  b[4].age = 1;
  const SideBySide sides = side_by_side(in_turn(), b, {name(0, 1), name(40, 4)}, no_site);
  ASSERT_EQ(sides.b.size(), 4u);
  EXPECT_TRUE(sides.b[3].parts);
  EXPECT_EQ(sides.b[3].age, 1u);
  EXPECT_EQ(context_switches(in_turn(), b), 0u);
  EXPECT_TRUE(changed_places(in_turn(), b, {name(0, 1), name(40, 4)}).empty());
}

TEST(Interleaving, LongRunsAreCutAroundThePlace) {
  Writer a, b;
  for (std::uint64_t n = 0; n < 100; ++n) {
    a.did(0, 1, write, x, n).did(40, 4, read, x, n);
    b.did(0, 1, write, x, n).did(40, 4, read, x, n == 70 ? 1000 : n);
  }
  const SideBySide sides = side_by_side(a.log, b.log, {name(0, 1, 70), name(40, 4, 70)}, no_site, 16);
  ASSERT_EQ(sides.b.size(), 16u);
  EXPECT_TRUE(sides.b[4].parts);
  EXPECT_EQ(sides.b[4].read, 1000u);
}

TEST(Interleaving, TheAccessesOfTheRaceAreShownHoweverFarBefore) {
  Writer a, b;
  for (Writer* run : {&a, &b}) {
    run->did(0, 1, write, x, 5);
    for (std::uint64_t n = 0; n < 50; ++n) run->did(0, 2, write, y, n).did(40, 3, read, y, n);
    run->did(40, 4, read, x, run == &a ? 5 : 0);
  }
  const SideBySide sides = side_by_side(a.log, b.log, {name(0, 1), name(40, 4)}, no_site, 16);
  ASSERT_EQ(sides.a.size(), 6u); // the write, four steps before the place, the read
  EXPECT_EQ(sides.a[0].address, x);
  EXPECT_EQ(sides.a[0].written, 5u);
  EXPECT_FALSE(sides.a[0].parts);
  EXPECT_EQ(sides.a[1].address, y);
  EXPECT_TRUE(sides.a[5].parts);
  EXPECT_EQ(sides.b[5].read, 0u);
}

TEST(Interleaving, SwitchesThatTheFirstRunDoesNotHave) {
  EXPECT_EQ(context_switches(in_turn(), in_turn()), 0u);
  Writer b; // 0 gives way to 40, which gives way to 0, which gives way to 7, which 40 follows in both
  b.did(0, 1, write, x, 5).did(40, 3, write, y, 6).did(0, 2, read, y, 6).did(7, 9, write, 0x3000, 1);
  b.did(40, 4, read, x, 5);
  EXPECT_EQ(context_switches(in_turn(), b.log), 3u);
}

TEST(Interleaving, PlacesOfAccesses) {
  Writer w;
  w.did(0, 1, write, x, 5).did(40, 1, write, x, 6).did(0, 1, write, x, 7);
  EXPECT_EQ(place_of(w.log, name(0, 1)), 0u);
  EXPECT_EQ(place_of(w.log, name(40, 1)), 1u);
  EXPECT_EQ(place_of(w.log, name(0, 1, 1)), 2u);
  EXPECT_EQ(place_of(w.log, name(0, 1, 2)), 3u);
  EXPECT_EQ(place_of(w.log, name(0, 2)), 3u);
}

TEST(Interleaving, OtherPairsThatChangedPlaces) {
  Writer b;
  b.did(40, 3, write, y, 6).did(40, 4, read, x, 0).did(0, 1, write, x, 5).did(0, 2, read, y, 6);
  b.did(7, 9, write, 0x3000, 1);
  const auto changed = changed_places(in_turn(), b.log, {name(0, 2), name(40, 3)});
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0].first.site, 1u);
  EXPECT_EQ(changed[0].second.site, 4u);
  // Of a pair of the same sites, another execution counts.
  EXPECT_EQ(changed_places(in_turn(), b.log, {name(0, 2, 1), name(40, 3)}).size(), 2u);
}

TEST(Interleaving, InstanceAtWhichRunsPart) {
  // Threads 0 and 8 write (site 1) what 40 and 48 read (site 4); of two reads the second alone sees something else.
  Writer a;
  a.did(0, 1, write, x, 5).did(8, 1, write, y, 6).did(40, 4, read, x, 5).did(48, 4, read, y, 6);
  Log b = a.log;
  b[3].read = 0;
  b[3].age = 1;
  Race race;
  race.first.name = name(0, 1);
  race.second.name = name(40, 4);
  const auto instance = parting_instance(a.log, b, race);
  ASSERT_TRUE(instance);
  EXPECT_EQ(instance->first.thread, 8u);
  EXPECT_EQ(instance->second.thread, 48u);
  EXPECT_FALSE(parting_instance(a.log, a.log, race));
}

// Thread 0's copy writes x, which thread 0 reads, before or after it.
TEST(Interleaving, AThreadBesideItsOwnCopy) {
  auto copy = [](std::uint64_t value) {
    Writer w;
    w.did(0, 1, write, x, value);
    w.log.front().copy = Performed::Copy::writes;
    return w.log.front();
  };
  auto own_read = [](std::uint64_t value) {
    Writer w;
    w.did(0, 4, read, x, value);
    return w.log.front();
  };
  const Log a{copy(5), own_read(5)}, b{own_read(0), copy(5)};
  const SideBySide sides = side_by_side(a, b, {name(0, 1), name(0, 4)}, no_site);
  ASSERT_EQ(sides.a.size(), 2u);
  EXPECT_TRUE(sides.a[0].copy);
  EXPECT_FALSE(sides.a[0].second);
  EXPECT_TRUE(sides.a[1].second);
  EXPECT_TRUE(sides.b[0].second);
  EXPECT_TRUE(sides.b[0].parts);
  EXPECT_EQ(context_switches(a, b), 0u); // a copy is no thread
}

} // namespace
} // namespace deadheat::search
