#include "analyzer/detect/unused.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "deadheat/lanes.h"
#include "tracer/ptx/parse.h"
#include "tracer/ptx/uses.h"

namespace deadheat::detect {

UnusedReads::UnusedReads(const Detector& detector, const std::vector<FoundRace>& races, ModuleText text)
    : detector_(detector), races_(races), text_(std::move(text)) {
  for (std::size_t i = 0; i < races.size(); ++i) {
    const FoundRace& race = races[i];
    if (race.readers.empty() || race.readers.overflown()) continue;
    Candidate candidate;
    candidate.race = i;
    for (const PlaceId id : instructions(race)) {
      const Place& place = detector.sides().place(id);
      if (place.kind == AccessKind::read) candidate.loads[place.module].insert(place.site_number);
    }
    candidates_.push_back(std::move(candidate));
  }
}

bool UnusedReads::record(trace::Record& record) {
  if (auto* begin = std::get_if<trace::OperationBegin>(&record)) running_.insert(begin->operation);
  if (auto* end = std::get_if<trace::OperationEnd>(&record)) running_.erase(end->operation);
  const auto* module = std::get_if<trace::Module>(&record);
  if (!module || module->kind != trace::Module::Kind::ptx) return true;
  std::optional<ptx::SiteTable> table;
  Expected<ptx::Module> parsed = Error{"not parsed yet"};
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const auto loads = candidates_[i].loads.find(module->id);
    if (loads == candidates_[i].loads.end() || candidates_[i].used) continue;
    if (!table) {
      parsed = ptx::parse(text_(*module), module->origin);
      table = parsed ? ptx::site_table(*parsed) : ptx::SiteTable{};
    }
    const auto stores = parsed ? ptx::stores_fed_by(*parsed, *table, loads->second) : std::nullopt;
    candidates_[i].used = !stores;
    if (!stores) continue;
    candidates_[i].loads.erase(loads);
    for (const std::uint32_t site : *stores) {
      if (const PlaceId place = detector_.sides().site(module->id, site)) stores_[place].push_back(i);
    }
  }
  return true;
}

bool UnusedReads::access(const trace::AccessView& view) {
  const auto stores = stores_.find(detector_.sides().site(view.module, view.site));
  const order::OperationIndex operation = detector_.operation_of(view.warp.launch);
  if (stores == stores_.end() || !operation) return true;
  for (const std::size_t index : stores->second) {
    Candidate& candidate = candidates_[index];
    if (candidate.used) continue;
    const Threads& readers = races_[candidate.race].readers;
    each_lane(view.mask,
              [&](unsigned lane) { candidate.used |= readers.contains(key_of(operation, view.warp, lane)); });
  }
  return true;
}

bool UnusedReads::unused(std::size_t index) const {
  // What a launch that did not end would have stored, nobody knows.
  for (const std::uint32_t operation : running_)
    if (races_[index].readers.any_of(detector_.operations().index(operation))) return false;
  return std::any_of(candidates_.begin(), candidates_.end(), [&](const Candidate& candidate) {
    return candidate.race == index && !candidate.used && candidate.loads.empty();
  });
}

} // namespace deadheat::detect
