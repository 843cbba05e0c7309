// The program's page-locked memory, and copies of it: what changes while a host function runs.
//
// Of more than 64 MiB that is looked at which operations use that may not be complete, then what copies used last.
// Memory that the program registered may vanish at any time, and other processes may have it, too: it is read by a call
// that fails where nothing is, and left out where it is shared.
//
// Thread-safety: none; who frees memory waits on his way in for who looks at it (host_writes.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "deadheat/trace.h"

namespace deadheat::cupti {

class LockedMemory {
 public:
  static constexpr std::uint64_t most_bytes = std::uint64_t(64) << 20;
  static constexpr std::size_t most_changes = 65536;

  void allocated(std::uint64_t address, std::uint64_t bytes);
  void not_to_be_read(std::uint64_t address);
  void may_vanish(std::uint64_t address);
  void freed(std::uint64_t address);
  void all_gone() { memory_.clear(); }
  void used(std::uint64_t address, std::uint64_t when); // by a copy or set

  // Keeps what is there. `wanted`: ranges that come first. `left_out`: how much there is no room for is added to it.
  // False: there is none.
  bool keep(const std::vector<trace::Span>& wanted, std::uint64_t& left_out);
  // What differs from what was kept, but for what lies in `without`. False: too much does.
  using Changed = std::function<void(std::uint64_t address, std::vector<std::uint8_t> now)>;
  bool compare(const std::vector<trace::Span>& without, const Changed& changed) const;
  void forget(); // what was kept

 private:
  struct Memory {
    std::uint64_t bytes = 0, number = 0, used = 0; // number: which of those that were ever there
    bool unread = false, registered = false;
  };
  struct Kept {
    std::uint64_t address = 0, bytes = 0, number = 0, at = 0; // at: in bytes_
    bool registered = false;
  };
  void keep(std::uint64_t address, std::uint64_t bytes, const Memory& memory);
  std::map<std::uint64_t, Memory>::const_iterator holder(std::uint64_t address) const;

  std::map<std::uint64_t, Memory> memory_; // by address
  std::uint64_t next_ = 1;
  std::vector<Kept> kept_;
  std::vector<std::uint8_t> bytes_;
};

} // namespace deadheat::cupti
