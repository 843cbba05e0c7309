// Takes the recorder's work off the thread that runs GPU threads: what is to be written is put into batches, and a
// thread of the queue's own merges, encodes, compresses and writes them, in the order in which they were put.
//
//   RecordQueue queue(writer);
//   queue.record(r); queue.weak_accesses(warp, module, logs);
//   queue.drain(); // everything put so far is the writer's
//
// Invariants: the writer sees the calls that it would see without the queue, so the log has the same bytes. At most
// `max_batches` batches exist; whoever puts more waits. The thread begins with the first full batch and blocks all
// signals: the process may be somebody else's. Where no thread can be made, batches are written by whoever puts them.
// A fork's child has no such thread, and what it shared with the parent's waits for it for ever: there drain does
// nothing, and the queue is left where it is (Leave).
//
// Thread-safety: one thread puts and drains.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "deadheat/trace.h"
#include "replay/device/sink.h"
#include "tracer/recorder/writer.h"

namespace deadheat::device {

class RecordQueue {
 public:
  static constexpr std::size_t max_batches = 8;
  static constexpr std::size_t batch_entries = std::size_t(1) << 14, batch_steps = 2048;

  struct Leave { // destroys it where its thread is
    void operator()(RecordQueue* queue) const;
  };

  explicit RecordQueue(trace::TraceWriter& writer);
  ~RecordQueue();
  RecordQueue(const RecordQueue&) = delete;
  RecordQueue& operator=(const RecordQueue&) = delete;

  void record(const trace::Record& record);
  void weak_accesses(const trace::Warp& warp, std::uint32_t module, const LaneLogs& logs);
  void drain();

 private:
  struct Step { // a record, or the log of a warp
    trace::Warp warp;
    std::uint32_t module = 0;
    std::uint32_t lanes = 0; // mask of those that logged anything; 0: the next record
  };
  struct Batch {
    std::vector<Step> steps;
    std::vector<trace::Record> records;
    std::vector<std::uint32_t> counts; // of entries, by step and lane
    std::vector<engine::LogEntry> entries;
  };

  void hand_over();
  void write(Batch& batch);
  void work();
  bool begin();

  trace::TraceWriter& writer_;
  const pid_t home_;
  std::unique_ptr<Batch> filling_; // the putting thread's
  std::thread worker_;
  bool alone_ = false; // no thread can be made

  std::mutex mutex_; // of what follows
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Batch>> full_;
  std::vector<std::unique_ptr<Batch>> empty_;
  std::size_t made_ = 1;
  bool writing_ = false, ends_ = false;
};

} // namespace deadheat::device
