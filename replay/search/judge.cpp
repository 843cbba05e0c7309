#include "replay/search/judge.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "replay/search/outputs.h"
#include "replay/search/schedules.h"

namespace deadheat::search {

namespace {

// Launches that run at the same time may see each other's writes late, as blocks of one do.
bool in_launches(const Race& race) {
  return std::any_of(race.instances.begin(), race.instances.end(),
                     [](const Race::Instance& instance) { return instance.first.launch && instance.second.launch; });
}

// Does the host get something by an operation that was submitted after the race's two?
bool anything_behind(const Race& race, const Outputs& outputs) {
  const std::uint32_t last = std::max(race.first.name.operation, race.second.name.operation);
  return std::any_of(outputs.outputs.begin(), outputs.outputs.end(),
                     [&](const Output& output) { return output.operation > last; });
}

constexpr std::uint64_t schedules_with_old_values = 12; // tried for a race
// Of these, tried however many schedules the instances took: these may be alike, as lanes of a warp that write what was
// there already.
constexpr std::uint64_t least_with_old_values = 4;
constexpr std::uint64_t few_schedules = 16; // whoever asks for no more gets no more
constexpr double seconds_again = 2; // for a race of a fault that is known to be harmful
constexpr std::size_t most_walkers = 512; // threads of a uniform walk

} // namespace

Expected<void> Judge::judge(Race& race, bool again) {
  this_race_ = {};
  this_race_.begin = Clock::now();
  this_race_.again = again;
  race.schedules = 0;
  for (auto& [instance, pair] : attempts(race)) {
    // Those are tried once, however many instances there are.
    if (spent(race, (may_be_old(race) ? 2 : 0) + (may_turn(race) ? schedules_of_whole : 0))) break;
    Expected<bool> made = attempt(race, instance, std::move(pair));
    if (!made) return made.error();
    if (*made) return {};
  }
  if (this_race_.doubtful) return accept_doubtful(race);
  if (options_.schedules > few_schedules && Clock::now() < deadline()) {
    Expected<bool> made = one_of_many(race);
    if (!made) return made.error();
    if (*made) return {};
    if (this_race_.doubtful) return accept_doubtful(race);
  }
  if (may_turn(race)) {
    Expected<bool> done = by_whole_operations(race);
    if (!done) return done.error();
    if (*done) return {};
  }
  Expected<bool> old_values = by_old_values(race);
  if (!old_values) return old_values.error();
  if (*old_values) return {};
  // Where this race is all that the order could change, any order that changes the outputs is its doing.
  for (std::uint64_t number = 0; alone_ && (this_race_.driven || race.explored) && !spent(race); ++number) {
    Expected<Schedule> schedule = ordering(race, number);
    if (!schedule) return schedule.error();
    Expected<Run> run = session_.run(*schedule, &natural_.outputs, budget_);
    if (!run) return run.error();
    ++race.schedules;
    if (!compare(natural_.outputs, run->outputs, nullptr).differ) continue;
    Expected<bool> told = tells(race, Schedule{}, *schedule);
    if (!told) return told.error();
    if (*told) return found_by_order(race, *schedule, *run);
    ++this_race_.elsewhere;
  }
  Expected<const Systematic*> all = every_schedule();
  if (!all) return all.error();
  Expected<bool> told_by_all = *all && (*all)->other && alone_ ? tells(race, Schedule{}, *(*all)->other) : false;
  if (!told_by_all) return told_by_all.error();
  if (*told_by_all) {
    Expected<Run> run = session_.run(*(*all)->other, nullptr, budget_);
    if (!run) return run.error();
    race.schedules += (*all)->schedules;
    return found_by_order(race, *(*all)->other, *run);
  }
  const Ending ending = natural_.outputs.ending;
  const std::string cut_short = ending == Ending::finished ? ""
                                : ending == Ending::hang
                                    ? "; the run hangs in any case: what it would do behind is not known"
                                    : "; a fault ends the run in any case: what it would do behind is not known";
  // Outputs that are not there agree in every schedule.
  const bool told = ending == Ending::finished || anything_behind(race, natural_.outputs);
  race.verdict = (this_race_.driven || this_race_.elsewhere) && told ? Verdict::benign : Verdict::unreached;
  race.verdict_why =
      this_race_.driven && !this_race_.elsewhere ? "the outputs agree in every schedule tried" : this_race_.trouble;
  race.schedules -= this_race_.elsewhere;
  if (this_race_.elsewhere)
    race.verdict_why =
        "in either order the two read the same and leave the same; where the outputs differ, other "
        "accesses changed places, too";
  if (const std::string words = *all ? in_words(**all) : ""; !words.empty()) {
    race.schedules += (*all)->schedules;
    if (!this_race_.elsewhere)
      race.verdict_why = this_race_.driven || this_race_.trouble.empty() ? words : this_race_.trouble + "; " + words;
  }
  if (this_race_.driven) race.verdict_why += cut_short;
  if (this_race_.driven && !told) race.verdict_why += ", and the host gets nothing that comes after the two";
  if (this_race_.driven && (race.first.op == AccessKind::free || race.second.op == AccessKind::free))
    race.verdict_why +=
        "; but who uses memory behind its free is wrong whatever comes out: by then it may be anybody's";
  if (this_race_.again)
    race.verdict_why += "; few schedules were tried, since the same fault is harmful in another race";
  return {};
}

Expected<const Systematic*> Judge::every_schedule() {
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

Expected<Schedule> Judge::ordering(const Race& race, std::uint64_t number) {
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

Expected<bool> Judge::by_old_values(Race& race) {
  if (!may_be_old(race) || std::exchange(this_race_.tried_old_values, true)) return false;
  std::uint64_t without_any = 0;
  const std::uint64_t least = options_.schedules > few_schedules ? least_with_old_values : 0;
  const auto may_try = [&](std::uint64_t number) { return number < least ? Clock::now() < deadline() : !spent(race); };
  for (std::uint64_t number = 0; number < schedules_with_old_values && without_any < 4 && may_try(number); ++number) {
    Schedule a; // first the order in which the race was found
    if (number == 1) a.kind = Schedule::Kind::switches;
    if (number > 1) a = nth_schedule(number - 2, options_.seed, natural_.choices.visible);
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
    if (waits_in_vain(race, *with)) continue;
    ++this_race_.driven;
    if (!compare(without->outputs, with->outputs, nullptr).differ) continue;
    return found_by_old_values(race, {a, b}, *with);
  }
  return false;
}

bool Judge::may_be_old(const Race& race) {
  if (race.first.op == AccessKind::write && race.second.op == AccessKind::write) return false;
  return race.level != RaceLevel::stream || reads_non_coherently(race) || in_launches(race);
}

bool Judge::reads_non_coherently(const Race& race) {
  return race.first.opcode.find(".nc") != std::string::npos || race.second.opcode.find(".nc") != std::string::npos;
}

bool Judge::waits_in_vain(const Race& race, const Run& run) {
  return race.race_class == RaceClass::strong && run.outputs.ending == Ending::hang &&
         (run.choices.old_shown || !run.old_reads.empty());
}

double Judge::seconds() const {
  return this_race_.again ? std::min(options_.seconds, seconds_again) : options_.seconds;
}

Judge::Clock::time_point Judge::deadline() const {
  return this_race_.begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds()));
}

bool Judge::spent(const Race& race, std::uint64_t kept) const {
  if (options_.progress && race.schedules >= 4)
    options_.progress("replaying race " + std::to_string(race.id) + ", schedule " + std::to_string(race.schedules) +
                      " of at most " + std::to_string(options_.schedules));
  return race.schedules + 2 + kept > std::max<std::uint64_t>(options_.schedules, 2 + kept) ||
         std::chrono::duration<double>(Clock::now() - this_race_.begin).count() > seconds();
}

std::vector<SiteName> Judge::sites_of(const Race& race) {
  std::vector<SiteName> sites{{race.first.name.module, race.first.name.site},
                              {race.second.name.module, race.second.name.site}};
  std::sort(sites.begin(), sites.end());
  sites.erase(std::unique(sites.begin(), sites.end()), sites.end());
  return sites;
}

namespace {

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

// Races of which no other is of the same two kernels or copies.
std::set<std::uint32_t> sole_conflicts(const std::vector<Race>& races) {
  std::map<std::pair<std::string, std::string>, std::vector<std::uint32_t>> of;
  for (const Race& race : races) of[std::minmax(race.first.kernel, race.second.kernel)].push_back(race.id);
  std::set<std::uint32_t> sole;
  for (const auto& [kernels, ids] : of)
    if (ids.size() == 1) sole.insert(ids.front());
  return sole;
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
  Outputs recorded = session->recorded();
  if (session->broke_off()) recorded.ending = natural->outputs.ending; // which of the two, the trace does not say
  if (session->knows_recorded() && compare(recorded, natural->outputs, nullptr).differ) {
    analysis.warnings.push_back(
        "a replay in the recorded order gives other outputs than the recording: the program hands the device bytes "
        "that the trace does not hold, so verdicts speak of the replayed runs only");
  }
  std::uint64_t budget = hang_budget(natural->choices.visible);

  bool alone = analysis.races.size() == 1 && analysis.order_dependent.empty();
  Judge judge(*session, options, *natural, budget, alone);
  using Clock = std::chrono::steady_clock;
  std::map<std::uint32_t, Clock::duration> again; // of faults that are harmful: spent on what else they make
  std::map<std::uint32_t, std::size_t> left_out;
  judge.sole(sole_conflicts(analysis.races));
  std::size_t done = 0;
  for (Race& race : analysis.races) {
    if (!chosen(race)) continue;
    if (options.progress) {
      options.progress("replaying race " + std::to_string(race.id) + " of " + std::to_string(analysis.races.size()) +
                       ", " + std::to_string(done++) + " done");
    }
    const std::uint32_t fault = race.same_fault_as ? race.same_fault_as : race.id;
    const auto known = again.find(fault);
    if (known != again.end() && known->second > std::chrono::duration<double>(options.seconds)) {
      ++left_out[fault];
      continue;
    }
    const Clock::time_point begin = Clock::now();
    if (Expected<void> judged = judge.judge(race, known != again.end()); !judged) return judged;
    if (known != again.end())
      known->second += Clock::now() - begin;
    else if (race.verdict == Verdict::harmful)
      again.emplace(fault, Clock::duration::zero());
  }
  for (const auto& [fault, races] : left_out)
    analysis.warnings.push_back(std::to_string(races) + (races == 1 ? " race" : " races") +
                                " of the same fault as race " + std::to_string(fault) + ", which is harmful, " +
                                (races == 1 ? "was" : "were") +
                                " not replayed (replay --race ID replays one, --seconds gives more time)");
  if (spread) return judge_order_dependent(*session, *natural, options, budget, analysis.order_dependent);
  return {};
}

} // namespace deadheat::search
