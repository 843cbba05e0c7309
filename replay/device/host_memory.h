// Memory that host and device share: what the host changed since the device last looked, and the other way round.
// The host's writes are found by comparison with a saved copy whenever the device starts to run, the device's when the
// host has waited for it.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace deadheat::device {

class HostMemory {
 public:
  // Called with each changed run of bytes, before it counts as known: host address, bytes.
  using Changed = std::function<void(std::uint64_t address, const std::uint8_t* data, std::uint64_t bytes)>;

  void add(std::uint64_t address, std::uint64_t bytes); // its present contents are known
  void remove(std::uint64_t address) { saved_.erase(address); }
  bool empty() const { return saved_.empty(); }
  // Reports what differs from the saved copies, and saves it.
  void compare(const Changed& changed);
  // The same for the allocation that holds `address`.
  void compare_at(std::uint64_t address, const Changed& changed);
  // [address, address + bytes) was written by whoever looks next: nothing to report.
  void forget(std::uint64_t address, std::uint64_t bytes);
  // What differs now counts as known until put_back(): then compare() reports it, but for what changed once more.
  struct Run {
    std::uint64_t address = 0;
    std::vector<std::uint8_t> known, now;
  };
  std::vector<Run> set_aside();
  void put_back(const std::vector<Run>& runs);

 private:
  std::uint8_t* saved(std::uint64_t address, std::uint64_t bytes); // null where not all of it is
  static void compare(std::uint64_t address, std::vector<std::uint8_t>& saved, const Changed& changed);

  std::map<std::uint64_t, std::vector<std::uint8_t>> saved_;
};

// Host memory that the program allocated itself and registered: it cannot move into the arena, so a place there stands
// for it, and the two are made equal whenever the device starts to run and when the host has waited. Each side's
// changes are found by comparison with what both held last; where both changed a byte, the side that looks last keeps
// its own.
//
// Thread-safety: none.
class HostMirrors {
 public:
  // `place` in the arena stands for `bytes` at `host`, and holds the same from now on. Host addresses both.
  void add(std::uint64_t place, std::uint64_t host, std::uint64_t bytes);
  void remove(std::uint64_t place) { mirrors_.erase(place); }
  void to_device();
  void to_host();

 private:
  void drop_unmapped(); // the program gave the memory back while it was registered
  struct Mirror {
    std::uint64_t host;
    std::vector<std::uint8_t> agreed; // what both held last
  };
  std::map<std::uint64_t, Mirror> mirrors_; // by place
};

} // namespace deadheat::device
