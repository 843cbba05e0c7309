// One instance of a race after the other, taken in either order (judge.h), and which of the pairs of runs that differ
// is the race's witness.
#include <algorithm>
#include <iterator>
#include <string>

#include "replay/search/judge.h"
#include "replay/search/outputs.h"

namespace deadheat::search {

namespace {

bool in_one_launch(const Race::Instance& instance) {
  return instance.first.launch && instance.first.launch == instance.second.launch;
}

// A read may see what is written later where they are not both strong (PTX ISA 8.10.5 binds what is morally strong),
// and the address means the same to both.
bool may_foresee(const Race& race, const Race::Instance& instance) {
  return race.race_class == RaceClass::data &&
         (race.level == RaceLevel::global || instance.first.block == instance.second.block);
}

// How an order came about that no order of performing them brings about.
std::string out_of_order(const Race& race, bool foreseen, bool stuck) {
  const char* what = foreseen ? "the first access sees what the second writes, which nothing orders behind it"
                     : race.second.op == AccessKind::write
                         ? "the first write overtakes the second, which nothing orders behind it"
                         : "the second access does not see the first, which nothing orders before it";
  return std::string(what) + (stuck ? ": its " : ": where its ") + (foreseen ? "reader" : "writer") +
         (stuck ? " cannot wait" : " waits, the second goes elsewhere");
}

// Of what every pair of writes leaves in either order, a few instances say as much as all.
bool writes_alike(const Race& race) {
  return race.same_value && race.first.op == AccessKind::write && race.second.op == AccessKind::write;
}

// The first operation as late as can be: what comes before the second in its stream goes before both. Where it is that
// which the first destroys, the recorded run shows nothing of it: the first came before.
SchedulePair late_pair(const Race::Instance& instance, std::uint32_t before_second) {
  SchedulePair pair = schedule_pair(instance);
  AccessName all_of_first, earlier;
  all_of_first.operation = instance.first.operation;
  earlier.operation = before_second;
  for (Schedule* schedule : {&pair.first_then_second, &pair.second_then_first})
    schedule->holds.push_back({all_of_first, earlier});
  return pair;
}

// Operations of runs for whose witnesses better ones are sought, and threads of launches that fewer are sought of.
constexpr std::uint64_t most_improved = 1 << 15;
constexpr std::size_t most_late = 4; // instances whose operations are also tried as late as the second comes
constexpr std::size_t most_patient = 4; // instances for which an access waits while all others go on
constexpr std::size_t most_alike = 4; // instances that are tried of writes which all write the same
constexpr unsigned enough_good = 2; // instances with good witnesses one of whose runs reads memory that nobody wrote
constexpr unsigned most_doubts = 4; // instances of a race of which none has a good witness
constexpr auto most_spent_on_better = std::chrono::seconds(6); // looking for witnesses of fewer context switches
constexpr auto most_spent_on_size = std::chrono::seconds(2); // looking for fewer blocks and threads

} // namespace

SchedulePair schedule_pair(const Race::Instance& instance) {
  SchedulePair pair;
  pair.first_then_second.kind = pair.second_then_first.kind = Schedule::Kind::holds;
  pair.first_then_second.holds.push_back({instance.second, instance.first});
  pair.second_then_first.holds.push_back({instance.first, instance.second});
  return pair;
}

std::vector<std::pair<Race::Instance, SchedulePair>> Judge::attempts(const Race& race) const {
  std::vector<std::pair<Race::Instance, SchedulePair>> all;
  const std::size_t most = writes_alike(race) ? most_alike : race.instances.size();
  for (std::size_t i = 0; i < std::min(race.instances.size(), most); ++i)
    all.emplace_back(race.instances[i], schedule_pair(race.instances[i]));
  for (std::size_t i = 0; i < std::min(race.instances.size(), most_late); ++i) {
    const Race::Instance& instance = race.instances[i];
    if (instance.first.operation == instance.second.operation) continue;
    const std::uint32_t before = session_.before(instance.second.operation);
    if (before && before != instance.first.operation) all.emplace_back(instance, late_pair(instance, before));
  }
  return all;
}

Expected<bool> Judge::attempt(Race& race, const Race::Instance& instance, SchedulePair pair) {
  Expected<Run> a = session_.run(pair.first_then_second, nullptr, budget_);
  if (!a) return a.error();
  Expected<Run> b = session_.run(pair.second_then_first, &a->outputs, budget_);
  if (!b) return b.error();
  race.schedules += 2;
  std::string how;
  const bool kept = a->holds_kept && b->holds_kept, alike = !compare(a->outputs, b->outputs, nullptr).differ;
  // Where the first cannot wait, the second need not see it. Atomics that race are not atomic to each other either
  // (PTX ISA 8.10.3: only morally strong ones are).
  const bool stuck = a->holds_kept && !b->holds_kept;
  const bool atomics = race.first.op == AccessKind::atomic && race.second.op == AccessKind::atomic && kept && alike;
  // What the second would touch of the first's, it did not find while that waited.
  const bool apart = kept && alike && b->choices.held_apart;
  if ((stuck || atomics || apart) && in_one_launch(instance)) {
    Schedule unseen = pair.second_then_first;
    unseen.holds[0].in_place = true;
    Expected<Run> c = session_.run(unseen, &a->outputs, budget_);
    if (!c) return c.error();
    ++race.schedules;
    if (!c->holds_kept && may_foresee(race, instance) && !c->choices.until_wrote.bytes.empty()) {
      unseen.holds[0].foreseen = c->choices.until_wrote;
      c = session_.run(unseen, &a->outputs, budget_);
      if (!c) return c.error();
      ++race.schedules;
    }
    if (c->holds_kept) {
      pair.second_then_first = unseen;
      b = std::move(c);
      how = atomics ? "the second atomic does not see the first: in their scopes neither is atomic to the other"
                    : out_of_order(race, !unseen.holds[0].foreseen.bytes.empty(), stuck);
    }
  }
  if (stuck && !b->holds_kept && in_one_launch(instance) && this_race_.patient_tries++ < most_patient) {
    Schedule patient = pair.second_then_first;
    patient.holds[0].patient = true;
    Expected<Run> c = session_.run(patient, &a->outputs, budget_);
    if (!c) return c.error();
    if (c->holds_kept) {
      ++race.schedules;
      pair.second_then_first = patient;
      b = std::move(c);
    }
  }
  if (!a->holds_kept || !b->holds_kept) {
    this_race_.trouble = a->holds_kept ? b->hold_trouble : a->hold_trouble;
    return false;
  }
  if (waits_in_vain(race, *a) || waits_in_vain(race, *b)) {
    this_race_.trouble = "a loop that waits was shown an old value, and the run did not end: that tells nothing";
    return false;
  }
  const bool differ = compare(a->outputs, b->outputs, nullptr).differ;
  if (differ) {
    Expected<bool> told = tells(race, pair.first_then_second, pair.second_then_first);
    if (!told) return told.error();
    if (!*told) {
      this_race_.elsewhere += 2;
      return false;
    }
  }
  ++this_race_.driven;
  if (!differ) return false;
  race.verdict_why = how;
  if (pair.second_then_first.holds[0].in_place || natural_.choices.visible > most_improved ||
      !in_one_launch(instance)) {
    if (Expected<void> done = found(race, pair, *a, *b, instance); !done) return done.error();
    return true;
  }
  return settle(race, pair, instance, a->choices.old_shown || b->choices.old_shown);
}

Expected<bool> Judge::one_of_many(Race& race) {
  using Instances = std::vector<Race::Instance>;
  const auto differs = [&](const Instances& those) -> Expected<bool> {
    Schedule unseen;
    unseen.kind = Schedule::Kind::holds;
    for (const Race::Instance& instance : those)
      unseen.holds.push_back({.held = instance.first, .until = instance.second, .in_place = true});
    Expected<Run> run = session_.run(unseen, &natural_.outputs, budget_);
    if (!run) return run.error();
    ++race.schedules;
    return !waits_in_vain(race, *run) && compare(natural_.outputs, run->outputs, nullptr).differ;
  };
  Instances those;
  if (!writes_alike(race))
    std::copy_if(race.sample.begin(), race.sample.end(), std::back_inserter(those), in_one_launch);
  if (those.size() < 2) return false;
  Expected<bool> any = differs(those);
  while (any && *any && those.size() > 1) {
    if (Clock::now() > deadline()) return false;
    const auto half = those.begin() + std::ptrdiff_t(those.size() / 2);
    Instances one(those.begin(), half), other(half, those.end());
    if (any = differs(one); !any) break;
    if (*any) {
      those = std::move(one);
    } else {
      any = differs(other);
      those = std::move(other);
    }
  }
  if (!any || !*any) return any;
  return attempt(race, those.front(), schedule_pair(those.front()));
}

Expected<bool> Judge::settle(Race& race, const SchedulePair& pair, const Race::Instance& instance, bool old_shown) {
  const std::vector<SiteName> sites = sites_of(race);
  const Alternatives::Wanted wanted{instance, sites.front(), sites.back()};
  Alternatives alternatives(session_, budget_, options_.seed, natural_.choices.visible);
  Expected<std::optional<Candidate>> held =
      alternatives.measure(pair.first_then_second, pair.second_then_first, wanted, false);
  if (!held) return held.error();
  if (!*held) return false;
  Candidate best = **std::move(held);
  // There are reads that take nothing else with them, and that nobody waits for.
  if (!this_race_.again && old_shown && (!best.others.empty() || best.switches > Candidate::few)) {
    Expected<bool> done = better_by_old_values(race);
    if (!done || *done) return done;
  }
  if (!this_race_.again && !best.perfect()) {
    Expected<Candidate> better =
        alternatives.better(std::move(best), wanted, std::min(deadline(), this_race_.begin + most_spent_on_better));
    if (!better) return better.error();
    best = *std::move(better);
  }
  if (!best.good() || best.footing != Footing::certain) {
    if (!this_race_.doubtful || best.better_than(this_race_.doubtful->first))
      this_race_.doubtful = {std::move(best), instance};
    if (++this_race_.doubts < (this_race_.doubtful->first.good() ? enough_good : most_doubts)) return false;
    if (Expected<void> done = accept_doubtful(race); !done) return done.error();
    return true;
  }
  if (Expected<void> done = accept(race, best, instance); !done) return done.error();
  return true;
}

// A few reads of old values say more than a run in which other accesses change places, too, or that nobody can read.
Expected<bool> Judge::better_by_old_values(Race& race) {
  const std::uint64_t tried = race.schedules;
  Expected<bool> done = by_old_values(race);
  if (done && !*done) race.schedules = tried;
  return done;
}

Expected<void> Judge::accept_doubtful(Race& race) {
  if (!this_race_.doubtful->first.others.empty() || this_race_.doubtful->first.switches > Candidate::many) {
    Expected<bool> done = better_by_old_values(race);
    if (!done) return done.error();
    if (*done) return {};
  }
  return accept(race, this_race_.doubtful->first, this_race_.doubtful->second);
}

Expected<void> Judge::accept(Race& race, const Candidate& best, const Race::Instance& instance) {
  auto add = [&](const char* text) { race.verdict_why += (race.verdict_why.empty() ? "" : "; ") + std::string(text); };
  if (best.footing == Footing::doubtful)
    add("what differs rests on memory that nobody wrote: other machines may show other values");
  if (best.footing == Footing::one_sided) add("one of the two runs reads memory that nobody wrote");
  if (!best.others.empty()) add("no schedule that was tried takes the pair the other way alone");
  Expected<Run> a = session_.run(best.a, nullptr, budget_);
  if (!a) return a.error();
  Expected<Run> b = session_.run(best.b, nullptr, budget_);
  if (!b) return b.error();
  const trace::Launch* launch = session_.launch(instance.first.operation);
  if (!this_race_.again && launch && instance.second.operation == instance.first.operation &&
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
      this_race_.smaller = {(*smaller)->a, (*smaller)->b, *race.smaller};
    }
  }
  return found(race, {best.a, best.b}, *a, *b, instance);
}

} // namespace deadheat::search
