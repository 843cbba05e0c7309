#include "replay/search/manifest.h"

#include <nlohmann/json.hpp>

namespace deadheat::search {

using nlohmann::json;

namespace {

json to_json(const AccessName& name) {
  return {{"operation", name.operation}, {"launch", name.launch}, {"block", name.block}, {"thread", name.thread},
          {"module", name.module},       {"site", name.site},     {"nth", name.nth}};
}
AccessName access_name(const json& from) {
  return {from.at("operation"), from.at("launch"), from.at("block"), from.at("thread"),
          from.at("module"),    from.at("site"),   from.at("nth")};
}

json to_json(const Dim3& value) { return {value.x, value.y, value.z}; }
Dim3 dim3(const json& from) { return {from.at(0), from.at(1), from.at(2)}; }

json to_json(const RaceSide& side) {
  json source = json::array();
  for (const SourceFrame& frame : side.source) {
    source.push_back(
        {{"function", frame.function}, {"file", frame.file}, {"line", frame.line}, {"column", frame.column}});
  }
  return {{"name", to_json(side.name)},   {"op", int(side.op)},
          {"kernel", side.kernel},        {"source", source},
          {"opcode", side.opcode},        {"stream", side.stream},
          {"block", to_json(side.block)}, {"thread", to_json(side.thread)}};
}
template <typename Enum>
Enum enumerator(const json& from, Enum largest) {
  int value = from;
  if (value < 0 || value > int(largest)) throw std::out_of_range("enumerator");
  return Enum(value);
}
RaceSide race_side(const json& from) {
  RaceSide side;
  side.name = access_name(from.at("name"));
  side.op = enumerator(from.at("op"), AccessKind::free);
  side.kernel = from.at("kernel");
  for (const json& frame : from.at("source")) {
    side.source.push_back({frame.at("function"), frame.at("file"), frame.at("line"), frame.at("column")});
  }
  side.opcode = from.at("opcode");
  side.stream = from.at("stream");
  side.block = dim3(from.at("block"));
  side.thread = dim3(from.at("thread"));
  return side;
}

json to_json(const Race& race) {
  json result = {{"id", race.id},
                 {"level", int(race.level)},
                 {"class", int(race.race_class)},
                 {"certainty", int(race.certainty)},
                 {"first", to_json(race.first)},
                 {"second", to_json(race.second)},
                 {"address", race.address},
                 {"bytes", race.bytes},
                 {"occurrences", race.occurrences},
                 {"same_value", race.same_value},
                 {"unused_read", race.unused_read},
                 {"lacks_only_proxy_fence", race.lacks_only_proxy_fence},
                 {"why", race.why},
                 {"verdict_why", race.verdict_why},
                 {"schedules", race.schedules}};
  if (race.allocation) {
    result["allocation"] = {race.allocation->id, race.allocation->offset, race.allocation->size};
  }
  return result;
}
Race race(const json& from) {
  Race race;
  race.id = from.at("id");
  race.level = enumerator(from.at("level"), RaceLevel::stream);
  race.race_class = enumerator(from.at("class"), RaceClass::strong);
  race.certainty = enumerator(from.at("certainty"), Certainty::possible);
  race.first = race_side(from.at("first"));
  race.second = race_side(from.at("second"));
  race.address = from.at("address");
  race.bytes = from.at("bytes");
  race.occurrences = from.at("occurrences");
  race.same_value = from.at("same_value");
  race.unused_read = from.value("unused_read", false); // not in witnesses of the first versions
  race.lacks_only_proxy_fence = from.value("lacks_only_proxy_fence", false);
  race.why = from.at("why");
  race.verdict_why = from.at("verdict_why");
  race.schedules = from.at("schedules");
  if (from.contains("allocation")) {
    const json& allocation = from.at("allocation");
    race.allocation = Race::AllocationRef{allocation.at(0), allocation.at(1), allocation.at(2)};
  }
  return race;
}

json to_json(const Schedule& schedule) {
  json holds = json::array(), switches = json::array();
  for (const Hold& hold : schedule.holds) {
    holds.push_back({to_json(hold.held), to_json(hold.until), hold.in_place, hold.patient});
    if (hold.foreseen.bytes.empty()) continue;
    holds.back().push_back(hold.foreseen.address);
    holds.back().push_back(hold.foreseen.bytes);
  }
  for (const Switch& change : schedule.switches) {
    switches.push_back({change.step, int(change.agent.kind), change.agent.operation, change.agent.block,
                        change.agent.thread, change.agent.copy});
  }
  json result = {{"kind", int(schedule.kind)}, {"seed", schedule.seed},   {"quantum", schedule.quantum},
                 {"depth", schedule.depth},    {"steps", schedule.steps}, {"holds", holds},
                 {"switches", switches}};
  if (schedule.order != Schedule::Order::random) result["order"] = int(schedule.order);
  for (const SiteName& site : schedule.sites) result["sites"].push_back({site.module, site.site});
  if (schedule.prompt != Schedule::Prompt::no) result["prompt"] = int(schedule.prompt);
  if (schedule.driven) result["driven"] = true;
  for (const Absent& a : schedule.absent) result["absent"].push_back({a.operation, a.block, a.thread});
  for (const ThreadCount& c : schedule.counts) result["counts"].push_back({c.operation, c.block, c.thread, c.count});
  if (!schedule.weak) return result;
  result["old_rate"] = schedule.old_rate;
  result["old_reads"] = json::array();
  for (const OldRead& read : schedule.old_reads)
    result["old_reads"].push_back({read.operation, read.block, read.thread, read.age, read.nth});
  return result;
}
Schedule::Prompt prompt(const json& from) {
  if (!from.contains("prompt")) return Schedule::Prompt::no;
  const json& value = from.at("prompt");
  return value.is_boolean() ? Schedule::Prompt::at_first : enumerator(value, Schedule::Prompt::always);
}
Schedule schedule(const json& from) {
  Schedule schedule;
  schedule.kind = enumerator(from.at("kind"), Schedule::Kind::uniform);
  schedule.seed = from.at("seed");
  schedule.quantum = from.at("quantum");
  schedule.depth = from.value("depth", 0u);
  schedule.steps = from.value("steps", std::uint64_t(0));
  const auto flag = [](const json& hold, std::size_t n) { return hold.size() > n && hold.at(n).get<bool>(); };
  for (const json& hold : from.at("holds")) {
    schedule.holds.push_back({access_name(hold.at(0)), access_name(hold.at(1)), flag(hold, 2), flag(hold, 3)});
    if (hold.size() > 5) schedule.holds.back().foreseen = {hold.at(4), hold.at(5)};
  }
  for (const json& change : from.at("switches")) {
    Switch departure;
    departure.step = change.at(0);
    departure.agent.kind = enumerator(change.at(1), Agent::Kind::async_copy);
    departure.agent.operation = change.at(2);
    departure.agent.block = change.at(3);
    departure.agent.thread = change.at(4);
    departure.agent.copy = change.at(5);
    schedule.switches.push_back(departure);
  }
  if (from.contains("order")) schedule.order = enumerator(from.at("order"), Schedule::Order::stalled_warps);
  schedule.prompt = prompt(from);
  schedule.driven = from.value("driven", false);
  if (from.contains("absent"))
    for (const json& a : from.at("absent")) schedule.absent.push_back({a.at(0), a.at(1), a.at(2)});
  if (from.contains("sites"))
    for (const json& site : from.at("sites")) schedule.sites.push_back({site.at(0), site.at(1)});
  if (from.contains("counts"))
    for (const json& c : from.at("counts")) schedule.counts.push_back({c.at(0), c.at(1), c.at(2), c.at(3)});
  schedule.weak = from.contains("old_reads");
  if (!schedule.weak) return schedule;
  schedule.old_rate = from.at("old_rate");
  for (const json& read : from.at("old_reads"))
    schedule.old_reads.push_back({read.at(0), read.at(1), read.at(2), read.at(3), read.at(4)});
  return schedule;
}

} // namespace

std::string to_manifest(const Witness& witness) {
  json manifest = {{"race", to_json(witness.race)},
                   {"schedules", {{"a", to_json(witness.a)}, {"b", to_json(witness.b)}}},
                   {"digests", {{"a", witness.digest_a}, {"b", witness.digest_b}}},
                   {"last_operation", witness.last_operation},
                   {"value_types", witness.value_types},
                   {"budget", witness.budget}};
  if (witness.weak) manifest["weak"] = true;
  if (witness.smaller)
    manifest["smaller"] = {{"a", to_json(witness.smaller->a)},
                           {"b", to_json(witness.smaller->b)},
                           {"blocks", {witness.smaller->size.blocks, witness.smaller->size.of_blocks}},
                           {"threads", {witness.smaller->size.threads, witness.smaller->size.of_threads}}};
  if (witness.instance) manifest["instance"] = {to_json(witness.instance->first), to_json(witness.instance->second)};
  return manifest.dump(1, ' ', false, json::error_handler_t::replace);
}

Expected<Witness> from_manifest(const std::string& text, const std::string& file) {
  try {
    json manifest = json::parse(text);
    Witness witness;
    witness.race = race(manifest.at("race"));
    witness.a = schedule(manifest.at("schedules").at("a"));
    witness.b = schedule(manifest.at("schedules").at("b"));
    if (manifest.contains("instance")) {
      const json& instance = manifest.at("instance");
      witness.instance = {access_name(instance.at(0)), access_name(instance.at(1))};
    }
    if (manifest.contains("smaller")) {
      const json& smaller = manifest.at("smaller");
      witness.smaller = {schedule(smaller.at("a")),
                         schedule(smaller.at("b")),
                         {.blocks = smaller.at("blocks").at(0),
                          .of_blocks = smaller.at("blocks").at(1),
                          .threads = smaller.at("threads").at(0),
                          .of_threads = smaller.at("threads").at(1)}};
    }
    witness.digest_a = manifest.at("digests").at("a");
    witness.digest_b = manifest.at("digests").at("b");
    witness.last_operation = manifest.at("last_operation");
    witness.value_types = manifest.at("value_types");
    witness.budget = manifest.at("budget");
    witness.weak = manifest.value("weak", false);
    return witness;
  } catch (const std::exception& error) { // nlohmann-json's way of saying that a field is missing or of another type
    return Error{"the witness's manifest is damaged", file};
  }
}

} // namespace deadheat::search
