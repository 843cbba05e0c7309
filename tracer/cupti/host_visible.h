// Where memory may lie that host and device both reach: a question that every launch asks of its arguments.
//
// Thread-safety: add() from one thread at a time, maybe() from any.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace deadheat::cupti {

class HostVisible {
 public:
  void add(std::uint64_t address, std::uint64_t bytes) {
    constexpr std::uint64_t most = 64 * words; // more would set all bits
    const std::uint64_t first = address / part, last = (address + bytes - 1) / part;
    for (std::uint64_t at = first; at <= last && at - first < most; ++at) {
      const std::uint64_t bit = place(at);
      bits_[bit / 64].fetch_or(std::uint64_t(1) << bit % 64, std::memory_order_relaxed);
    }
  }
  // False: nothing that was added lies there. What is gone is not taken out.
  bool maybe(std::uint64_t address) const {
    const std::uint64_t bit = place(address / part);
    return bits_[bit / 64].load(std::memory_order_relaxed) >> bit % 64 & 1;
  }

 private:
  // The device maps memory in pages of 2 MiB: what it has for itself shares none with the host's.
  static constexpr std::uint64_t part = std::uint64_t(1) << 21, words = 1024;
  static std::uint64_t place(std::uint64_t number) { return number * 0x9e3779b97f4a7c15u >> 48; }
  std::array<std::atomic<std::uint64_t>, words> bits_{};
};

} // namespace deadheat::cupti
