#include "replay/embedded/recording.h"

#include <algorithm>
#include <utility>

#include "replay/embedded/runtime.h"
#include "tracer/recorder/this_process.h"

namespace deadheat::embedded {

namespace {

class Within { // sets the flag for as long as it lives
 public:
  explicit Within(std::atomic<bool>& flag) : flag_(flag), before_(flag.exchange(true)) {}
  ~Within() { flag_ = before_; }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

 private:
  std::atomic<bool>& flag_;
  const bool before_;
};

} // namespace

Expected<std::unique_ptr<Recording>> Recording::create(const TracerOptions& options) {
  std::unique_ptr<Recording> made(new Recording);
  made->flushed_ = std::chrono::steady_clock::now();
  if (options.output.empty()) return made;
  trace::Process process = trace::this_process("embedded");
  process.seed = options.seed;
  trace::WriterOptions settings;
  settings.on_error = [](const Error& error) { say("recording stopped: " + error.message()); };
  Expected<std::unique_ptr<device::TraceSink>> trace =
      device::TraceSink::create(options.output, process, std::move(settings), unsigned(options.cores));
  if (!trace) return trace.error();
  made->trace_ = std::move(*trace);
  return made;
}

Recording::~Recording() = default;

void Recording::record(const trace::Record& record) {
  const Within within(writes_);
  if (const auto* operation = std::get_if<trace::Operation>(&record)) {
    ++submitted_;
    if (const auto* launch = std::get_if<trace::Launch>(&operation->what)) {
      launches_[operation->launch] = {launch->kernel, launch->grid, launch->block};
      launch_of_operation_[operation->id] = operation->launch;
      last_launch_ = std::max(last_launch_, operation->launch);
    }
  } else if (const auto* end = std::get_if<trace::OperationEnd>(&record)) {
    ++ended_;
    auto found = launch_of_operation_.find(end->operation);
    if (found != launch_of_operation_.end()) {
      launches_.erase(found->second);
      launch_of_operation_.erase(found);
    }
  } else if (std::holds_alternative<trace::HostRead>(record)) {
    told_ = true;
  }
  if (trace_) trace_->record(record);
}

void Recording::weak_accesses(const trace::Warp& warp, std::uint32_t module, const device::LaneLogs& logs) {
  const Within within(writes_);
  if (trace_) trace_->weak_accesses(warp, module, logs);
}

trace::Bytes Recording::keep(const void* data, std::uint64_t size) {
  const Within within(writes_);
  if (trace_) return trace_->keep(data, size);
  trace::Bytes bytes;
  bytes.size = size;
  return bytes;
}

trace::BlobHash Recording::keep_blob(const void* data, std::uint64_t size) {
  const Within within(writes_);
  return trace_ ? trace_->keep_blob(data, size) : trace::BlobHash{};
}

const LaunchNote* Recording::launch(std::uint32_t number) const {
  auto found = launches_.find(number);
  return found == launches_.end() ? nullptr : &found->second;
}

void Recording::note_unrepeatable() { ++unrepeatable_; }

void Recording::note_beside_function() { ++beside_functions_; }

void Recording::flush(bool failed) {
  if (!trace_) return;
  const auto now = std::chrono::steady_clock::now();
  if (!std::exchange(told_, false) && !failed && now - flushed_ < std::chrono::milliseconds(500)) return;
  const Within within(writes_);
  trace_->flush();
  flushed_ = now;
}

Expected<void> Recording::finish(std::int32_t status, bool clean) {
  if (!trace_) return {};
  if (unrepeatable_) {
    trace_->record(trace::Incident{"unrepeatable", unrepeatable_,
                                   "queued work went on by itself while the host made no CUDA call; where that changed "
                                   "memory which the host sees, the host counts as having waited for it"});
  }
  if (beside_functions_) {
    trace_->record(trace::Incident{"unrepeatable", beside_functions_,
                                   "the host went on while a host function ran, and may have told it"});
  }
  return trace_->finish(status, clean);
}

Expected<void> Recording::break_off(std::int32_t status) {
  return trace_ ? trace_->break_off(status) : Expected<void>();
}

} // namespace deadheat::embedded
