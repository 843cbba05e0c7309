// What recorded code leaves behind between two stops of a warp: the lanes' logs of weak accesses, the strong
// operations they performed, the asynchronous copies they issued. One set serves all warps: it is empty whenever
// another warp runs.
//
// Invariants: of a lane, what it performed when it was resumed (strong) precedes its log; `events` are in program order
// and hold places in the log.
//
// Thread-safety: none; owned by a machine.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "deadheat/trace.h"
#include "replay/device/block.h"
#include "replay/engine/abi.h"

namespace deadheat::device {

struct Recorder {
  static constexpr std::size_t first_entries = 512, max_entries = std::size_t(1) << 18; // of a lane's log

  struct Event { // an asynchronous copy or commit; a free
    enum class Kind : std::uint8_t { copy, commit, free };
    std::size_t at = 0; // entries logged before it
    std::uint32_t site = 0;
    Kind kind = Kind::copy;
    std::uint32_t bytes = 0, source_bytes = 0, digest = 0;
    std::uint64_t destination = 0, source = 0; // of a free: address, bytes
  };
  struct Strong {
    std::uint32_t site = 0;
    bool done = false, wrote = false;
    std::uint32_t digest = 0;
    std::uint64_t address = 0, read = 0, written = 0, ticket = 0;
  };
  struct Lane {
    std::vector<engine::LogEntry> log;
    std::size_t used = 0;
    std::vector<Event> events;
    Strong strong;
  };

  std::array<Lane, warp_lanes> lanes;
  // Operations on mbarriers and bulk copies of the lanes that ran, in the order in which they were performed. Each was
  // the first thing that its lane did.
  std::vector<trace::Record> effects;
  // What the lanes in `performing` do when they are resumed: the visible operation at `site`.
  std::uint32_t performing = 0, site = 0;
  bool fence = false;
  std::uint32_t touched = 0; // lanes that ran since the last flush

  void perform(std::uint32_t at_site, std::uint32_t mask, std::uint8_t flags) {
    site = at_site;
    performing = mask;
    fence = flags & SiteTable::fence;
  }
  void not_performed(std::uint32_t mask) { performing &= ~mask; }
  bool accessed_weakly() const { // did lanes since the last flush?
    for (std::uint32_t m = touched; m; m &= m - 1)
      if (lanes[std::size_t(__builtin_ctz(m))].used) return true;
    return false;
  }

  void lend(engine::ThreadContext& t) {
    Lane& lane = lanes[t.lane];
    touched |= 1u << t.lane;
    if (lane.log.empty()) lane.log.resize(first_entries);
    t.log_cursor = lane.log.data() + lane.used;
    t.log_end = lane.log.data() + lane.log.size();
  }
  void take_back(engine::ThreadContext& t) {
    Lane& lane = lanes[t.lane];
    lane.used = std::size_t(t.log_cursor - lane.log.data());
  }
};

} // namespace deadheat::device
