#include "analyzer/detect/exchanges.h"

#include <algorithm>

namespace deadheat::detect {

Exchanges::Exchanges(const Detector& detector, const std::vector<FoundRace>& races)
    : detector_(detector), races_(races) {
  for (const FoundRace& race : races) {
    const auto [first, second] = launches_of(race);
    if (!first || !second) continue;
    launches_[first];
    launches_[second];
  }
}

Exchanges::Pair Exchanges::launches_of(const FoundRace& race) const {
  if (race.level != RaceLevel::stream || race.certainty != Certainty::certain) return {};
  const auto number = [&](const Touch& touch) {
    const Detector::LaunchInfo* launch = detector_.launch_of(touch.thread.operation());
    return launch && detector_.sides().place(touch.place).site ? launch->number : 0;
  };
  return {number(race.first), number(race.second)};
}

bool Exchanges::record(trace::Record& record) {
  if (const auto* process = std::get_if<trace::Process>(&record)) {
    on_gpu_ = process->device_kind == "gpu";
    if (!on_gpu_) launches_.clear(); // nothing to look for
  } else if (auto* module = std::get_if<trace::Module>(&record)) {
    modules_[module->id] = module->sites;
  } else if (const auto* operation = std::get_if<trace::Operation>(&record)) {
    if (launches_.count(operation->launch)) numbers_[operation->id] = operation->launch;
  } else if (const auto* begin = std::get_if<trace::OperationBegin>(&record)) {
    const auto launch = numbers_.find(begin->operation);
    if (launch == numbers_.end()) return true;
    for (const std::uint32_t other : running_) together_.insert(std::minmax(other, launch->second));
    running_.insert(launch->second);
  } else if (const auto* end = std::get_if<trace::OperationEnd>(&record)) {
    if (const auto launch = numbers_.find(end->operation); launch != numbers_.end()) running_.erase(launch->second);
  }
  return true;
}

bool Exchanges::access(const trace::AccessView& access) {
  if (!access.strong || access.space != Space::global) return true;
  const auto launch = launches_.find(access.warp.launch);
  const auto module = modules_.find(access.module);
  if (launch == launches_.end() || module == modules_.end() || access.site >= module->second.size()) return true;
  const Site& site = module->second[access.site];
  Words& words = launch->second;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (!(access.mask >> lane & 1)) continue;
    if (site.access != AccessKind::write && site.in_loop && words.polled.size() < most_words)
      words.polled.insert(access.address[lane]);
    if (site.access != AccessKind::read && words.written.size() < most_words)
      words.written.insert(access.address[lane]);
  }
  return true;
}

bool Exchanges::unknown(std::size_t race) const {
  if (!on_gpu_) return false;
  const auto [first, second] = launches_of(races_[race]);
  if (together_.count(std::minmax(first, second))) return false;
  const auto a = launches_.find(first), b = launches_.find(second);
  if (a == launches_.end() || b == launches_.end()) return false;
  const auto waits = [](const Words& one, const Words& other) {
    return std::any_of(one.polled.begin(), one.polled.end(),
                       [&](std::uint64_t address) { return other.written.count(address) != 0; });
  };
  return waits(a->second, b->second) || waits(b->second, a->second);
}

} // namespace deadheat::detect
