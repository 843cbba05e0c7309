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
  // Called with each changed run of bytes: host address, bytes.
  using Changed = std::function<void(std::uint64_t address, const std::uint8_t* data, std::uint64_t bytes)>;

  void add(std::uint64_t address, std::uint64_t bytes); // its present contents are known
  void remove(std::uint64_t address) { saved_.erase(address); }
  bool empty() const { return saved_.empty(); }
  // Reports what differs from the saved copies, and saves it.
  void compare(const Changed& changed);
  // [address, address + bytes) was written by whoever looks next: nothing to report.
  void forget(std::uint64_t address, std::uint64_t bytes);

 private:
  std::map<std::uint64_t, std::vector<std::uint8_t>> saved_;
};

} // namespace deadheat::device
