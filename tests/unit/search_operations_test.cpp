// Systematic exploration of operations of several streams and of asynchronous copies, against all interleavings.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>

#include "replay/search/exploration.h"

namespace deadheat::search {
namespace {

using device::NextAccess;

constexpr std::uint64_t base = 0x1000;

struct Access {
  std::uint32_t variable = 0;
  bool writes = false;
};
// A launch of one thread, or a copy that reads one variable and writes another at once.
struct Operation {
  std::vector<std::size_t> after; // places in the list
  bool copy = false;
  std::vector<Access> accesses;
};
using Operations = std::vector<Operation>;

// cp.async: the thread of the operation issues it before its access number `issued` and waits for it before `waited`.
struct Script {
  Operations operations;
  std::size_t issued = 0, waited = 0; // of operation 0, where its group copies
  std::vector<Access> group;
};

NextAccess next_of(const Script& script, std::size_t o, std::size_t step) {
  const Operation& operation = script.operations[o];
  NextAccess next;
  next.agent = {.kind = operation.copy ? Agent::Kind::operation : Agent::Kind::thread,
                .operation = std::uint32_t(o + 1)};
  if (operation.copy) {
    for (const Access& a : operation.accesses) next.touched.push_back({0, base + 8 * a.variable, 8, a.writes});
    return next;
  }
  next.address = base + 8 * operation.accesses[step].variable;
  next.bytes = 4;
  next.access = operation.accesses[step].writes ? AccessKind::write : AccessKind::read;
  return next;
}

class Running {
 public:
  explicit Running(const Script& script) : script_(script), at_(script.operations.size(), 0) {}
  bool done(std::size_t o) const {
    const Operation& operation = script_.operations[o];
    return at_[o] == (operation.copy ? 1 : operation.accesses.size());
  }
  bool copies() const { return !script_.group.empty(); }
  bool group_able() const { return copies() && !copied_ && at_[0] >= script_.issued; }
  bool able(std::size_t o) const {
    if (done(o)) return false;
    if (o == 0 && copies() && at_[0] == script_.waited && !copied_) return false;
    const auto& after = script_.operations[o].after;
    return std::all_of(after.begin(), after.end(), [&](std::size_t before) { return done(before); });
  }
  NextAccess group() const {
    NextAccess next;
    next.agent = {.kind = Agent::Kind::async_copy, .operation = 1};
    for (const Access& a : script_.group) next.touched.push_back({0, base + 8 * a.variable, 8, a.writes});
    return next;
  }
  void perform(std::size_t o) { // one past the last: the group
    const bool group = o == script_.operations.size();
    const bool whole = group || script_.operations[o].copy;
    const std::vector<Access>& accesses = group ? script_.group : script_.operations[o].accesses;
    const std::string name = std::to_string(o) + "." + std::to_string(group ? 0 : at_[o]);
    for (std::size_t n = 0; n < accesses.size(); ++n) {
      if (!whole && n != at_[o]) continue;
      for (const auto& [other, access] : log_)
        if (other != name && access.variable == accesses[n].variable && (access.writes || accesses[n].writes))
          order_.insert(other + "<" + name);
    }
    for (std::size_t n = 0; n < accesses.size(); ++n)
      if (whole || n == at_[o]) log_.emplace_back(name, accesses[n]);
    if (group)
      copied_ = true;
    else
      ++at_[o];
  }
  std::size_t step(std::size_t o) const { return at_[o]; }
  std::string trace() const {
    std::string text;
    for (const std::string& pair : order_) text += pair + " ";
    return text;
  }
  // Of each set of operations that conflicts connect, the order of its conflicts; the group is the last operation.
  std::vector<std::string> traces_of_parts() const {
    std::vector<std::size_t> part(at_.size() + 1);
    for (std::size_t o = 0; o < part.size(); ++o) part[o] = o;
    auto number = [](const std::string& name) { return std::size_t(std::stoul(name)); };
    for (const auto& [name, access] : log_)
      for (const auto& [other, conflicting] : log_) {
        if (access.variable != conflicting.variable || !(access.writes || conflicting.writes)) continue;
        const std::size_t from = part[number(name)], to = part[number(other)];
        std::replace(part.begin(), part.end(), from, to);
      }
    std::map<std::size_t, std::string> texts;
    for (const std::string& pair : order_) texts[part[number(pair)]] += pair + " ";
    std::vector<std::string> all;
    for (const auto& [o, text] : texts) all.push_back(text);
    return all;
  }

 private:
  const Script& script_;
  std::vector<std::size_t> at_;
  bool copied_ = false;
  std::vector<std::pair<std::string, Access>> log_;
  std::set<std::string> order_;
};

void enumerate(const Running& from, const Script& script, const std::function<void(const Running&)>& ended) {
  bool any = false;
  for (std::size_t o = 0; o <= script.operations.size(); ++o) {
    if (o == script.operations.size() ? !from.group_able() : !from.able(o)) continue;
    any = true;
    Running next = from;
    next.perform(o);
    enumerate(next, script, ended);
  }
  if (!any) ended(from);
}
std::set<std::string> all_traces(const Script& script) {
  std::set<std::string> traces;
  enumerate(Running(script), script, [&](const Running& run) { traces.insert(run.trace()); });
  return traces;
}
std::set<std::string> all_traces_of_parts(const Script& script) {
  std::set<std::string> traces;
  enumerate(Running(script), script, [&](const Running& run) {
    for (const std::string& text : run.traces_of_parts()) traces.insert(text);
  });
  return traces;
}

struct Explored {
  std::set<std::string> traces, of_parts;
  std::uint64_t counted = 0, runs = 0;
};
Explored explore(const Script& script, bool by_groups = false) {
  Explored explored;
  Exploration exploration({.by_groups = by_groups});
  const std::size_t count = script.operations.size();
  for (bool more = true; more && explored.runs < 20000; ++explored.runs) {
    exploration.begin();
    for (std::size_t o = 0; o < count; ++o) {
      std::vector<std::uint32_t> after;
      for (std::size_t before : script.operations[o].after) after.push_back(std::uint32_t(before + 1));
      exploration.submitted(std::uint32_t(o + 1), after);
    }
    Running run(script);
    bool waited = false;
    for (;;) {
      std::vector<NextAccess> able;
      std::vector<std::size_t> who;
      for (std::size_t o = 0; o < count; ++o) {
        if (!run.able(o)) continue;
        able.push_back(next_of(script, o, run.step(o)));
        who.push_back(o);
      }
      if (run.group_able()) {
        able.push_back(run.group());
        who.push_back(count);
      }
      if (able.empty()) break;
      const std::size_t chosen = who[exploration.choose(able, {})];
      run.perform(chosen);
      if (run.copies() && !run.group_able() && !waited && run.step(0) == script.waited) {
        exploration.copies_waited(1, 0, 0, 1);
        waited = true;
      }
      if (chosen < count && run.done(chosen)) exploration.completed(std::uint32_t(chosen + 1));
    }
    more = exploration.end();
    if (!exploration.redundant()) {
      EXPECT_TRUE(explored.traces.insert(run.trace()).second || by_groups) << "a trace was run twice";
      for (const std::string& text : run.traces_of_parts()) explored.of_parts.insert(text);
    }
  }
  EXPECT_EQ(exploration.beyond(), "");
  explored.counted = exploration.traces();
  return explored;
}

TEST(ExplorationOfOperations, StreamsOrder) {
  const std::vector<Access> both{{0, true}, {1, true}};
  const Explored one = explore({{{{}, false, both}, {{0}, false, both}, {{1}, true, both}}, 0, 0, {}});
  EXPECT_EQ(one.counted, 1u);
  EXPECT_EQ(one.runs, 1u);
  EXPECT_EQ(explore({{{{}, true, both}, {{}, true, both}}, 0, 0, {}}).counted, 2u);
  // A copy of both variables before, between or after the writes of a thread.
  EXPECT_EQ(explore({{{{}, false, both}, {{}, true, {{0, false}, {1, false}}}}, 0, 0, {}}).counted, 3u);
}

TEST(ExplorationOfOperations, WhatTheHostWaitedForComesBefore) {
  const Script script{{{{}, false, {{0, true}}}, {{}, false, {{0, true}}}}, 0, 0, {}};
  for (const bool waits : {false, true}) {
    Exploration exploration({});
    std::uint64_t runs = 0;
    for (bool more = true; more; ++runs) {
      exploration.begin();
      exploration.submitted(1, {});
      if (!waits) exploration.submitted(2, {});
      std::vector<NextAccess> able{next_of(script, 0, 0)};
      if (!waits) able.push_back(next_of(script, 1, 0));
      const bool second = exploration.choose(able, {}) == 1;
      if (waits) {
        exploration.completed(1);
        exploration.host_waited({1});
        exploration.submitted(2, {});
      }
      exploration.choose({next_of(script, second ? 0 : 1, 0)}, {});
      more = exploration.end();
    }
    EXPECT_EQ(runs, waits ? 1u : 2u);
  }
}

TEST(ExplorationOfOperations, GroupsOfCopiesAreAgents) {
  // The copy's write before or after another thread's read, never after the read that waited for it.
  const Script script{{{{}, false, {{2, true}, {0, false}}}, {{}, false, {{0, false}}}}, 0, 1, {{1, false}, {0, true}}};
  EXPECT_EQ(all_traces(script).size(), 2u);
  EXPECT_EQ(explore(script).traces, all_traces(script));
}

TEST(ExplorationOfOperations, GroupsWaitForWhatIsOfOthers) {
  // Two groups, each of a write and of a read that comes after a copy of neither.
  const Script script{{{{}, false, {{0, true}}},
                       {{}, false, {{1, true}}},
                       {{}, true, {{2, true}}},
                       {{2}, false, {{0, false}}},
                       {{2}, false, {{1, false}}}},
                      0,
                      0,
                      {}};
  EXPECT_EQ(explore(script).counted, 4u);
  EXPECT_EQ(explore(script, true).counted, 3u); // the first run, and another of each
}

TEST(ExplorationOfOperations, GroupsThatStreamsTieTogetherAreOne) {
  // 0 can come after 3 only where 2 comes before 1; 4 and 5 are free of them.
  const Script script{{{{}, false, {{0, true}}},
                       {{0}, false, {{1, true}}},
                       {{}, false, {{1, true}}},
                       {{2}, false, {{0, true}}},
                       {{}, false, {{2, true}}},
                       {{}, false, {{2, true}}}},
                      0,
                      0,
                      {}};
  EXPECT_EQ(explore(script, true).of_parts, all_traces_of_parts(script));
  EXPECT_EQ(explore(script, true).counted, all_traces(script).size());
}

std::string in_words(const Script& script) {
  std::string text;
  auto say = [&](const std::vector<Access>& accesses) {
    for (const Access& a : accesses) text += (a.writes ? " write " : " read ") + std::to_string(a.variable);
  };
  for (std::size_t o = 0; o < script.operations.size(); ++o) {
    text += "; " + std::to_string(o) + (script.operations[o].copy ? " copy" : "");
    for (std::size_t before : script.operations[o].after) text += " after " + std::to_string(before);
    say(script.operations[o].accesses);
  }
  if (script.group.empty()) return text;
  text += "; group from " + std::to_string(script.issued) + " to " + std::to_string(script.waited);
  say(script.group);
  return text;
}

Script random_script(std::mt19937& random, std::uint32_t variables) {
  Script script;
  const std::size_t count = 2 + random() % 3;
  for (std::size_t o = 0; o < count; ++o) {
    Operation operation;
    operation.copy = random() % 3 == 0 && o;
    for (std::size_t before = 0; before < o; ++before)
      if (random() % 4 == 0) operation.after.push_back(before);
    const std::size_t length = 1 + random() % (count > 3 ? 2 : 3);
    for (std::size_t i = 0; i < length; ++i)
      operation.accesses.push_back({std::uint32_t(random() % variables), random() % 2 == 0});
    script.operations.push_back(operation);
  }
  if (random() % 2) {
    const std::size_t length = script.operations[0].accesses.size();
    script.issued = random() % length;
    script.waited = script.issued + random() % (length - script.issued);
    script.group = {{std::uint32_t(random() % variables), false}, {std::uint32_t(random() % variables), true}};
  }
  return script;
}

TEST(ExplorationOfOperations, GroupsAreExploredWhole) {
  std::mt19937 random(12);
  std::uint64_t whole = 0, by_groups = 0;
  for (unsigned n = 0; n < 1500; ++n) {
    const Script script = random_script(random, 5);
    const Explored explored = explore(script, true);
    ASSERT_EQ(explored.of_parts, all_traces_of_parts(script)) << "script " << n << in_words(script);
    by_groups += explored.counted;
    whole += all_traces(script).size();
  }
  EXPECT_LT(by_groups, whole);
}

TEST(ExplorationOfOperations, AgreesWithAllInterleavings) {
  std::mt19937 random(11);
  std::uint64_t traces = 0;
  for (unsigned n = 0; n < 1500; ++n) {
    const Script script = random_script(random, 2);
    const std::set<std::string> expected = all_traces(script);
    const Explored explored = explore(script);
    ASSERT_EQ(explored.traces, expected) << "script " << n;
    ASSERT_EQ(explored.counted, expected.size()) << "script " << n;
    traces += expected.size();
  }
  EXPECT_GT(traces, 5000u);
}

} // namespace
} // namespace deadheat::search
