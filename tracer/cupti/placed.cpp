#include "tracer/cupti/placed.h"

namespace deadheat::cupti {

namespace {

// It keeps what comes behind it from being written. A call that takes so long waits for the device, and has submitted
// what it waits for.
constexpr std::chrono::seconds patience(1);

} // namespace

bool PlacedOperation::settle(bool made, trace::Bytes data) {
  std::lock_guard hold(lock_);
  if (state_ == State::written) return made;
  if (state_ != State::underway) return true;
  state_ = made ? State::made : State::failed;
  if (auto* copy = std::get_if<trace::Copy>(&operation_.what)) copy->data = std::move(data);
  return true;
}

bool PlacedOperation::write(trace::TraceWriter& writer, bool last_chance) {
  std::lock_guard hold(lock_);
  if (state_ == State::underway) {
    if (!last_chance && (patient_ || std::chrono::steady_clock::now() - since_ < patience)) return false;
    if (patient_) return true; // what it brings is not known
  }
  if (state_ == State::failed) return true;
  using Kind = trace::HostWait::Kind;
  const std::uint32_t thread = operation_.host_thread;
  if (waits_ == HostWaits::until_done) writer.write(trace::HostWaitBegin{Kind::operation, operation_.id, thread});
  if (waits_ == HostWaits::until_begun) writer.write(trace::HostWaitBegin{Kind::stream, operation_.stream, thread});
  writer.write(operation_);
  writer.write(trace::OperationBegin{operation_.id});
  writer.write(trace::OperationEnd{operation_.id});
  state_ = State::written;
  return true;
}

} // namespace deadheat::cupti
