#include "analyzer/detect/findings.h"

#include <algorithm>
#include <tuple>

namespace deadheat::detect {

namespace {

Distance distance(const Touch& first, const Touch& second) {
  if (first.thread.block_bits() != second.thread.block_bits()) return Distance::blocks;
  return first.thread.warp() == second.thread.warp() ? Distance::one_warp : Distance::one_block;
}

// Whether the instruction that comes first is the one of the higher number: where the threads of two launches read and
// write a line each, the outputs may depend on who reads before the other writes, and not on who reads after.
bool other_way(const std::pair<Touch, Touch>& instance) { return instance.first.place > instance.second.place; }

// `most`: of each way. `either`: two instances have no thread in common (of a copy or set there is but one).
void add(FoundRace::Instances& to, std::size_t most, const Touch& first, const Touch& second, bool either) {
  const std::pair instance(first, second);
  std::size_t count = 0;
  for (const auto& other : to) {
    if (other_way(other) != other_way(instance)) continue;
    const bool one = other.first.thread == first.thread, two = other.second.thread == second.thread;
    if (++count >= most || (either ? one || two : one && two)) return;
  }
  to.push_back(instance);
}

// The first `most` of each way and the other in turns, as far as there are any.
FoundRace::Instances some(const FoundRace::Instances& from, std::size_t most) {
  FoundRace::Instances ways[2], chosen;
  for (const auto& instance : from) ways[other_way(instance) != other_way(from.front())].push_back(instance);
  for (std::size_t n = 0; chosen.size() < std::min(most, from.size()); ++n) {
    for (const FoundRace::Instances& way : ways)
      if (n < way.size() && chosen.size() < most) chosen.push_back(way[n]);
  }
  return chosen;
}

order::OperationIndex operation(const std::pair<Touch, Touch>& instance) { return instance.second.thread.operation(); }

// Of FoundRace::Lot: Stafford's thirteenth variant of murmur3's finalizer, as splitmix64 has
// it.
std::uint64_t lot(const std::pair<Touch, Touch>& instance) {
  std::uint64_t z = 0;
  for (const Touch& touch : {instance.first, instance.second}) {
    for (const std::uint64_t part : {touch.thread.bits, std::uint64_t(touch.stamp), std::uint64_t(touch.place)}) {
      z += part + 0x9E3779B97F4A7C15u;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
      z ^= z >> 31;
    }
  }
  return z;
}

void add_to_sample(std::vector<FoundRace::Lot>& sample, const FoundRace::Lot& lot) {
  if (sample.size() >= most_sampled_instances && sample.back() < lot) return;
  const auto at = std::lower_bound(sample.begin(), sample.end(), lot);
  if (at != sample.end() && *at == lot) return;
  sample.insert(at, lot);
  if (sample.size() > most_sampled_instances) sample.pop_back();
}

} // namespace

void Threads::insert(order::ThreadKey thread) {
  auto at = blocks_.find(thread.block_bits());
  if (at == blocks_.end()) {
    if (blocks_.size() >= most_blocks) {
      overflown_ = true;
      return;
    }
    at = blocks_.try_emplace(thread.block_bits()).first;
  }
  at->second.set(thread.thread());
}

void Threads::insert(const Threads& others) {
  overflown_ |= others.overflown_;
  for (const auto& [block, threads] : others.blocks_) {
    if (blocks_.size() >= most_blocks && !blocks_.count(block))
      overflown_ = true;
    else
      blocks_[block] |= threads;
  }
}

bool Threads::contains(order::ThreadKey thread) const {
  const auto at = blocks_.find(thread.block_bits());
  return at != blocks_.end() && at->second.test(thread.thread());
}

bool Threads::any_of(order::OperationIndex operation) const {
  // By ThreadKey::block_bits.
  return std::any_of(blocks_.begin(), blocks_.end(),
                     [&](const auto& block) { return order::operation_of_block(block.first) == operation; });
}

unsigned telling(RaceLevel level, const Touch& first, const Touch& second, bool write_first) {
  if (level == RaceLevel::stream) return 0;
  unsigned apart = 0;
  switch (distance(first, second)) {
    case Distance::one_warp: break;
    case Distance::one_block: apart = 1; break;
    case Distance::blocks: apart = 2; break;
  }
  return 2 * apart + write_first;
}

void add_instance(FoundRace& race, const Touch& first, const Touch& second) {
  const bool either = race.level != RaceLevel::stream;
  add(race.instances[std::size_t(distance(first, second))], most_instances, first, second, either);
  const order::OperationIndex last = race.last.empty() ? 0 : operation(race.last.front());
  const order::OperationIndex now = second.thread.operation();
  if (now > last) race.last.clear();
  if (now >= last) add(race.last, most_last_instances, first, second, either);
  add_to_sample(race.sample, {lot({first, second}), {first, second}});
}

FoundRace::Instances chosen_instances(const FoundRace& race) {
  // What others leave free is shared out in the same order.
  constexpr std::array<std::size_t, 3> shares{5, 4, 3};
  static_assert(shares[0] + shares[1] + shares[2] == most_first_instances);
  std::array<std::size_t, 3> taken{};
  std::size_t left = most_first_instances;
  for (std::size_t d = 0; d < taken.size(); ++d) {
    taken[d] = std::min(shares[d], race.instances[d].size());
    left -= taken[d];
  }
  FoundRace::Instances chosen;
  for (std::size_t d = 0; d < taken.size(); ++d) {
    const std::size_t more = std::min(left, race.instances[d].size() - taken[d]);
    left -= more;
    const FoundRace::Instances share = some(race.instances[d], taken[d] + more);
    chosen.insert(chosen.end(), share.begin(), share.end());
  }
  // What earlier launches did to the outputs, the last one may have overwritten.
  const bool has_last = race.last.empty() || std::any_of(chosen.begin(), chosen.end(), [&](const auto& instance) {
                          return operation(instance) == operation(race.last.front());
                        });
  const auto fill = [&](const std::pair<Touch, Touch>& instance) {
    if (chosen.size() < most_instances && std::find(chosen.begin(), chosen.end(), instance) == chosen.end())
      chosen.push_back(instance);
  };
  if (!has_last)
    for (const auto& instance : some(race.last, most_last_instances)) fill(instance);
  for (const FoundRace::Lot& sampled : race.sample) fill(sampled.instance);
  return chosen;
}

std::set<PlaceId> instructions(const FoundRace& race) {
  std::set<PlaceId> places;
  for (const auto& [codes, touches] : race.codes) {
    for (const Code& code : {codes.first, codes.second}) {
      if (code.place) places.insert(code.place);
    }
  }
  return places;
}

void merge(PartFindings& into, const PartFindings& part) {
  auto less_telling = [](const FoundRace& a, const FoundRace& b) {
    return std::tie(b.telling, a.second.stamp, a.second.thread, a.address) >
           std::tie(a.telling, b.second.stamp, b.second.thread, b.address);
  };
  for (const auto& [key, race] : part.races) {
    auto [at, fresh] = into.races.try_emplace(key, race);
    FoundRace& known = at->second;
    if (fresh) continue;
    FoundRace joined = less_telling(known, race) ? race : known;
    joined.occurrences = known.occurrences + race.occurrences;
    joined.any_write_pair = known.any_write_pair || race.any_write_pair;
    joined.different_values = known.different_values || race.different_values;
    joined.unknown_values = known.unknown_values || race.unknown_values;
    joined.lacks_other = known.lacks_other || race.lacks_other;
    joined.readers = std::move(known.readers);
    joined.readers.insert(race.readers);
    FoundRace::Instances all;
    for (const auto& those : known.instances) all.insert(all.end(), those.begin(), those.end());
    for (const auto& those : race.instances) all.insert(all.end(), those.begin(), those.end());
    all.insert(all.end(), known.last.begin(), known.last.end());
    all.insert(all.end(), race.last.begin(), race.last.end());
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return std::tie(a.second.stamp, a.second.thread, a.first) < std::tie(b.second.stamp, b.second.thread, b.first);
    });
    joined.codes = std::move(known.codes);
    for (const auto& [code, touches] : race.codes) {
      auto& [first, second] = joined.codes.try_emplace(code, touches).first->second;
      const auto& [other_first, other_second] = touches;
      if (std::tie(other_second.stamp, other_second.thread, other_first) < std::tie(second.stamp, second.thread, first))
        std::tie(first, second) = touches;
    }
    joined.instances = {};
    joined.last = {};
    joined.sample = std::move(known.sample);
    for (const FoundRace::Lot& sampled : race.sample) add_to_sample(joined.sample, sampled);
    for (const auto& [first, second] : all) add_instance(joined, first, second);
    known = std::move(joined);
  }
  for (const auto& [place, count] : part.order_dependent) into.order_dependent[place] += count;
  for (const auto& [place, count] : part.additions) into.additions[place] += count;
  into.unknown += part.unknown;
  into.unchecked += part.unchecked;
}

std::vector<FoundRace> ranked(const PartFindings& findings) {
  std::vector<FoundRace> result;
  for (const auto& [key, race] : findings.races) result.push_back(race);
  rank(result);
  return result;
}

void rank(std::vector<FoundRace>& races) {
  // Data races first, then those most likely to matter: not the same value, then what happened first.
  std::stable_sort(races.begin(), races.end(), [](const FoundRace& a, const FoundRace& b) {
    if (a.certainty != b.certainty) return a.certainty < b.certainty;
    if (a.race_class != b.race_class) return a.race_class < b.race_class;
    if (a.same_value() != b.same_value()) return b.same_value();
    return a.second.stamp < b.second.stamp;
  });
}

} // namespace deadheat::detect
