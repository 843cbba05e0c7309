// A mutex that costs one atomic exchange each way where nobody waits, without a call (U. Drepper, "Futexes Are Tricky",
// Mutex2).
//
// Thread-safety: that is what it is for.
#pragma once

#include <atomic>
#include <cstdint>

namespace deadheat::cupti {

class QuickLock {
 public:
  void lock() {
    std::uint32_t was = free;
    if (state_.compare_exchange_strong(was, held, std::memory_order_acquire)) [[likely]]
      return;
    if (was != waited_for) was = state_.exchange(waited_for, std::memory_order_acquire);
    for (; was != free; was = state_.exchange(waited_for, std::memory_order_acquire)) state_.wait(waited_for);
  }
  void unlock() {
    if (state_.exchange(free, std::memory_order_release) == waited_for) [[unlikely]]
      state_.notify_one();
  }

 private:
  static constexpr std::uint32_t free = 0, held = 1, waited_for = 2;
  std::atomic<std::uint32_t> state_{free};
};

} // namespace deadheat::cupti
