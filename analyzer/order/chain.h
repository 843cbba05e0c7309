// Release patterns that a read can observe: a write and the read-modify-writes after it (observation order, PTX ISA
// 8.9.2), with what each released.
//
// Invariants: contributions are in observation order; a read that observed the chain when it had n of them synchronizes
// with the first n, as far as scopes allow (8.9.4).
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/order/clock.h"
#include "deadheat/memory_model.h"

namespace deadheat::order {

// A release pattern: who made it, the scope of its first operation, what came before that.
struct Contribution {
  ThreadKey thread;
  Scope scope = Scope::none;
  ClockPointer clock;
  // A read-modify-write that also acquired: whoever acquires this one acquires all before it. (The clock leaves those
  // out, so that a counter that n blocks have passed costs n entries and not n².) Only where all before it are of gpu
  // or sys scope.
  bool with_earlier = false;
};

struct Chain {
  std::vector<Contribution> contributions;
  bool all_wide = true; // contributions of gpu and sys scope only
  bool clusters = false; // some of cluster scope
  std::uint64_t devices = 0; // that contributed, as device_bit() of each
  // Contributions [0, count) joined, for readers that are not behind: those of gpu and sys scope, and each block's.
  struct Merged {
    std::size_t count = 0, whole = 0; // whole: of those, all are in up to there, whatever reaches whom
    ClockPointer clock;
  };
  Merged wide;
  // The same where there are several devices: for readers of each (~0: of any), by gpu (0) or sys scope (1).
  std::map<std::pair<std::uint32_t, unsigned>, Merged> wide_on;
  // What came before fence.sc operations before its writes: of the first, the first two…, joined (fence_order.cpp). Of
  // those of gpu and sys scope, for readers on the writer's device; of those of sys scope, for all.
  struct Fenced {
    std::uint32_t device = 0; // everywhere: for all
    ClockPointer before;
  };
  static constexpr std::uint32_t everywhere = ~0u;
  std::vector<Fenced> fenced;
  std::unordered_map<std::uint64_t, Merged> blocks; // by block_bits
  Stamp first = 0; // stamp of the write that began it
  bool releases_nothing() const { return contributions.empty() && fenced.empty(); }
};
using ChainPointer = std::shared_ptr<Chain>;

// Devices beyond the 63rd are as one.
inline std::uint64_t device_bit(std::uint32_t device) { return std::uint64_t(1) << std::min(device, 63u); }

// Scopes that every thread of the device is in.
inline bool device_wide(Scope scope) { return scope == Scope::gpu || scope == Scope::sys; }

} // namespace deadheat::order
