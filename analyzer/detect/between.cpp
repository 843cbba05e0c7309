#include "analyzer/detect/between.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "deadheat/lanes.h"

namespace deadheat::detect {

namespace {

// An access by its place and how often its thread had performed it before.
using Step = std::pair<PlaceId, std::size_t>;

std::map<Step, std::size_t> numbered(const std::vector<PlaceId>& places) {
  std::map<Step, std::size_t> steps;
  std::map<PlaceId, std::size_t> performed;
  for (std::size_t i = 0; i < places.size(); ++i) steps[{places[i], performed[places[i]]++}] = i;
  return steps;
}

Step last_of(const std::vector<PlaceId>& places) {
  return {places.back(), std::size_t(std::count(places.begin(), places.end(), places.back()) - 1)};
}

void add_from(std::size_t at, const std::vector<PlaceId>& places, std::vector<Gap>& gaps) {
  for (; at + 1 < places.size(); ++at) gaps.push_back({places[at], places[at + 1]});
}

// Of threads that took different ways behind what they last did alike: in the order of the text. The thread of `back`
// then comes to what `front` does first there.
std::vector<Gap> across(const std::vector<PlaceId>& back, const std::vector<PlaceId>& front) {
  const std::map<Step, std::size_t> done = numbered(back);
  std::size_t own = 0; // the first of `front` that `back` did not do
  for (const auto& [step, at] : numbered(front))
    if (done.count(step)) own = std::max(own, at + 1);
  own = std::min(own, front.size() - 1);
  std::vector<Gap> gaps{{back.back(), front[own]}};
  add_from(own, front, gaps);
  return gaps;
}

} // namespace

Between::Between(const Detector& detector, const std::vector<FoundRace>& races)
    : detector_(detector), instances_(races.size()) {
  std::size_t followed = 0;
  for (std::size_t i = 0; i < races.size() && followed < most_races; ++i) {
    const FoundRace& race = races[i];
    const Site *first = detector.sides().place(race.first.place).site,
               *second = detector.sides().place(race.second.place).site;
    if (race.level == RaceLevel::stream || !first || !second) continue;
    if (first->kind != SiteKind::access || second->kind != SiteKind::access) continue;
    ++followed;
    FoundRace::Instances chosen = chosen_instances(race);
    chosen.resize(std::min(chosen.size(), most_instances));
    if (std::find(chosen.begin(), chosen.end(), std::pair(race.first, race.second)) == chosen.end())
      chosen.insert(chosen.begin(), {race.first, race.second});
    for (const auto& [a, b] : chosen) {
      if (a.thread.operation() != b.thread.operation()) continue;
      instances_[i].push_back({a, b, {}, {}});
    }
    for (Instance& instance : instances_[i]) follow(instance);
  }
}

void Between::follow(Instance& instance) {
  for (auto [side, steps] :
       {std::pair(&instance.first, &instance.before_first), {&instance.second, &instance.before_second}}) {
    const unsigned thread = side->thread.thread();
    Thread& followed = by_block_[side->thread.block_bits()][thread / 32][thread % 32];
    followed.sides.emplace_back(side->stamp, steps);
    followed.across_blocks |= instance.first.thread.block_bits() != instance.second.thread.block_bits();
  }
}

bool Between::access(const trace::AccessView& view) {
  now_ += access_stamps; // stamps count exactly as in Batcher
  const order::OperationIndex operation = detector_.operation_of(view.warp.launch);
  const PlaceId place = detector_.sides().site(view.module, view.site);
  if (!operation || !place || !view.mask) return true;
  const auto block = by_block_.find(order::ThreadKey(operation, view.warp.block, 0).block_bits());
  if (block == by_block_.end()) return true;
  const auto warp = block->second.find(key_of(operation, view.warp, 0).thread() / 32);
  if (warp == block->second.end()) return true;
  for (auto& [lane, thread] : warp->second) {
    if (!(view.mask >> lane & 1) || thread.sides.empty()) continue;
    thread.cut |= thread.steps.size() >= most_steps;
    if (!thread.cut) thread.steps.push_back(place);
    std::erase_if(thread.sides, [&](const auto& side) {
      if (side.first > now_) return false;
      if (!thread.cut) *side.second = thread.steps;
      return true;
    });
  }
  return true;
}

bool Between::record(trace::Record& record) {
  ++now_;
  auto executed = [&](const auto& barrier) {
    if (const PlaceId place = detector_.sides().site(barrier.module, barrier.site)) barriers_.insert(place);
  };
  if (auto* r = std::get_if<trace::BlockBarrier>(&record)) {
    executed(*r);
    const order::OperationIndex operation = detector_.operation_of(r->launch);
    const auto block = by_block_.find(order::ThreadKey(operation, r->block, 0).block_bits());
    if (!operation || block == by_block_.end()) return true;
    for (auto& [number, warp] : block->second)
      for (auto& [lane, thread] : warp) {
        if (thread.across_blocks) continue;
        thread.steps.clear();
        thread.cut = false;
      }
  } else if (auto* r = std::get_if<trace::BarrierArrive>(&record)) {
    executed(*r);
  } else if (auto* r = std::get_if<trace::WarpBarrier>(&record)) {
    executed(*r);
  }
  return true;
}

Between::Found Between::between(const Instance& instance) {
  const Steps &one = instance.before_first, &two = instance.before_second;
  const Step first = last_of(one), second = last_of(two);
  if (first == second) return {{}, true};
  Found found;
  const std::map<Step, std::size_t> in_first = numbered(one), in_second = numbered(two);
  const auto behind = in_first.find(second), before = in_second.find(first);
  if (behind != in_first.end() && before == in_second.end()) {
    add_from(behind->second, one, found.gaps);
  } else if (before != in_second.end() && behind == in_first.end()) {
    add_from(before->second, two, found.gaps);
  } else if (behind == in_first.end()) {
    found.gaps = first.first < second.first ? across(one, two) : across(two, one);
  }
  return found;
}

std::vector<Between::Found> Between::gaps(std::size_t race) const {
  std::vector<Found> all;
  for (const Instance& instance : instances_[race]) {
    const Steps &one = instance.before_first, &two = instance.before_second;
    if (torn_ || one.empty() || two.empty()) continue;
    if (one.back() != instance.first.place || two.back() != instance.second.place) continue;
    Found found = between(instance);
    if (found.at_once || !found.gaps.empty()) all.push_back(std::move(found));
  }
  return all;
}

} // namespace deadheat::detect
