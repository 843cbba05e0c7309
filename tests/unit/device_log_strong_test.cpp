// The order of strong accesses whose tickets overlap, where values must tell it: what each read saw came before it.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "tracer/device_log/launch_log.h"

namespace deadheat::device_log {
namespace {

constexpr std::uint32_t header = 32, lanes4 = 128, lanes8 = 256;
constexpr std::uint64_t flag = 0x1000;

enum Segment : std::uint32_t { store, load, add, leave };

struct Access {
  std::uint32_t warp;
  std::uint64_t before, after; // tickets
  Segment what;
  std::uint32_t value; // stored, read, or read by an addition of 1
};

// One lane a block, each access a segment of its own. Places are in the order in which accesses are given.
class StrongOrder : public ::testing::Test, public Output {
 protected:
  StrongOrder() {
    make("st.release.gpu.global.u32", AccessKind::write, true);
    make("ld.acquire.gpu.global.u32", AccessKind::read, false);
    make("atom.relaxed.gpu.global.add.u32", AccessKind::atomic, true);
    Site exit;
    exit.id = 3;
    exit.kind = SiteKind::exit;
    sites.push_back(exit);
    ptx::Segment last;
    last.bytes = header;
    last.ends = true;
    last.slots.emplace_back();
    last.slots[0].site = 3;
    last.slots[0].offset = header;
    last.slots[0].kind = ptx::Slot::Kind::event;
    segments.push_back(last);
  }

  // The places that the accesses get, in the order in which they are given.
  std::vector<std::uint64_t> order(const std::vector<Access>& accesses) {
    Shape shape;
    shape.launch = 1;
    for (const Access& access : accesses) shape.blocks = std::max<std::uint64_t>(shape.blocks, access.warp + 1);
    shape.threads = 1;
    shape.strong = true;
    shape.segments = &segments;
    shape.sites = &sites;
    places.clear();
    LaunchLog log(shape, *this);
    for (const Access& access : accesses) log.segment(bytes_of(access).data());
    for (std::uint32_t w = 0; w < shape.blocks; ++w) log.segment(bytes_of({w, 0, 0, leave, 0}).data());
    log.finish();
    EXPECT_EQ(log.damaged(), 0u);
    EXPECT_EQ(log.guessed(), 0u);
    std::map<std::uint32_t, std::size_t> next; // of a warp
    std::vector<std::uint64_t> found;
    for (const Access& access : accesses) found.push_back(places[access.warp].at(next[access.warp]++));
    return found;
  }

  void access(const trace::AccessView& view) override {
    EXPECT_EQ(view.mask, 1u);
    EXPECT_EQ(view.order_first[0], view.order_last[0]);
    places[view.warp.block].push_back(view.order_first[0]);
  }
  void record(const trace::Record&) override {}

 private:
  void make(const char* opcode, AccessKind access, bool operand) {
    Site site;
    site.id = std::uint32_t(sites.size());
    site.opcode = opcode;
    site.access = access;
    site.space = Space::global;
    site.element_bytes = 4;
    ptx::Slot slot;
    slot.site = site.id;
    slot.offset = header;
    slot.kind = ptx::Slot::Kind::strong;
    slot.valued = slot.short_values = true;
    slot.address = header + 32;
    slot.value_read = slot.address + lanes8;
    slot.operand = operand ? slot.value_read + lanes4 : 0;
    slot.digest = access == AccessKind::write ? slot.operand + lanes4 : 0;
    ptx::Segment segment;
    segment.bytes = header + 32 + lanes8 + 3 * lanes4;
    segment.slots.push_back(slot);
    segments.push_back(segment);
    sites.push_back(site);
  }
  std::vector<std::uint8_t> bytes_of(const Access& access) const {
    std::vector<std::uint8_t> bytes(segments[access.what].bytes, 0);
    auto put = [&](std::uint32_t offset, auto value) { std::memcpy(bytes.data() + offset, &value, sizeof value); };
    SegmentHeader head;
    head.segment = access.what;
    head.block = access.warp;
    head.mask = 1;
    put(0, head);
    if (access.what == leave) return bytes;
    const ptx::Slot& slot = segments[access.what].slots[0];
    put(slot.offset, access.before);
    put(slot.offset + 8, access.after);
    put(slot.address, flag);
    if (access.what != store) put(slot.value_read, access.value);
    if (access.what != load) put(slot.operand, access.what == add ? std::uint32_t(1) : access.value);
    return bytes;
  }

  std::vector<ptx::Segment> segments;
  std::vector<Site> sites;
  std::map<std::uint32_t, std::vector<std::uint64_t>> places;
};

TEST_F(StrongOrder, WhatWasReadFirstWasStoredBefore) { // the store ends after the read, and nobody saw the beginning
  const auto at = order({{0, 1, 4, store, 101}, {1, 2, 3, load, 101}});
  EXPECT_LT(at[0], at[1]);
}

TEST_F(StrongOrder, WhatWasThereBeforeTheFirstStore) { // whichever ends first
  auto at = order({{0, 1, 4, store, 101}, {1, 2, 3, load, 99}});
  EXPECT_GT(at[0], at[1]);
  at = order({{0, 1, 3, store, 101}, {1, 2, 4, load, 99}});
  EXPECT_GT(at[0], at[1]);
  at = order({{0, 1, 3, store, 101}, {1, 2, 4, load, 99}, {2, 2, 5, load, 101}, {3, 1, 6, load, 99}});
  EXPECT_GT(at[0], at[1]);
  EXPECT_LT(at[0], at[2]);
  EXPECT_GT(at[0], at[3]);
}

TEST_F(StrongOrder, WhatIsWrittenAfterTheFirstStoreWasNotThereBeforeIt) {
  // The read of 102 overlaps with the first store; the one that it saw has not begun when that one ends.
  auto at = order({{0, 1, 3, store, 101}, {1, 2, 8, load, 102}, {2, 4, 6, store, 102}, {3, 2, 9, load, 99}});
  EXPECT_LT(at[0], at[2]);
  EXPECT_LT(at[2], at[1]);
  EXPECT_LT(at[3], at[0]);
  // By an addition.
  at = order({{0, 1, 3, store, 101}, {1, 2, 8, load, 102}, {2, 4, 6, add, 101}, {3, 2, 9, load, 99}});
  EXPECT_LT(at[0], at[2]);
  EXPECT_LT(at[2], at[1]);
  EXPECT_LT(at[3], at[0]);
}

TEST_F(StrongOrder, AdditionsBehindAStoreThatNobodySaw) { // read before the addition ends, that one before the store
  const auto at = order({{0, 1, 6, store, 100}, {1, 2, 5, add, 100}, {2, 3, 4, load, 101}});
  EXPECT_LT(at[0], at[1]);
  EXPECT_LT(at[1], at[2]);
}

TEST_F(StrongOrder, WhatAStoreReplacesWasAddedToBeforeIt) { // the additions end after it, and so does the second
  const auto at =
      order({{0, 1, 2, store, 5}, {1, 3, 8, add, 5}, {3, 4, 9, add, 6}, {2, 5, 7, store, 100}, {4, 10, 11, load, 100}});
  EXPECT_LT(at[0], at[1]);
  EXPECT_LT(at[1], at[2]);
  EXPECT_LT(at[2], at[3]);
  EXPECT_LT(at[3], at[4]);
}

TEST_F(StrongOrder, PollsThatSawTheStoreOneByOne) {
  const auto at = order({{1, 1, 2, load, 99}, {0, 3, 7, store, 101}, {2, 4, 5, load, 99}, {1, 4, 6, load, 101}});
  EXPECT_LT(at[0], at[1]);
  EXPECT_LT(at[2], at[1]);
  EXPECT_LT(at[1], at[3]);
}

} // namespace
} // namespace deadheat::device_log
