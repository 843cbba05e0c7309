#include "analyzer/report/sarif.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "analyzer/report/names.h"
#include "analyzer/report/place.h"
#include "analyzer/report/words.h"
#include "tracer/ptx/demangle.h"

namespace deadheat::report {

namespace {

using nlohmann::json;

// The rules (SARIF 2.1.0, 3.49), in the order of `Rule`.
enum class Rule : std::uint8_t { shared, global, stream, order_dependent, memory_error, sync_error };
struct RuleText {
  const char* id;
  const char* name;
  const char* text;
};
constexpr RuleText rules[] = {
    {"race/shared", "SharedMemoryRace", "Two accesses to shared memory conflict and nothing orders them."},
    {"race/global", "GlobalMemoryRace",
     "Two accesses of one launch to global memory conflict and nothing orders them."},
    {"race/stream", "StreamRace", "Two operations touch the same bytes and nothing orders them."},
    {"order-dependent", "OrderDependentAtomic", "The result of floating-point atomics depends on their order."},
    {"memory-error", "MemoryError", "An access outside what it may touch."},
    {"sync-error", "SynchronizationError", "Synchronization that is used wrongly."},
};

// A path as a URI reference (RFC 3986): bytes outside the unreserved set and '/' are percent-encoded.
std::string uri(const std::string& file) {
  std::string out = file.starts_with('/') ? "file://" : "";
  for (unsigned char c : file) {
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                 std::string_view("-._~/").find(char(c)) != std::string_view::npos;
    out += plain ? std::string(1, char(c)) : fmt::format("%{:02X}", c);
  }
  return out;
}

std::string kernel_of(const RaceSide& side) { return valid_utf8(ptx::demangle(side.kernel)); }

json message(const std::string& text) { return {{"text", valid_utf8(text)}}; }

json location(const RaceSide& side, const char* text = nullptr, int id = 0) {
  json out = json::object();
  if (const SourceFrame* own = own_frame(side.source)) {
    json physical = {{"artifactLocation", {{"uri", uri(own->file)}}}};
    if (own->line) physical["region"] = {{"startLine", own->line}};
    out["physicalLocation"] = std::move(physical);
  }
  if (!side.kernel.empty()) {
    out["logicalLocations"] =
        json::array({{{"fullyQualifiedName", kernel_of(side)}, {"kind", is_operation(side) ? "member" : "function"}}});
  }
  if (text) out["message"] = message(text);
  if (id) out["id"] = id;
  return out;
}

std::string where(const RaceSide& side) {
  std::string text = side.kernel.empty() ? "unknown code" : kernel_of(side);
  if (const SourceFrame* own = own_frame(side.source)) text += fmt::format(" ({}:{})", own->file, own->line);
  return text;
}

// The lines and not the addresses, blocks or counts: these change from run to run.
std::string fingerprint(std::string text) {
  std::uint64_t hash = 14695981039346656037u; // FNV-1a, 64 bits
  for (unsigned char c : text) hash = (hash ^ c) * 1099511628211u;
  return fmt::format("{:016x}", hash);
}

json result(Rule rule, const char* level, const std::string& text) {
  return {{"ruleId", rules[std::size_t(rule)].id},
          {"ruleIndex", std::size_t(rule)},
          {"level", level},
          {"message", message(text)}};
}

Rule rule_of(RaceLevel level) {
  return level == RaceLevel::shared ? Rule::shared : level == RaceLevel::global ? Rule::global : Rule::stream;
}

json race(const Race& race) {
  bool sure = race.race_class == RaceClass::data && race.certainty == Certainty::certain;
  const char* level = race.verdict == Verdict::benign ? "note" : sure ? "error" : "warning";
  json out = result(rule_of(race.level), level,
                    fmt::format("{} race{}: {} by {} and {} by {}. {}.", race.kind(),
                                race.verdict == Verdict::none ? "" : fmt::format(", {}", word(race.verdict)),
                                word(race.first.op), where(race.first), word(race.second.op), where(race.second),
                                race.why.empty() ? "Nothing orders them" : race.why));
  out["locations"] = json::array({location(race.first)});
  out["relatedLocations"] = json::array({location(race.second, word(race.second.op), 1)});
  out["occurrenceCount"] = std::max<std::uint64_t>(1, race.occurrences);
  out["partialFingerprints"] = {
      {"deadheatRace/v1", fingerprint(fmt::format("{}\n{}\n{}\n{}", word(race.level), race.kind(), where(race.first),
                                                  where(race.second)))}};
  if (race.suppressed) out["suppressions"] = json::array({{{"kind", "external"}}});
  json& properties = out["properties"];
  properties = {{"id", race.id},
                {"class", word(race.race_class)},
                {"certainty", word(race.certainty)},
                {"sameValue", race.same_value}};
  if (race.same_fault_as) properties["sameFaultAs"] = race.same_fault_as;
  if (race.verdict != Verdict::none) {
    properties["verdict"] = word(race.verdict);
    properties["schedules"] = race.schedules;
  }
  if (!race.witness.empty()) properties["witness"] = valid_utf8(race.witness);
  return out;
}

json fault(const Fault& fault, Rule rule) {
  json out = result(rule, "error",
                    fault.kind + (fault.text.empty() ? "" : ": " + fault.text) + " in " + where(fault.side) +
                        (fault.bytes ? fmt::format(", {} bytes at 0x{:x}", fault.bytes, fault.address) : ""));
  out["locations"] = json::array({location(fault.side)});
  out["occurrenceCount"] = std::max<std::uint64_t>(1, fault.occurrences);
  return out;
}

} // namespace

json to_sarif(const Analysis& analysis, const std::string& version) {
  json driver = {{"name", "deadheat"}, {"version", version}, {"rules", json::array()}};
  for (const RuleText& rule : rules) {
    driver["rules"].push_back({{"id", rule.id}, {"name", rule.name}, {"shortDescription", message(rule.text)}});
  }
  json results = json::array();
  for (const Race& entry : analysis.races) results.push_back(race(entry));
  for (const OrderDependent& entry : analysis.order_dependent) {
    json out = result(Rule::order_dependent, "note",
                      fmt::format("{} in {} by unordered threads: the result depends on their order", entry.atomic,
                                  where(entry.site)));
    out["locations"] = json::array({location(entry.site)});
    out["occurrenceCount"] = std::max<std::uint64_t>(1, entry.occurrences);
    results.push_back(std::move(out));
  }
  for (const Fault& entry : analysis.memory_errors) results.push_back(fault(entry, Rule::memory_error));
  for (const Fault& entry : analysis.sync_errors) results.push_back(fault(entry, Rule::sync_error));

  json notifications = json::array();
  for (const std::string& line : analysis.warnings) {
    notifications.push_back({{"level", "warning"}, {"message", message(line)}});
  }
  json invocation = {{"executionSuccessful", true}, {"toolExecutionNotifications", std::move(notifications)}};
  json run = {{"tool", {{"driver", std::move(driver)}}},
              {"invocations", json::array({std::move(invocation)})},
              {"results", std::move(results)},
              {"columnKind", "utf16CodeUnits"},
              {"properties", {{"complete", analysis.summary.complete}}}};
  return {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
          {"version", "2.1.0"},
          {"runs", json::array({std::move(run)})}};
}

} // namespace deadheat::report
