// A launch whose log is put in order while it still runs (launch_log.h, settle): warps take steps in random order, what
// they reserved is drained in rounds as tracer/cupti/drain.cpp does, and the order that comes out must be the one
// that is made when everything has come: in each location the same values, one after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>

#include "tests/unit/device_log_rings.h"
#include "tests/unit/device_log_segments.h"
#include "tests/unit/seeds.h"

namespace deadheat::device_log {
namespace {

constexpr std::uint64_t memory = 0x1000;

enum Segment : std::uint32_t { add, exchange, load, leave, add_shared };
struct Code : Segments {
  // mixed: what is done to global memory takes the ring's tickets too.
  explicit Code(bool mixed) {
    auto make = [&](const char* opcode, AccessKind access, Space space = Space::global) {
      ptx::Slot slot;
      slot.kind = ptx::Slot::Kind::strong;
      slot.valued = slot.short_values = true;
      slot.in_block = space == Space::shared;
      slot.both_tickets = mixed && !slot.in_block;
      slot.address = header + 32;
      slot.value_read = slot.address + lanes8;
      slot.operand = access == AccessKind::read ? 0 : slot.value_read + lanes4;
      Site& site = Segments::add(opcode, SiteKind::access, slot, 32 + lanes8 + 2 * lanes4);
      site.access = access;
      site.space = space;
    };
    make("atom.relaxed.gpu.global.add.u32", AccessKind::atomic);
    make("atom.relaxed.gpu.global.exch.b32", AccessKind::atomic);
    make("ld.relaxed.gpu.global.u32", AccessKind::read);
    add_exit();
    make("atom.relaxed.cta.shared.add.u32", AccessKind::atomic, Space::shared);
  }
};

// Holds what comes out against a memory of its own, in the order of the places that were given.
struct Checker final : Output {
  struct Done {
    std::uint64_t place = 0, read = 0, written = 0;
    bool wrote = false;
  };
  std::map<std::uint64_t, std::vector<Done>> done; // by location
  std::uint64_t accesses = 0, exits = 0, inexact = 0;
  void access(const trace::AccessView& a) override {
    for (unsigned l = 0; l < 32; ++l) {
      if (!(a.mask >> l & 1)) continue;
      ++accesses;
      const bool shared = a.space == Space::shared;
      const std::uint64_t at = a.address[l] | (shared ? shared_mark | std::uint64_t(a.warp.block) << 32 : 0);
      inexact += a.order_first[l] != a.order_last[l];
      done[at].push_back({a.order_last[l], a.value_read[l], a.value_written[l], (a.wrote >> l & 1) != 0});
    }
  }
  void record(const trace::Record& record) override { exits += std::holds_alternative<trace::ThreadExit>(record); }
  void sort() {
    for (auto& [at, list] : done)
      std::sort(list.begin(), list.end(), [](const Done& a, const Done& b) { return a.place < b.place; });
  }
  std::map<std::uint64_t, std::vector<std::uint64_t>> order() { // values read, by location
    sort();
    std::map<std::uint64_t, std::vector<std::uint64_t>> order;
    for (const auto& [at, list] : done)
      for (const Done& d : list) order[at].push_back(d.read);
    return order;
  }
  std::uint64_t wrong() { // how many of them are not what was there
    sort();
    std::uint64_t wrong = inexact;
    for (const auto& [at, list] : done) {
      std::uint32_t value = 0;
      for (const Done& d : list) {
        wrong += value != d.read;
        if (d.wrote) value = std::uint32_t(d.written);
      }
    }
    return wrong;
  }
};

class Device {
 public:
  // `counters`: what is added is 1, and nothing is exchanged, so that values tell the order. `mixed`: half of what
  // warps do is to the shared memory of their block.
  Device(std::uint32_t blocks, std::uint32_t steps, unsigned seed, bool counters, bool mixed = false)
      : random_(seed), code_(mixed), steps_(steps), counters_(counters), mixed_(mixed) {
    shape_ = code_.shape(blocks, 2); // one warp of two lanes
    warps_.resize(blocks);
  }

  // Settled as often as it can be, or only at the end. Returns the most that was held, in bytes.
  std::uint64_t run(bool early, Checker& checker) {
    LaunchLog log(shape_, checker);
    std::uint64_t most = 0;
    Rounds rounds;
    for (std::uint32_t left = std::uint32_t(warps_.size()); left;) {
      for (int i = 0; i < 400 && left; ++i) {
        const std::uint32_t resident = std::min<std::uint32_t>(24, std::uint32_t(warps_.size()));
        const std::uint32_t w = (first_ + std::uint32_t(random_() % resident)) % std::uint32_t(warps_.size());
        left -= step(w);
        while (first_ < warps_.size() && warps_[first_].done) ++first_;
        if (first_ == warps_.size()) first_ = 0;
      }
      rounds.drain(rings_, log, early);
      most = std::max(most, log.held());
    }
    for (Ring& ring : rings_) ring.drain(log);
    early_ = log.settled();
    log.finish();
    EXPECT_EQ(log.damaged(), 0u);
    if (counters_) {
      EXPECT_EQ(log.guessed(), 0u);
    }
    return most;
  }
  std::uint64_t early() const { return early_; }

 private:
  struct Warp {
    std::uint32_t stage = 0, steps = 0;
    Segment what = add;
    std::size_t at = 0; // in the ring
    bool done = false;
  };

  Segment next(const Warp& warp) {
    if (warp.steps == steps_) return leave;
    if (mixed_ && random_() % 2) return add_shared;
    return counters_ ? (random_() % 2 ? add : load) : Segment(random_() % 3);
  }

  // Reserve, ticket, operation, ticket, publish: each a step of its own. True: the warp has ended with it.
  bool step(std::uint32_t w) {
    Warp& warp = warps_[w];
    if (warp.done) return false;
    Ring& ring = rings_[w % rings_.size()];
    const ptx::Slot& slot = code_.slot(warp.what);
    auto put = [&](std::uint32_t offset, auto value) { device_log::put(ring.segments[warp.at].bytes, offset, value); };
    switch (warp.stage++) {
      case 0: {
        warp.what = next(warp);
        warp.at = ring.reserve(code_.segments[warp.what].bytes);
        SegmentHeader head;
        head.segment = warp.what;
        head.block = w;
        head.mask = 3;
        put(0, head);
        return false;
      }
      case 1:
        if (warp.what != leave) put(slot.offset, slot.in_block ? ring.ticket++ : ticket_++);
        return false;
      case 2:
        for (std::uint32_t l = 0; l < 2 && warp.what != leave; ++l) {
          const std::uint64_t mark = slot.in_block ? shared_mark : 0, address = memory + 4 * (random_() % 3);
          std::uint32_t& value = values_[address | mark | (mark ? std::uint64_t(w) << 32 : 0)];
          const std::uint32_t operand = counters_ ? 1 : std::uint32_t(random_() % 1000);
          put(slot.address + 8 * l, address | mark);
          put(slot.value_read + 4 * l, value);
          if (warp.what == load) continue;
          put(slot.operand + 4 * l, operand);
          value = warp.what != exchange ? value + operand : operand;
        }
        return false;
      case 3:
        if (warp.what != leave) put(slot.offset + 8, slot.in_block ? ring.ticket++ : ticket_++);
        if (slot.both_tickets) put(slot.offset + 16, ring.ticket++);
        return false;
      default:
        ring.segments[warp.at].whole = true;
        warp.stage = 0;
        warp.done = ++warp.steps > steps_;
        return warp.done;
    }
  }

  std::mt19937 random_;
  const Code code_;
  Shape shape_;
  std::uint32_t steps_;
  bool counters_, mixed_;
  std::vector<Warp> warps_;
  std::array<Ring, 2> rings_;
  std::map<std::uint64_t, std::uint32_t> values_;
  std::uint64_t ticket_ = 1, early_ = 0;
  std::uint32_t first_ = 0;
};

TEST(DeviceLogRounds, AnOrderThatIsMadeEarlyIsTheOneThatIsMadeAtTheEnd) {
  for (const std::uint64_t seed : test::seeds(1, 40)) {
    for (const bool counters : {false, true}) {
      Device first(60, 40, unsigned(seed), counters), second(60, 40, unsigned(seed), counters);
      Checker whole, early;
      first.run(false, whole);
      second.run(true, early);
      EXPECT_EQ(first.early(), 0u);
      EXPECT_GT(second.early(), 60u * 40 / 2);
      EXPECT_EQ(whole.order(), early.order()) << "seed " << seed;
      EXPECT_EQ(early.exits, 60u);
      EXPECT_EQ(early.accesses, 60u * 40 * 2);
      if (counters) {
        EXPECT_EQ(early.wrong(), 0u) << "seed " << seed;
      }
    }
  }
}

// Accesses to global memory wait in their warps behind ones to shared memory, which have other tickets.
TEST(DeviceLogRounds, NothingIsPutBeforeWhatIsBehindAnAccessToSharedMemory) {
  std::uint64_t early_ones = 0;
  for (const std::uint64_t seed : test::seeds(1, 40)) {
    Device first(60, 40, unsigned(seed), true, true), second(60, 40, unsigned(seed), true, true);
    Checker whole, early;
    first.run(false, whole);
    second.run(true, early);
    early_ones += second.early();
    EXPECT_EQ(whole.order(), early.order()) << "seed " << seed;
    EXPECT_EQ(early.accesses, 60u * 40 * 2);
    EXPECT_EQ(whole.wrong(), 0u) << "seed " << seed;
    EXPECT_EQ(early.wrong(), 0u) << "seed " << seed;
  }
  EXPECT_GT(early_ones, 40u * 60 * 40 / 2);
}

TEST(DeviceLogRounds, MemoryDoesNotGrowWithTheLaunch) {
  Checker checker;
  Device whole(1500, 20, 1, true), early(1500, 20, 1, true);
  const std::uint64_t all = whole.run(false, checker);
  checker = {};
  EXPECT_LT(early.run(true, checker), all / 4);
  EXPECT_EQ(checker.accesses, 1500u * 20 * 2);
  EXPECT_EQ(checker.wrong(), 0u);
}

} // namespace
} // namespace deadheat::device_log
