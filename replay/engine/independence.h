// Whether groups of blocks are independent, decided from what probes of their blocks say (footprint.h).
//
// First in plain addresses: each block's ranges, joined to a set of intervals a group. Where these sets meet, because
// the groups' elements interleave (grid-stride loops, tiles of a matrix cut along its rows), in residues: memory is
// rolled up around a circle of M bytes, and a second probe says which arc of the circle each block touches. Bytes whose
// places on the circle differ are different bytes, whatever M is: M needs no proof, it is guessed from the accesses of
// one block (interleaving_steps).
//
// Everything is a superset of what is touched: what this calls independent is.
//
// Thread-safety: none but as said at BlockProber::each.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "replay/engine/footprint.h"

namespace deadheat::engine {

// Bytes [low, end) that a group touches.
struct Touched {
  std::uint64_t low = 0, end = 0;
  std::uint32_t group = 0;
  RegionRange::Kind kind = RegionRange::Kind::read;
  std::uint8_t operation = 0; // of combined
};
// Whether no group changes what another touches, and nobody changes what steers. Any order; sorts.
bool apart(std::vector<Touched>& touched);

// A growing set of byte ranges, exact while it has few intervals, else their hull.
class ByteSet {
 public:
  using Interval = std::pair<std::uint64_t, std::uint64_t>; // [low, end)
  void add(std::uint64_t low, std::uint64_t end);
  const std::vector<Interval>& intervals() const { return intervals_; }

 private:
  void compact();
  std::vector<Interval> intervals_;
};

// The distances, least first, at which what a block touches repeats: between its elements, between rows of those, and
// so on. Empty where it touches one stretch of memory.
std::vector<std::uint64_t> interleaving_steps(std::vector<ByteSet::Interval> touched);

// Who can run probes.
class BlockProber {
 public:
  virtual ~BlockProber() = default;
  // For the blocks of every group, or for one block of each: calls the probe, then take(group, numbers). Groups may be
  // asked for at the same time on several host threads, the blocks of one group one after another.
  virtual void each(RegionProbe probe, const ProbeFold* folds, bool one_of_each,
                    const std::function<void(std::size_t group, const std::int64_t* numbers)>& take) = 0;
  // The accesses of one block of a group.
  virtual void list(RegionProbe probe, std::size_t group, ProbeList& list) = 0;
};

// What a launch's groups may touch. `legal`: of [low, end); `shared_bytes`: of a block's shared memory.
struct TouchableMemory {
  std::uint32_t shared_bytes = 0;
  std::function<bool(std::uint64_t low, std::uint64_t end)> legal;
};

struct Independence {
  enum class By : std::uint8_t { none, ranges, residues } by = By::none; // none: they may depend on each other
  std::vector<ByteSet::Interval> touched; // of global memory, at least what all groups touch
};
// Whether the groups are independent, and all that they touch of global memory is legal device memory; and by which
// argument. The same for every launch of the same grid and arguments, while the same memory is legal, if
// FootprintCode::lasting.
Independence independence(const FootprintCode& code, std::size_t groups, const TouchableMemory& memory,
                          BlockProber& prober);

} // namespace deadheat::engine
