// Where the memory of a recorded run lies on a GPU.
//
// All recorded device memory is one allocation here, and all memory shared with the host another: the places of
// allocations relative to each other stay as they were, reused addresses included. Module variables lie where the
// driver put them. Addresses in arguments and in memory that the host wrote are found by their values: the embedded
// device's addresses (deadheat/address.h) are numbers that nothing else reaches by accident.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <vector>

#include "deadheat/expected.h"
#include "deadheat/trace.h"

namespace deadheat::hardware {

class AddressMap {
 public:
  // ---- first all allocations of the run, and the sizes that they need here
  void add(const trace::Allocate& record);
  std::uint64_t device_bytes() const { return device_.high - device_.low; }
  std::uint64_t host_bytes() const { return host_.high - host_.low; }

  // ---- then where these are
  void place_device(std::uint64_t at) { device_.at = at; }
  void place_host(std::uint64_t at) { host_.at = at; }
  // Memory that is freed in the middle of a run has a place of its own; 0: it has none any more.
  void place_freed(std::uint64_t recorded, std::uint64_t bytes, std::uint64_t at);
  void place_symbol(std::uint64_t recorded, std::uint64_t bytes, std::uint64_t at);

  // 0: not an address of the recorded run.
  std::uint64_t here(std::uint64_t recorded) const;
  std::uint64_t recorded(std::uint64_t here) const;
  bool in_host_memory(std::uint64_t recorded) const { return host_.holds(recorded); }
  // Exchanges addresses among the words of 8 bytes at multiples of 8.
  void to_here(std::uint8_t* data, std::uint64_t bytes) const;
  void to_recorded(std::uint8_t* data, std::uint64_t bytes) const;

  static bool is_symbol(const trace::Allocate& record);

 private:
  struct Range { // recorded [low, high), here from `at` on
    std::uint64_t low = 0, high = 0, at = 0;
    bool holds(std::uint64_t address) const { return address >= low && address < high; }
    void include(std::uint64_t address, std::uint64_t bytes);
  };
  Range device_, host_, freed_;
  std::vector<Range> symbols_;
};

} // namespace deadheat::hardware
