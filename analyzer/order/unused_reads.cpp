// Strong reads whose value nobody looks at.
//
// What such a read returned in this run it need not return in another in which everybody does the same: it synchronizes
// with the releases that it observed only as far as it would have in any case. Where a read that somebody looked at
// comes before it, it observes the write which that one observed, or a later one (8.10.2 and 8.10.4: coherence order
// goes with causality order): what comes before the releases that the one observed and before those that the other did.
//
// Where the thread itself has read so before, that read begins an acquire pattern which this one may end (8.8: a strong
// read on M followed by an acquire operation on M, or by a fence, in program order), whatever it returns:
// Thread::pending. Here are the reads of others, behind whom the thread comes by a barrier, say.
//
// As a write a read-modify-write has its place in the chain, whatever becomes of its result.
#include <algorithm>

#include "analyzer/order/causality.h"

namespace deadheat::order {

namespace {

constexpr std::size_t most_looked = 128; // of a location; beyond, every read counts as looked at
constexpr std::size_t most_compared = 256; // contributions; the same

} // namespace

void Causality::remember_looked_at(const StrongAccess& read, const Write& seen, LocationState& at, Stamp now) {
  if (at.looked_by_many) return;
  const Looked look{read.thread, read.bytes, read.writes,
                    now,         seen.chain, seen.contributions,
                    seen.writer, seen.scope, seen.bytes != read.bytes};
  const auto last = std::find_if(at.looked.rbegin(), at.looked.rend(), [&](const Looked& looked) {
    return looked.thread == look.thread && looked.chain == look.chain && looked.bytes == look.bytes &&
           looked.part == look.part && looked.scope == look.scope &&
           looked.writer.block_bits() == look.writer.block_bits();
  });
  if (last != at.looked.rend()) {
    if (last->count >= look.count) return;
    if (last_sync(read.thread) < last->stamp) { // nobody else knows of the earlier one
      last->stamp = now, last->count = look.count;
      return;
    }
  }
  at.looked.push_back(look);
  if (at.looked.size() <= most_looked) return;
  at.looked_by_many = true;
  at.looked = {};
}

Causality::Seen Causality::certain(const StrongAccess& read, const LocationState& at, const Seen& seen) {
  if (at.looked_by_many) return seen;
  const Restriction what = read.location.block ? Restriction::shared : Restriction::none;
  Seen same{seen.chain, 0};
  std::vector<Seen> others;
  std::size_t compared = 0;
  for (const Looked& looked : at.looked) {
    // It is no observation by this read, had it read the same (8.9.2).
    if ((looked.part && read.writes) || !mutual(looked.writer, looked.scope, read.thread, read.scope)) continue;
    if (looked.bytes != read.bytes || !ordered(looked.thread, looked.stamp, 0, read.thread, what, !looked.writes))
      continue;
    if (looked.chain == seen.chain) {
      same.count = std::max(same.count, std::min(looked.count, seen.count));
    } else {
      others.push_back({looked.chain, looked.count});
      compared += looked.count;
    }
  }
  if (others.empty() || same.count == seen.count) return same.count ? same : Seen{};
  if (compared > most_compared) return seen;
  // It may have observed these in place of what it did: what was released by both.
  const ClockPointer here = acquirable(read.thread, *seen.chain, seen.count, Scope::sys);
  const auto all_is_here = [&](const ClockPointer& there, OperationIndex operation) { // or that came after all of it
    constexpr OperationIndex none = ~OperationIndex(0);
    return Clock::join(here, there) == here || (here && begun_behind(*here, operation, none, false));
  };
  Seen both{make_counted<Chain>(), 0};
  const auto add = [&](const Seen& of) {
    for (std::size_t i = 0; i < of.count; ++i) {
      const Contribution& c = of.chain->contributions[i];
      const ClockPointer there = c.released->clock();
      if (all_is_here(there, c.thread.operation()))
        contribute(*both.chain, c.thread, c.scope, c.released);
      else if (const ClockPointer part = Clock::meet(there, here))
        contribute(*both.chain, c.thread, c.scope, only_known(part));
    }
  };
  add(same);
  for (const Seen& other : others) add(other);
  both.count = both.chain->contributions.size();
  return both.count ? both : Seen{};
}

} // namespace deadheat::order
