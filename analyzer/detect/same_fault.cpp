#include "analyzer/detect/same_fault.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "analyzer/detect/missing_barriers.h"
#include "analyzer/detect/missing_waits.h"

namespace deadheat::detect {

namespace {

class Faults {
 public:
  Faults(const Detector& detector, const std::vector<FoundRace>& races) : detector_(detector), races_(races) {}

  std::vector<std::size_t> firsts() {
    std::vector<std::size_t> first(races_.size());
    std::iota(first.begin(), first.end(), 0);
    for (std::size_t i = 0; i < races_.size(); ++i) {
      const FoundRace& race = races_[i];
      if (race.level != RaceLevel::stream || is_free(race.first) == is_free(race.second)) continue;
      const Touch &free = is_free(race.first) ? race.first : race.second, &user = other(race, free);
      for (std::size_t j = 0; j < races_.size(); ++j) {
        if (i != j && goes_with(races_[j], race, free, user)) join(first, i, j);
      }
    }
    return first;
  }

 private:
  bool is_free(const Touch& touch) const { return detector_.sides().place(touch.place).kind == AccessKind::free; }
  static const Touch& other(const FoundRace& race, const Touch& side) {
    return &side == &race.first ? race.second : race.first;
  }
  SideId side(const Touch& touch) const { return detector_.sides().place(touch.place).side; }

  // The same user of the memory, and one that comes behind the free.
  bool goes_with(const FoundRace& race, const FoundRace& of_free, const Touch& free, const Touch& user) const {
    if (race.level != RaceLevel::stream || race.certainty != of_free.certainty) return false;
    const trace::Allocate* memory = detector_.allocation(of_free.allocation);
    if (!memory || race.address - memory->address >= memory->bytes) return false;
    const order::OperationClocks& clocks = detector_.operations();
    const auto freed = free.thread.operation();
    for (const Touch* one : {&race.first, &race.second}) {
      const auto later = other(race, *one).thread.operation();
      if (one->thread.operation() == user.thread.operation() && side(*one) == side(user) && later != freed &&
          (clocks.ordered(freed, later) || clocks.handed_over(freed, later, race.address)))
        return true;
    }
    return false;
  }

  static void join(std::vector<std::size_t>& first, std::size_t a, std::size_t b) {
    const std::size_t from = std::max(first[a], first[b]), to = std::min(first[a], first[b]);
    std::replace(first.begin(), first.end(), from, to);
  }

  const Detector& detector_;
  const std::vector<FoundRace>& races_;
};

// Of each race: the first of those that are the same fault; of most that is itself.
std::vector<std::size_t> firsts(const Detector& detector, const std::vector<FoundRace>& races,
                                const std::vector<MissingBarrier>& barriers) {
  std::vector<std::size_t> first = Faults(detector, races).firsts();
  for (std::size_t i = 0; i < races.size(); ++i)
    if (first[i] == i) first[i] = barriers[i].first;
  return first;
}

// What makes a message fall short, that its flag is written or read by a plain access, races itself: with what tells,
// or hears. Where it is told apart from what one barrier makes.
void join_plain_flags(const Explainer& explainer, const std::map<std::string, std::size_t>& messages,
                      std::vector<std::size_t>& first, std::vector<bool>& leads) {
  std::map<std::size_t, std::set<std::size_t>> leaders; // of faults, all of whose races may be such: of what messages
  for (std::size_t i = 0; i < first.size(); ++i) {
    const auto message = messages.find(explainer.plain_message(i));
    leaders[first[i]].insert(message == messages.end() ? first.size() : message->second);
  }
  for (const auto& [fault, of] : leaders) {
    const std::size_t leader = *of.begin();
    if (of.size() != 1 || leader == first.size() || leader == fault) continue;
    std::replace(first.begin(), first.end(), fault, first[leader]);
    leads[first[leader]] = true;
  }
}

// Those that one message should have ordered, which falls short in one way, of those that are no other fault. True of
// the first of several.
std::vector<bool> join_messages(const Explainer& explainer, std::vector<std::size_t>& first) {
  std::map<std::string, std::size_t> known;
  std::vector<bool> leads(first.size()), joined(first.size());
  for (std::size_t i = 0; i < first.size(); ++i)
    if (first[i] != i) joined[i] = joined[first[i]] = true;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::string message = joined[i] ? "" : explainer.broken_message(i);
    if (message.empty()) continue;
    const auto [at, is_new] = known.try_emplace(message, i);
    if (is_new) continue;
    first[i] = at->second;
    leads[at->second] = true;
  }
  join_plain_flags(explainer, known, first, leads);
  return leads;
}

// Those of updates by one line, of those that are no other fault. True of the first of several.
std::vector<bool> join_updates(const Explainer& explainer, std::vector<std::size_t>& first) {
  std::map<SideId, std::size_t> known;
  std::vector<bool> leads(first.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::optional<SideId> line = first[i] == i ? explainer.updated_by(i) : std::nullopt;
    if (!line) continue;
    const auto [at, is_new] = known.try_emplace(*line, i);
    if (is_new) continue;
    std::replace(first.begin(), first.end(), i, at->second);
    leads[at->second] = true;
  }
  return leads;
}

// Those that one wait should have ordered. A free that comes too early goes with what it makes.
std::vector<MissingWait> join_waits(const Detector& detector, const std::vector<FoundRace>& races,
                                    const Explainer& explainer, std::vector<std::size_t>& first) {
  std::vector<bool> candidate;
  for (std::size_t i = 0; i < races.size(); ++i) candidate.push_back(first[i] == i && !explainer.beyond_barriers(i));
  std::vector<MissingWait> waits = missing_waits(detector, races, candidate);
  for (std::size_t& of : first) of = waits[of].first;
  return waits;
}

std::string of_the_same_fault(std::ptrdiff_t races, const std::string& more) {
  return std::to_string(races) + " " + more + (races == 1 ? " race" : " races") + " of the same fault";
}

std::string wait(const Detector& detector, const Explainer& explainer, const MissingWait& missing) {
  const order::OperationClocks& clocks = detector.operations();
  const std::string from = explainer.named(missing.waited_for), to = explainer.named(missing.waits);
  const std::uint32_t graph = clocks.graph(missing.waits);
  if (graph && graph == clocks.graph(missing.waited_for)) return "an edge from " + from + " to " + to;
  const char* whose = clocks.only_host_delays(missing.waits) ? "a wait of the host for " : "a wait for ";
  return whose + from + " before " + (graph ? "the graph of " : "") + to;
}

} // namespace

void join_faults(const Detector& detector, const std::vector<FoundRace>& found, const Explainer& explainer,
                 const Between& between, std::size_t from, std::vector<Race>& races) {
  std::vector<bool> alone;
  for (std::size_t i = 0; i < found.size(); ++i) alone.push_back(explainer.beyond_barriers(i));
  const std::vector<MissingBarrier> barriers = missing_barriers(detector, found, between, alone);
  std::vector<std::size_t> first = firsts(detector, found, barriers);
  const std::vector<MissingWait> waits = join_waits(detector, found, explainer, first);
  const std::vector<bool> leads = join_messages(explainer, first), updated = join_updates(explainer, first);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto others = std::count(first.begin(), first.end(), i) - 1;
    if (updated[i]) races[from + i].why += "; an atomic operation settles " + of_the_same_fault(others, "other");
    if (leads[i]) races[from + i].why += "; that message, put right, orders " + of_the_same_fault(others, "other");
    if (others && waits[i].waits)
      races[from + i].why +=
          "; " + wait(detector, explainer, waits[i]) + " orders " + of_the_same_fault(others, "more");
    if (barriers[i].where.empty() || first[i] != i) continue;
    const bool blocks = found[i].first.thread.block_bits() != found[i].second.thread.block_bits();
    races[from + i].why += std::string("; ") + (blocks ? "what synchronizes the blocks " : "a barrier ") +
                           barriers[i].where + " orders " + of_the_same_fault(others, "more");
  }
  std::vector<std::size_t> order(found.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto rank = [&](std::size_t i) { return std::tuple(found[i].certainty, found[i].race_class, first[i] != i); };
    return rank(a) < rank(b);
  });
  std::vector<Race> ranked;
  std::vector<std::uint32_t> ids(found.size());
  for (std::size_t i : order) {
    ids[i] = std::uint32_t(from + ranked.size() + 1);
    ranked.push_back(std::move(races[from + i]));
    ranked.back().id = ids[i];
  }
  for (std::size_t i = 0; i < order.size(); ++i)
    if (const std::size_t of = first[order[i]]; of != order[i]) ranked[i].same_fault_as = ids[of];
  std::move(ranked.begin(), ranked.end(), races.begin() + std::ptrdiff_t(from));
}

} // namespace deadheat::detect
