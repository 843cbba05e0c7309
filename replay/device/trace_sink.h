// A Sink that writes a trace.
//
// Thread-safety: as Sink.
#pragma once

#include <memory>
#include <string>

#include "deadheat/expected.h"
#include "replay/device/sink.h"
#include "tracer/recorder/writer.h"

namespace deadheat::device {

class TraceSink final : public Sink {
 public:
  static Expected<std::unique_ptr<TraceSink>> create(const std::string& directory, const trace::Process& process,
                                                     trace::WriterOptions options = {});
  void record(const trace::Record& record) override;
  void weak_accesses(const trace::Warp& warp, std::uint32_t module, const LaneLogs& logs) override;
  trace::Bytes keep(const void* data, std::uint64_t size) override;
  trace::BlobHash keep_blob(const void* data, std::uint64_t size) override;

  trace::TraceWriter& writer() { return *writer_; }

 private:
  explicit TraceSink(std::unique_ptr<trace::TraceWriter> writer) : writer_(std::move(writer)) {}
  std::unique_ptr<trace::TraceWriter> writer_;
};

} // namespace deadheat::device
