// The device's sink in a live process: the trace, when one is recorded, and what error lines need to know of launches.
//
// Thread-safety: none; Runtime::lock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "deadheat/expected.h"
#include "deadheat/options.h"
#include "replay/device/trace_sink.h"

namespace deadheat::embedded {

struct LaunchNote {
  std::string kernel;
  Dim3 grid, block;
};

class Recording : public device::Sink {
 public:
  // Opens a log in options.output; without one records nothing.
  static Expected<std::unique_ptr<Recording>> create(const TracerOptions& options);
  ~Recording() override;

  void record(const trace::Record& record) override;
  void weak_accesses(const trace::Warp& warp, std::uint32_t module, const device::LaneLogs& logs) override;
  trace::Bytes keep(const void* data, std::uint64_t size) override;
  trace::BlobHash keep_blob(const void* data, std::uint64_t size) override;

  const LaunchNote* launch(std::uint32_t number) const; // of a launch that has not ended
  std::uint32_t last_launch() const { return last_launch_; }             // submitted so far
  bool pending() const { return submitted_ != ended_; } // operations that have not ended
  void note_unrepeatable();                             // counts a step that wall-clock time decided
  void note_beside_function(); // counts a host function beside which the host went on, or other threads made calls
  // The host has waited, in vain if `failed`: what of kernels' results it was given, and what came before, is in
  // the file before it goes on, whatever the process then dies of; else what was recorded up to a moment ago.
  void flush(bool failed);
  bool writes() const { return writes_; } // some thread is within a call of this
  Expected<void> finish(std::int32_t status, bool clean);
  Expected<void> break_off(std::int32_t status); // beside a thread that may be recording

 private:
  Recording() = default;
  std::unique_ptr<device::TraceSink> trace_; // null: nothing is recorded
  std::map<std::uint32_t, LaunchNote> launches_;
  std::map<std::uint32_t, std::uint32_t> launch_of_operation_;
  std::atomic<bool> writes_{false};
  bool told_ = false; // since the last flush the host was given what kernels wrote
  std::chrono::steady_clock::time_point flushed_;
  std::uint32_t last_launch_ = 0;
  std::uint64_t submitted_ = 0, ended_ = 0, unrepeatable_ = 0, beside_functions_ = 0;
};

} // namespace deadheat::embedded
