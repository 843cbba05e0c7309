// Launches whose accesses are recorded and that have not ended, and how long others wait for them.
//
// Some calls keep the driver to themselves until the kernels that run have ended, or may (driver_calls.def): a kernel
// that waits for room in the buffer of accesses would wait for a reader who waits for the driver. So they come after
// such launches have ended. But what runs may wait for what the host does next, which only time tells: for a launch
// that was waited for in vain nobody waits a second time. One that was silent then counts again when it writes; one
// that wrote all the time does not, as far as calls are concerned that would be made beside it without the library
// (code that is loaded): others wait for it in any case, and so waiting costs them nothing.
//
// Thread-safety: every member locks for itself; `bytes` may be added to at any time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_set>

namespace deadheat::cupti {

class Unfinished {
 public:
  using Clock = std::chrono::steady_clock;
  using Context = const void*; // CUcontext
  static constexpr std::chrono::seconds while_loading{3}; // code, of which most is loaded early
  static constexpr std::chrono::seconds while_running{60}; // what must have ended
  static constexpr std::chrono::seconds silence{1}; // of all that are waited for: nothing will come

  class Launch {
   public:
    explicit Launch(Context context) : context_(context) {}
    std::atomic<std::uint64_t> bytes{0}; // that came from it

   private:
    friend class Unfinished;
    const Context context_;
    std::chrono::seconds in_vain_{0}; // it was waited for so long while it wrote
    std::uint64_t silent_at_ = ~std::uint64_t(0); // it had written so much when it was waited for while it was silent
  };

  std::shared_ptr<Launch> begin(Context context);
  void end(const std::shared_ptr<Launch>& launch); // nothing if it has ended
  bool none() const { return count_.load(std::memory_order_relaxed) == 0; }
  bool none(Context context) const;

  // Of one host thread, before a call in that context (null: in any), for `most` at most.
  class Wait {
   public:
    Wait(Unfinished& launches, Context context, std::chrono::seconds most, Clock::time_point now)
        : launches_(launches), context_(context), most_(most), begun_(now), heard_(now) {}
    bool over(Clock::time_point now); // asked again and again, until it is true

   private:
    Unfinished& launches_;
    const Context context_;
    const std::chrono::seconds most_;
    const Clock::time_point begun_;
    Clock::time_point heard_;
    std::uint64_t bytes_ = 0;
  };

 private:
  mutable std::mutex lock_;
  std::unordered_set<std::shared_ptr<Launch>> launches_;
  std::atomic<std::size_t> count_{0};
};

} // namespace deadheat::cupti
