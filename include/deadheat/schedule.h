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

// Bytes at a generic address.
struct Written {
  std::uint64_t address = 0;
  std::vector<std::uint8_t> bytes;
  friend bool operator==(const Written&, const Written&) = default;
};

// Hold: whoever reaches `held` waits there until `until` has been performed; or, in place, `until` sees memory as it
// was before `held`.
struct Hold {
  AccessName held, until;
  bool in_place = false; // `held` is a write: it is performed in its place, but `until` does not see it
  bool patient = false;  // `until` comes when it comes: nobody is run ahead of others for it
  // In place, of a `held` that reads: what `until` writes behind it (ChoiceSummary::until_wrote of a run without),
  // which it sees. The hold is kept where `until` then writes just that. Of no bytes: it sees what is there.
  Written foreseen = {};
};

// Departure from the default order: at decision number `step`, `agent` goes on instead of the default choice.
struct Switch {
  std::uint64_t step = 0;
  Agent agent;
};

// A read that returns what its bytes held before their last `age` writes. It is named by its place among the visible
// operations of its thread, from 0; that of an asynchronous copy, by its place among the copies that its thread issued.
struct OldRead {
  static constexpr std::uint64_t of_copy = std::uint64_t(1) << 62; // added to nth
  std::uint32_t operation = 0, block = 0, thread = 0, age = 0;
  std::uint64_t nth = 0;
  friend bool operator==(const OldRead&, const OldRead&) = default;
};

struct SiteName {
  std::uint32_t module = 0, site = 0;
  friend auto operator<=>(const SiteName&, const SiteName&) = default;
};

// How often a thread comes to the interesting sites.
struct ThreadCount {
  std::uint32_t operation = 0, block = 0, thread = 0;
  std::uint64_t count = 0;
};

// A thread of a launch, or all of a block's, that leaves as it begins.
struct Absent {
  static constexpr std::uint32_t every_thread = ~0u;
  std::uint32_t operation = 0, block = 0, thread = every_thread;
  friend auto operator<=>(const Absent&, const Absent&) = default;
};

struct Schedule {
  enum class Kind : std::uint8_t {
    natural = 0,
    holds = 1,
    random = 2,
    switches = 3,
    priorities = 4,
    uniform = 5 // a selectively uniform random walk over the operations at `sites`
  } kind = Kind::natural;
  // Of priorities: whose are higher.
  enum class Order : std::uint8_t {
    random = 0,
    reversed = 1, // later operations, later blocks
    permuted = 2, // blocks in an order from the seed
    stalled_warps = 3 // some warps, from the seed, only when nobody else can go on
  } order = Order::random;
  std::uint64_t seed = 0; // of random, priorities and uniform, and of old_rate
  std::uint32_t quantum = 0; // of random: mean visible operations between switches; 0: a switch at every one
  std::uint32_t depth = 0; // of priorities: change points and one more
  std::uint64_t steps = 0; // of priorities: decisions among which the change points lie
  std::vector<Hold> holds; // of holds
  std::vector<Switch> switches; // of switches
  std::vector<SiteName> sites; // of uniform: the interesting ones; else those that old_rate is about (none: all)
  std::vector<ThreadCount> counts; // of uniform
  // Of natural and holds. Wait loops read a value as soon as it is there, before anybody else goes on, and blocks that
  // take work from a queue let others have theirs. In witnesses of earlier versions they do none of that (no), or waits
  // that go on while another value changes look late (at_first).
  enum class Prompt : std::uint8_t { no = 0, at_first = 1, always = 2 } prompt = Prompt::always;
  // Of switches: they are of a run that somebody drove (replay/device/chooser.h). Before each decision whoever waits
  // for a value that has changed is woken, and a wait for cp.async leaves it to decisions to perform the copies.
  bool driven = false;
  // Of all kinds but natural and holds. What is left is a run of a smaller launch, not of the one that was recorded.
  std::vector<Absent> absent;
  // Store histories (analyzer/order/histories.h), of all kinds but holds. Reads that may return an older
  // value than the newest do so where they are listed, and where chance wants it, old_rate times in 256.
  bool weak = false;
  std::uint32_t old_rate = 0;
  std::vector<OldRead> old_reads;
};

} // namespace deadheat
