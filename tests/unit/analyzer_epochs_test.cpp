// What the first pass lets one epoch stand for, so that no word that a race touches is left out.
#include "tests/unit/analyzer_traces.h"

namespace deadheat::test {
namespace {

using Races = std::vector<std::string>;

// Block 2 has seen what block 0 did before it read, and all that block 1 did, which read later but has not synchronized
// for longer: one epoch for both reads must be as late as the later of what the blocks did since they synchronized.
TEST(Epochs, OneForSeveralBlocksIsAsLateAsTheirLatest) {
  enum class What { word, row, broadcast, strong };
  for (const What what : {What::word, What::row, What::broadcast, What::strong}) {
    SCOPED_TRACE(int(what));
    LittleTrace trace;
    const auto write = trace.site(1, {.access = AccessKind::write});
    const auto read = trace.site(2, {});
    const auto relaxed = trace.site(3, {.ordering = Ordering::relaxed, .scope = Scope::gpu});
    const auto both = trace.site(
        4, {.access = AccessKind::atomic, .ordering = Ordering::acq_rel, .scope = Scope::gpu, .opcode = "atom.add"});
    const std::uint64_t data = memory + 8192, first_flag = memory + 128, second_flag = memory + 256;
    const auto l = trace.launch(1, {3, 1, 1});
    auto touch = [&](std::uint32_t block) {
      if (what == What::word) trace.access(l, block, 0, read, data);
      if (what == What::strong) trace.access(l, block, 0, relaxed, data);
      if (what == What::broadcast) trace.broadcast(l, block, 0, ~0u, read, data);
      if (what != What::row) return;
      trace::Access row;
      row.warp = {l, block, 0};
      row.module = 1;
      row.site = read;
      row.mask = ~0u;
      for (unsigned lane = 0; lane < 32; ++lane) row.address[lane] = data + 4 * lane;
      trace.add(row);
    };
    trace.access(l, 1, 0, read, memory);
    trace.block_barrier(l, 0);
    trace.access(l, 0, 0, both, first_flag, 0, 0, 1);
    trace.access(l, 2, 0, both, first_flag, 0, 1, 2);
    touch(0);
    touch(1);
    trace.block_barrier(l, 1);
    trace.access(l, 1, 0, both, second_flag, 0, 0, 1);
    trace.access(l, 2, 0, both, second_flag, 0, 1, 2);
    trace.block_barrier(l, 2);
    trace.access(l, 2, 0, write, data);
    EXPECT_EQ(trace.races(), Races{what == What::strong ? "1-3" : "1-2"});
  }
}

} // namespace
} // namespace deadheat::test
