#include "analyzer/report/json.h"

#include <cstdio>

#include "analyzer/report/words.h"

namespace deadheat::report {

namespace {

using nlohmann::json;

json triple(const Dim3& at) { return json::array({at.x, at.y, at.z}); }

std::string hexadecimal(std::uint64_t address) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
  return text;
}

json frame(const SourceFrame& source) {
  json out = {{"file", valid_utf8(source.file)}, {"line", source.line}};
  if (source.column) out["column"] = source.column;
  if (!source.function.empty()) out["function"] = valid_utf8(source.function);
  return out;
}

json allocation(const Race::AllocationRef& at) {
  return {{"id", at.id}, {"offset", at.offset}, {"size", at.size}};
}

json side(const RaceSide& side) {
  json out = {{"op", word(side.op)}, {"kernel", valid_utf8(side.kernel)}, {"stream", side.stream}};
  if (side.name.operation) out["operation"] = side.name.operation;
  if (!side.source.empty()) {
    const SourceFrame& innermost = side.source.front();
    out["file"] = valid_utf8(innermost.file);
    out["line"] = innermost.line;
    if (innermost.column) out["column"] = innermost.column;
    if (!innermost.function.empty()) out["function"] = valid_utf8(innermost.function);
    if (side.source.size() > 1) {
      json outer = json::array();
      for (std::size_t i = 1; i < side.source.size(); ++i) outer.push_back(frame(side.source[i]));
      out["inlined"] = std::move(outer); // where it was inlined, innermost first
    }
  }
  if (is_operation(side)) return out;
  out["launch"] = side.name.launch;
  out["block"] = triple(side.block);
  out["thread"] = triple(side.thread);
  out["module"] = side.name.module;
  out["site"] = side.name.site;
  out["nth"] = side.name.nth;
  if (!side.opcode.empty()) out["opcode"] = valid_utf8(side.opcode);
  return out;
}

json difference(const Difference& difference) {
  json out = {{"allocation", difference.allocation}, {"offset", difference.offset},
              {"type", valid_utf8(difference.type)}, {"elements", difference.elements},
              {"max_abs", difference.max_abs},       {"max_relative", difference.max_relative},
              {"max_ulp", difference.max_ulp}};
  out["example"] = {{"offset", difference.example.offset}, {"a", difference.example.a}, {"b", difference.example.b}};
  if (!difference.note.empty()) out["note"] = valid_utf8(difference.note);
  return out;
}

json order_dependent(const OrderDependent& entry) {
  json out = {{"site", side(entry.site)}, {"atomic", valid_utf8(entry.atomic)}, {"occurrences", entry.occurrences}};
  if (entry.schedules) {
    out["max_ulp"] = entry.max_ulp;
    out["schedules"] = entry.schedules;
  }
  return out;
}

json fault(const Fault& fault) {
  json out = {{"kind", fault.kind}, {"text", valid_utf8(fault.text)}, {"side", side(fault.side)}};
  if (fault.bytes) {
    out["address"] = hexadecimal(fault.address);
    out["bytes"] = fault.bytes;
  }
  if (fault.nearest) out["nearest"] = allocation(*fault.nearest);
  return out;
}

// Length of the UTF-8 sequence that `text` begins with, 0 if it begins with none (RFC 3629).
std::size_t sequence_length(std::string_view text) {
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  auto follows = [&](std::size_t count) {
    if (text.size() <= count) return false;
    for (std::size_t i = 1; i <= count; ++i) {
      if ((byte(i) & 0xC0) != 0x80) return false;
    }
    return true;
  };
  unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!follows(2) || (first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F)) return 0;
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!follows(3) || (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F)) return 0;
    return 4;
  }
  return 0;
}

} // namespace

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    std::size_t length = sequence_length(text);
    if (length) {
      out.append(text.substr(0, length));
    } else {
      out.append("\xEF\xBF\xBD");
    }
    text.remove_prefix(length ? length : 1);
  }
  return out;
}

json to_json(const Race& race) {
  json out = {{"id", race.id},
              {"level", word(race.level)},
              {"class", word(race.race_class)},
              {"certainty", word(race.certainty)},
              {"kind", race.kind()},
              {"first", side(race.first)},
              {"second", side(race.second)},
              {"address", hexadecimal(race.address)},
              {"bytes", race.bytes},
              {"occurrences", race.occurrences},
              {"same_value", race.same_value},
              {"why", valid_utf8(race.why)}};
  if (race.allocation) out["allocation"] = allocation(*race.allocation);
  if (race.suppressed) out["suppressed"] = true;
  if (race.verdict == Verdict::none) return out;
  out["verdict"] = word(race.verdict);
  if (!race.verdict_why.empty()) out["verdict_why"] = valid_utf8(race.verdict_why);
  out["schedules"] = race.schedules;
  if (!race.witness.empty()) out["witness"] = valid_utf8(race.witness);
  out["differences"] = json::array();
  for (const Difference& entry : race.differences) out["differences"].push_back(difference(entry));
  return out;
}

json to_json(const Analysis& analysis) {
  const Summary& summary = analysis.summary;
  json out = {{"version", 1}};
  out["summary"] = {{"launches", summary.launches},
                    {"instrumented", summary.instrumented},
                    {"opaque", summary.opaque},
                    {"accesses", summary.accesses},
                    {"races", summary.races},
                    {"order_dependent", summary.order_dependent},
                    {"assumed_edges", summary.assumed_edges},
                    {"complete", summary.complete}};
  for (const char* list : {"races", "order_dependent", "memory_errors", "sync_errors", "warnings"}) {
    out[list] = json::array();
  }
  for (const Race& race : analysis.races) out["races"].push_back(to_json(race));
  for (const OrderDependent& entry : analysis.order_dependent) {
    out["order_dependent"].push_back(order_dependent(entry));
  }
  for (const Fault& entry : analysis.memory_errors) out["memory_errors"].push_back(fault(entry));
  for (const Fault& entry : analysis.sync_errors) out["sync_errors"].push_back(fault(entry));
  for (const std::string& line : analysis.warnings) out["warnings"].push_back(valid_utf8(line));
  return out;
}

} // namespace deadheat::report
