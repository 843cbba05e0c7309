// A schedule: every choice the device was free to make, as data.
//
// The embedded device is deterministic: with the same seed and the same schedule it computes the same bits. It runs
// under a default order (operations in submission order, blocks by index, warps by index, lanes by index, each until
// it must wait); a schedule lists only where the run departs from it. Agents are GPU threads, asynchronous copies and
// the operations of streams.
//
// Thread-safety: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "deadheat/race.h"

namespace deadheat {

// Who can act next: a thread of a launch, or a whole operation (launch start, copy, set, callback).
struct Agent {
  enum class Kind : std::uint8_t { operation = 0, thread = 1, async_copy = 2 } kind = Kind::operation;
  std::uint32_t operation = 0; // operation id
  std::uint32_t block = 0, thread = 0;
  std::uint32_t copy = 0;      // of async_copy: nth cp.async group of the thread
  friend auto operator<=>(const Agent&, const Agent&) = default;
};

// Hold: whoever reaches `held` waits there until `until` has been performed; or, in place, `until` sees memory as it
// was before `held`.
struct Hold {
  AccessName held, until;
  bool in_place = false; // `held` is a write: it is performed in its place, but `until` does not see it
};

// Departure from the default order: at decision number `step`, `agent` goes on instead of the default choice.
struct Switch {
  std::uint64_t step = 0;
  Agent agent;
};

struct Schedule {
  enum class Kind : std::uint8_t {
    natural = 0,
    holds = 1,
    random = 2,
    switches = 3,
    priorities = 4
  } kind = Kind::natural;
  std::uint64_t seed = 0;         // of random and priorities
  std::uint32_t quantum = 0;      // of random: mean visible operations between switches; 0: a switch at every one
  std::uint32_t depth = 0;        // of priorities: change points and one more
  std::uint64_t steps = 0;        // of priorities: decisions among which the change points lie
  std::vector<Hold> holds;        // of holds
  std::vector<Switch> switches;   // of switches
};

} // namespace deadheat
