// A trace in words: one line a record, and a summary of the whole.
//
// Thread-safety: pure functions. Memory: one chunk at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "deadheat/expected.h"
#include "deadheat/trace.h"
#include "tracer/recorder/access_view.h"

namespace deadheat::trace {

class LogReader;
struct OperationTime;

// One line, without its end: "launch 3 = operation 7: softmax grid 4x1x1 block 128x1x1 …".
std::string describe(const Record& record);
std::string describe(const AccessView& access);
std::string describe(std::uint32_t module, const Site& site); // a line a site, after its module

// Calls `line` with every record of every log of the trace at `path`. What could not be read comes as lines that start
// with "warning: ".
Expected<void> describe_records(const std::string& path, const std::function<void(const std::string&)>& line);

// Calls `each` with what the log says of when operations ran on a device.
void each_time(const LogReader& log, const std::function<void(const OperationTime&)>& each);

struct TraceSummary {
  std::string path;
  std::vector<Process> processes;
  std::vector<Device> devices;
  std::uint64_t records = 0;
  std::uint64_t launches = 0, instrumented = 0, copies = 0, sets = 0, host_callbacks = 0; // operations by kind
  std::uint64_t operations = 0;        // all of them
  std::uint64_t graph_launches = 0, host_reads = 0, host_writes = 0;
  std::uint64_t windows = 0, snapshot_bytes = 0, effects = 0, effect_bytes = 0;
  std::uint64_t accesses = 0, strong_accesses = 0; // a lane each
  std::uint64_t access_records = 0;    // a warp each
  std::uint64_t modules = 0, sites = 0, allocations = 0, allocated_bytes = 0, streams = 0;
  std::uint64_t memory_errors = 0, sync_errors = 0;
  std::vector<Incident> incidents;
  std::map<std::string, std::uint64_t> kernels; // launches by mangled name
  std::map<std::string, std::uint64_t> kernel_nanoseconds; // on the device, by mangled name, where measured
  std::uint64_t timed = 0, nanoseconds = 0;     // operations that were; all their time together
  std::uint64_t log_bytes = 0, raw_bytes = 0;   // of all logs; of their chunks before compression
  std::uint64_t access_chunk_bytes = 0;         // stored bytes of the chunks that hold accesses
  bool complete = true;                         // all recordings ended cleanly and nothing is missing
  std::vector<std::string> warnings;

  // Bytes on disk for one access of one thread.
  double bytes_per_access() const { return accesses ? double(access_chunk_bytes) / double(accesses) : 0; }
};

Expected<TraceSummary> summarize(const std::string& path);
std::string to_text(const TraceSummary& summary); // several lines, each ended

} // namespace deadheat::trace
