#include "analyzer/detect/missing_barriers.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "analyzer/report/place.h"

namespace deadheat::detect {

namespace {

std::string lines(const Site& site, std::size_t frames) {
  std::string text;
  for (std::size_t i = 0; i < frames; ++i)
    text += site.source[i].file + ":" + std::to_string(site.source[i].line) + "<";
  return text;
}

// A place in the program's text, where a barrier could stand.
struct Spot {
  std::string whole; // with all that the function is inlined in
  std::string own;   // within the innermost function that accesses before and behind it are in
  bool within = false; // one call of that function; else behind one and before the next
  FunctionName function; // that function
  Gap gap;
};

class Grouping {
 public:
  Grouping(const Detector& detector, const std::vector<FoundRace>& races, const Between& between,
           const std::vector<bool>& alone)
      : detector_(detector),
        races_(races),
        between_(between),
        result_(races.size()),
        spots_(races.size()),
        keys_(races.size()) {
    for (std::size_t i = 0; i < races.size(); ++i) {
      result_[i].first = i;
      if (alone[i] || kept_ > most_spots) continue;
      for (const Between::Found& found : between.gaps(i)) spots_[i].push_back(spots(i, found));
      for (const std::vector<Spot>& instance : spots_[i]) kept_ += instance.size();
    }
  }

  std::vector<MissingBarrier> run() {
    const std::set<std::string> at_fault = functions_at_fault();
    std::map<Kind, std::vector<std::size_t>> kinds;
    for (std::size_t i = 0; i < races_.size(); ++i) {
      for (const std::vector<Spot>& instance : spots_[i]) narrow(keys_[i], instance, at_fault);
      if (!keys_[i].empty()) kinds[kind(races_[i])].push_back(i);
    }
    for (auto& [of, members] : kinds) split(std::move(members));
    return std::move(result_);
  }

 private:
  using Kind = std::tuple<Certainty, RaceClass, bool>; // bool: in different blocks
  static Kind kind(const FoundRace& race) {
    return {race.certainty, race.race_class, race.first.thread.block_bits() != race.second.thread.block_bits()};
  }
  const Site& site(PlaceId place) const { return *detector_.sides().place(place).site; }
  bool reads(PlaceId place) const { return detector_.sides().place(place).kind == AccessKind::read; }

  static constexpr std::size_t most_spots = 1 << 18; // beyond, races are faults of their own
  // Of a spot: the gap that says most, and by their lines those that are between the accesses of all instances.
  using Lines = std::pair<SideId, SideId>;
  struct Gaps {
    Gap one;
    std::map<Lines, Gap> common;
  };
  using Keys = std::map<std::string, Gaps>; // of spots

  // Those between the accesses of an instance, each behind one access or before one.
  std::vector<Spot> spots(std::size_t race, const Between::Found& found) {
    std::vector<Spot> all;
    const std::vector<Gap>& gaps = found.gaps;
    std::vector<Shared> shared(gaps.size());
    std::set<Function> met;
    for (std::size_t g = 0; g < gaps.size(); ++g) {
      const std::vector<Function>& before = functions(gaps[g].before);
      met.insert(before.begin(), before.end());
      shared[g].behind = first_in(functions(gaps[g].behind), met);
    }
    met.clear();
    for (std::size_t g = gaps.size(); g-- > 0;) {
      const std::vector<Function>& behind = functions(gaps[g].behind);
      met.insert(behind.begin(), behind.end());
      shared[g].before = first_in(functions(gaps[g].before), met);
    }
    std::set<std::tuple<Gap, std::size_t, std::size_t>> added;
    for (std::size_t g = 0; g < gaps.size(); ++g)
      if (added.emplace(gaps[g], shared[g].before, shared[g].behind).second) add(gaps[g], shared[g], all);
    std::set<std::tuple<std::string, Says, Lines>> known; // unrolled loops have many of one line
    std::erase_if(
        all, [&](const Spot& spot) { return !known.emplace(spot.whole, says(spot.gap), lines_of(spot.gap)).second; });
    const Site& at = site(races_[race].first.place);
    if (!all.empty() || at.source.empty() || !same_line(races_[race].first.place, races_[race].second.place))
      return all;
    Spot spot; // of accesses that threads perform at once: those of one line are one fault
    spot.whole = spot.own = "at once " + lines(at, at.source.size());
    return {spot};
  }

  // Frames of the access before a gap, and of that behind it, up to the innermost function that the program comes to,
  // or from, on the other side of the gap as well.
  struct Shared {
    std::size_t before = 0, behind = 0; // behind the last: there is none
  };
  using Function = std::size_t;
  const std::vector<Function>& functions(PlaceId place) {
    const auto [known, fresh] = functions_.try_emplace(place);
    if (!fresh) return known->second;
    for (const SourceFrame& frame : site(place).source)
      known->second.push_back(numbers_.try_emplace(function_name(frame), numbers_.size()).first->second);
    return known->second;
  }
  static std::size_t first_in(const std::vector<Function>& frames, const std::set<Function>& met) {
    return std::size_t(std::find_if(frames.begin(), frames.end(), [&](Function f) { return met.contains(f); }) -
                       frames.begin());
  }

  void add(const Gap& gap, const Shared& shared, std::vector<Spot>& to) {
    const Site &before = site(gap.before), &behind = site(gap.behind);
    Spot spot;
    spot.gap = gap;
    if (before.source.empty() || behind.source.empty()) {
      spot.whole = spot.own = std::to_string(gap.before) + ">" + std::to_string(gap.behind);
      return to.push_back(spot);
    }
    if (within_line(gap)) return;
    spot.within = in_one_call(gap, shared);
    spot.whole = "behind " + lines(before, before.source.size());
    to.push_back(placed(spot, "behind ", before, shared.before));
    spot.whole = "before " + lines(behind, behind.source.size());
    to.push_back(placed(spot, "before ", behind, shared.behind));
  }

  static Spot placed(Spot spot, const std::string& side, const Site& site, std::size_t frame) {
    const bool known = frame < site.source.size();
    spot.own = side + lines(site, known ? frame + 1 : frame);
    if (known) spot.function = function_name(site.source[frame]);
    return spot;
  }

  bool in_one_call(const Gap& gap, const Shared& shared) {
    const std::vector<SourceFrame>&before = site(gap.before).source, &behind = site(gap.behind).source;
    const std::size_t i = shared.before, j = shared.behind;
    return i < before.size() && j < behind.size() && functions(gap.before)[i] == functions(gap.behind)[j] &&
           before[i].line < behind[j].line &&
           std::equal(before.begin() + std::ptrdiff_t(i + 1), before.end(), behind.begin() + std::ptrdiff_t(j + 1),
                      behind.end());
  }

  // What lies between the accesses of all instances. Where nothing does, several barriers are missing: the first's.
  void narrow(Keys& keys, const std::vector<Spot>& instance, const std::set<std::string>& at_fault) const {
    Keys here;
    for (const Spot& spot : instance) {
      const auto [at, fresh] = here.emplace(at_fault.count(spot.own) ? spot.own : spot.whole, Gaps{spot.gap, {}});
      Gaps& gaps = at->second;
      if (!fresh && says(gaps.one) < says(spot.gap)) gaps.one = spot.gap;
      gaps.common.emplace(lines_of(spot.gap), spot.gap);
    }
    if (keys.empty()) return keys.swap(here);
    Keys left;
    for (auto& [key, gaps] : here) {
      const auto known = keys.find(key);
      if (known == keys.end()) continue;
      if (says(gaps.one) <= says(known->second.one)) gaps.one = known->second.one;
      std::erase_if(gaps.common, [&](const auto& gap) { return !known->second.common.contains(gap.first); });
      left.emplace(key, std::move(gaps));
    }
    if (!left.empty()) keys.swap(left);
  }
  bool same_line(PlaceId one, PlaceId other) const {
    const std::vector<SourceFrame>&a = site(one).source, &b = site(other).source;
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const SourceFrame& x, const SourceFrame& y) { return x.line == y.line && x.file == y.file; });
  }
  bool one_line(const Gap& gap) const { return gap.before && same_line(gap.before, gap.behind); }
  // Reads that follow each other the compiler may have put in either order.
  bool at_write(const Gap& gap) const { return gap.before && (!reads(gap.before) || !reads(gap.behind)); }
  // Of one execution of a line, which reads before it writes.
  bool within_line(const Gap& gap) const { return one_line(gap) && reads(gap.before) && !reads(gap.behind); }
  // How much it says of where the barrier is to stand: two reads of a line may be of one execution, too.
  enum class Says : std::uint8_t { perhaps, line, lines };
  Says says(const Gap& gap) const {
    if (!one_line(gap)) return Says::lines;
    const bool twice = gap.before != gap.behind && reads(gap.before) && reads(gap.behind);
    return twice ? Says::perhaps : Says::line;
  }

  // Spots::own of functions that lack the barrier themselves, wherever they are called: within them, or between their
  // calls, more often than their callers synchronize.
  std::set<std::string> functions_at_fault() const {
    std::map<std::string, std::set<std::string>> calls;
    std::map<std::string, const Spot*> of;
    for (const auto& instances : spots_) {
      for (const auto& instance : instances) {
        for (const Spot& spot : instance) {
          calls[spot.own].insert(spot.whole);
          of.emplace(spot.own, &spot);
        }
      }
    }
    std::set<std::string> result;
    for (const auto& [own, places] : calls) {
      const Spot& spot = *of.at(own);
      if (!spot.function.second.empty() && (spot.within || synchronized_less(spot.function, places.size())))
        result.insert(own);
    }
    return result;
  }

  // Do the function's callers synchronize in fewer places between two calls of it?
  bool synchronized_less(const FunctionName& function, std::size_t than) const {
    const std::set<PlaceId>* barriers = between_.between_calls(function);
    if (!barriers) return false;
    std::set<std::string> places;
    for (PlaceId barrier : *barriers) {
      const std::vector<SourceFrame>& source = site(barrier).source;
      places.insert(lines(site(barrier), source.size()) + (source.empty() ? std::to_string(barrier) : ""));
    }
    return places.size() < than;
  }

  // As few places as can be that lie between the accesses of all: of those with the fewest places the one first that
  // most others have.
  void split(std::vector<std::size_t> all) {
    std::vector<std::size_t> left = all;
    std::vector<std::pair<std::string, std::size_t>> chosen; // and the race that it was chosen for
    while (!left.empty()) {
      const std::size_t narrowest = *std::min_element(left.begin(), left.end(), [&](std::size_t a, std::size_t b) {
        return std::pair(keys_[a].size(), a) < std::pair(keys_[b].size(), b);
      });
      std::string best;
      std::tuple<std::ptrdiff_t, bool, bool> most{0, false, false};
      for (const auto& [key, gaps] : keys_[narrowest]) {
        const auto has = [&](std::size_t race) { return keys_[race].contains(key); };
        const std::tuple here(std::count_if(left.begin(), left.end(), has), says(gaps.one) != Says::perhaps,
                              at_write(gaps.one));
        if (here <= most) continue;
        most = here;
        best = key;
      }
      chosen.emplace_back(best, narrowest);
      std::erase_if(left, [&](std::size_t race) { return keys_[race].contains(best); });
    }
    std::vector<std::vector<std::size_t>> members(chosen.size());
    for (std::size_t race : all) members[nearest(race, chosen)].push_back(race);
    for (std::size_t i = 0; i < chosen.size(); ++i) join(members[i], chosen[i].first);
  }

  // Of the places that lie between its accesses, the one that was chosen for what has most to do with it.
  std::size_t nearest(std::size_t race, const std::vector<std::pair<std::string, std::size_t>>& chosen) const {
    std::size_t best = chosen.size();
    int most = -1;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      if (!keys_[race].contains(chosen[i].first)) continue;
      const FoundRace &own = races_[race], &other = races_[chosen[i].second];
      int alike = 0;
      for (PlaceId place : {own.first.place, own.second.place})
        alike += same_line(place, other.first.place) || same_line(place, other.second.place);
      if (alike <= most) continue;
      most = alike;
      best = i;
    }
    return best;
  }

  void join(const std::vector<std::size_t>& members, const std::string& key) {
    if (members.empty()) return; // all have more to do with others
    // What orders threads that are far apart orders near ones, too.
    const auto rank = [&](std::size_t race) {
      const FoundRace& of = races_[race];
      return std::tuple(-int(telling(RaceLevel::shared, of.first, of.second, false)), of.same_value(),
                        keys_[race].size(), race);
    };
    const std::size_t first = *std::min_element(members.begin(), members.end(),
                                                [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
    std::map<Lines, Gap> common = keys_[first].at(key).common;
    for (std::size_t race : members) {
      result_[race].first = first;
      const std::map<Lines, Gap>& own = keys_[race].at(key).common;
      std::erase_if(common, [&](const auto& gap) { return !own.contains(gap.first); });
    }
    std::erase_if(common, [&](const auto& gap) { return !gap.second.before || says(gap.second) == Says::perhaps; });
    const Gap& gap = common.size() == 1 ? common.begin()->second : keys_[first].at(key).one;
    if (members.size() < 2 || !gap.before || says(gap) == Says::perhaps) return;
    const std::string before = line(gap.before), behind = line(gap.behind);
    if (before.empty() || behind.empty()) return;
    result_[first].where = common.size() == 1 && before != behind ? "between " + before + " and " + behind
                           : key.starts_with("behind")            ? "each time behind " + before
                                                                  : "each time before " + behind;
  }

  Lines lines_of(const Gap& gap) const {
    const auto side = [&](PlaceId place) { return place ? detector_.sides().place(place).side : SideId{}; };
    return {side(gap.before), side(gap.behind)};
  }
  std::string line(PlaceId place) const {
    const SourceFrame* own = report::own_frame(site(place).source);
    return own ? own->file.substr(own->file.rfind('/') + 1) + ":" + std::to_string(own->line) : "";
  }

  const Detector& detector_;
  const std::vector<FoundRace>& races_;
  const Between& between_;
  std::vector<MissingBarrier> result_;
  std::vector<std::vector<std::vector<Spot>>> spots_; // by race and instance
  std::vector<Keys> keys_; // by race: what tells faults apart
  std::size_t kept_ = 0; // spots
  std::map<FunctionName, Function> numbers_;
  std::map<PlaceId, std::vector<Function>> functions_; // of the frames of a place
};

} // namespace

std::vector<MissingBarrier> missing_barriers(const Detector& detector, const std::vector<FoundRace>& races,
                                             const Between& between, const std::vector<bool>& alone) {
  return Grouping(detector, races, between, alone).run();
}

} // namespace deadheat::detect
