#include "replay/device/trace_sink.h"

namespace deadheat::device {

static_assert(sizeof(engine::LogEntry) == sizeof(trace::LogEntry));
static_assert(offsetof(engine::LogEntry, site) == offsetof(trace::LogEntry, site));
static_assert(offsetof(engine::LogEntry, digest) == offsetof(trace::LogEntry, digest));

Expected<std::unique_ptr<TraceSink>> TraceSink::create(const std::string& directory, const trace::Process& process,
                                                       trace::WriterOptions options) {
  Expected<std::unique_ptr<trace::TraceWriter>> writer =
      trace::TraceWriter::create(directory, process, std::move(options));
  if (!writer) return writer.error();
  return std::unique_ptr<TraceSink>(new TraceSink(*std::move(writer)));
}

void TraceSink::record(const trace::Record& record) { writer_->write(record); }

void TraceSink::weak_accesses(const trace::Warp& warp, std::uint32_t module, const LaneLogs& logs) {
  trace::LaneLog lanes[32];
  for (unsigned lane = 0; lane < 32; ++lane) {
    lanes[lane].begin = reinterpret_cast<const trace::LogEntry*>(logs.begin[lane]);
    lanes[lane].end = reinterpret_cast<const trace::LogEntry*>(logs.end[lane]);
  }
  writer_->write_warp(warp, module, lanes);
}

trace::Bytes TraceSink::keep(const void* data, std::uint64_t size) {
  return writer_->bytes({static_cast<const std::uint8_t*>(data), size});
}

trace::BlobHash TraceSink::keep_blob(const void* data, std::uint64_t size) {
  return writer_->add_blob({static_cast<const std::uint8_t*>(data), size});
}

} // namespace deadheat::device
