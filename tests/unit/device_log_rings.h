// Rings of a launch that runs: what its warps reserved and published, drained in rounds as tracer/cupti/drain.cpp
// does, so that what has come can be put in order early (launch_log.h, settle).
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "tracer/device_log/launch_log.h"

namespace deadheat::device_log {

struct Ring {
  struct Reserved {
    std::vector<std::uint8_t> bytes;
    bool whole = false;
  };
  std::deque<Reserved> segments;
  std::size_t read = 0, reserved_then = 0; // reserved when the round began
  std::uint64_t ticket = 1;

  std::size_t reserve(std::uint32_t bytes) { // the segment's number
    segments.push_back({std::vector<std::uint8_t>(bytes, 0), false});
    return segments.size() - 1;
  }
  std::size_t drain(LaunchLog& log) { // what is whole; how much that is so far
    for (; read < segments.size() && segments[read].whole; ++read) log.segment(segments[read].bytes.data());
    return read;
  }
};

class Rounds {
 public:
  // A round ends, and another begins, when all that was reserved as it began has come.
  template <typename Rings> void drain(Rings& rings, LaunchLog& log, bool settle) {
    if (!awaited_) {
      log.mark(round_++);
      awaited_ = round_;
      for (Ring& ring : rings) ring.reserved_then = ring.segments.size();
    }
    bool arrived = true;
    for (Ring& ring : rings) arrived &= ring.drain(log) >= ring.reserved_then;
    if (!arrived) return;
    if (settle) log.settle(awaited_);
    awaited_ = 0;
  }

 private:
  std::uint32_t round_ = 1, awaited_ = 0; // awaited: the round for whose beginning something is still to come
};

} // namespace deadheat::device_log
