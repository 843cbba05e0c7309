#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <unordered_map>

#include "deadheat/trace_times.h"
#include "tracer/recorder/describe.h"
#include "tracer/recorder/reader.h"

namespace deadheat::trace {
namespace {

struct Count : RecordVisitor {
  explicit Count(TraceSummary& summary) : s(summary) {}
  TraceSummary& s;
  bool timed = false;
  std::unordered_map<std::uint32_t, std::string> kernel_of; // operation; of the present log, when it has times

  bool access(const AccessView& view) override {
    const unsigned lanes = unsigned(std::popcount(view.mask));
    s.records++;
    s.access_records++;
    s.accesses += lanes;
    if (view.strong) s.strong_accesses += lanes;
    return true;
  }
  bool record(Record& r) override {
    s.records++;
    std::visit(*this, r);
    return true;
  }

  void operator()(Process& r) { s.processes.push_back(std::move(r)); }
  void operator()(Device& r) { s.devices.push_back(std::move(r)); }
  void operator()(const Module& r) {
    s.modules++;
    s.sites += r.sites.size();
  }
  void operator()(const Allocate& r) {
    s.allocations++;
    s.allocated_bytes += r.bytes;
  }
  void operator()(const StreamCreate&) { s.streams++; }
  void operator()(const Operation& r) {
    s.operations++;
    if (const Launch* launch = std::get_if<Launch>(&r.what)) {
      s.launches++;
      s.instrumented += launch->instrumented;
      s.kernels[launch->kernel]++;
      if (timed) kernel_of[r.id] = launch->kernel;
    }
    s.copies += std::holds_alternative<Copy>(r.what);
    s.sets += std::holds_alternative<Set>(r.what);
    s.host_callbacks += std::holds_alternative<HostCallback>(r.what);
  }
  void operator()(const GraphLaunch& r) { s.graph_launches += r.graph != 0; }
  void operator()(const HostRead&) { s.host_reads++; }
  void operator()(const HostWrite&) { s.host_writes++; }
  void operator()(const Window& r) { s.windows += r.opens; }
  void operator()(const Snapshot& r) { s.snapshot_bytes += r.data.size; }
  void operator()(const Effects& r) {
    s.effects++;
    for (const Effects::Change& change : r.changes) s.effect_bytes += change.data.size;
  }
  void operator()(const MemoryError&) { s.memory_errors++; }
  void operator()(const SyncError&) { s.sync_errors++; }
  void operator()(Incident& r) { s.incidents.push_back(std::move(r)); }
  template <class Other> void operator()(const Other&) {}
};

std::string size_text(std::uint64_t bytes) {
  static constexpr const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = double(bytes);
  unsigned unit = 0;
  for (; value >= 1024 && unit < 4; unit++) value /= 1024;
  char text[48];
  std::snprintf(text, sizeof text, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return text;
}

} // namespace

void each_time(const LogReader& log, const std::function<void(const OperationTime&)>& each) {
  for (const ChunkInfo& info : log.other_chunks()) {
    if (info.kind != times_chunk) continue;
    Expected<Payload> payload = log.payload(info);
    if (!payload) continue;
    for (std::size_t at = 0; at + sizeof(OperationTime) <= payload->size(); at += sizeof(OperationTime)) {
      OperationTime time;
      std::memcpy(&time, payload->data() + at, sizeof time);
      if (time.end >= time.begin) each(time);
    }
  }
}

Expected<TraceSummary> summarize(const std::string& path) {
  Expected<TraceReader> trace = TraceReader::open(path);
  if (!trace) return trace.error();
  TraceSummary summary;
  summary.path = path;
  Count count(summary);
  for (std::size_t i = 0; i < trace->logs().size(); i++) {
    summary.log_bytes += trace->logs()[i].bytes;
    Expected<LogReader> log = trace->open_log(i);
    if (!log) {
      if (trace->logs().size() == 1) return log.error();
      summary.complete = false;
      summary.warnings.push_back(log.error().message());
      continue;
    }
    for (std::size_t chunk = 0; chunk < log->chunk_count(); chunk++) {
      const ChunkInfo& info = log->chunk_info(chunk);
      summary.raw_bytes += info.raw_bytes;
      if (info.accesses) summary.access_chunk_bytes += info.stored_bytes + sizeof(ChunkHeader);
    }
    const auto is_times = [](const ChunkInfo& info) { return info.kind == times_chunk; };
    count.timed = std::any_of(log->other_chunks().begin(), log->other_chunks().end(), is_times);
    log->for_each(count);
    each_time(*log, [&](const OperationTime& time) {
      summary.timed++;
      summary.nanoseconds += time.end - time.begin;
      auto kernel = count.kernel_of.find(time.operation);
      if (kernel != count.kernel_of.end()) summary.kernel_nanoseconds[kernel->second] += time.end - time.begin;
    });
    count.kernel_of.clear();
    summary.complete &= log->complete();
    summary.warnings.insert(summary.warnings.end(), log->warnings().begin(), log->warnings().end());
  }
  return summary;
}

std::string to_text(const TraceSummary& s) {
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    char head[24];
    std::snprintf(head, sizeof head, "%-14s", name);
    text += head + value + '\n';
  };
  const auto number = [](std::uint64_t n) { return std::to_string(n); };
  line("trace", s.path + (s.complete ? "" : " (incomplete)"));
  for (const Process& process : s.processes) {
    std::string command;
    for (const std::string& argument : process.command) command += ' ' + argument;
    line("process", number(process.pid) + (process.host.empty() ? "" : " on " + process.host) + ':' + command);
  }
  for (const Device& device : s.devices) line("device", device.name);
  line("launches", number(s.launches) + " (" + number(s.instrumented) + " instrumented, " +
                       number(s.launches - s.instrumented) + " opaque)");
  const auto milliseconds = [](std::uint64_t nanoseconds) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3f ms", double(nanoseconds) / 1e6);
    return std::string(text);
  };
  for (const auto& [kernel, launches] : s.kernels) {
    auto time = s.kernel_nanoseconds.find(kernel);
    line("", number(launches) + " x " + kernel +
                 (time == s.kernel_nanoseconds.end() ? "" : ", " + milliseconds(time->second) + " on the device"));
  }
  if (s.timed) line("times", number(s.timed) + " operations, " + milliseconds(s.nanoseconds) + " on the device");
  line("operations", number(s.operations) + " (" + number(s.copies) + " copies, " + number(s.sets) + " sets, " +
                         number(s.host_callbacks) + " host callbacks), " + number(s.streams) + " streams created, " +
                         number(s.graph_launches) + " graph launches");
  char each[48];
  std::snprintf(each, sizeof each, "%.2f bytes each", s.bytes_per_access());
  line("accesses", number(s.accesses) + " (" + number(s.strong_accesses) + " strong), " + each);
  line("modules", number(s.modules) + " with " + number(s.sites) + " sites");
  line("allocations", number(s.allocations) + ", " + size_text(s.allocated_bytes));
  line("host", number(s.host_reads) + " reads, " + number(s.host_writes) + " writes");
  if (s.windows) {
    line("windows", number(s.windows) + ", " + size_text(s.snapshot_bytes) + " of memory, " + number(s.effects) +
                        " opaque launches with " + size_text(s.effect_bytes) + " changed");
  }
  line("log", size_text(s.log_bytes) + " (" + size_text(s.raw_bytes) + " before compression), " + number(s.records) +
                  " records");
  if (s.memory_errors || s.sync_errors) {
    line("errors", number(s.memory_errors) + " memory, " + number(s.sync_errors) + " synchronization");
  }
  for (const Incident& incident : s.incidents) {
    line("incident", incident.kind + " x " + number(incident.count) + ": " + incident.text);
  }
  return text;
}

} // namespace deadheat::trace
