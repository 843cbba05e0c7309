// One run of a host function, or of a stream's callback: from the way into the call that submits it until it is over.
//
// The driver calls it on a thread of its own, perhaps before the call that submitted it has returned: then its
// operation has no number yet, and what is to be said of it waits for that.
//
// Thread-safety: submitted() and what says that it will not run on the thread that submits it, run() on the driver's,
// in any order.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

#include "tracer/cupti/function_looks.h"
#include "tracer/cupti/journal.h"

namespace deadheat::cupti {

class FunctionRun {
 public:
  FunctionRun(Session& session, const void* code, CUcontext context);
  FunctionRun(const FunctionRun&) = delete;
  FunctionRun& operator=(const FunctionRun&) = delete;

  // Its operation is in the journal (Session::submit_function). `graph`: the launch that it is a node of; 0: none.
  // Under the session's lock.
  void submitted(std::uint32_t operation, std::uint32_t stream, std::uint32_t graph);
  void will_not_run(); // it may have been submitted all the same
  // Calls the program's function.
  template <typename Program>
  void run(Program&& program) {
    begins();
    program();
    ends();
  }

 private:
  void begins() noexcept;
  void ends() noexcept;
  void tell_begun(); // with lock_
  void tell_over(); // likewise

  Session& session_;
  const void* const code_;
  const CUcontext context_;
  std::optional<FunctionLooks::Look> look_;
  long switches_ = 0; // of the thread, by its own will
  std::chrono::steady_clock::time_point since_{};
  std::mutex lock_; // of what follows
  bool known_ = false, begun_ = false, over_ = false;
  std::uint32_t operation_ = 0, stream_ = 0;
  std::uint64_t entries_ = 0; // HostWrites::entries, when it was submitted
  std::atomic<std::uint64_t> function_{0}; // HostWrites::function_submitted's
  FunctionOver how_; // it ended
};

} // namespace deadheat::cupti
