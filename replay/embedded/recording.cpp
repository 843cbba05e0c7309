#include "replay/embedded/recording.h"

#include <unistd.h>

#include <fstream>
#include <iterator>

#include "replay/embedded/runtime.h"
#include "tracer/recorder/writer.h"

namespace deadheat::embedded {

namespace {

std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < bytes.size();) {
    std::size_t end = std::min(bytes.find('\0', begin), bytes.size());
    words.push_back(bytes.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

} // namespace

Expected<std::unique_ptr<Recording>> Recording::create(const TracerOptions& options) {
  std::unique_ptr<Recording> made(new Recording);
  made->flushed_ = std::chrono::steady_clock::now();
  if (options.output.empty()) return made;
  trace::Process process;
  process.host = host_name();
  process.command = command_line();
  process.device_kind = "embedded";
  process.seed = options.seed;
  trace::WriterOptions settings;
  settings.on_error = [](const Error& error) { say("recording stopped: " + error.message()); };
  Expected<std::unique_ptr<trace::TraceWriter>> writer =
      trace::TraceWriter::create(options.output, std::move(process), std::move(settings));
  if (!writer) return writer.error();
  made->writer_ = std::move(*writer);
  return made;
}

Recording::~Recording() = default;

void Recording::record(const trace::Record& record) {
  if (const auto* operation = std::get_if<trace::Operation>(&record)) {
    ++submitted_;
    if (const auto* launch = std::get_if<trace::Launch>(&operation->what)) {
      launches_[operation->launch] = {launch->kernel, launch->grid, launch->block};
      launch_of_operation_[operation->id] = operation->launch;
    }
  } else if (const auto* end = std::get_if<trace::OperationEnd>(&record)) {
    ++ended_;
    auto found = launch_of_operation_.find(end->operation);
    if (found != launch_of_operation_.end()) {
      launches_.erase(found->second);
      launch_of_operation_.erase(found);
    }
  }
  if (writer_) writer_->write(record);
}

void Recording::weak_accesses(const trace::Warp& warp, std::uint32_t module, const device::LaneLogs& logs) {
  if (!writer_) return;
  static_assert(sizeof(trace::LogEntry) == sizeof(engine::LogEntry));
  trace::LaneLog lanes[32];
  for (unsigned lane = 0; lane < 32; ++lane) {
    lanes[lane].begin = reinterpret_cast<const trace::LogEntry*>(logs.begin[lane]);
    lanes[lane].end = reinterpret_cast<const trace::LogEntry*>(logs.end[lane]);
  }
  writer_->write_warp(warp, module, lanes);
}

trace::Bytes Recording::keep(const void* data, std::uint64_t size) {
  if (writer_) return writer_->bytes({static_cast<const std::uint8_t*>(data), std::size_t(size)});
  trace::Bytes bytes;
  bytes.size = size;
  return bytes;
}

trace::BlobHash Recording::keep_blob(const void* data, std::uint64_t size) {
  if (!writer_) return {};
  return writer_->add_blob({static_cast<const std::uint8_t*>(data), std::size_t(size)});
}

const LaunchNote* Recording::launch(std::uint32_t number) const {
  auto found = launches_.find(number);
  return found == launches_.end() ? nullptr : &found->second;
}

void Recording::note_unrepeatable() { ++unrepeatable_; }

void Recording::flush_if_old() {
  if (!writer_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - flushed_ < std::chrono::milliseconds(500)) return;
  writer_->flush();
  flushed_ = now;
}

Expected<void> Recording::finish(std::int32_t status, bool clean) {
  if (!writer_) return {};
  if (unrepeatable_) {
    writer_->write(trace::Incident{"unrepeatable", unrepeatable_,
                                   "queued work went on by itself while the host made no CUDA call"});
  }
  return writer_->finish(status, clean);
}

} // namespace deadheat::embedded
