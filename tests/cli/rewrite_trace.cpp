// What the damage tests need to know and to make of a log, which the bytes alone do not tell.
//
//     rewrite_trace positions LOG                  where records lie: a line "chunk position" each
//     rewrite_trace chunks LOG DIRECTORY BYTES     the same records in a trace of smaller chunks
//     rewrite_trace lie LOG DIRECTORY BYTES LIE N  the same but for the Nth record (modulo) that can tell the lie;
//                                                  prints which, nothing when no record can
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tracer/recorder/reader.h"
#include "tracer/recorder/writer.h"

namespace {

using namespace deadheat;
using namespace deadheat::trace;

constexpr std::uint32_t nowhere = 1'000'003; // an id that nothing has

// Changes a record so that it cannot be true; false when this kind of record cannot tell that lie.
using Lie = std::function<bool(Record&)>;

template <class T>
Lie of(std::function<bool(T&)> change) {
  return [change](Record& record) {
    auto* r = std::get_if<T>(&record);
    return r && change(*r);
  };
}

const std::map<std::string, Lie>& lies() {
  static const std::map<std::string, Lie> all{
      {"wait-for-nothing", of<StreamWait>([](StreamWait& r) { return r.record_operation = nowhere, true; })},
      {"host-wait-for-nothing", of<HostWait>([](HostWait& r) {
         if (r.kind != HostWait::Kind::event || !r.record_operation) return false;
         return r.record_operation = nowhere, true;
       })},
      {"node-of-nothing", of<Operation>([](Operation& r) {
         if (r.node_dependencies.empty()) return false;
         for (auto& before : r.node_dependencies) before = nowhere;
         return true;
       })},
      {"node-of-itself", of<Operation>([](Operation& r) {
         if (!r.graph_launch) return false;
         r.node_dependencies.push_back(r.id);
         return true;
       })},
      {"free-nothing", of<Free>([](Free& r) { return r.allocation = nowhere, true; })},
      {"begin-nothing", of<OperationBegin>([](OperationBegin& r) { return r.operation = nowhere, true; })},
      {"end-nothing", of<OperationEnd>([](OperationEnd& r) { return r.operation = nowhere, true; })},
      {"allocation-everywhere",
       of<Allocate>([](Allocate& r) { return r.address = 4096, r.bytes = ~0ull - 8192, true; })},
      {"allocation-over-another", of<Allocate>([](Allocate& r) { return r.bytes += std::uint64_t(1) << 32, true; })},
      {"grid-of-4-billion", of<Operation>([](Operation& r) {
         auto* launch = std::get_if<Launch>(&r.what);
         if (!launch) return false;
         launch->grid = launch->block = launch->cluster = {~0u, ~0u, ~0u};
         return true;
       })},
      {"copy-of-everything", of<Operation>([](Operation& r) {
         auto* copy = std::get_if<Copy>(&r.what);
         if (!copy) return false;
         copy->destination.width = copy->destination.height = copy->destination.depth = ~0ull >> 1;
         return true;
       })},
      {"two-of-one-id", of<Operation>([](Operation& r) { return r.id != 1 && (r.id = 1, true); })},
      {"site-of-no-module", of<Module>([](Module& r) { return r.id += nowhere, true; })},
      {"no-sites", of<Module>([](Module& r) { return r.sites.clear(), true; })},
  };
  return all;
}

int fail(const std::string& what) {
  std::fprintf(stderr, "rewrite_trace: %s\n", what.c_str());
  return 2;
}

int positions(const LogReader& log) {
  for (std::size_t chunk = 0; chunk < log.chunk_count(); ++chunk) {
    const Expected<Payload> payload = log.chunk(chunk);
    if (!payload) return fail(payload.error().message());
    Decoder decoder(*payload);
    for (;;) {
      const std::size_t at = decoder.position();
      const Decoder::Item item = decoder.next();
      if (item == Decoder::Item::end) break;
      if (item == Decoder::Item::damaged) return fail(decoder.error());
      std::printf("%zu %zu\n", chunk, at);
    }
  }
  return 0;
}

int rewrite(LogReader& log, const std::string& directory, std::size_t bytes, const Lie* lie, std::uint64_t number) {
  Record record;
  std::uint64_t able = 0;
  Process process;
  while (log.next(record)) {
    if (auto* first = std::get_if<Process>(&record)) process = *first;
    if (lie && (*lie)(record)) ++able;
  }
  if (lie && !able) return 0;
  WriterOptions options;
  options.chunk_bytes = bytes;
  auto writer = TraceWriter::create(directory, process, options);
  if (!writer) return fail(writer.error().message());
  log.rewind();
  std::uint64_t seen = 0;
  std::int32_t status = 0;
  while (log.next(record)) {
    if (std::holds_alternative<Process>(record)) continue;
    if (auto* end = std::get_if<ProgramEnd>(&record)) {
      status = end->status;
      continue;
    }
    Record changed;
    if (lie && (*lie)(changed = record) && seen++ == number % able) {
      std::printf("record %llu of %llu\n", static_cast<unsigned long long>(number % able),
                  static_cast<unsigned long long>(able));
      record = changed;
    }
    (*writer)->write(record);
  }
  if (Expected<void> done = (*writer)->finish(status); !done) return fail(done.error().message());
  return 0;
}

} // namespace

int main(int count, char** words) {
  const std::vector<std::string> arguments(words + 1, words + count);
  if (arguments.size() == 1 && arguments[0] == "lies") {
    for (const auto& [name, lie] : lies()) std::puts(name.c_str());
    return 0;
  }
  if (arguments.size() < 2) return fail("what to do, and with which log?");
  Expected<LogReader> log = LogReader::open(arguments[1]);
  if (!log) return fail(log.error().message());
  if (arguments[0] == "positions") return positions(*log);
  if (arguments[0] == "chunks" && arguments.size() == 4)
    return rewrite(*log, arguments[2], std::strtoull(arguments[3].c_str(), nullptr, 10), nullptr, 0);
  if (arguments[0] == "lie" && arguments.size() == 6) {
    const auto lie = lies().find(arguments[4]);
    if (lie == lies().end()) return fail("no such lie: " + arguments[4]);
    return rewrite(*log, arguments[2], std::strtoull(arguments[3].c_str(), nullptr, 10), &lie->second,
                   std::strtoull(arguments[5].c_str(), nullptr, 10));
  }
  return fail("what to do?");
}
