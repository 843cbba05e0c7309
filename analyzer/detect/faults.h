// Synchronization errors: one entry a source line, as of races (sides.h).
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <vector>

#include "deadheat/race.h"
#include "deadheat/trace.h"

namespace deadheat::detect {

struct CountedSyncError {
  trace::SyncError error; // the first
  std::uint64_t count = 1;
};

// Of those from `from` on, which one line's instructions have with the same words but for numbers, the first stands for
// all, and says how many there are. Those that end the run, and those without a line, stay as they are.
void join_lines(std::vector<Fault>& faults, std::size_t from);

} // namespace deadheat::detect
