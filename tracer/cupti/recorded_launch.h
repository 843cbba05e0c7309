// One launch whose accesses arrive, and how they are written.
//
// Thread-safety: the recorder adds what arrives; the journal has it written, from one thread at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "tracer/cupti/journal.h"
#include "tracer/cupti/unfinished.h"
#include "tracer/device_log/launch_log.h"

namespace deadheat::cupti {

class Session;
class TouchedPages;

class RecordedLaunch final : public Awaited {
 public:
  RecordedLaunch(Session& session, const device_log::Shape& shape);
  bool write(trace::TraceWriter& writer, bool last_chance) override;

 private:
  friend class Recorder;
  friend class ConditionRun;
  Session& session_;
  device_log::Shape shape_;
  struct Arrived { // whole segments, of one round
    std::uint32_t round = 0;
    std::vector<std::uint8_t> bytes;
  };
  std::mutex lock_;
  std::deque<Arrived> arrived_;
  std::shared_ptr<const std::atomic<std::uint32_t>> whole_; // all that was reserved before this round has arrived
  std::shared_ptr<Unfinished::Launch> unfinished_; // null: nothing will come
  std::uint64_t exited_ = 0; // threads
  std::vector<std::uint64_t> exited_in_; // of a graph's node: the same by ring
  bool complete_ = false;
  bool abandoned_ = false; // nothing more will arrive
  bool over_ = false; // it is written: what arrives is of no use
  void stall(trace::TraceWriter& writer);
  struct Writing;
  std::shared_ptr<Writing> writing_;
  std::optional<std::chrono::steady_clock::time_point> heard_; // when something came last
  unsigned looks_ = 0; // since then, in vain
  bool stalled_ = false; // written as far as it had come
  bool in_window_ = false;
  std::shared_ptr<TouchedPages> touched_; // of the window that it is in, where it is a range
};

} // namespace deadheat::cupti
