#include "analyzer/detect/missing_waits.h"

#include <algorithm>

namespace deadheat::detect {

namespace {

using order::OperationIndex;

struct Pair { // as they were submitted
  OperationIndex earlier = 0, later = 0;
};

Pair pair_of(const FoundRace& race) {
  const auto [earlier, later] = std::minmax({race.first.thread.operation(), race.second.thread.operation()});
  return {earlier, later};
}

// What one wait orders.
class Wait {
 public:
  Wait(const order::OperationClocks& clocks, std::size_t race, Pair pair)
      : clocks_(&clocks), first_(race), at_(pair), pairs_{pair} {}
  std::size_t first() const { return first_; } // of its races
  Pair at() const { return at_; } // the one after which, and the one before which, it has its place

  // Takes the race in, if there is a place for a wait that orders this one, too.
  bool takes(Pair pair) {
    const Pair moved{std::max(at_.earlier, pair.earlier), std::min(at_.later, pair.later)};
    if (moved.earlier >= moved.later || !orders(moved, pair)) return false;
    const bool moves = moved.earlier != at_.earlier || moved.later != at_.later;
    if (moves && !std::all_of(pairs_.begin(), pairs_.end(), [&](Pair other) { return orders(moved, other); }))
      return false;
    at_ = moved;
    pairs_.push_back(pair);
    return true;
  }

 private:
  bool orders(Pair wait, Pair pair) const {
    const bool edge = clocks_->graph(wait.earlier) && clocks_->graph(wait.earlier) == clocks_->graph(wait.later);
    return before(pair.earlier, wait.earlier, edge) && behind(pair.later, wait.later, edge);
  }
  // An edge of a graph says nothing of nodes that lie on no way to it; a wait speaks for all of the stream.
  bool before(OperationIndex operation, OperationIndex wait, bool edge) const {
    if (operation == wait || clocks_->ordered(operation, wait)) return true;
    return !edge && operation < wait && clocks_->stream(operation) == clocks_->stream(wait);
  }
  // No wait of a stream keeps from coming too early what the host alone can; and who lacks such a wait and one of the
  // host lacks two, though that of the host would do.
  bool behind(OperationIndex operation, OperationIndex wait, bool edge) const {
    if (operation == wait) return true;
    if (clocks_->only_host_delays(operation) != clocks_->only_host_delays(wait)) return false;
    if (clocks_->ordered(wait, operation)) return true;
    return !edge && wait < operation && clocks_->stream(wait) == clocks_->stream(operation);
  }

  const order::OperationClocks* clocks_;
  std::size_t first_;
  Pair at_;
  std::vector<Pair> pairs_; // that it orders
};

} // namespace

std::vector<MissingWait> missing_waits(const Detector& detector, const std::vector<FoundRace>& races,
                                       const std::vector<bool>& candidate) {
  const order::OperationClocks& clocks = detector.operations();
  std::vector<MissingWait> missing(races.size());
  std::vector<Wait> waits;
  for (std::size_t i = 0; i < races.size(); ++i) {
    missing[i].first = i;
    const Pair pair = pair_of(races[i]);
    if (!candidate[i] || races[i].level != RaceLevel::stream || !clocks.wait_orders(pair.earlier, pair.later)) continue;
    const auto known = std::find_if(waits.begin(), waits.end(), [&](Wait& wait) { return wait.takes(pair); });
    if (known == waits.end())
      waits.emplace_back(clocks, i, pair);
    else
      missing[i].first = known->first();
  }
  for (const Wait& wait : waits) {
    missing[wait.first()].waited_for = wait.at().earlier;
    missing[wait.first()].waits = wait.at().later;
  }
  return missing;
}

} // namespace deadheat::detect
