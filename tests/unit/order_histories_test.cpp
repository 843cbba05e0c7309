// Store histories against the axioms: what order::Histories shows of a little program is allowed, and the weak outcomes
// for which it exists are among it. Names of litmus tests as in order_litmus_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "tests/unit/order_litmus_words.h"

namespace deadheat::test {
namespace {

using namespace litmus;

std::string text(const Outcome& outcome) {
  std::ostringstream out;
  for (std::uint32_t value : outcome) out << value << ' ';
  return out.str();
}

// `reads`: what the reads return, in order; whether some shown outcome begins so.
bool shows(const std::set<Outcome>& outcomes, const std::vector<std::uint32_t>& reads) {
  return std::any_of(outcomes.begin(), outcomes.end(),
                     [&](const Outcome& o) { return std::equal(reads.begin(), reads.end(), o.begin()); });
}

std::set<Outcome> checked(const Program& program) {
  const std::set<Outcome> may = allowed(program), does = shown(program);
  EXPECT_FALSE(does.empty());
  for (const Outcome& outcome : does) EXPECT_TRUE(may.count(outcome)) << "not allowed: " << text(outcome);
  return does;
}

Program in_blocks(std::vector<std::vector<Op>> threads) {
  Program program;
  for (auto& ops : threads) program.push_back({std::uint32_t(program.size()), 0, std::move(ops)});
  return program;
}

// Values: operations count from 1 over all threads.

TEST(HistoriesMP, WithoutFenceTheOldDataIsSeen) {
  EXPECT_TRUE(
      shows(checked(in_blocks({{write(x), write(y, relaxed, gpu)}, {read(y, relaxed, gpu), read(x)}})), {2, 0}));
  EXPECT_TRUE(shows(checked(in_blocks({{write(x), write(y, relaxed, gpu)}, {read(y, relaxed, gpu), fence(), read(x)}})),
                    {2, 0}));
  EXPECT_TRUE(shows(checked(in_blocks({{write(x), fence(), write(y, relaxed, gpu)}, {read(y, relaxed, gpu), read(x)}})),
                    {2 + 1, 0}));
}
TEST(HistoriesMP, WithFencesItIsNot) {
  const auto fences =
      checked(in_blocks({{write(x), fence(), write(y, relaxed, gpu)}, {read(y, relaxed, gpu), fence(), read(x)}}));
  EXPECT_FALSE(shows(fences, {3, 0}));
  EXPECT_TRUE(shows(fences, {3, 1}));
  EXPECT_TRUE(shows(fences, {0, 0}));
  const auto patterns = checked(in_blocks({{write(x), write(y, release, gpu)}, {read(y, acquire, gpu), read(x)}}));
  EXPECT_FALSE(shows(patterns, {2, 0}));
  EXPECT_TRUE(shows(patterns, {2, 1}));
}
TEST(HistoriesMP, ScopesTooNarrow) {
  EXPECT_TRUE(
      shows(checked(in_blocks({{write(x), write(y, release, cta)}, {read(y, acquire, cta), read(x)}})), {2, 0}));
  Program one_block{{0, 0, {write(x), write(y, release, cta)}}, {0, 33, {read(y, acquire, cta), read(x)}}};
  EXPECT_FALSE(shows(checked(one_block), {2, 0}));
  EXPECT_TRUE(shows(
      checked(in_blocks({{write(x), fence(acq_rel, cta), write(y, relaxed, gpu)}, {read(y, acquire, gpu), read(x)}})),
      {3, 0}));
}
TEST(HistoriesSB, BothMayMissTheOther) {
  auto program = [](Op between) {
    return in_blocks({{write(x, relaxed, gpu), between, read(y, relaxed, gpu)},
                      {write(y, relaxed, gpu), between, read(x, relaxed, gpu)}});
  };
  EXPECT_TRUE(shows(checked(program(fence(acq_rel))), {0, 0}));
  EXPECT_FALSE(shows(checked(program(fence(sc))), {0, 0}));
  EXPECT_TRUE(shows(checked(program(fence(sc, cta))), {0, 0})); // not in each other's scope
  EXPECT_TRUE(shows(checked(in_blocks({{write(x), read(y)}, {write(y), read(x)}})), {0, 0}));
}
TEST(HistoriesIRIW, ReadersDisagree) {
  auto program = [](Ordering o, std::vector<Op> between) {
    std::vector<Op> first{read(x, o, gpu)}, second{read(y, o, gpu)};
    for (auto* side : {&first, &second}) side->insert(side->end(), between.begin(), between.end());
    first.push_back(read(y, o, gpu));
    second.push_back(read(x, o, gpu));
    return in_blocks({{write(x, relaxed, gpu)}, {write(y, relaxed, gpu)}, first, second});
  };
  EXPECT_TRUE(shows(checked(program(relaxed, {})), {1, 0, 2, 0}));
  EXPECT_TRUE(shows(checked(program(acquire, {})), {1, 0, 2, 0})); // no acquire pattern orders the two writes
  EXPECT_FALSE(shows(checked(program(relaxed, {fence(sc)})), {1, 0, 2, 0}));
}
TEST(HistoriesCoherence, NobodyGoesBack) {
  const auto two = checked(
      in_blocks({{write(x, relaxed, gpu), write(x, relaxed, gpu)}, {read(x, relaxed, gpu), read(x, relaxed, gpu)}}));
  EXPECT_FALSE(shows(two, {2, 1}));
  EXPECT_FALSE(shows(two, {1, 0}));
  EXPECT_TRUE(shows(two, {0, 2}));
  EXPECT_TRUE(shows(two, {1, 2}));
  const auto unordered = checked(in_blocks({{write(x), write(x)}, {read(x), read(x)}}));
  EXPECT_FALSE(shows(unordered, {2, 1})); // weak reads might by the letter; histories keep them from it
  EXPECT_TRUE(shows(unordered, {1, 2}));
  const auto own = checked(in_blocks({{write(x), read(x)}, {write(x)}})); // CoWR
  EXPECT_FALSE(shows(own, {0}));
}
TEST(HistoriesRelease, SequencesOfReadModifyWrites) {
  const auto chain = checked(
      in_blocks({{write(x), write(y, release, gpu)}, {exchange(y, relaxed, gpu)}, {read(y, acquire, gpu), read(x)}}));
  for (const Outcome& o : chain) EXPECT_FALSE(o[0] == 2 && o[1] == 3 && o[2] == 0) << text(o);
  EXPECT_TRUE(shows(chain, {0, 3, 0})); // the exchange came first
  const auto broken = checked(
      in_blocks({{write(x), write(y, release, gpu)}, {write(y, relaxed, gpu)}, {read(y, acquire, gpu), read(x)}}));
  EXPECT_TRUE(shows(broken, {3, 0}));
}
TEST(HistoriesWRC, WhatWasObservedIsPassedOn) {
  const auto strong = checked(in_blocks(
      {{write(x, relaxed, gpu)}, {read(x, relaxed, gpu), write(y, release, gpu)}, {read(y, acquire, gpu), read(x)}}));
  EXPECT_FALSE(shows(strong, {1, 3, 0})); // 8.9.5, second clause
  const auto relaxed_flag = checked(in_blocks({{write(x, relaxed, gpu)},
                                               {read(x, relaxed, gpu), write(y, relaxed, gpu)},
                                               {read(y, relaxed, gpu), read(x, relaxed, gpu)}}));
  EXPECT_TRUE(shows(relaxed_flag, {1, 3, 0}));
}
TEST(HistoriesAtomics, OnlyInScopeAreTheyAtomic) {
  EXPECT_FALSE(shows(checked(in_blocks({{exchange(x)}, {exchange(x)}})), {0, 0}));
  EXPECT_TRUE(shows(checked(in_blocks({{exchange(x, relaxed, cta)}, {exchange(x, relaxed, cta)}})), {0, 0}));
  Program one_block{{0, 0, {exchange(x, relaxed, cta)}}, {0, 1, {exchange(x, relaxed, cta)}}};
  EXPECT_FALSE(shows(checked(one_block), {0, 0}));
}
TEST(HistoriesBarriers, OrderABlock) {
  Program program{{0, 0, {write(x), barrier(), read(y)}}, {0, 33, {write(y), barrier(), read(x)}}};
  const auto both = checked(program);
  EXPECT_TRUE(shows(both, {4, 1}));
  EXPECT_EQ(both.size(), 1u);
  // Barriers pass on what fences have released (8.9.5: base causality is transitive).
  Program last_block{{0, 0, {write(x), barrier()}},
                     {0, 33, {barrier(), fence(), exchange(y)}},
                     {1, 0, {exchange(y), fence(), read(x)}}};
  const auto outcomes = checked(last_block);
  for (const Outcome& o : outcomes) EXPECT_FALSE(o[1] == 5 && o[2] == 0) << text(o);
}

// Random programs, in blocks of their own or together.
TEST(Histories, ShowNothingThatTheAxiomsForbid) {
  std::mt19937 random(7);
  auto pick = [&](std::size_t n) { return std::size_t(random() % n); };
  std::size_t weaker = 0;
  for (int n = 0; n < 6000; ++n) {
    Program program;
    const std::size_t threads = 2 + pick(2);
    for (std::size_t t = 0; t < threads; ++t) {
      LitmusThread thread;
      thread.block = std::uint32_t(pick(2));
      thread.thread = std::uint32_t(t);
      const std::size_t ops = threads == 2 ? 2 + pick(2) : 1 + pick(2) + (t == 0);
      for (std::size_t i = 0; i < ops; ++i) {
        const std::uint32_t v = std::uint32_t(pick(2));
        const Scope s = pick(3) ? gpu : cta;
        switch (pick(7)) {
          case 0:
          case 1: {
            constexpr Ordering orderings[] = {weak, relaxed, acquire, relaxed};
            const Ordering o = orderings[pick(4)];
            thread.ops.push_back(read(v, o, o == weak ? no : s));
            break;
          }
          case 2:
          case 3: {
            constexpr Ordering orderings[] = {weak, relaxed, release, relaxed};
            const Ordering o = orderings[pick(4)];
            thread.ops.push_back(write(v, o, o == weak ? no : s));
            break;
          }
          case 4: {
            constexpr Ordering orderings[] = {relaxed, acquire, release, acq_rel};
            thread.ops.push_back(exchange(v, orderings[pick(4)], s));
            break;
          }
          default: thread.ops.push_back(fence(pick(2) ? sc : acq_rel, s));
        }
      }
      program.push_back(std::move(thread));
    }
    const std::set<Outcome> may = allowed(program), does = shown(program);
    weaker += does.size() > 1;
    for (const Outcome& outcome : does) {
      if (may.count(outcome)) continue;
      std::ostringstream out;
      for (const LitmusThread& t : program) {
        out << "block " << t.block << ":";
        for (const Op& op : t.ops)
          out << " (" << int(op.kind) << " v" << op.variable << " o" << int(op.ordering) << " s" << int(op.scope)
              << ")";
        out << "; ";
      }
      FAIL() << "program " << n << ": " << out.str() << " not allowed: " << text(outcome);
    }
  }
  EXPECT_GT(weaker, 4000u);
}

} // namespace
} // namespace deadheat::test
