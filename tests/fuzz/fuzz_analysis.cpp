// Fuzz target: the analysis, over any records. The first byte's bits: 1: look again, with three workers, for the same
// answer; 2: begin with a module, streams, memory and two launches that the records may refer to. The rest is a chunk's
// payload.
#include <cstdint>
#include <optional>
#include <string>

#include "analyzer/detect/analyze.h"
#include "analyzer/report/json.h"
#include "analyzer/report/sarif.h"
#include "analyzer/report/text.h"
#include "tests/fuzz/log_bytes.h"
#include "tracer/recorder/encoder.h"

namespace {

using namespace deadheat;

// Sites of every kind of access and ordering, and what they can belong to.
void begin(trace::Encoder& out) {
  trace::Module module;
  module.id = 1;
  for (unsigned i = 0; i < 48; ++i) {
    Site site;
    site.id = i;
    site.kind = i % 16 == 15 ? SiteKind::async_copy : SiteKind::access;
    site.access = AccessKind(i % 3);
    site.space = i % 2 ? Space::shared : Space::global;
    site.ordering = Ordering(i % 9);
    site.scope = Scope(i % 5);
    site.element_bytes = std::uint8_t(1u << i % 5);
    site.elements = std::uint8_t(1 + i % 4);
    site.opcode = site.access == AccessKind::atomic ? "atom.global.add.f32" : "ld.global.u32";
    site.in_loop = i % 7 == 0;
    site.source.push_back({"", "a.cu", i + 1, 1});
    module.sites.push_back(site);
  }
  out.record(module);
  trace::Allocate allocation;
  allocation.allocation = 1;
  allocation.address = 0x8000'0000'0000;
  allocation.bytes = 1 << 16;
  out.record(allocation);
  for (std::uint32_t number : {1u, 2u}) {
    trace::StreamCreate stream;
    stream.stream = number + 1;
    out.record(stream);
    trace::Launch launch;
    launch.module = 1;
    launch.kernel = "kernel";
    launch.grid = {4, 1, 1};
    launch.block = {64, number, 1};
    launch.cluster = {number, 1, 1};
    launch.instrumented = true;
    trace::Operation operation;
    operation.id = operation.launch = number;
    operation.stream = number + 1;
    operation.what = launch;
    out.record(operation);
    out.record(trace::OperationBegin{number});
  }
}

std::string answer(const std::string& directory, unsigned jobs) {
  detect::AnalyzeOptions options;
  options.jobs = jobs;
  options.memory_limit = std::uint64_t(64) << 20;
  const Expected<Analysis> analysis = detect::analyze(directory, options);
  if (!analysis) {
    if (analysis.error().what.empty()) __builtin_trap();
    return analysis.error().message();
  }
  if (!analysis->summary.complete && analysis->warnings.empty()) __builtin_trap();
  return report::to_json(*analysis).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  fuzz::LogBytes log;
  if (data[0] & 2) {
    static trace::Encoder* const prologue = [] {
      auto* encoder = new trace::Encoder;
      encoder->reserve(1 << 16);
      begin(*encoder);
      return encoder;
    }();
    log.chunk(prologue->payload());
  }
  log.chunk({data + 1, size - 1});
  fuzz::write_file(fuzz::directory() + "/1.log", log.bytes());
  const std::string alone = answer(fuzz::directory(), 1);
  if ((data[0] & 1) && answer(fuzz::directory(), 3) != alone) __builtin_trap();
  return 0;
}
