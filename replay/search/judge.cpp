// The search for a verdict: see search.h.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "replay/search/alternatives.h"
#include "replay/search/interleaving.h"
#include "replay/search/schedules.h"
#include "replay/search/search.h"
#include "replay/search/session.h"
#include "replay/search/systematic.h"
#include "replay/search/temporary_directory.h"
#include "replay/search/witness.h"

namespace deadheat::search {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

// Two schedules that take the accesses of one instance of a race in either order, everything else as it comes.
struct SchedulePair {
  Schedule first_then_second, second_then_first;
};
bool in_one_launch(const Race::Instance& instance) {
  return instance.first.launch && instance.first.launch == instance.second.launch;
}
SchedulePair schedule_pair(const Race::Instance& instance) {
  SchedulePair pair;
  pair.first_then_second.kind = pair.second_then_first.kind = Schedule::Kind::holds;
  pair.first_then_second.holds.push_back({instance.second, instance.first});
  pair.second_then_first.holds.push_back({instance.first, instance.second});
  return pair;
}

constexpr std::uint64_t shrinking_runs = 400, shrinking_pairs = 100;
constexpr std::uint64_t schedules_with_old_values = 12; // tried for a race
constexpr std::uint64_t most_logged = 1 << 20;          // operations of runs that are compared one by one
// Operations of runs for whose witnesses better ones are sought, and threads of launches that fewer are sought of.
constexpr std::uint64_t most_improved = 1 << 15;
constexpr unsigned enough_good = 2; // instances with good witnesses one of whose runs reads memory that nobody wrote
constexpr unsigned most_doubts = 4; // instances of a race of which none has a good witness
constexpr auto most_spent_on_better = std::chrono::seconds(6); // looking for witnesses of fewer context switches
constexpr auto most_spent_on_size = std::chrono::seconds(2); // looking for fewer blocks and threads
constexpr std::size_t most_walkers = 512; // threads of a uniform walk

std::string name_of(const Session& session, const SiteName& name) {
  const Site* site = session.site(name.module, name.site);
  if (!site) return "site " + std::to_string(name.site);
  if (site->source.empty()) return site->opcode;
  const std::string& file = site->source[0].file;
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(site->source[0].line);
}

class Judge {
 public:
  // `alone`: nothing but this race can make outputs differ.
  Judge(const Session& session, const SearchOptions& options, const Run& natural, std::uint64_t budget, bool alone)
      : session_(session), options_(options), natural_(natural), budget_(budget), alone_(alone) {}

  Expected<void> judge(Race& race) {
    begin_ = Clock::now();
    doubtful_.reset();
    smaller_.reset();
    doubts_ = 0;
    race.schedules = 0;
    std::uint64_t driven = 0;
    std::string trouble;
    for (const Race::Instance& instance : race.instances) {
      if (spent(race)) break;
      SchedulePair pair = schedule_pair(instance);
      Expected<Run> a = session_.run(pair.first_then_second, nullptr, budget_);
      if (!a) return a.error();
      Expected<Run> b = session_.run(pair.second_then_first, &a->outputs, budget_);
      if (!b) return b.error();
      race.schedules += 2;
      std::string how;
      // Where the first cannot wait, the second need not see it. Atomics that race are not atomic to each other either
      // (PTX ISA 8.10.3: only morally strong ones are).
      const bool stuck = a->holds_kept && !b->holds_kept;
      const bool atomics = race.first.op == AccessKind::atomic && race.second.op == AccessKind::atomic &&
                           a->holds_kept && b->holds_kept && !compare(a->outputs, b->outputs, nullptr).differ;
      if ((stuck || atomics) && in_one_launch(instance)) {
        Schedule unseen = pair.second_then_first;
        unseen.holds[0].in_place = true;
        Expected<Run> c = session_.run(unseen, &a->outputs, budget_);
        if (!c) return c.error();
        ++race.schedules;
        if (c->holds_kept) {
          pair.second_then_first = unseen;
          b = std::move(c);
          how = stuck
                    ? "the second access does not see the first, which nothing orders before it: its writer cannot wait"
                    : "the second atomic does not see the first: in their scopes neither is atomic to the other";
        }
      }
      if (!a->holds_kept || !b->holds_kept) {
        trouble = a->holds_kept ? b->hold_trouble : a->hold_trouble;
        continue;
      }
      ++driven;
      if (!compare(a->outputs, b->outputs, nullptr).differ) continue;
      race.verdict_why = how;
      if (pair.second_then_first.holds[0].in_place || natural_.choices.visible > most_improved ||
          !in_one_launch(instance))
        return found(race, pair, *a, *b, instance);
      Expected<bool> settled = settle(race, pair, instance, a->choices.old_shown || b->choices.old_shown);
      if (!settled) return settled.error();
      if (*settled) return {};
    }
    if (doubtful_) return accept(race, doubtful_->first, doubtful_->second);
    const bool reads = race.first.op != AccessKind::write || race.second.op != AccessKind::write;
    if (race.level != RaceLevel::stream && reads) {
      Expected<bool> done = by_old_values(race, driven);
      if (!done) return done.error();
      if (*done) return {};
    }
    // Where this race is all that the order could change, any order that changes the outputs is its doing.
    for (std::uint64_t number = 0; alone_ && (driven || race.explored) && !spent(race); ++number) {
      Expected<Schedule> schedule = ordering(race, number);
      if (!schedule) return schedule.error();
      Expected<Run> run = session_.run(*schedule, &natural_.outputs, budget_);
      if (!run) return run.error();
      ++race.schedules;
      if (!compare(natural_.outputs, run->outputs, nullptr).differ) continue;
      return found_by_order(race, *schedule, *run);
    }
    Expected<const Systematic*> all = every_schedule();
    if (!all) return all.error();
    if (*all && (*all)->other && alone_) {
      Expected<Run> run = session_.run(*(*all)->other, nullptr, budget_);
      if (!run) return run.error();
      race.schedules += (*all)->schedules;
      return found_by_order(race, *(*all)->other, *run);
    }
    race.verdict = driven ? Verdict::benign : Verdict::unreached;
    race.verdict_why = driven ? "the outputs agree in every schedule tried" : trouble;
    if (const std::string words = *all ? in_words(**all) : ""; !words.empty()) {
      race.schedules += (*all)->schedules;
      race.verdict_why = driven ? words : trouble + "; " + words;
    }
    return {};
  }

 private:
  // Every schedule of the run, if it is small: explored once for all races. Null: it is not.
  Expected<const Systematic*> every_schedule() {
    const bool asked = options_.systematic != SearchOptions::automatic_systematic;
    if (options_.systematic == 0 || (!asked && natural_.choices.visible > small_run)) return nullptr;
    if (!all_) {
      SystematicLimits limits{.schedules = options_.systematic, .seconds = options_.seconds, .progress = {}};
      if (!asked) limits.seconds = std::min(limits.seconds, 5.0);
      if (options_.progress)
        limits.progress = [this](std::uint64_t n) {
          options_.progress("exploring every schedule, " + std::to_string(n) + " done of at most " +
                            std::to_string(options_.systematic));
        };
      Expected<Systematic> all = run_all(session_, natural_, budget_, limits);
      if (!all) return all.error();
      all_ = *std::move(all);
    }
    return &*all_;
  }

  // Holds change the natural order, in which the lanes of a warp go together: that can be many switches, other accesses
  // may change places, too, and the difference may rest on memory that nobody wrote. A better witness of the instance
  // is looked for then. False: what there is does not show the pair alone, in few switches; other instances come first.
  Expected<bool> settle(Race& race, const SchedulePair& pair, const Race::Instance& instance, bool old_shown) {
    const std::vector<SiteName> sites = sites_of(race);
    const Alternatives::Wanted wanted{instance, sites.front(), sites.back()};
    Alternatives alternatives(session_, budget_, options_.seed, natural_.choices.visible);
    Expected<std::optional<Candidate>> held =
        alternatives.measure(pair.first_then_second, pair.second_then_first, wanted, false);
    if (!held) return held.error();
    if (!*held) return false;
    Candidate best = **std::move(held);
    // There are reads that take nothing else with them, and that nobody waits for.
    if (old_shown && (!best.others.empty() || best.switches > Candidate::few)) {
      std::uint64_t driven = 0;
      const std::uint64_t tried = race.schedules;
      Expected<bool> done = by_old_values(race, driven);
      if (!done || *done) return done;
      race.schedules = tried;
    }
    if (!best.perfect()) {
      Expected<Candidate> better =
          alternatives.better(std::move(best), wanted, std::min(deadline(), begin_ + most_spent_on_better));
      if (!better) return better.error();
      best = *std::move(better);
    }
    if (!best.good() || best.footing != Footing::certain) {
      if (!doubtful_ || best.better_than(doubtful_->first)) doubtful_ = {std::move(best), instance};
      if (++doubts_ < (doubtful_->first.good() ? enough_good : most_doubts)) return false;
      best = doubtful_->first;
      if (Expected<void> done = accept(race, best, doubtful_->second); !done) return done.error();
      return true;
    }
    if (Expected<void> done = accept(race, best, instance); !done) return done.error();
    return true;
  }

  Expected<void> accept(Race& race, const Candidate& best, const Race::Instance& instance) {
    auto add = [&](const char* text) {
      race.verdict_why += (race.verdict_why.empty() ? "" : "; ") + std::string(text);
    };
    if (best.footing == Footing::doubtful)
      add("what differs rests on memory that nobody wrote: other machines may show other values");
    if (best.footing == Footing::one_sided) add("one of the two runs reads memory that nobody wrote");
    if (!best.others.empty()) add("no schedule that was tried takes the pair the other way alone");
    Expected<Run> a = session_.run(best.a, nullptr, budget_);
    if (!a) return a.error();
    Expected<Run> b = session_.run(best.b, nullptr, budget_);
    if (!b) return b.error();
    const trace::Launch* launch = session_.launch(instance.first.operation);
    if (launch && instance.second.operation == instance.first.operation &&
        launch->grid.count() <= most_improved / std::max<std::uint64_t>(launch->block.count(), 1)) {
      const std::vector<SiteName> sites = sites_of(race);
      Alternatives alternatives(session_, budget_, options_.seed, natural_.choices.visible);
      const auto until = std::min(deadline(), Clock::now() + most_spent_on_size);
      const std::uint64_t blocks = launch->grid.count(), threads = launch->block.count();
      Expected<std::optional<Alternatives::Smaller>> smaller =
          alternatives.smaller(best, {instance, sites.front(), sites.back()}, blocks, threads, until);
      if (!smaller) return smaller.error();
      if (*smaller) {
        race.smaller = {(*smaller)->blocks, blocks, (*smaller)->threads, blocks * threads};
        smaller_ = {(*smaller)->a, (*smaller)->b, *race.smaller};
      }
    }
    return found(race, {best.a, best.b}, *a, *b, instance);
  }

  Clock::time_point deadline() const {
    return begin_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.seconds));
  }

  // Number 0, 1, … of the orders in which other instances of the pair change places too: in every fourth, the accesses
  // of the pair are walked through uniformly.
  Expected<Schedule> ordering(const Race& race, std::uint64_t number) {
    if (number % 4 == 3 && race.level != RaceLevel::stream && natural_.choices.visible <= most_logged) {
      Schedule walk;
      walk.kind = Schedule::Kind::uniform;
      walk.seed = options_.seed + number;
      walk.sites = sites_of(race);
      if (!log_) {
        log_.emplace();
        if (Expected<Run> run = session_.run(Schedule{}, nullptr, budget_, &*log_); !run) return run.error();
      }
      std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint64_t> counts;
      for (const device::Performed& p : *log_)
        if (std::binary_search(walk.sites.begin(), walk.sites.end(), SiteName{p.module, p.site}))
          ++counts[{p.operation, p.block, p.thread}];
      for (const auto& [name, count] : counts)
        walk.counts.push_back({std::get<0>(name), std::get<1>(name), std::get<2>(name), count});
      if (!counts.empty() && counts.size() <= most_walkers) return walk;
    }
    return nth_schedule(number, options_.seed, natural_.choices.visible);
  }

  static std::vector<SiteName> sites_of(const Race& race) {
    std::vector<SiteName> sites{{race.first.name.module, race.first.name.site},
                                {race.second.name.module, race.second.name.site}};
    std::sort(sites.begin(), sites.end());
    sites.erase(std::unique(sites.begin(), sites.end()), sites.end());
    return sites;
  }

  // Two runs of one order of threads, in which reads of this pair return older values in the one and not in the other.
  // True: that changed the outputs, and the verdict is made.
  Expected<bool> by_old_values(Race& race, std::uint64_t& driven) {
    std::uint64_t without_any = 0;
    for (std::uint64_t number = 0; number < schedules_with_old_values && without_any < 4 && !spent(race); ++number) {
      Schedule a; // the default order first
      a.kind = Schedule::Kind::switches;
      if (number) a = nth_schedule(number - 1, options_.seed, natural_.choices.visible);
      a.weak = true;
      a.sites = sites_of(race);
      Schedule b = a;
      b.old_rate = number % 2 ? 64 : 256;
      Expected<Run> with = session_.run(b, nullptr, budget_);
      if (!with) return with.error();
      ++race.schedules;
      if (with->old_reads.empty()) {
        ++without_any;
        continue;
      }
      Expected<Run> without = session_.run(a, nullptr, budget_);
      if (!without) return without.error();
      ++race.schedules;
      ++driven;
      if (!compare(without->outputs, with->outputs, nullptr).differ) continue;
      return found_by_old_values(race, {a, b}, *with);
    }
    return false;
  }

  // Both as lists: of the switches that they share and of the old values, those that matter.
  Expected<bool> found_by_old_values(Race& race, const SchedulePair& pair, const Run& with) {
    const std::vector<Switch>& switches = with.switches;
    const std::vector<OldRead>& reads = with.old_reads;
    auto listed = [&](const std::vector<std::size_t>& numbers, bool old) {
      Schedule schedule;
      schedule.kind = Schedule::Kind::switches;
      schedule.weak = true;
      for (std::size_t n : numbers) {
        if (n < switches.size())
          schedule.switches.push_back(switches[n]);
        else if (old)
          schedule.old_reads.push_back(reads[n - switches.size()]);
      }
      return schedule;
    };
    auto differs = [&](const std::vector<std::size_t>& numbers) {
      if (std::chrono::duration<double>(Clock::now() - begin_).count() > 2 * options_.seconds) return false;
      Expected<Run> a = session_.run(listed(numbers, false), nullptr, budget_);
      Expected<Run> b = session_.run(listed(numbers, true), nullptr, budget_);
      race.schedules += 2;
      return a && b && compare(a->outputs, b->outputs, nullptr).differ;
    };
    std::vector<std::size_t> all(switches.size() + reads.size());
    std::iota(all.begin(), all.end(), std::size_t(0));
    SchedulePair best = pair;
    race.verdict_why = "its reads return what other orders of memory operations allow, which nothing forbids them";
    if (differs(all)) {
      std::vector<std::size_t> only_reads(all.begin() + std::ptrdiff_t(switches.size()), all.end());
      std::vector<std::size_t> from = differs(only_reads) ? only_reads : all;
      const std::vector<std::size_t> left = fewest(
          from.size(),
          [&](const std::vector<std::size_t>& numbers) {
            std::vector<std::size_t> chosen;
            for (std::size_t n : numbers) chosen.push_back(from[n]);
            return differs(chosen);
          },
          shrinking_pairs);
      std::vector<std::size_t> chosen;
      for (std::size_t n : left) chosen.push_back(from[n]);
      best = {listed(chosen, false), listed(chosen, true)};
      const std::size_t old = best.second_then_first.old_reads.size();
      race.verdict_why += "; " + std::to_string(old) + (old == 1 ? " such read" : " such reads") + " of " +
                          std::to_string(reads.size()) + " and " + std::to_string(chosen.size() - old) +
                          " context switches suffice";
    }
    Expected<Run> a = session_.run(best.first_then_second, nullptr, budget_);
    if (!a) return a.error();
    Expected<Run> b = session_.run(best.second_then_first, nullptr, budget_);
    if (!b) return b.error();
    if (Expected<void> done = found(race, best, *a, *b, std::nullopt); !done) return done.error();
    return true;
  }

  // What the two runs of a witness did, and what else than the instance changed places.
  // `choose`: the instance may become that at which they part.
  Expected<void> describe(Race& race, const SchedulePair& pair, Race::Instance& instance, bool choose) {
    if (natural_.choices.visible > most_logged || race.level == RaceLevel::stream) return {};
    Log a, b;
    Expected<Run> of_a = session_.run(pair.first_then_second, nullptr, budget_, &a);
    if (!of_a) return of_a.error();
    Expected<Run> of_b = session_.run(pair.second_then_first, nullptr, budget_, &b);
    if (!of_b) return of_b.error();
    auto site = [this](std::uint32_t module, std::uint32_t number) { return session_.site(module, number); };
    if (choose) instance = parting_instance(a, b, race).value_or(instance);
    SideBySide steps = side_by_side(a, b, instance, site);
    race.steps_a = std::move(steps.a);
    race.steps_b = std::move(steps.b);
    if (!(instance.first == race.first.name && instance.second == race.second.name)) race.witnessed = instance;
    race.context_switches = context_switches(a, b);
    std::string others;
    std::set<std::string> named;
    bool own = false;
    const std::vector<SiteName> sites = sites_of(race);
    for (const SitePair& changed : changed_places(a, b, instance)) {
      if (changed.first == sites.front() && changed.second == sites.back()) {
        own = true;
        continue;
      }
      const std::string pair = name_of(session_, changed.first) + " and " + name_of(session_, changed.second);
      if (!named.insert(pair).second) continue; // of one line, or inlined twice
      others += (others.empty() ? "" : ", ") + pair;
    }
    auto add = [&](const std::string& text) { race.verdict_why += (race.verdict_why.empty() ? "" : "; ") + text; };
    if (!others.empty()) add("other accesses changed places with it: " + others);
    if (own) add("other executions of the pair changed places with it");
    return {};
  }

  // An order that changes the outputs: the switches in it that matter.
  Expected<void> found_by_order(Race& race, const Schedule& schedule, const Run& run) {
    race.verdict_why =
        "found by another order of threads, in which other instances of the pair may have changed places";
    Schedule listed;
    listed.kind = Schedule::Kind::switches;
    listed.switches = run.switches;
    Expected<Run> again = session_.run(listed, nullptr, budget_);
    if (!again) return again.error();
    if (!compare(natural_.outputs, again->outputs, nullptr).differ) // too many switches to list
      return found(race, {Schedule{}, schedule}, natural_, run, std::nullopt);
    auto differs = [&](const Schedule& shorter) {
      if (std::chrono::duration<double>(Clock::now() - begin_).count() > 2 * options_.seconds) return false;
      Expected<Run> tried = session_.run(shorter, &natural_.outputs, budget_);
      race.schedules += 1;
      return tried && compare(natural_.outputs, tried->outputs, nullptr).differ;
    };
    listed.switches = shrink(std::move(listed.switches), differs, shrinking_runs);
    Expected<Run> shortest = session_.run(listed, nullptr, budget_);
    if (!shortest) return shortest.error();
    race.verdict_why += "; " + std::to_string(listed.switches.size()) +
                        (listed.switches.size() == 1 ? " context switch" : " context switches") + " of " +
                        std::to_string(run.switches.size()) + " suffice";
    return found(race, {Schedule{}, listed}, natural_, *shortest, std::nullopt);
  }

  // A pair of schedules whose outputs differ: describes the difference and writes the witness. `directed`: the instance
  // that they take in either order; without one, that at which the runs part.
  Expected<void> found(Race& race, const SchedulePair& pair, const Run& a, const Run& b,
                       const std::optional<Race::Instance>& directed) {
    Expected<const ValueTypes*> types = session_.value_types();
    if (!types) return types.error();
    Comparison comparison = compare(a.outputs, b.outputs, *types);
    race.verdict = Verdict::harmful;
    race.differences = comparison.differences;
    Race::Instance instance = directed.value_or(race.instances.front());
    if (Expected<void> described = describe(race, pair, instance, !directed); !described) return described;
    if (options_.output.empty()) return {};

    Witness witness;
    witness.race = race;
    witness.instance = instance;
    witness.smaller = smaller_;
    witness.a = pair.first_then_second;
    witness.b = pair.second_then_first;
    witness.last_operation = comparison.operation ? comparison.operation : ~0u;
    witness.budget = budget_;
    witness.value_types = (*types)->known();
    // What ran later belongs to another history of the host: the capsule ends where the runs part.
    std::size_t commands = std::max(a.commands, b.commands);
    if (comparison.operation) commands = b.commands;
    Expected<Run> whole_a = session_.run(witness.a, nullptr, budget_);
    if (!whole_a) return whole_a.error();
    Expected<Run> whole_b = session_.run(witness.b, nullptr, budget_);
    if (!whole_b) return whole_b.error();
    witness.weak = whole_a->choices.old_shown || whole_b->choices.old_shown;
    witness.digest_a = whole_a->outputs.digest(witness.last_operation);
    witness.digest_b = whole_b->outputs.digest(witness.last_operation);
    return write(race, witness, commands);
  }

  Expected<void> write(Race& race, const Witness& witness, std::size_t commands) {
    std::error_code error;
    fs::create_directories(options_.output, error);
    Expected<TemporaryDirectory> directory = TemporaryDirectory::create();
    if (!directory) return directory.error();
    std::string capsule = directory->path() + "/capsule";
    if (Expected<void> saved = session_.save(capsule, commands); !saved) return saved;
    std::string file = (fs::path(options_.output) / ("race-" + std::to_string(race.id) + ".witness")).string();
    if (Expected<void> written = write_witness(file, witness, capsule); !written) return written;
    race.witness = file;
    return {};
  }

  bool spent(const Race& race) const {
    if (options_.progress && race.schedules >= 4)
      options_.progress("replaying race " + std::to_string(race.id) + ", schedule " + std::to_string(race.schedules) +
                        " of at most " + std::to_string(options_.schedules));
    return race.schedules + 2 > std::max<std::uint64_t>(options_.schedules, 2) ||
           std::chrono::duration<double>(Clock::now() - begin_).count() > options_.seconds;
  }

  const Session& session_;
  const SearchOptions& options_;
  const Run& natural_;
  std::uint64_t budget_;
  bool alone_;
  Clock::time_point begin_;
  std::optional<std::pair<Candidate, Race::Instance>> doubtful_; // the best so far of those that are not good
  unsigned doubts_ = 0;
  std::optional<Witness::Smaller> smaller_; // of the witness that is written next
  std::optional<Systematic> all_; // every schedule, if the run is small
  std::optional<Log> log_; // of the natural run
};

// Float atomics: the spread of the outputs over random orders, where no race could be its cause.
Expected<void> judge_order_dependent(const Session& session, const Run& natural, const SearchOptions& options,
                                     std::uint64_t budget, std::vector<OrderDependent>& sites) {
  std::uint64_t spread = 0, tried = 0;
  constexpr std::uint64_t random_orders = 8;
  for (; tried < std::min(options.schedules, random_orders); ++tried) {
    Expected<Run> run = session.run(nth_schedule(tried, options.seed, natural.choices.visible), nullptr, budget);
    if (!run) return run.error();
    if (!compare(natural.outputs, run->outputs, nullptr).differ) continue;
    Expected<const ValueTypes*> types = session.value_types();
    if (!types) return types.error();
    for (const Difference& difference : compare(natural.outputs, run->outputs, *types).differences) {
      spread = std::max(spread, difference.max_ulp);
    }
  }
  for (OrderDependent& site : sites) {
    site.schedules = tried;
    site.max_ulp = spread;
  }
  return {};
}

} // namespace

Expected<void> judge(const std::string& trace, Analysis& analysis, const SearchOptions& options) {
  auto chosen = [&](const Race& race) {
    if (options.races.empty()) return !race.suppressed;
    return std::find(options.races.begin(), options.races.end(), race.id) != options.races.end();
  };
  bool any = std::any_of(analysis.races.begin(), analysis.races.end(), chosen);
  bool spread = analysis.races.empty() && !analysis.order_dependent.empty();
  if (!any && !spread) return {};

  Expected<Session> session = Session::open(trace);
  if (!session) return session.error();
  Expected<Run> natural = session->run(Schedule{});
  if (!natural) return natural.error();
  if (session->knows_recorded() && compare(session->recorded(), natural->outputs, nullptr).differ) {
    analysis.warnings.push_back(
        "a replay in the recorded order gives other outputs than the recording: the program hands the device bytes "
        "that the trace does not hold, so verdicts speak of the replayed runs only");
  }
  std::uint64_t budget = hang_budget(natural->choices.visible);

  bool alone = analysis.races.size() == 1 && analysis.order_dependent.empty();
  Judge judge(*session, options, *natural, budget, alone);
  std::size_t done = 0;
  for (Race& race : analysis.races) {
    if (!chosen(race)) continue;
    if (options.progress) {
      options.progress("replaying race " + std::to_string(race.id) + " of " + std::to_string(analysis.races.size()) +
                       ", " + std::to_string(done++) + " done");
    }
    if (Expected<void> judged = judge.judge(race); !judged) return judged;
  }
  if (spread) return judge_order_dependent(*session, *natural, options, budget, analysis.order_dependent);
  return {};
}

Expected<WitnessRun> replay_witness(const std::string& file) {
  Expected<TemporaryDirectory> directory = TemporaryDirectory::create();
  if (!directory) return directory.error();
  Expected<Witness> witness = read_witness(file, directory->path());
  if (!witness) return witness.error();
  Expected<Session> session = Session::open(directory->path());
  if (!session) return session.error();
  Expected<Run> a = session->run(witness->a, nullptr, witness->budget);
  if (!a) return a.error();
  Expected<Run> b = session->run(witness->b, nullptr, witness->budget);
  if (!b) return b.error();

  WitnessRun result;
  result.race = witness->race;
  if (result.race.level != RaceLevel::stream && a->choices.visible <= most_logged) {
    Log of_a, of_b;
    if (Expected<Run> run = session->run(witness->a, nullptr, witness->budget, &of_a); !run) return run.error();
    if (Expected<Run> run = session->run(witness->b, nullptr, witness->budget, &of_b); !run) return run.error();
    result.race.witnessed = witness->instance;
    const Race::Instance sides{witness->race.first.name, witness->race.second.name};
    SideBySide steps = side_by_side(of_a, of_b, witness->instance.value_or(sides),
                                    [&](auto module, auto number) { return session->site(module, number); });
    result.race.steps_a = std::move(steps.a);
    result.race.steps_b = std::move(steps.b);
    result.race.context_switches = context_switches(of_a, of_b);
  }
  if (witness->smaller) {
    Expected<Run> of_a = session->run(witness->smaller->a, nullptr, witness->budget);
    if (!of_a) return of_a.error();
    Expected<Run> of_b = session->run(witness->smaller->b, nullptr, witness->budget);
    if (!of_b) return of_b.error();
    if (compare(of_a->outputs, of_b->outputs, nullptr).differ) result.race.smaller = witness->smaller->size;
  }
  result.digest_a = a->outputs.digest(witness->last_operation);
  result.digest_b = b->outputs.digest(witness->last_operation);
  result.as_recorded = result.digest_a == witness->digest_a && result.digest_b == witness->digest_b;
  Expected<const ValueTypes*> types = session->value_types();
  if (!types) return types.error();
  ValueTypes told = **types;
  for (const auto& [allocation, type] : witness->value_types) told.tell(allocation, type);
  Comparison comparison = compare(a->outputs, b->outputs, &told);
  result.differ = comparison.differ;
  result.race.differences = comparison.differences;
  result.race.verdict = comparison.differ ? Verdict::harmful : Verdict::benign;
  result.race.witness = file;
  return result;
}

} // namespace deadheat::search
