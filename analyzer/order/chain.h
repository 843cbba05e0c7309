// Release patterns that a read can observe: a write and the read-modify-writes after it (observation order, PTX ISA
// 8.9.2), with what each released.
//
// Invariants: contributions are in observation order; a read that observed the chain when it had n of them synchronizes
// with the first n, as far as scopes allow (8.9.4).
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/order/clock.h"
#include "deadheat/memory_model.h"

namespace deadheat::order {

// What is released: what a thread knew, and what it did itself. Apart, since many know the same.
struct Released : Counted<Released> {
  ClockPointer known;
  ThreadKey thread;
  // What it did itself: up to there its block, its warp, itself; 0: nothing.
  Stamp block = 0, warp = 0, now = 0;
  std::uint32_t others = 0; // lanes of its warp that knew the same, and released what they did as it did

  Released() = default;
  Released(ClockPointer clock, ThreadKey key, Stamp of_block, Stamp of_warp, Stamp own, std::uint32_t other_lanes = 0)
      : known(std::move(clock)), thread(key), block(of_block), warp(of_warp), now(own), others(other_lanes) {}
  ClockPointer clock() const;
};
using ReleasedPointer = boost::intrusive_ptr<const Released>; // null: nothing
inline ReleasedPointer only_known(ClockPointer known) {
  return make_counted<const Released>(std::move(known), ThreadKey(), 0, 0, 0);
}

// Releases that are joined when somebody asks for them.
class Gathered {
 public:
  void add(const Released& released);
  void add(const ClockPointer& known);
  void add(const ClockEntry& entry);
  const ClockPointer& clock();

 private:
  ClockPointer clock_, known_; // the latter: what was added last
  boost::container::small_vector<ClockEntry, 8> entries_; // to be added
};

// A release pattern: who made it, the scope of its first operation, what came before that.
struct Contribution {
  ThreadKey thread;
  Scope scope = Scope::none;
  ReleasedPointer released;
  // A read-modify-write that also acquired: whoever acquires this one acquires all before it. (What it released leaves
  // those out, so that a counter that n blocks have passed costs n entries and not n².) Only where all before it are of
  // gpu or sys scope.
  bool with_earlier = false;
};

// Some of a chain's contributions, joined: all of them so far for next to nothing, the first of them, for who is
// behind, for the logarithm of their number.
class Selection {
 public:
  void add(const Contribution& contribution, std::size_t place);
  // What those of them released that are among the chain's first `count`.
  ClockPointer released(const std::vector<Contribution>& chain, std::size_t count);
  // Of the chain's first `count` contributions so many come with one of these (with_earlier), whatever reaches whom.
  std::size_t whole(std::size_t count) const;
  // The chain's contributions from that one on are others now.
  void changed(std::size_t place);

 private:
  std::size_t before(std::size_t place) const; // how many
  ClockPointer clock(const std::vector<Contribution>& chain, unsigned level, std::size_t number) const;

  boost::container::small_vector<std::uint32_t, 8> places_;
  std::vector<std::uint32_t> with_earlier_; // of the chain; those of the latter are among the former
  std::size_t joined_ = 0; // so many are
  Gathered gathered_;
  // Who asked last, if he was behind.
  std::size_t asked_ = 0;
  ClockPointer answer_;
  // [l]: of 2^(l + 1) neighbours each, as far as somebody was behind.
  std::vector<std::vector<ClockPointer>> levels_;
};

// What readers of a chain acquired, for those that follow.
struct Readers {
  struct Selected {
    std::size_t looked_at = 0; // contributions
    Selection selection;
  };
  Selected wide; // those of gpu and sys scope
  // The same where there are several devices: for readers of each (~0: of any), by gpu (0) or sys scope (1).
  std::map<std::pair<std::uint32_t, unsigned>, Selected> wide_on;
  // By where they were made: of all scopes, for readers of narrower scope; of narrower ones, for readers of gpu and sys
  // scope.
  struct Places {
    struct Block {
      Selection selection;
      // What a thread of it acquired last: of so much of the chain, with that scope.
      std::size_t count = 0;
      Scope scope = Scope::none;
      ClockPointer acquired;
    };
    std::size_t looked_at = 0;
    std::unordered_map<std::uint64_t, Block> blocks; // by block_bits
    std::unordered_map<std::uint64_t, Selection> clusters; // of cluster scope or wider, by Causality::cluster_bits
  };
  Places all, narrow;
};

// Which fence.sc operations are morally strong with each other: those of cta scope and wider within a block, of cluster
// scope and wider within a cluster, of gpu and sys scope on a device, of sys scope anywhere.
enum class Reach : std::uint8_t { block, cluster, device, system };
constexpr std::size_t reaches = 4;
struct FenceGroup {
  Reach reach = Reach::system;
  std::uint64_t of = 0; // which block, cluster or device
  friend auto operator<=>(const FenceGroup&, const FenceGroup&) = default;
};

struct Chain : Counted<Chain> {
  std::vector<Contribution> contributions;
  bool all_wide = true; // contributions of gpu and sys scope only
  std::uint64_t devices = 0; // that contributed, as device_bit() of each
  std::unique_ptr<Readers> readers; // null: there were none
  // What came before a group's fence.sc operations before its writes: of the first, the first two…, joined
  // (fence_order.cpp).
  struct Fenced {
    std::size_t place = 0; // from 1, in the order in which those of all groups came
    ClockPointer before; // null: forgotten
  };
  std::map<FenceGroup, std::vector<Fenced>> fenced;
  std::size_t fenced_count = 0;
  Stamp first = 0; // stamp of the write that began it
  bool releases_nothing() const { return contributions.empty() && !fenced_count; }

  void add_fenced(const FenceGroup& group, ClockPointer before);
  // That group's last of the first `count`; null: there is none.
  const Fenced* last_fenced(const FenceGroup& group, std::size_t count) const;
};
using ChainPointer = boost::intrusive_ptr<Chain>;

// Devices beyond the 63rd are as one.
inline std::uint64_t device_bit(std::uint32_t device) { return std::uint64_t(1) << std::min(device, 63u); }

// Scopes that every thread of the device is in.
inline bool device_wide(Scope scope) { return scope == Scope::gpu || scope == Scope::sys; }

} // namespace deadheat::order
