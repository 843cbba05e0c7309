// A Sink that writes a trace.
//
// With more than one core, merging, encoding and writing are another thread's (record_queue.h); the trace has the same
// bytes with any number of them.
//
// Thread-safety: as Sink.
#pragma once

#include <memory>
#include <string>

#include "deadheat/expected.h"
#include "replay/device/record_queue.h"
#include "replay/device/sink.h"
#include "tracer/recorder/writer.h"

namespace deadheat::device {

// Cores that this process may run on.
unsigned usable_cores();

class TraceSink final : public Sink {
 public:
  // `cores`: that may be used; 0: all that there are.
  static Expected<std::unique_ptr<TraceSink>> create(const std::string& directory, const trace::Process& process,
                                                     trace::WriterOptions options = {}, unsigned cores = 0);
  void record(const trace::Record& record) override;
  void weak_accesses(const trace::Warp& warp, std::uint32_t module, const LaneLogs& logs) override;
  trace::Bytes keep(const void* data, std::uint64_t size) override;
  trace::BlobHash keep_blob(const void* data, std::uint64_t size) override;

  // What was recorded so far is written out, as a chunk of its own.
  void flush();
  // Ends the trace (TraceWriter::finish).
  Expected<void> finish(std::int32_t status, bool clean = true);
  // Ends it beside a thread that may be recording: what was not handed to the writer yet is lost.
  Expected<void> break_off(std::int32_t status);

 private:
  TraceSink(std::unique_ptr<trace::TraceWriter> writer, bool own_thread) : writer_(std::move(writer)) {
    if (own_thread) queue_.reset(new RecordQueue(*writer_));
  }
  std::unique_ptr<trace::TraceWriter> writer_;
  std::unique_ptr<RecordQueue, RecordQueue::Leave> queue_; // goes before the writer
};

} // namespace deadheat::device
