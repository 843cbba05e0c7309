// Which strong reads are those of wait loops: their value decides when other work may begin, which is synchronization,
// not a race.
//
// Where the code tells (Site::polls), that holds. Elsewhere a volatile read in a loop waits when each thread reads one
// address all the time; one that walks through memory is a loop over data. A relaxed read in a loop was written for it.
//
// Thread-safety: none while adding; const members may be called at once.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include "analyzer/detect/sides.h"
#include "analyzer/order/clock.h"

namespace deadheat::detect {

class WaitLoops {
 public:
  // A strong read by `place`, which may poll; `memory` as elsewhere (partition.h). may_walk: volatile, not known to
  // poll. `element`: the address of the one of the vector at `address`.
  void read(PlaceId place, bool may_walk, order::ThreadKey thread, std::uint64_t memory, std::uint64_t address,
            std::uint64_t element) {
    Loop& loop = loops_[place];
    if (loop.walks) return;
    if (loop.polled.size() < most_polled) loop.polled.insert(word(memory, element));
    if (!may_walk) return;
    auto [at, first] = loop.address.try_emplace(thread.bits, address);
    if (first || at->second == address) return;
    loop = {};
    loop.walks = true;
  }
  // Walks the place through memory?
  bool walks(PlaceId place) const {
    auto found = loops_.find(place);
    return found != loops_.end() && found->second.walks;
  }
  bool executed(PlaceId place) const { return loops_.count(place) != 0; }
  // Does a wait loop read the word?
  bool polled(std::uint64_t memory, std::uint64_t address) const {
    for (const auto& [place, loop] : loops_) {
      if (loop.polled.count(word(memory, address))) return true;
    }
    return false;
  }

 private:
  static constexpr std::size_t most_polled = 1 << 20; // of a place
  // Of shared memory: in whichever block of the launch.
  static std::uint64_t word(std::uint64_t memory, std::uint64_t address) {
    return address / 4 ^ (memory ? std::uint64_t(order::operation_of_block(memory - 1)) + 1 : 0) << 42;
  }
  struct Loop {
    bool walks = false;
    std::unordered_map<std::uint64_t, std::uint64_t> address; // thread → what it reads
    std::unordered_set<std::uint64_t> polled; // words
  };
  std::unordered_map<PlaceId, Loop> loops_;
};

} // namespace deadheat::detect
