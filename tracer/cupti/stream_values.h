// Values that streams write into memory to tell each other, and wait for (CUDA driver API, "Stream Memory Operations").
//
// A wait is over when memory holds a value that satisfies it; nothing tells which write that was. It counts as having
// seen the last that does: kernels and the host may put values back in between, unseen. Where it waits for a counter
// (at_least) that was only counted up since, it may have been over with the first that satisfies it, and counts as
// having seen that one.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace deadheat::cupti {

class StreamValues {
 public:
  static constexpr std::size_t most_writes = 256; // remembered of an address: older ones are forgotten

  // CUstreamWaitValue_flags: *address - value >= 0, which ignores wraparound; *address == value;
  // (*address & value) != 0; ~(*address | value) != 0.
  enum class Until : std::uint8_t { at_least, equal, a_bit, no_bit };
  struct Write {
    std::uint64_t value = 0;
    unsigned bits = 32;
    std::uint32_t record = 0; // operation that comes behind what the write tells of; 0: it tells of nothing
  };
  void wrote(std::uint64_t address, const Write& write);
  // null: no write satisfies the wait. `bits`: 32 or 64.
  const Write* seen(std::uint64_t address, std::uint64_t value, unsigned bits, Until until) const;
  // The memory is gone; `each` is called with every address in it that was written.
  template <typename Each>
  void forget(std::uint64_t address, std::uint64_t bytes, Each&& each) {
    for (auto at = writes_.lower_bound(address); at != writes_.end() && at->first - address < bytes;
         at = writes_.erase(at)) {
      each(at->first);
    }
  }

 private:
  std::map<std::uint64_t, std::vector<Write>> writes_; // in the order in which they were submitted
};

} // namespace deadheat::cupti
