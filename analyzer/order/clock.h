// Clocks: what an agent has seen of the others.
//
// Every record of a trace gets a stamp, counting up in an order in which things can have happened. A clock entry
// "group g: stamp s" says that everything the threads of g did up to stamp s happens before. Groups are threads, warps
// and blocks, so that a barrier of a thousand threads is one entry. The entries of one block lie together, the widest
// group first, and an entry that a wider one covers is dropped.
//
// Clocks are immutable and shared: a join that adds nothing gives back the clock it was given.
// Thread-safety: immutable values; safe to share.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace deadheat::order {

using Stamp = std::uint64_t;

// A GPU thread, or a whole copy, set or callback: operation (22 bits), block (32 bits), thread in the block (10 bits).
// Operations are numbered densely by OperationClocks.
struct ThreadKey {
  std::uint64_t bits = 0;
  ThreadKey() = default;
  ThreadKey(std::uint32_t operation, std::uint32_t block, std::uint32_t thread)
      : bits(std::uint64_t(operation) << 42 | std::uint64_t(block) << 10 | thread) {}
  std::uint32_t operation() const { return std::uint32_t(bits >> 42); }
  std::uint32_t block() const { return std::uint32_t(bits >> 10); }
  std::uint32_t thread() const { return std::uint32_t(bits & 1023); }
  std::uint32_t warp() const { return thread() / 32; }
  std::uint64_t block_bits() const { return bits >> 10; }
  friend auto operator<=>(const ThreadKey&, const ThreadKey&) = default;
};
inline constexpr std::uint32_t largest_operation = (1u << 22) - 1;

struct ClockEntry {
  std::uint64_t block = 0;  // ThreadKey::block_bits
  std::uint32_t group = 0; // 0: the block; 1 + w: warp w; 64 + t: thread t; further ones below
  Stamp stamp = 0;
  friend bool operator==(const ClockEntry&, const ClockEntry&) = default;
};
inline constexpr std::uint32_t whole_block = 0;
inline std::uint32_t warp_group(std::uint32_t warp) { return 1 + warp; }
inline std::uint32_t thread_group(std::uint32_t thread) { return 64 + thread; }
// Copies that thread t has issued; in no program order, so that neither its warp's nor its block's entry covers them.
inline std::uint32_t async_group(std::uint32_t thread) { return 2048 + thread; }

// The same three with this added: what a fence.proxy.async since has made visible to the asynchronous proxy, of shared
// and of global memory.
inline constexpr std::uint32_t proxied_shared = 4096, proxied_global = 8192;
// Of an operation (block ~0): its threads that have this have waited for the launch before it.
inline constexpr std::uint32_t dependency_group = 12288;
// Matrix multiplications (wgmma) of the thread's warpgroup that are over, by the number of their group.
inline std::uint32_t matrix_group(std::uint32_t thread) { return 16384 + thread / 128; }
// Bulk copies that completed on the mbarrier at that offset of the block's shared memory, by stamp of completion.
inline std::uint32_t mbarrier_group(std::uint64_t offset) { return std::uint32_t(65536 + (offset / 8 & 0xffffff)); }

class Clock;
using ClockPointer = std::shared_ptr<const Clock>;  // null: nothing seen

class Clock {
 public:
  // Up to which stamp this clock has seen what `thread` did; 0: nothing.
  Stamp seen(ThreadKey thread) const;
  // The same for the asynchronous copies that `thread` issued, by the stamp of their issue.
  Stamp seen_async(ThreadKey thread) const;
  // As seen(), of what was made visible to the asynchronous proxy; `space`: proxied_shared or proxied_global.
  Stamp seen_proxied(ThreadKey thread, std::uint32_t space) const { return seen_in(thread, space); }
  // The stamp of one entry; 0: none.
  Stamp entry(std::uint64_t block, std::uint32_t group) const;
  // What every lane of the thread's warp did up to there; a lower bound that looks at the warp and the block only.
  Stamp seen_warp(ThreadKey thread) const;
  // What every thread of its block did up to there; a lower bound that looks at the block only.
  Stamp seen_block(ThreadKey thread) const;
  bool knows(std::uint64_t block) const; // anything of it?
  // How many whole blocks of `operation`, other than `except`, have been seen up to `stamp`.
  std::uint64_t blocks_seen(std::uint32_t operation, Stamp stamp, std::uint32_t except) const;
  const std::vector<ClockEntry>& entries() const { return entries_; }
  friend bool operator==(const Clock&, const Clock&) = default;

  static ClockPointer join(const ClockPointer& a, const ClockPointer& b);
  // A clock with `more` (in any order) added.
  static ClockPointer with(const ClockPointer& clock, std::vector<ClockEntry> more);

  // Entries for all that this clock has seen, as visible to the asynchronous proxy.
  std::vector<ClockEntry> proxied(std::uint32_t space) const;

 private:
  Stamp seen_in(ThreadKey thread, std::uint32_t space) const;
  std::vector<ClockEntry>::const_iterator find(std::uint64_t block) const;  // its first entry
  std::vector<ClockEntry> entries_;  // sorted by (block, group), no two of a group, none covered by its block's
};

}  // namespace deadheat::order
