// Which writes of a location strong reads have observed: what comes after such a read comes after the write (causality
// order's second clause, PTX ISA 8.9.5), however long ago that was.
//
// Of a thread's reads one stands for those before it of the same chain, as long as nobody else can have learned of them
// without it. Beyond a bound the oldest are forgotten, and forgotten() says so.
//
// Thread-safety: none.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>

#include "analyzer/order/clock.h"

namespace deadheat::order {

class Observations {
 public:
  static constexpr std::size_t most = 1 << 14; // of a location

  // `reader` observed, at `read`, the write made at `write` and so those of its chain before it, from `first` on.
  // `synced`: its last synchronization (Causality::last_sync). Stamps of reads increase.
  void add(ThreadKey reader, Stamp read, Stamp first, Stamp write, Stamp synced);

  // The first block (ThreadKey::block_bits) from that one on that has read.
  std::optional<std::uint64_t> next_block(std::uint64_t from) const;
  // Is there a read by the blocks [from, to], before `now`, that observed the write and is_before(reader, read)?
  template <typename IsBefore>
  bool any(std::uint64_t from, std::uint64_t to, Stamp write, Stamp now, IsBefore&& is_before) const;
  // Writes up to there may have been observed by reads that are forgotten; 0: none.
  Stamp forgotten() const { return forgotten_; }
  bool empty() const { return reads_.empty(); }

 private:
  struct Read { // an instruction's elements may observe several chains
    std::uint64_t thread = 0;
    Stamp stamp = 0, first = 0;
    friend auto operator<=>(const Read&, const Read&) = default;
  };
  void make_room();

  std::map<Read, Stamp> reads_; // it observed all of the chain from `first` on, up to this write
  Stamp forgotten_ = 0;
};

template <typename IsBefore>
bool Observations::any(std::uint64_t from, std::uint64_t to, Stamp write, Stamp now, IsBefore&& is_before) const {
  for (auto at = reads_.lower_bound({from << 10}); at != reads_.end();) {
    const std::uint64_t thread = at->first.thread;
    if (thread >> 10 > to) return false;
    // The first of the thread's reads that observed it stands for all: the others come after it.
    at = reads_.lower_bound({thread, write});
    while (at != reads_.end() && at->first.thread == thread && (write < at->first.first || at->second < write)) ++at;
    if (at == reads_.end()) return false;
    if (at->first.thread != thread) continue;
    ThreadKey reader;
    reader.bits = thread;
    if (at->first.stamp < now && is_before(reader, at->first.stamp)) return true;
    at = reads_.lower_bound({thread + 1});
  }
  return false;
}

} // namespace deadheat::order
