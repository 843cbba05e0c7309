// What Merge (merge.h) keeps of locations, mbarriers, clusters and the operations that have no place yet.
//
// A node is a lane of a head: head * 32 + lane. Lists and chains of nodes go through the heads' own arrays.
//
// Thread-safety: plain values.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "tracer/device_log/launch_log.h"
#include "tracer/device_log/values.h"

namespace deadheat::device_log::merging {

inline constexpr std::uint32_t none = ~0u;

struct Cell { // a location, as accesses of one kind see it
  std::uint64_t key = 0;
  std::uint32_t of_block = none; // the next one in the same block's shared memory
  std::uint64_t bits = 0;
  std::uint32_t first = none, last = none; // lanes of open heads that only read, and have begun: head * 32 + lane
  bool known = false; // bits are what it holds
  bool guessed = false; // they are what somebody read: which write left them is not known
};
struct Object { // an mbarrier
  LaunchLog::Place at;
  bool known = false; // it was initialised
  std::uint32_t expected = 0, pending = 0;
  std::int64_t bytes = 0;
  std::uint32_t phase = 0;
  std::vector<std::uint32_t> open; // heads that have steps there
};
struct Step { // what a lane does to an mbarrier
  trace::Mbarrier::What what = trace::Mbarrier::What::init;
  bool placed = false, parity = false, increments = true, state_known = false;
  unsigned lane = 0;
  std::uint32_t object = 0, count = 0;
  std::int64_t bytes = 0; // by which the phase's bytes change
  std::uint64_t asked = 0, state = 0; // by a test: parity or state; the state that was read
};
using Waiting = std::pair<std::uint32_t, std::uint32_t>; // a warp, and an item of its queue
struct Cluster {
  std::uint32_t threads = 0, phase = 0; // phase: those before it are complete
  std::vector<std::uint32_t> arrived; // threads, by phase
  std::map<std::uint32_t, std::uint32_t> gone; // threads that ended, by how often they had arrived
  std::vector<Waiting> waiting;
};
// What the strong accesses of a slot do, found once.
struct What {
  bool reads = false, writes = false, valued = false, whole = false;
  unsigned bytes = 0;
  std::uint64_t kind = 0; // what their values can be compared with: those of the same kind
  AtomicOperation operation;
};
struct Head {
  const ptx::Slot* slot = nullptr;
  const What* what = nullptr;
  LaunchLog::Warp* warp = nullptr;
  std::uint32_t number = 0, of_warp = 0, item = 0; // of the head, the warp, and the item of its queue
  std::uint64_t before = 0, after = 0; // tickets, of the device or of the ring
  std::uint64_t turn = 0; // which head of the launch it is; 0: it has ended
  std::uint32_t lanes = 0, left = 0; // that take part; that are not in the order yet
  std::uint32_t shared = 0; // lanes in shared memory
  std::uint32_t wrote = 0, known = 0; // lanes that stored; whose stored value is known
  std::uint64_t address[32], read[32], written[32], first[32], last[32];
  std::uint64_t stands[32]; // where a read may, before the write that replaced what it saw; 0: there is no such
  std::uint32_t vague = 0, at_first = 0; // lanes of which that is a guess; that stand before all writes
  std::uint32_t readers = 0, waiting = 0, leading = 0; // lanes in the cells' lists, in the table by what they come
                                                       // after, by what comes after them
  std::uint32_t future = 0; // readers that may begin after what is settled: in no list yet
  std::uint32_t walked = 0; // lanes that a walk along atomic operations has come to
  std::uint32_t cell[32], next[32], previous[32];
  std::uint32_t digest[32]; // of vectors that are stored
  std::vector<Step> steps; // of mbarriers; `left` counts those that have no place
  std::uint32_t chain_next[64], chain_previous[64]; // lane * 2: waiting; + 1: leading
};
struct Entry {
  std::uint64_t after, turn;
  std::uint32_t warp, head;
  friend bool operator<(const Entry& a, const Entry& b) {
    return std::tie(a.after, a.warp, a.turn) > std::tie(b.after, b.warp, b.turn);
  }
};

} // namespace deadheat::device_log::merging
