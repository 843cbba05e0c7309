// Writes a trace of one log again, with every operation performed as soon as it was submitted: as a GPU's log has it,
// where the embedded device begins when the host waits.
//
//   early_operations TRACE TO
//
// What operations that overlap did stays together, and all of that in its order. Exit status: 0, or 2 where it cannot
// be done.
#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "tracer/recorder/reader.h"
#include "tracer/recorder/writer.h"

namespace {

using namespace deadheat::trace;

struct Performed { // operations that overlap
  std::set<std::uint32_t> operations;
  std::vector<Record> records;
};

template <typename... T>
bool is_any(const Record& record) {
  return (std::holds_alternative<T>(record) || ...);
}

// Of calls that the host makes, while something runs, too.
bool is_of_host(const Record& record) {
  return is_any<Operation, Allocate, Free, StreamCreate, StreamDestroy, StreamMaker, EventRecord, StreamWait, HostWait,
                HostWaitBegin, GraphLaunch, GraphEnd, Module, HostRead, HostWrite>(record);
}

int fail(const std::string& why) {
  std::fprintf(stderr, "early_operations: %s\n", why.c_str());
  return 2;
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 3) return fail("usage: early_operations TRACE TO");
  auto trace = TraceReader::open(argv[1]);
  if (!trace) return fail(trace.error().message());
  if (trace->logs().size() != 1) return fail("the trace has several logs");
  auto log = trace->open_log(0);
  if (!log) return fail(log.error().message());
  Record record;
  if (!log->next(record) || !is_any<Process>(record)) return fail("the log does not begin with its process");
  auto writer = TraceWriter::create(argv[2], std::get<Process>(record));
  if (!writer) return fail(writer.error().message());

  std::vector<Record> of_host;
  std::vector<Performed> all;
  std::set<std::uint32_t> running;
  int status = 0;
  while (log->next(record)) {
    if (const auto* end = std::get_if<ProgramEnd>(&record)) {
      status = end->status;
      continue;
    }
    const auto* begin = std::get_if<OperationBegin>(&record);
    if (begin) {
      if (running.empty()) all.emplace_back();
      running.insert(begin->operation);
      all.back().operations.insert(begin->operation);
    } else if (running.empty() || is_of_host(record)) {
      of_host.push_back(record);
      continue;
    }
    if (const auto* end = std::get_if<OperationEnd>(&record)) running.erase(end->operation);
    all.back().records.push_back(record);
  }

  std::size_t next = 0;
  const auto perform = [&](auto&& may_begin) {
    for (; next < all.size() && may_begin(all[next]); ++next)
      for (const Record& done : all[next].records) (*writer)->write(done);
  };
  std::set<std::uint32_t> submitted;
  for (const Record& call : of_host) {
    (*writer)->write(call);
    const auto* operation = std::get_if<Operation>(&call);
    if (!operation) continue;
    submitted.insert(operation->id);
    perform([&](const Performed& those) {
      return std::includes(submitted.begin(), submitted.end(), those.operations.begin(), those.operations.end());
    });
  }
  perform([](const Performed&) { return true; });
  return (*writer)->finish(status) ? 0 : 2;
}
