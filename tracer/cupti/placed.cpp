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

PlacedOperation::Written PlacedOperation::write_submission(trace::TraceWriter& writer, bool last_chance) {
  std::lock_guard hold(lock_);
  if (state_ == State::underway) {
    if (!last_chance && (patient_ || std::chrono::steady_clock::now() - since_ < patience)) return {};
    if (patient_) return {true, nullptr}; // what it brings is not known
  }
  if (state_ == State::failed) return {true, nullptr};
  using Kind = trace::HostWait::Kind;
  const std::uint32_t thread = operation_.host_thread;
  if (waits_ == HostWaits::until_done) writer.write(trace::HostWaitBegin{Kind::operation, operation_.id, thread});
  if (waits_ == HostWaits::until_begun) writer.write(trace::HostWaitBegin{Kind::stream, operation_.stream, thread});
  writer.write(operation_);
  state_ = State::written;
  return {true, &operation_};
}

bool PlacedOperation::write(trace::TraceWriter& writer, bool last_chance) {
  const Written written = write_submission(writer, last_chance);
  if (!written.operation) return written.settled;
  writer.write(trace::OperationBegin{written.operation->id});
  writer.write(trace::OperationEnd{written.operation->id});
  return true;
}

} // namespace deadheat::cupti
