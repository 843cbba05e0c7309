#include "analyzer/report/json.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

#include "analyzer/report/names.h"
#include "analyzer/report/place.h"
#include "analyzer/report/suppress.h"
#include "analyzer/report/words.h"
#include "tracer/ptx/demangle.h"

namespace deadheat::report {

namespace {

using nlohmann::json;

json triple(const Dim3& at) { return json::array({at.x, at.y, at.z}); }

std::string hexadecimal(std::uint64_t address) { return fmt::format("0x{:x}", address); }

// JSON has no NaN and no infinities.
json real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

json allocation(const std::optional<Race::AllocationRef>& at) {
  if (!at) return nullptr;
  return {{"id", at->id}, {"offset", at->offset}, {"size", at->size}};
}

// The code of a side: kernel, file, line, inlined, opcode; path where lines do not tell which code it is.
json code(const RaceSide& side) {
  json out = {{"kernel", valid_utf8(ptx::demangle(side.kernel))},
              {"file", nullptr},
              {"line", nullptr},
              {"inlined", json::array()},
              {"opcode", valid_utf8(side.opcode)}};
  if (const SourceFrame* own = own_frame(side.source)) {
    out["file"] = valid_utf8(own->file);
    out["line"] = own->line;
  }
  for (const SourceFrame& frame : side.source) {
    out["inlined"].push_back({{"file", valid_utf8(frame.file)},
                              {"line", frame.line},
                              {"function", valid_utf8(ptx::demangle(frame.function))}});
  }
  if (!side.path.empty()) out["path"] = valid_utf8(side.path);
  return out;
}

// The code and who executed it: launch, block, thread.
json execution(const RaceSide& side) {
  json out = code(side);
  bool launched = !is_operation(side);
  out["launch"] = launched ? json(side.name.launch) : json();
  out["block"] = launched ? triple(side.block) : json();
  out["thread"] = launched ? triple(side.thread) : json();
  return out;
}

json access(const RaceSide& side) {
  json out = execution(side);
  out["op"] = word(side.op);
  out["operation"] = side.name.operation;
  out["stream"] = side.stream;
  if (!side.stream_maker.empty()) out["stream_maker"] = valid_utf8(side.stream_maker);
  if (!side.called_at.empty()) out["called_at"] = valid_utf8(side.called_at);
  out["nth"] = nullptr;
  if (is_operation(side)) return out;
  out["nth"] = side.name.nth;
  out["module"] = side.name.module;
  out["site"] = side.name.site;
  return out;
}

json difference(const Difference& difference) {
  return {
      {"allocation", difference.allocation},
      {"offset", difference.offset},
      {"type", valid_utf8(difference.type)},
      {"elements", difference.elements},
      {"max_abs", real(difference.max_abs)},
      {"max_relative", real(difference.max_relative)},
      {"max_ulp", difference.max_ulp},
      {"example",
       {{"offset", difference.example.offset}, {"a", real(difference.example.a)}, {"b", real(difference.example.b)}}},
      {"note", valid_utf8(difference.note)}};
}

json witness_step(const WitnessStep& step) {
  json out = {{"side", step.second ? "second" : "first"}, {"op", step.op}, {"place", valid_utf8(step.place)}};
  if (step.bytes) {
    out["address"] = hexadecimal(step.address);
    out["bytes"] = step.bytes;
    if (step.op != "write") out["read"] = hexadecimal(step.read);
    if (step.op != "read") out["written"] = hexadecimal(step.written);
    if (step.age) out["age"] = step.age;
  }
  if (step.copy) out["copy"] = true;
  if (step.parts) out["parts"] = true;
  return out;
}

json precision(const Precision& p) {
  json out = {{"verdict", word(p.rightness)},
              {"values", p.values},
              {"wrong", p.wrong},
              {"fp64_error", real(p.max_relative)},
              {"fp64_ulp", real(p.max_fp64_ulp)},
              {"max_ulp", p.max_ulp},
              {"furthest",
               {{"allocation", p.example.allocation},
                {"offset", p.example.offset},
                {"value", real(p.example.value)},
                {"fp64", real(p.example.fp64)},
                {"ulp", real(p.example.ulp)},
                {"tolerance_ulp", real(p.example.tolerance_ulp)},
                {"roundings", p.example.roundings}}}};
  out["lost_at"] = p.lost_at ? code(*p.lost_at) : json();
  return out;
}

json precision_report(const PrecisionReport& report) {
  json out = {{"schedules", report.schedules}, {"restarts", report.restarts}, {"outputs", json::array()}};
  for (const OutputPrecision& output : report.outputs) {
    json entry = precision(output.precision);
    entry["allocation"] = output.allocation;
    entry["type"] = output.type;
    out["outputs"].push_back(std::move(entry));
  }
  return out;
}

json order_dependent(const OrderDependent& entry) {
  json out = {{"site", code(entry.site)},         {"atomic", valid_utf8(entry.atomic)}, {"how", entry.how},
              {"occurrences", entry.occurrences}, {"max_ulp", entry.max_ulp},           {"schedules", entry.schedules}};
  if (entry.fp64_error) out["fp64_error"] = real(*entry.fp64_error);
  if (entry.precision) out["precision"] = precision(*entry.precision);
  return out;
}

json fault(const Fault& fault) {
  json out = execution(fault.side);
  out["kind"] = valid_utf8(fault.kind);
  out["text"] = valid_utf8(fault.text);
  out["address"] = hexadecimal(fault.address);
  out["bytes"] = fault.bytes;
  out["nearest"] = allocation(fault.nearest);
  out["occurrences"] = fault.occurrences;
  return out;
}

// The dynamic access of a witness, where it is not that of the race's side: numbers, not coordinates.
json instance_side(const AccessName& name) {
  return {{"launch", name.launch}, {"block", name.block}, {"thread", name.thread}, {"nth", name.nth}};
}

} // namespace

json to_json(const Race& race) {
  json out = {{"id", race.id},
              {"level", word(race.level)},
              {"class", word(race.race_class)},
              {"certainty", word(race.certainty)},
              {"kind", race.kind()},
              {"first", access(race.first)},
              {"second", access(race.second)},
              {"address", hexadecimal(race.address)},
              {"bytes", race.bytes},
              {"allocation", allocation(race.allocation)},
              {"occurrences", race.occurrences},
              {"same_value", race.same_value},
              {"unused_read", race.unused_read},
              {"lacks_only_proxy_fence", race.lacks_only_proxy_fence},
              {"why", valid_utf8(race.why)}};
  if (race.same_fault_as) out["same_fault_as"] = race.same_fault_as;
  if (race.suppressed) out["suppressed"] = true;
  for (const std::string& kernel : suppressed_in(race)) out["suppressed_in"].push_back(valid_utf8(kernel));
  if (race.explored) out["explored"] = race.explored;
  if (race.verdict == Verdict::none) return out;
  out["verdict"] = word(race.verdict);
  if (!race.verdict_why.empty()) out["verdict_why"] = valid_utf8(race.verdict_why);
  out["schedules"] = race.schedules;
  if (!race.witness.empty()) out["witness"] = valid_utf8(race.witness);
  if (race.verdict == Verdict::harmful && !(race.steps_a.empty() && race.steps_b.empty())) {
    json steps = {{"a", json::array()}, {"b", json::array()}, {"context_switches", race.context_switches}};
    if (race.smaller)
      steps["smaller"] = {{"blocks", race.smaller->blocks},
                          {"of_blocks", race.smaller->of_blocks},
                          {"threads", race.smaller->threads},
                          {"of_threads", race.smaller->of_threads}};
    for (const WitnessStep& step : race.steps_a) steps["a"].push_back(witness_step(step));
    for (const WitnessStep& step : race.steps_b) steps["b"].push_back(witness_step(step));
    out["interleaving"] = std::move(steps);
  }
  if (race.verdict == Verdict::harmful && race.witnessed)
    out["witnessed"] = {{"first", instance_side(race.witnessed->first)},
                        {"second", instance_side(race.witnessed->second)}};
  out["differences"] = json::array();
  for (const Difference& entry : race.differences) out["differences"].push_back(difference(entry));
  return out;
}

json to_json(const Analysis& analysis) {
  const Summary& summary = analysis.summary;
  std::uint64_t races = 0, possible = 0, strong = 0;
  for (const Race& race : analysis.races) {
    if (race.suppressed) continue;
    ++races;
    possible += race.certainty == Certainty::possible;
    strong += race.certainty == Certainty::certain && race.race_class == RaceClass::strong;
  }
  json out = {{"version", 1}};
  out["summary"] = {{"launches", summary.launches},
                    {"instrumented", summary.instrumented},
                    {"opaque", summary.opaque},
                    {"accesses", summary.accesses},
                    {"races", races},
                    {"faults", faults(analysis)},
                    {"possible", possible},
                    {"strong", strong},
                    {"order_dependent", analysis.order_dependent.size()},
                    {"assumed_edges", summary.assumed_edges},
                    {"complete", summary.complete}};
  for (const char* list : {"races", "order_dependent", "memory_errors", "sync_errors", "warnings"}) {
    out[list] = json::array();
  }
  for (const Race& race : analysis.races) out["races"].push_back(to_json(race));
  for (const OrderDependent& entry : analysis.order_dependent) {
    out["order_dependent"].push_back(order_dependent(entry));
  }
  if (analysis.precision) out["precision"] = precision_report(*analysis.precision);
  for (const Fault& entry : analysis.memory_errors) {
    json error = fault(entry);
    error["op"] = word(entry.side.op);
    out["memory_errors"].push_back(std::move(error));
  }
  for (const Fault& entry : analysis.sync_errors) out["sync_errors"].push_back(fault(entry));
  for (const std::string& line : analysis.warnings) out["warnings"].push_back(valid_utf8(line));
  return out;
}

} // namespace deadheat::report
