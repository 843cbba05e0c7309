// Products of warpgroups (wgmma.mma_async, PTX ISA 9.7.15) that have been issued and not computed: of runs in which a
// hold delays what one reads of shared memory, at most to the wait for its group.
//
// All others are computed where they are issued. A delayed one leaves marks in its warp's registers in place of sums:
// numbers that nothing else has. Right programs only move them, as accumulators of further products, until they have
// waited (9.7.15.7.1: all else is undefined). A further product that gets such marks waits for the one before, and has
// read its own operands. When a product is computed, its sums take the marks' places wherever these lie in the frames
// of the warp's threads, all of which are stopped then.
//
// Invariants: products of a warp are computed in the order of their issue. No thread of the warp runs meanwhile.
//
// Thread-safety: none; part of a machine.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "replay/device/block.h"
#include "replay/engine/warpgroup.h"

namespace deadheat::device {

struct Product {
  AsyncCopy copy; // its read: site, number, holds
  engine::WarpgroupOp op;
  std::uint32_t lead = 0; // lane whose group it belongs to, and that stands for the warp in traces
  std::uint32_t group = 0; // of wgmma.commit_group
  std::uint64_t a = 0, b = 0; // descriptors
  bool has_read = false;
  engine::WarpgroupOperands operands;
  engine::WarpgroupPart part; // of the lanes' frames; of one that waits, of `lanes`
  std::vector<engine::WarpgroupLane> lanes; // of one that waits: what they gave, with marks
  std::vector<std::array<std::uint32_t, engine::max_sum_words>> marks; // and what they got
};

struct PendingProducts { // of one warp, in the order of their issue
  std::vector<std::unique_ptr<Product>> products;
  std::uint32_t marks = 0; // made so far
};

} // namespace deadheat::device
