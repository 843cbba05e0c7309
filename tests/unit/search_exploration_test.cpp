// Systematic exploration of little programs: every Mazurkiewicz trace once, and no more. Where numbers are known they
// are compared with those; else with an enumeration of all interleavings.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>

#include "replay/search/exploration.h"

namespace deadheat::search {
namespace {

using device::NextAccess;

struct Step {
  enum class Kind : std::uint8_t { read, write, reduce, barrier, await, arrive, phase } kind = Kind::read;
  // Of await: goes on when the variable has the value. Of an mbarrier: the variable is its number; it counts to
  // `value` arrivals, or is waited for until its phase `value` is complete, by parity.
  std::uint32_t variable = 0, value = 0;
};
using Steps = std::vector<Step>;
using Program = std::vector<Steps>; // a list of steps a thread, all of one block

constexpr auto rd = Step::Kind::read, wr = Step::Kind::write, red = Step::Kind::reduce, bar = Step::Kind::barrier,
               await = Step::Kind::await, arr = Step::Kind::arrive, pha = Step::Kind::phase;

// A program that runs, one step after another.
class Running {
 public:
  // `alike`: stores of one value commute.
  explicit Running(const Program& program, bool alike = false)
      : program_(program), alike_(alike), at_(program.size(), 0) {}

  // Passes barriers that all have reached; tells who met.
  void settle(const std::function<void(const std::vector<std::uint32_t>&)>& met) {
    for (;;) {
      bool all = true, any = false;
      std::vector<std::uint32_t> threads;
      for (std::uint32_t t = 0; t < program_.size(); ++t) {
        threads.push_back(t);
        if (over(t)) continue;
        any = true;
        all &= next(t).kind == bar;
      }
      if (!all || !any) return;
      met(threads);
      for (std::uint32_t t = 0; t < program_.size(); ++t)
        if (!over(t)) ++at_[t];
    }
  }
  bool over(std::uint32_t t) const { return at_[t] == program_[t].size(); }
  const Step& next(std::uint32_t t) const { return program_[t][at_[t]]; }
  bool waits(std::uint32_t t) const {
    const Step& step = next(t);
    if (step.kind == pha) return (phase(step.variable) & 1) == (step.value & 1);
    return step.kind == await && value(step.variable) != step.value;
  }
  std::uint32_t phase(std::uint32_t object) const { return object < objects_.size() ? objects_[object].phase : 0; }
  bool able(std::uint32_t t) const { return !over(t) && next(t).kind != bar && !waits(t); }
  std::uint32_t value(std::uint32_t variable) const { return variable < values_.size() ? values_[variable] : 0; }

  // Performs the thread's next step and remembers what it came after.
  void perform(std::uint32_t t) {
    const Step& step = next(t);
    if (step.kind == arr || step.kind == pha) {
      if (objects_.size() <= step.variable) objects_.resize(step.variable + 1);
      Object& object = objects_[step.variable];
      if (step.kind == arr && ++object.arrived == step.value) {
        object.arrived = 0;
        ++object.phase;
      }
      ++at_[t];
      return;
    }
    const bool writes = step.kind == wr || step.kind == red;
    for (const Done& done : done_) {
      if (done.variable != step.variable || done.thread == t) continue;
      if ((!writes && !done.writes) || (step.kind == red && done.reduces)) continue;
      if (alike_ && step.kind == wr && done.stores && done.value == step.value) continue;
      order_.insert(std::to_string(done.thread) + "." + std::to_string(done.place) + "<" + std::to_string(t) + "." +
                    std::to_string(at_[t]));
    }
    done_.push_back({t, std::uint32_t(at_[t]), step.variable, step.value, writes, step.kind == red, step.kind == wr});
    if (values_.size() <= step.variable) values_.resize(step.variable + 1);
    if (step.kind == wr) values_[step.variable] = step.value;
    ++at_[t];
  }
  // The same for two runs that differ in the order of steps that commute, and for no others.
  std::string trace() const {
    std::string text;
    for (const std::string& pair : order_) text += pair + " ";
    for (std::size_t at : at_) text += "|" + std::to_string(at); // how far each came
    return text;
  }

 private:
  struct Done {
    std::uint32_t thread, place, variable, value;
    bool writes, reduces, stores;
  };
  struct Object {
    std::uint32_t arrived = 0, phase = 0;
  };
  std::vector<Object> objects_;
  const Program& program_;
  bool alike_;
  std::vector<std::size_t> at_;
  std::vector<std::uint32_t> values_;
  std::vector<Done> done_;
  std::set<std::string> order_;
};

NextAccess access_of(std::uint32_t thread, const Step& step) {
  NextAccess next;
  next.agent = {.kind = Agent::Kind::thread, .operation = 1, .block = 0, .thread = thread};
  next.access = step.kind == wr ? AccessKind::write : step.kind == red ? AccessKind::atomic : AccessKind::read;
  next.commutes = step.kind == red ? 7 : 0;
  next.address = 64 + 8 * step.variable;
  next.bytes = 4;
  if (step.kind == arr || step.kind == pha) {
    next.memory = 1;
    next.address = step.variable;
    next.bytes = 0;
  }
  return next;
}

struct Explored {
  std::set<std::string> traces;
  std::uint64_t counted = 0, runs = 0;
  std::size_t groups = 1;
  std::string beyond;
};

// As an mbarrier's user tells what came of the step.
void tell(Exploration& exploration, const Running& after, std::uint32_t thread, const Step& step,
          std::uint32_t before) {
  const Agent who = access_of(thread, step).agent;
  const device::Chooser::Object at{1, step.variable};
  if (step.kind == arr) exploration.arrived(who, at, before, after.phase(step.variable) != before);
  if (step.kind == pha && before) exploration.waited(who, at, before - 1); // a fresh one orders nothing
}

Explored explore(const Program& program, bool alike = false, bool by_groups = false, std::uint64_t most = 100000) {
  Explored explored;
  Exploration exploration({.by_groups = by_groups});
  bool more = true;
  for (; more && explored.runs < most; ++explored.runs) {
    exploration.begin();
    Running run(program, alike);
    auto met = [&](const std::vector<std::uint32_t>& threads) { exploration.met(1, 0, threads); };
    for (;;) {
      run.settle(met);
      std::vector<NextAccess> able, waiting;
      for (std::uint32_t t = 0; t < program.size(); ++t) {
        if (run.over(t) || run.next(t).kind == bar) continue;
        (run.waits(t) ? waiting : able).push_back(access_of(t, run.next(t)));
      }
      if (able.empty()) {
        if (!waiting.empty()) exploration.stuck(waiting);
        break;
      }
      const std::uint32_t t = able[exploration.choose(able, waiting)].agent.thread;
      const Step step = run.next(t);
      const std::uint32_t phase = run.phase(step.variable);
      run.perform(t);
      tell(exploration, run, t, step, phase);
      if (alike && step.kind == wr) exploration.wrote(step.value);
    }
    more = exploration.end();
    if (!exploration.redundant()) {
      EXPECT_TRUE(explored.traces.insert(run.trace()).second || by_groups) << "a trace was run twice";
    }
    if (exploration.beyond() != "") { // nothing is promised
      explored.beyond = exploration.beyond();
      return explored;
    }
  }
  EXPECT_FALSE(more);
  explored.groups = exploration.groups();
  EXPECT_EQ(exploration.beyond(), "");
  explored.counted = exploration.traces();
  return explored;
}

void enumerate(const Running& from, std::size_t threads, std::set<std::string>& traces) {
  bool any = false;
  for (std::uint32_t t = 0; t < threads; ++t) {
    if (!from.able(t)) continue;
    any = true;
    Running next = from;
    next.perform(t);
    next.settle([](const auto&) {});
    enumerate(next, threads, traces);
  }
  if (!any) traces.insert(from.trace());
}
std::set<std::string> all_traces(const Program& program, bool alike = false) {
  std::set<std::string> traces;
  Running run(program, alike);
  run.settle([](const auto&) {});
  enumerate(run, program.size(), traces);
  return traces;
}

std::uint64_t count(const Program& program) { return explore(program).counted; }

TEST(Exploration, WritersOfOneVariableComeInEveryOrder) {
  std::uint64_t factorial = 1;
  for (std::uint32_t n = 1; n <= 6; ++n) {
    factorial *= n;
    EXPECT_EQ(count(Program(n, {{wr, 0, 1}})), factorial);
  }
}

// Readers of one variable and one writer (Abdulla et al., section 7): each reads before or after it.
TEST(Exploration, ReadersAndAWriter) {
  for (std::uint32_t readers = 0; readers <= 8; ++readers) {
    Program program(readers, {{rd, 0}});
    program.push_back({{wr, 0, 1}});
    EXPECT_EQ(count(program), std::uint64_t(1) << readers);
  }
}

TEST(Exploration, WhatCommutesIsOneTrace) {
  EXPECT_EQ(count(Program(8, {{red, 0}})), 1u);
  EXPECT_EQ(count(Program(8, {{rd, 0}})), 1u);
  Program apart;
  for (std::uint32_t t = 0; t < 8; ++t) apart.push_back({{wr, t, 1}, {wr, t, 2}});
  EXPECT_EQ(count(apart), 1u);
  EXPECT_EQ(count({{{red, 0}}, {{red, 0}}, {{rd, 0}}}), 4u); // the read sees none, one, the other or both
}

TEST(Exploration, BarriersOrder) {
  EXPECT_EQ(count({{{wr, 0, 1}, {bar}, {rd, 1}}, {{wr, 1, 1}, {bar}, {rd, 0}}}), 1u);
  EXPECT_EQ(count({{{wr, 0, 1}, {bar}, {wr, 0, 1}}, {{wr, 0, 1}, {bar}, {wr, 0, 1}}}), 4u);
  Program phases(3, {{wr, 0, 1}, {bar}, {wr, 0, 2}, {bar}, {rd, 0}});
  EXPECT_EQ(count(phases), 36u);
}

// A thread that has exited is not waited for; what it did comes before what the others do after the barrier.
TEST(Exploration, ThoseWhoExitAreNotWaitedFor) { EXPECT_EQ(count({{{wr, 0, 1}}, {{bar}, {rd, 0}}}), 1u); }

TEST(Exploration, AWaitIsOneStep) {
  EXPECT_EQ(count({{{wr, 1, 5}, {wr, 0, 1}}, {{await, 0, 1}, {rd, 1}}}), 1u);
  // The value may have gone again.
  const Explored gone = explore({{{wr, 0, 1}, {wr, 0, 2}}, {{await, 0, 1}, {rd, 1}}});
  EXPECT_EQ(gone.traces, all_traces({{{wr, 0, 1}, {wr, 0, 2}}, {{await, 0, 1}, {rd, 1}}}));
  EXPECT_EQ(gone.counted, 2u);
}

TEST(Exploration, ArrivalsCommuteAndWaitsComeAfterThem) {
  EXPECT_EQ(count(Program(6, {{arr, 0, 6}, {pha, 0, 0}})), 1u);
  EXPECT_EQ(count(Program(4, {{wr, 0, 1}, {arr, 0, 4}, {pha, 0, 0}, {rd, 0}})), 24u); // the writes' orders
  EXPECT_EQ(count({{{wr, 0, 1}, {arr, 0, 1}}, {{pha, 0, 0}, {rd, 0}}}), 1u);
  EXPECT_EQ(count({{{arr, 0, 1}, {wr, 0, 1}}, {{pha, 0, 0}, {rd, 0}}}), 2u); // published too early
  EXPECT_EQ(count({{{wr, 0, 1}, {arr, 0, 2}}, {{arr, 0, 2}, {rd, 0}, {pha, 0, 0}}}), 2u); // read before the wait
  // Full and empty, twice.
  const Program pipeline{{{wr, 0, 1}, {arr, 0, 1}, {pha, 1, 0}, {wr, 0, 2}, {arr, 0, 1}},
                         {{pha, 0, 0}, {rd, 0}, {arr, 1, 1}, {pha, 0, 1}, {rd, 0}}};
  EXPECT_EQ(count(pipeline), 1u);
  // Nobody makes the second phase wait for those who wait for the first.
  EXPECT_NE(explore({{{arr, 0, 1}, {arr, 0, 1}}, {{pha, 0, 0}, {rd, 0}}}).beyond, "");
  EXPECT_NE(explore({{{arr, 0, 1}}, {{wr, 0, 1}, {arr, 0, 1}}, {{pha, 0, 0}, {rd, 0}}}).beyond, "");
}

TEST(Exploration, AgreesWithAllInterleavingsOfProgramsWithPhases) {
  std::mt19937 random(11);
  std::uint64_t known = 0, traces = 0;
  for (unsigned n = 0; n < 1500; ++n) {
    Program program(n % 8 ? 2 : 3);
    const std::uint32_t all = std::uint32_t(program.size());
    const bool everybody = random() % 2 == 0; // arrives at each phase; else some do
    for (std::uint32_t t = 0; t < all; ++t)
      for (std::uint32_t phase = 0; phase + all < 4; ++phase) {
        for (unsigned more = random() % 2; more; --more)
          program[t].push_back({random() % 2 ? rd : wr, std::uint32_t(random() % 2), 1 + t});
        const std::uint32_t needed = everybody ? all : 1;
        if (everybody || t == phase) program[t].push_back({arr, 0, needed});
        if (random() % 2) program[t].push_back({random() % 2 ? rd : wr, std::uint32_t(random() % 2), 1 + t});
        if (everybody ? random() % 4 : random() % 2) program[t].push_back({pha, 0, phase});
      }
    const Explored explored = explore(program);
    if (!explored.beyond.empty()) continue;
    const std::set<std::string> expected = all_traces(program);
    ASSERT_EQ(explored.traces, expected) << "program " << n;
    ASSERT_EQ(explored.counted, expected.size()) << "program " << n;
    ++known;
    traces += expected.size();
  }
  EXPECT_GT(known, 500u);
  EXPECT_GT(traces, 1500u);
}

TEST(Exploration, AgreesWithAllInterleavingsOfRandomPrograms) {
  std::mt19937 random(7);
  std::uint64_t traces = 0;
  for (unsigned n = 0; n < 3000; ++n) {
    Program program(2 + random() % 2);
    const bool barriers = random() % 3 == 0, waits = !barriers && random() % 3 == 0;
    for (Steps& steps : program) {
      const unsigned length = 1 + random() % (program.size() == 2 ? 4 : 3);
      for (unsigned i = 0; i < length; ++i) {
        const Step::Kind kinds[] = {rd, wr, wr, red, barriers ? bar : rd, waits ? await : wr};
        steps.push_back({kinds[random() % 6], std::uint32_t(random() % 2), std::uint32_t(1 + random() % 2)});
      }
    }
    const std::set<std::string> expected = all_traces(program);
    const Explored explored = explore(program);
    ASSERT_EQ(explored.traces, expected) << "program " << n;
    ASSERT_EQ(explored.counted, expected.size()) << "program " << n;
    traces += expected.size();
  }
  EXPECT_GT(traces, 20000u);
}

TEST(Exploration, StoresOfOneValueCommute) {
  EXPECT_EQ(explore(Program(8, {{wr, 0, 3}}), true).counted, 1u);
  EXPECT_EQ(explore({{{wr, 0, 3}}, {{wr, 0, 3}}, {{wr, 0, 4}}}, true).counted, 4u);
  std::mt19937 random(3);
  std::uint64_t traces = 0, fewer = 0;
  for (unsigned n = 0; n < 1500; ++n) {
    Program program(2 + random() % 2);
    for (Steps& steps : program)
      for (unsigned length = 1 + random() % 3; length; --length) {
        const Step::Kind kinds[] = {rd, wr, wr, wr, red};
        steps.push_back({kinds[random() % 5], std::uint32_t(random() % 2), std::uint32_t(1 + random() % 2)});
      }
    const std::set<std::string> expected = all_traces(program, true);
    const Explored explored = explore(program, true);
    ASSERT_EQ(explored.traces, expected) << "program " << n;
    ASSERT_EQ(explored.counted, expected.size()) << "program " << n;
    traces += expected.size();
    fewer += expected.size() < all_traces(program).size();
  }
  EXPECT_GT(traces, 10000u);
  EXPECT_GT(fewer, 500u);
}

// The pairs of a trace that are between these threads.
std::string between(const std::string& trace, const std::set<char>& threads) {
  std::string pairs;
  for (std::size_t at = 0; at < trace.size() && trace[at] != '|';) {
    const std::size_t end = trace.find(' ', at);
    if (threads.count(trace[at])) pairs += trace.substr(at, end + 1 - at);
    at = end + 1;
  }
  return pairs;
}

// Threads 0 and 1 have variables of their own, and so have 2 and 3; sometimes one of them reads another's.
TEST(Exploration, GroupsThatShareNothingAreExploredOneByOne) {
  const Program apart{{{wr, 0, 1}}, {{wr, 0, 2}}, {{wr, 1, 1}}, {{wr, 1, 2}}};
  EXPECT_EQ(explore(apart).counted, 4u);
  const Explored grouped = explore(apart, false, true);
  EXPECT_EQ(grouped.groups, 2u);
  EXPECT_EQ(grouped.counted, 3u);
  // Threads 1 and 3 write one variable, each in an order of its own group that is not the first: never in one run.
  const Program meeting{
      {{wr, 0, 1}, {wr, 0, 2}}, {{await, 0, 1}, {wr, 4, 1}}, {{wr, 1, 1}, {wr, 1, 2}}, {{await, 1, 1}, {wr, 4, 2}}};
  const Explored together_after_all = explore(meeting, false, true);
  EXPECT_EQ(together_after_all.groups, 1u);
  EXPECT_EQ(together_after_all.traces, all_traces(meeting));
  std::mt19937 random(5);
  std::uint64_t in_groups = 0, together = 0;
  for (unsigned n = 0; n < 1000; ++n) {
    Program program(4);
    const bool shares = random() % 3 == 0, waits = random() % 3 == 0;
    for (std::uint32_t t = 0; t < 4; ++t)
      for (unsigned length = 1 + random() % 2; length; --length) {
        const Step::Kind kinds[] = {rd, wr, wr, red, waits ? await : rd};
        const std::uint32_t variable = t / 2 + (shares && random() % 4 == 0 ? 1 : 0);
        program[t].push_back({kinds[random() % 5], variable, std::uint32_t(1 + random() % 2)});
      }
    const std::set<std::string> expected = all_traces(program);
    const Explored explored = explore(program, false, true);
    if (explored.groups == 1) {
      ASSERT_EQ(explored.traces, expected) << "program " << n;
      ++together;
      continue;
    }
    ++in_groups;
    for (const std::set<char>& threads : {std::set<char>{'0', '1'}, std::set<char>{'2', '3'}}) {
      std::set<std::string> all, seen;
      for (const std::string& trace : expected) all.insert(between(trace, threads));
      for (const std::string& trace : explored.traces) seen.insert(between(trace, threads));
      ASSERT_EQ(seen, all) << "program " << n;
    }
  }
  EXPECT_GT(in_groups, 100u);
  EXPECT_GT(together, 100u);
}

TEST(Exploration, StopsAtItsLimits) {
  Exploration exploration({.operations = 3});
  exploration.begin();
  const Program program(1, Steps(5, Step{wr, 0, 1}));
  Running run(program);
  for (unsigned n = 0; n < 5; ++n) {
    exploration.choose({access_of(0, run.next(0))}, {});
    run.perform(0);
  }
  EXPECT_FALSE(exploration.end());
  EXPECT_EQ(exploration.beyond(), "too many operations");
}

} // namespace
} // namespace deadheat::search
