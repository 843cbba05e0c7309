// Operations whose call may return long after they were submitted, since it waits for them: copies without a stream,
// copies of pageable memory. They have their place in the journal from the way into the call, so that what other host
// threads do meanwhile does not count as done before; what they are is certain on the way out.
//
// Thread-safety: the way in and out on one thread, write() on the journal's.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>

#include "deadheat/host_waits.h"
#include "deadheat/trace.h"
#include "tracer/cupti/journal.h"

namespace deadheat::cupti {

class PlacedOperation final : public Awaited {
 public:
  // `patient`: it is not written before it is settled, however long that takes.
  PlacedOperation(trace::Operation operation, HostWaits waits, bool patient)
      : operation_(std::move(operation)), waits_(waits), patient_(patient) {}

  std::uint32_t operation() const { return operation_.id; }
  std::uint32_t stream() const { return operation_.stream; }
  HostWaits waits() const { return waits_; }
  // The way out: it was made, with these bytes, or it failed. False: it failed, and is in the trace all the same. Once
  // settled, it stays as it is.
  bool settle(bool made, trace::Bytes data = {});
  bool write(trace::TraceWriter& writer, bool last_chance) override;
  // Only that it was submitted, for whoever writes that it begins and ends.
  struct Written {
    bool settled = false; // else it may still be made
    const trace::Operation* operation = nullptr; // null: there is none to be written
  };
  Written write_submission(trace::TraceWriter& writer, bool last_chance);

 private:
  enum class State : std::uint8_t { underway, made, failed, written };
  std::mutex lock_; // of what follows
  State state_ = State::underway;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  trace::Operation operation_;
  const HostWaits waits_;
  const bool patient_;
};

} // namespace deadheat::cupti
