#include "replay/device/trace_sink.h"

#include <sched.h>

#include <algorithm>

namespace deadheat::device {

unsigned usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 1; // more than fit into the set: rather too few
  return unsigned(std::max(1, CPU_COUNT(&cores)));
}

Expected<std::unique_ptr<TraceSink>> TraceSink::create(const std::string& directory, const trace::Process& process,
                                                       trace::WriterOptions options, unsigned cores) {
  Expected<std::unique_ptr<trace::TraceWriter>> writer =
      trace::TraceWriter::create(directory, process, std::move(options));
  if (!writer) return writer.error();
  if (cores == 0) cores = usable_cores();
  return std::unique_ptr<TraceSink>(new TraceSink(*std::move(writer), cores > 1));
}

void TraceSink::record(const trace::Record& record) {
  if (queue_)
    queue_->record(record);
  else
    writer_->write(record);
}

void TraceSink::weak_accesses(const trace::Warp& warp, std::uint32_t module, const LaneLogs& logs) {
  if (queue_) return queue_->weak_accesses(warp, module, logs);
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

void TraceSink::flush() {
  if (queue_) queue_->drain();
  writer_->flush();
}

Expected<void> TraceSink::finish(std::int32_t status, bool clean) {
  if (queue_) queue_->drain();
  return writer_->finish(status, clean);
}

Expected<void> TraceSink::break_off(std::int32_t status) { return writer_->finish(status, false); }

} // namespace deadheat::device
