#include "replay/search/alternatives.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "replay/search/schedules.h"

namespace deadheat::search {

namespace {

constexpr std::uint64_t other_garbage = 0x9E3779B97F4A7C15u; // any bits
constexpr unsigned tries = 6;                                // random orders that are shrunk
constexpr std::uint64_t shrinking_runs = 80;
constexpr std::uint64_t shrinking_pieces = 24; // trials of fewer blocks, then of fewer warps, then of fewer threads

// `other_a` and `other_b`: the same two runs with other bytes in memory that nobody wrote.
Footing footing_of(const Outputs& a, const Outputs& b, const Outputs& other_a, const Outputs& other_b) {
  if (a.ending != b.ending)
    return a.ending == other_a.ending && b.ending == other_b.ending ? Footing::certain : Footing::doubtful;
  if (a.outputs.size() != b.outputs.size()) return Footing::certain;
  const std::size_t count = std::min({a.outputs.size(), other_a.outputs.size(), other_b.outputs.size()});
  Footing best = Footing::doubtful;
  for (std::size_t n = 0; n < count; ++n) {
    const auto &x = a.outputs[n].bytes, &y = b.outputs[n].bytes;
    const auto &ox = other_a.outputs[n].bytes, &oy = other_b.outputs[n].bytes;
    if (x.size() != y.size()) return Footing::certain;
    for (std::size_t i = 0; i < std::min({x.size(), ox.size(), oy.size()}); ++i) {
      if (x[i] == y[i] || ox[i] == oy[i]) continue;
      if (x[i] == ox[i] && y[i] == oy[i]) return Footing::certain;
      if (x[i] == ox[i] || y[i] == oy[i]) best = Footing::one_sided;
    }
  }
  return best;
}

std::vector<Candidate::Direction> directions() {
  using When = Directed::Apart::When;
  std::vector<Candidate::Direction> all;
  for (const When when : {When::never, When::after_others, When::before_others})
    for (const Directed::Base base : {Directed::Base::runs_on, Directed::Base::in_step})
      for (const bool exchanged : {false, true}) all.push_back({base, when, exchanged});
  return all;
}

} // namespace

bool Candidate::better_than(const Candidate& other) const {
  auto rank = [](const Candidate& c) {
    return std::tuple(c.footing == Footing::doubtful, int(!c.others.empty()) + int(c.switches > many), c.switches > few,
                      c.others.size(), c.own_others, c.footing, c.switches);
  };
  return rank(*this) < rank(other);
}

Expected<Footing> Alternatives::footing(const Schedule& a, const Schedule& b, const Outputs& of_a,
                                        const Outputs& of_b) {
  const Session other = session_.with_garbage(other_garbage);
  Expected<Run> x = other.run(a, nullptr, budget_);
  if (!x) return x.error();
  Expected<Run> y = other.run(b, nullptr, budget_);
  if (!y) return y.error();
  return footing_of(of_a, of_b, x->outputs, y->outputs);
}

Expected<std::optional<Candidate>> Alternatives::measure(const Schedule& a, const Schedule& b, const Wanted& wanted,
                                                         bool must_change) {
  Log log_a, log_b;
  Expected<Run> of_a = session_.run(a, nullptr, budget_, &log_a);
  if (!of_a) return of_a.error();
  Expected<Run> of_b = session_.run(b, nullptr, budget_, &log_b);
  if (!of_b) return of_b.error();
  if (!compare(of_a->outputs, of_b->outputs, nullptr).differ) return std::optional<Candidate>();
  for (const Absent& absent : a.absent) { // not of clusters: all of their threads stay
    auto is = [&](const device::Performed& p) {
      return p.operation == absent.operation && p.block == absent.block &&
             (absent.thread == Absent::every_thread || p.thread == absent.thread);
    };
    if (std::any_of(log_a.begin(), log_a.end(), is)) return std::optional<Candidate>();
  }
  Candidate candidate{.a = a, .b = b};
  bool own = place_of(log_a, wanted.instance.first) < place_of(log_a, wanted.instance.second);
  own = own != (place_of(log_b, wanted.instance.first) < place_of(log_b, wanted.instance.second));
  for (const SitePair& changed : changed_places(log_a, log_b, wanted.instance)) {
    if (changed.first == wanted.first && changed.second == wanted.second)
      candidate.own_others = true;
    else
      candidate.others.push_back(changed);
  }
  if (must_change && !own) return std::optional<Candidate>();
  candidate.switches = context_switches(log_a, log_b);
  Expected<Footing> stands = footing(a, b, of_a->outputs, of_b->outputs);
  if (!stands) return stands.error();
  candidate.footing = *stands;
  return std::optional(std::move(candidate));
}

// The list of a directed run; null: the hold was not kept.
Expected<std::optional<Schedule>> Alternatives::directed(Directed::Base base, const Directed::Apart& apart,
                                                         const std::optional<Hold>& hold,
                                                         const std::vector<Absent>& absent) {
  Directed chooser(base, hold, apart);
  Schedule schedule;
  schedule.kind = Schedule::Kind::switches;
  schedule.driven = true;
  schedule.absent = absent;
  Expected<Run> run = session_.run(schedule, nullptr, budget_, nullptr, &chooser);
  if (!run) return run.error();
  if (hold && !chooser.kept()) return std::optional<Schedule>();
  schedule.switches = run->switches;
  return std::optional(std::move(schedule));
}

Expected<std::optional<Candidate>> Alternatives::directed_pair(const Candidate::Direction& direction,
                                                               const Wanted& wanted,
                                                               const std::vector<Absent>& absent) {
  const Directed::Apart apart{direction.when, wanted.instance.first, wanted.instance.second};
  const AccessName& one = direction.exchanged ? wanted.instance.second : wanted.instance.first;
  const AccessName& other = direction.exchanged ? wanted.instance.first : wanted.instance.second;
  Expected<std::optional<Schedule>> held = directed(direction.base, apart, Hold{one, other}, absent);
  if (!held) return held.error();
  if (!*held) return std::optional<Candidate>();
  Expected<std::optional<Schedule>> plain = directed(direction.base, apart, std::nullopt, absent);
  if (!plain) return plain.error();
  Expected<std::optional<Candidate>> found = measure(**plain, **held, wanted, true);
  if (found && *found) (*found)->direction = direction;
  return found;
}

Expected<void> Alternatives::by_direction(Candidate& best, const Wanted& wanted,
                                          std::chrono::steady_clock::time_point deadline) {
  for (const Candidate::Direction& direction : directions()) {
    if (best.perfect() || std::chrono::steady_clock::now() > deadline) return {};
    Expected<std::optional<Candidate>> found = directed_pair(direction, wanted, {});
    if (!found) return found.error();
    if (*found && (*found)->better_than(best)) best = **std::move(found);
  }
  return {};
}

Expected<void> Alternatives::by_priorities(Candidate& best, const Wanted& wanted,
                                           std::chrono::steady_clock::time_point deadline) {
  Schedule plain;
  plain.kind = Schedule::Kind::switches;
  auto in_time = [&] { return std::chrono::steady_clock::now() < deadline; };
  for (unsigned n = 0; n < tries && !best.good() && in_time(); ++n) {
    Schedule schedule = nth_schedule(n, seed_, visible_);
    Expected<Run> run = session_.run(schedule, nullptr, budget_);
    if (!run) return run.error();
    Schedule listed = plain;
    listed.switches = run->switches;
    Expected<std::optional<Candidate>> whole = measure(plain, listed, wanted, true);
    if (!whole) return whole.error();
    if (!*whole) continue;
    const bool doubtful = (*whole)->footing == Footing::doubtful;
    Candidate smallest = **std::move(whole);
    std::optional<Error> error;
    shrink(
        listed.switches,
        [&](const Schedule& shorter) {
          if (error || !in_time()) return false;
          Expected<std::optional<Candidate>> tried = measure(plain, shorter, wanted, true);
          if (!tried) error = tried.error();
          if (!tried || !*tried || ((*tried)->footing == Footing::doubtful && !doubtful)) return false;
          if ((*tried)->better_than(smallest)) smallest = **tried;
          return true;
        },
        shrinking_runs);
    if (error) return *error;
    if (smallest.better_than(best)) best = std::move(smallest);
  }
  return {};
}

Expected<Candidate> Alternatives::better(Candidate than, const Wanted& wanted,
                                         std::chrono::steady_clock::time_point deadline) {
  Expected<void> done = by_direction(than, wanted, deadline);
  if (done && !than.good()) done = by_priorities(than, wanted, deadline);
  if (!done) return done.error();
  return than;
}

// ---- fewer blocks and threads

namespace {

using Threads = std::set<std::pair<std::uint32_t, std::uint32_t>>; // block and thread

std::vector<Absent> all_but(const Threads& stay, std::uint32_t operation, std::uint64_t blocks, std::uint64_t threads) {
  std::vector<Absent> absent;
  for (std::uint32_t b = 0; b < blocks; ++b) {
    auto at = stay.lower_bound({b, 0});
    if (at == stay.end() || at->first != b) {
      absent.push_back({operation, b, Absent::every_thread});
      continue;
    }
    for (std::uint32_t t = 0; t < threads; ++t)
      if (!stay.count({b, t})) absent.push_back({operation, b, t});
  }
  return absent;
}

} // namespace

Expected<std::optional<Alternatives::Smaller>> Alternatives::smaller(const Candidate& than, const Wanted& wanted,
                                                                     std::uint64_t blocks, std::uint64_t threads,
                                                                     std::chrono::steady_clock::time_point deadline) {
  const std::uint32_t operation = wanted.instance.first.operation;
  std::vector<Candidate::Direction> tried;
  if (than.direction) tried.push_back(*than.direction);
  for (const Candidate::Direction& direction : directions())
    if (!than.direction && direction.when == Directed::Apart::When::never) tried.push_back(direction);
  std::optional<Smaller> best;
  std::optional<Error> error;
  auto does_it = [&](const Threads& stay) {
    const std::vector<Absent> absent = all_but(stay, operation, blocks, threads);
    for (const Candidate::Direction& direction : tried) {
      if (error || std::chrono::steady_clock::now() > deadline) return false;
      Expected<std::optional<Candidate>> found = directed_pair(direction, wanted, absent);
      if (!found) error = found.error();
      if (!found || !*found) continue;
      const Candidate& shown = **found;
      if (shown.footing == Footing::doubtful && than.footing != Footing::doubtful) continue;
      if (shown.others.size() > than.others.size()) continue;
      std::set<std::uint32_t> left;
      for (const auto& thread : stay) left.insert(thread.first);
      best = {shown.a, shown.b, left.size(), stay.size()};
      tried = {direction};
      return true;
    }
    return false;
  };
  const Threads pair{{wanted.instance.first.block, wanted.instance.first.thread},
                     {wanted.instance.second.block, wanted.instance.second.thread}};
  if (!does_it(pair) && !error) {
    // By blocks, then by warps, then by threads: the pair's own always stay.
    Threads stay;
    for (std::uint32_t b = 0; b < blocks; ++b)
      for (std::uint32_t t = 0; t < threads; ++t) stay.insert({b, t});
    for (const std::uint64_t grain : {threads, std::uint64_t(32), std::uint64_t(1)}) {
      std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> pieces;
      for (const auto& thread : stay) {
        if (pair.count(thread)) continue;
        auto piece = [&](const auto& t) { return std::pair(t.first, t.second / grain); };
        if (pieces.empty() || piece(pieces.back().front()) != piece(thread)) pieces.emplace_back();
        pieces.back().push_back(thread);
      }
      auto those = [&](const std::vector<std::size_t>& numbers) {
        Threads some = pair;
        for (std::size_t n : numbers) some.insert(pieces[n].begin(), pieces[n].end());
        return some;
      };
      stay =
          those(fewest(pieces.size(), [&](const auto& numbers) { return does_it(those(numbers)); }, shrinking_pieces));
    }
  }
  if (error) return *error;
  return best;
}

} // namespace deadheat::search
