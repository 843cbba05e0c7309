// Clocks: what an agent has seen of the others.
//
// Every record of a trace gets a stamp, counting up in an order in which things can have happened. A clock entry
// "group g: stamp s" says that everything the threads of g did up to stamp s happens before. Groups are threads, warps
// and blocks, so that a barrier of a thousand threads is one entry. An entry that a wider one covers is dropped; where
// all 32 threads of a warp have one, the least of them is the warp's.
//
// A clock is a persistent radix tree over blocks: immutable, and its parts are shared with the clocks that it was made
// of, so that joining clocks costs what they differ in and not what they have seen. Where one has seen thousands of
// blocks and ten thousand threads take it over from each other, that is the difference between linear and quadratic
// (the aim of tree clocks, Mathur et al., ASPLOS 2022, which share nothing and need to know who made a clock). The tree
// of a given set of blocks is always the same; a join that adds nothing to a clock gives that one back, and each thread
// remembers which of the last ones did: of two clocks that each grew a little, only what grew is compared again.
//
// Thread-safety: immutable values, whose references one thread counts (counted.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <boost/container/small_vector.hpp>

#include "analyzer/order/counted.h"

namespace deadheat::order {

using Stamp = std::uint64_t;

// A GPU thread, or a whole copy, set or callback: operation (26 bits), block (28 bits), thread in the block (10 bits).
// Operations are numbered densely by OperationClocks.
struct ThreadKey {
  std::uint64_t bits = 0;
  ThreadKey() = default;
  static constexpr unsigned block_width = 28, thread_width = 10; // bits
  static constexpr std::uint32_t last_block = (1u << block_width) - 1; // which no launch that is looked at has
  ThreadKey(std::uint32_t operation, std::uint32_t block, std::uint32_t thread)
      : bits(std::uint64_t(operation) << (block_width + thread_width) |
             std::uint64_t(block & last_block) << thread_width | thread) {}
  std::uint32_t operation() const { return std::uint32_t(bits >> (block_width + thread_width)); }
  std::uint32_t block() const { return std::uint32_t(bits >> thread_width) & last_block; }
  std::uint32_t thread() const { return std::uint32_t(bits & 1023); }
  std::uint32_t warp() const { return thread() / 32; }
  std::uint64_t block_bits() const { return bits >> thread_width; }
  static ThreadKey first_of(std::uint64_t block_bits) { // thread 0
    ThreadKey key;
    key.bits = block_bits << thread_width;
    return key;
  }
  friend auto operator<=>(const ThreadKey&, const ThreadKey&) = default;
};
inline constexpr std::uint32_t largest_operation = (1u << (64 - ThreadKey::block_width - ThreadKey::thread_width)) - 1;
// Of ThreadKey::block_bits; and the first of an operation's.
inline std::uint32_t operation_of_block(std::uint64_t block) { return std::uint32_t(block >> ThreadKey::block_width); }
inline std::uint64_t first_block_of(std::uint64_t operation) { return operation << ThreadKey::block_width; }

struct ClockEntry {
  std::uint64_t block = 0; // ThreadKey::block_bits
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
// The same, and the copies, of what they did to shared memory only; of bulk copies (mbarrier_group).
inline constexpr std::uint32_t only_shared = 12288, only_shared_bulk = 1 << 25;
// The same, of what they read only; of what they read of shared memory only.
inline constexpr std::uint32_t only_reads = 28672, only_reads_bulk = 1 << 26, only_shared_reads = 32768;
// Of an operation (block ~0): its threads that have this have waited for the launch before it.
inline constexpr std::uint32_t dependency_group = 16384;
// Who has this knows as much of what such a thread knew to have been read only.
inline constexpr std::uint32_t dependency_reads = dependency_group + 1;
// Matrix multiplications (wgmma) of the thread's warpgroup that are over, by the number of their group.
constexpr std::uint32_t matrix_group(std::uint32_t thread) { return 20480 + thread / 128; }
// Of what the thread did its initializations of mbarrier objects only.
inline std::uint32_t inits_group(std::uint32_t thread) { return 24576 + thread; }
// Bulk copies that completed on the mbarrier at that offset of the block's shared memory, by stamp of completion.
inline std::uint32_t mbarrier_group(std::uint64_t offset) { return std::uint32_t(65536 + (offset / 8 & 0xffffff)); }

// Phases of the mbarrier at that offset that were seen complete by somebody who looked: how many.
constexpr std::uint32_t phase_group(std::uint64_t offset) {
  return std::uint32_t(1 << 27 | (65536 + (offset / 8 & 0xffffff)));
}

class Clock;
using ClockPointer = boost::intrusive_ptr<const Clock>; // null: nothing seen

class Clock : public Counted<Clock> {
 public:
  // Up to which stamp this clock has seen what `thread` did; 0: nothing.
  Stamp seen(ThreadKey thread) const { return seen_in(thread, 0); }
  // The same for the asynchronous copies that `thread` issued, by the stamp of their issue.
  Stamp seen_async(ThreadKey thread) const { return entry(thread.block_bits(), async_group(thread.thread())); }
  // As seen(), of what was made visible to the asynchronous proxy; `space`: proxied_shared or proxied_global.
  Stamp seen_proxied(ThreadKey thread, std::uint32_t space) const { return seen_in(thread, space); }
  // As seen(), of one of the kinds only_shared, only_reads, only_shared_reads.
  Stamp seen_only(ThreadKey thread, std::uint32_t kind) const { return seen_in(thread, kind); }
  // The stamp of one entry; 0: none.
  Stamp entry(std::uint64_t block, std::uint32_t group) const;
  // What every lane of the thread's warp did up to there; a lower bound that looks at the warp and the block only.
  // `space`: 0, or as of seen_proxied().
  Stamp seen_warp(ThreadKey thread, std::uint32_t space = 0) const;
  // What every thread of its block did up to there; a lower bound that looks at the block only.
  Stamp seen_block(ThreadKey thread) const { return entry(thread.block_bits(), whole_block); }
  bool knows(std::uint64_t block) const { return find(block) != nullptr; } // anything of it?
  // Anything that a thread of the operation did? `read`: that something was read is enough.
  bool knows_operation(std::uint32_t operation, bool read) const;
  bool within(std::uint32_t operation) const {
    return operation_of_block(first_) == operation && operation_of_block(last()) == operation;
  }
  bool of_block(std::uint64_t block) const { return !height_ && first_ == block; } // does it know of nothing else?
  // The first block from that one on of which anything has been seen.
  std::optional<std::uint64_t> next_block(std::uint64_t from) const;
  // How many whole blocks of `operation`, other than `except`, have been seen up to `stamp`.
  std::uint64_t blocks_seen(std::uint32_t operation, Stamp stamp, std::uint32_t except) const;
  friend bool operator==(const Clock&, const Clock&);

  static ClockPointer join(const ClockPointer& a, const ClockPointer& b); // `a` itself where `b` adds nothing
  static ClockPointer meet(const ClockPointer& a, const ClockPointer& b); // what both have seen
  // A clock with `more` (in any order; they are sorted) added.
  static ClockPointer with(const ClockPointer& clock, std::span<ClockEntry> more);
  static ClockPointer with(const ClockPointer& clock, std::initializer_list<ClockEntry> more) {
    boost::container::small_vector<ClockEntry, 4> list(more);
    return with(clock, {list.data(), list.size()});
  }

  // Entries for all that this clock has seen, as visible to the asynchronous proxy.
  std::vector<ClockEntry> proxied(std::uint32_t space) const;
  // What the clock has seen done to shared memory, by threads of the operation.
  static ClockPointer of_shared(const ClockPointer& clock, std::uint32_t operation);
  // What the clock has seen read.
  static ClockPointer of_reads(const ClockPointer& clock);

  // About how much memory all clocks take that the calling thread has made and not destroyed.
  static std::uint64_t bytes() { return std::uint64_t(std::max<std::int64_t>(0, parts_of_this_thread)) * part_bytes; }

 private:
  struct Part { // a node, or what a warp's threads have in a leaf
    Part() { ++parts_of_this_thread; }
    ~Part() { --parts_of_this_thread; }
    Part(const Part&) = delete;
  };
  static constexpr std::uint64_t part_bytes = 400;
  static inline thread_local std::int64_t parts_of_this_thread = 0;
  static std::uint64_t new_name();
  struct Entry { // of the one block of a leaf
    std::uint32_t group = 0;
    Stamp stamp = 0;
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  static constexpr std::uint32_t fan = 4; // log2 of the parts of a node
  // Entries of a warp's threads, of a leaf that has many of them: clocks share those of the warps in which they do not
  // differ.
  static constexpr std::size_t many_threads = 64;
  struct Lanes : Counted<Lanes> {
    std::array<Stamp, 32> stamps{}; // 0: no entry
    std::uint32_t count = 0; // of entries
    Stamp lowest = ~Stamp(0); // of them
    explicit Lanes(const std::array<Stamp, 32>& of);
    Part counted;
  };
  using Warps = std::array<boost::intrusive_ptr<const Lanes>, 32>; // null: no entries

  std::uint64_t last() const { return first_ + (std::uint64_t(1) << fan * height_) - 1; }
  std::uint64_t part_of(std::uint64_t block) const { return block >> fan * (height_ - 1); } // number of a part
  const Clock* find(std::uint64_t block) const; // the leaf; null: nothing seen of it
  Stamp at(std::uint32_t group) const; // of a leaf; 0: no entry
  Stamp seen_in(ThreadKey thread, std::uint32_t space) const;
  Stamp seen_of(std::uint32_t group) const; // of a leaf: by the group's entry, or by a wider one
  template <typename F>
  bool any_leaf(std::uint64_t from, std::uint64_t to, F&& f) const; // of blocks [from, to], in their order, up to it
  template <typename F>
  void each_leaf(std::uint64_t from, std::uint64_t to, F&& f) const;
  template <typename F>
  void each_entry(F&& f) const; // of a leaf
  template <typename F>
  static ClockPointer projected(const ClockPointer& clock, std::uint64_t from, std::uint64_t to, F&& moved);
  class Wider;
  void append(const Entry& entry, Wider& wider); // to a leaf, in order of groups, unless what is there covers it

  static ClockPointer join_leaves(const ClockPointer& a, const ClockPointer& b);
  static bool same_entries(const Clock& a, const Clock& b);
  Entry& entry_of(std::uint32_t group); // in its place; a new one has stamp 0
  void widen();
  void join_warps(const Clock& a, const Clock& b);
  void settle();
  static ClockPointer join_nodes(const ClockPointer& a, const ClockPointer& b);
  static ClockPointer join_part(const ClockPointer& whole, const ClockPointer& part);
  static ClockPointer above(const ClockPointer& a, const ClockPointer& b);

  std::uint64_t name_ = new_name(); // no other has it
  Part counted_;
  // Blocks [first, first + 16^height). A leaf (height 0) has entries of its block: no two of a group, none that another
  // covers, not those of all threads of a warp, sorted by group; those of threads, if they are more than many_threads,
  // lie in warps_. A node has at least two parts, sorted by first_, all of other sixteenths of its blocks.
  std::uint64_t first_ = 0;
  std::uint32_t height_ = 0;
  using Entries = boost::container::small_vector<Entry, 6>;
  Entries entries_;
  std::unique_ptr<Warps> warps_;
  std::vector<ClockPointer> parts_;
};

} // namespace deadheat::order
