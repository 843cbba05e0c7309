// malloc and free of kernels, in the order in which the memory changed hands.
#include <gtest/gtest.h>

#include "tests/unit/device_log_segments.h"

namespace deadheat::device_log {
namespace {

enum Segment : std::uint32_t { take, give, write, leave };

// One lane a block; each call a segment of its own.
class HeapOrder : public ::testing::Test, public Output {
 protected:
  HeapOrder() {
    ptx::Slot slot;
    slot.kind = ptx::Slot::Kind::heap;
    slot.address = header + 32;
    slot.size = slot.address + lanes8;
    code.add("call.uni", SiteKind::heap, slot, 32 + 2 * lanes8).access = AccessKind::write;
    slot.size = 0;
    code.add("call.uni", SiteKind::heap, slot, 32 + lanes8).access = AccessKind::free;
    ptx::Slot store;
    store.kind = ptx::Slot::Kind::write;
    store.address = header;
    store.digest = header + lanes8;
    Site& site = code.add("st.u32", SiteKind::access, store, lanes8 + lanes4);
    site.access = AccessKind::write;
    site.ordering = Ordering::weak;
    code.add_exit();
  }
  void call(LaunchLog& log, std::uint32_t block, Segment what, std::uint64_t ticket = 0, std::uint64_t address = 0,
            std::uint64_t bytes = 0) {
    std::vector<std::uint8_t> segment(code.segments[what].bytes, 0);
    SegmentHeader head;
    head.segment = what;
    head.block = block;
    head.mask = 1;
    put(segment, 0, head);
    if (what == take || what == give) put(segment, header + 8, ticket);
    if (what != leave) put(segment, code.slot(what).address, address);
    if (what == take) put(segment, code.slot(what).size, bytes);
    log.segment(segment.data());
  }
  void access(const trace::AccessView& view) override { seen.push_back(view.warp.block); }
  void record(const trace::Record& record) override {
    if (auto* block = std::get_if<trace::HeapBlock>(&record)) {
      seen.push_back(100 + block->block);
      bytes = block->bytes;
    }
    if (auto* free = std::get_if<trace::HeapFree>(&record)) {
      seen.push_back(200 + free->block);
      EXPECT_EQ(free->site, std::uint32_t(give));
      EXPECT_EQ(free->address, 0x1000u);
    }
  }

  Segments code;
  std::vector<unsigned> seen; // block: an access; 100 more: malloc; 200 more: free
  std::uint64_t bytes = 0;
};

TEST_F(HeapOrder, FollowsTheTickets) { // block 1 gets what block 0 gives back, and its segments come first
  const Shape shape = code.shape(2, 1);
  LaunchLog log(shape, *this);
  call(log, 1, take, 9, 0x1000, 20);
  call(log, 1, write, 0, 0x1000);
  call(log, 1, leave);
  call(log, 0, take, 3, 0x1000, 64);
  call(log, 0, write, 0, 0x1000);
  call(log, 0, give, 6, 0x1000);
  call(log, 0, leave);
  log.finish();
  EXPECT_EQ(log.damaged(), 0u);
  EXPECT_EQ(seen, (std::vector<unsigned>{100, 0, 200, 101, 1}));
  EXPECT_EQ(bytes, 32u);
}

TEST_F(HeapOrder, MemoryThatWasNotGivenIsNone) {
  const Shape shape = code.shape(1, 1);
  LaunchLog log(shape, *this);
  call(log, 0, take, 1, 0, 1 << 30);
  call(log, 0, give, 2, 0);
  call(log, 0, leave);
  log.finish();
  EXPECT_EQ(log.damaged(), 0u);
  EXPECT_TRUE(seen.empty());
}

} // namespace
} // namespace deadheat::device_log
