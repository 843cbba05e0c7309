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

  // In parts, for who writes several together (beside.h).
  bool exchanges() const { return shape_.strong && shape_.blocks <= most_blocks; } // it may tell others something
  const void* tickets() const { return tickets_; } // whose tickets can be held against those of others with the same
  // Takes in what came. silent: nothing did for long, and it has not ended. `settle`: what it can be put in order of is
  // written where it is much.
  enum class Arrival { all, more, silent };
  Arrival arrive(trace::TraceWriter& writer, bool last_chance, bool settle);
  bool is_large() const; // so much came that it should be written by itself
  // Of all that has come; none of them was written in part. Those of which all came are over.
  static void finish_together(const std::vector<RecordedLaunch*>& launches, trace::TraceWriter& writer);

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
  const void* tickets_ = nullptr;
  bool complete_ = false;
  bool abandoned_ = false; // nothing more will arrive
  bool over_ = false; // what else arrives is of no use
  static constexpr std::uint32_t most_blocks = std::uint32_t(1)
                                               << 27; // of one of a few launches that are written together
  void stall(trace::TraceWriter& writer);
  void take_in(std::uint32_t round, const std::vector<std::uint8_t>& bytes);
  void end(); // all is written
  struct Writing;
  std::shared_ptr<Writing> writing_;
  std::optional<std::chrono::steady_clock::time_point> heard_; // when something came last
  unsigned looks_ = 0; // since then, in vain
  bool stalled_ = false; // written as far as it had come
  bool in_window_ = false;
  std::shared_ptr<TouchedPages> touched_; // of the window that it is in, where it is a range
};

} // namespace deadheat::cupti
