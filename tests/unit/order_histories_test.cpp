// Store histories against the axioms: what order::Histories shows of a little program is allowed, and the weak outcomes
// for which it exists are among it. Names of litmus tests as in order_litmus_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "tests/unit/order_litmus_words.h"
#include "tests/unit/seeds.h"

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

// ld.global.nc is outside of the model: its cache may hold what was there before any write of the time since the launch
// began, whatever orders that (9.7.9.9).
TEST(HistoriesNonCoherent, NoOrderBindsReads) {
  const auto behind_barrier = [](const Op& op) {
    return shown({{0, 0, {write(x), barrier()}}, {0, 33, {barrier(), op, op}}});
  };
  const auto reads = behind_barrier(read(x, Ordering::nc));
  EXPECT_TRUE(shows(reads, {0, 0}));
  EXPECT_TRUE(shows(reads, {0, 1}));
  EXPECT_TRUE(shows(reads, {1, 1}));
  EXPECT_FALSE(shows(reads, {1, 0})); // a line that is gone does not come back
  EXPECT_FALSE(shows(behind_barrier(read(x)), {0, 0}));
  const auto message =
      shown(in_blocks({{write(x), write(y, release, gpu)}, {read(y, acquire, gpu), read(x, Ordering::nc)}}));
  EXPECT_TRUE(shows(message, {2, 0}));
  EXPECT_EQ(shown({{0, 0, {write(x), read(x, Ordering::nc)}}}).size(), 1u); // its own, in program order
}

// An atomic of shared memory is bound by writes that are morally strong with it (8.10.3), by those that it is ordered
// behind (8.10.6) and by what its thread has seen (8.10.5), and by nothing else: a weak write that nothing orders may
// come after it in coherence order.
TEST(HistoriesShared, AtomicsMissWeakWritesThatNothingOrders) {
  auto in_block = [](std::vector<std::vector<Op>> threads) {
    Program program;
    for (auto& ops : threads) program.push_back({0, 32 * std::uint32_t(program.size()), std::move(ops)});
    const std::set<Outcome> may = allowed(program), does = shown(program, true);
    for (const Outcome& outcome : does) EXPECT_TRUE(may.count(outcome)) << "not allowed: " << text(outcome);
    return does;
  };
  const auto unordered = in_block({{write(x)}, {exchange(x, relaxed, cta)}});
  EXPECT_TRUE(shows(unordered, {0}));
  EXPECT_TRUE(shows(unordered, {1}));
  EXPECT_FALSE(shows(in_block({{write(x), barrier()}, {barrier(), exchange(x, relaxed, cta)}}), {0}));
  EXPECT_FALSE(shows(in_block({{write(x), exchange(x, relaxed, cta)}, {}}), {0}));
  // Morally strong: there are no two that return the same.
  EXPECT_FALSE(shows(in_block({{exchange(x, relaxed, cta)}, {exchange(x, relaxed, cta)}}), {0, 0}));
  EXPECT_FALSE(shows(in_block({{write(x, relaxed, cta), write(y)}, {read(x, relaxed, cta), exchange(x, relaxed, cta)}}),
                     {1, 0}));
  // Seen through a release: ordered. Seen by a weak read: older no more, which is stricter than the letter.
  EXPECT_FALSE(shows(in_block({{write(x), exchange(y, release, cta)}, {read(y, acquire, cta), exchange(x)}}), {2, 0}));
  EXPECT_TRUE(
      shows(in_block({{write(x), exchange(y, relaxed, cta)}, {read(y, relaxed, cta), exchange(x)}}), {0, 2, 0}));
  EXPECT_FALSE(shows(in_block({{write(x)}, {read(x), exchange(x)}}), {1, 0}));
}

// The elements of a vector are scalars in no order (8.2.2): each has its own patterns and its own coherence.
TEST(HistoriesVectors, APolledPairOfWhichOneElementChangesTwice) {
  const std::vector<Op> writer{write(y, relaxed, gpu), write(z), fence(), write(y, relaxed, gpu)};
  for (const Op& look : {pair(read(x, relaxed, gpu)), pair(exchange(x, relaxed, gpu))}) {
    const auto outcomes = checked(in_blocks({writer, {look, look, fence(), read(z)}}));
    std::set<std::pair<bool, std::uint32_t>> came; // whether the second was seen, and the data
    for (const Outcome& o : outcomes) came.insert({o[1] == 4 || o[3] == 4, o[4]});
    EXPECT_EQ(came, (std::set<std::pair<bool, std::uint32_t>>{{false, 0}, {false, 2}, {true, 2}}));
  }
  const auto acquires = checked(in_blocks({writer, {pair(read(x, acquire, gpu)), read(z)}}));
  EXPECT_TRUE(shows(acquires, {0, 4, 2}));
  EXPECT_FALSE(shows(acquires, {0, 4, 0}));
  EXPECT_TRUE(shows(acquires, {0, 1, 0}));
  // Weak, it tells nothing.
  EXPECT_TRUE(shows(checked(in_blocks({writer, {pair(read(x)), fence(), read(z)}})), {0, 4, 0}));
}
TEST(HistoriesVectors, APairIsStored) {
  const auto outcomes = checked(
      in_blocks({{write(z), pair(write(x, release, gpu))}, {read(y, acquire, gpu), read(z), read(x, relaxed, gpu)}}));
  EXPECT_TRUE(shows(outcomes, {3, 1}));
  EXPECT_FALSE(shows(outcomes, {3, 0}));
  EXPECT_TRUE(shows(outcomes, {0, 1, 2}));
  // Morally strong is who has the same elements, which may lie in a vector of more.
  const auto elements = checked(in_blocks({{pair(exchange(x))}, {exchange(y)}, {exchange(x)}}));
  for (const Outcome& o : elements) EXPECT_FALSE(o[0] == o[3] || o[1] == o[2]) << text(o);
}
TEST(HistoriesVectors, NoElementGoesBack) {
  const auto outcomes = checked(in_blocks(
      {{write(x, relaxed, gpu), write(y, relaxed, gpu)}, {pair(read(x, relaxed, gpu)), read(x, relaxed, gpu)}}));
  EXPECT_FALSE(shows(outcomes, {1, 0, 0}));
  EXPECT_FALSE(shows(outcomes, {1, 2, 0}));
  EXPECT_TRUE(shows(outcomes, {0, 0, 1}));
}

std::string text(const Program& program) {
  std::ostringstream out;
  for (const LitmusThread& t : program) {
    out << "block " << t.block << ":";
    for (const Op& op : t.ops)
      out << " (" << int(op.kind) << " v" << op.variable << (op.elements == 2 ? "+" : "") << " o" << int(op.ordering)
          << " s" << int(op.scope) << ")";
    out << "; ";
  }
  return out.str();
}

class RandomPrograms {
 public:
  // vectors: so many accesses of a program may be of both variables.
  explicit RandomPrograms(std::uint32_t seed, std::size_t vectors = 0) : random_(seed), vectors_(vectors) {}

  // In blocks of their own or together.
  Program global() {
    vectors_left_ = vectors_;
    Program program(2 + pick(2));
    for (std::size_t t = 0; t < program.size(); ++t) {
      program[t].block = std::uint32_t(pick(2));
      program[t].thread = std::uint32_t(t);
      some(program[t], program.size() == 2 ? 2 + pick(2) : 1 + pick(2) + (t == 0));
    }
    return program;
  }
  // In one block, of one warp or of several, with a barrier or two between.
  Program shared() {
    vectors_left_ = vectors_;
    Program program(2 + pick(2));
    const std::size_t barriers = pick(3);
    const std::uint32_t apart = pick(2) ? 1 : 32;
    for (std::size_t t = 0; t < program.size(); ++t) program[t].thread = apart * std::uint32_t(t);
    std::size_t left = 6;
    for (std::size_t stretch = 0; stretch <= barriers; ++stretch) {
      for (LitmusThread& thread : program) {
        const std::size_t count = std::min(left, pick(3));
        some(thread, count);
        left -= count;
        if (stretch < barriers) thread.ops.push_back(barrier());
      }
    }
    return program;
  }

 private:
  std::size_t pick(std::size_t n) { return std::size_t(random_() % n); }
  void some(LitmusThread& thread, std::size_t count) {
    constexpr Ordering reads[] = {weak, relaxed, acquire, relaxed}, writes[] = {weak, relaxed, release, relaxed},
                       both[] = {relaxed, acquire, release, acq_rel};
    for (; count; --count) {
      const std::uint32_t v = std::uint32_t(pick(2));
      const Scope s = pick(3) ? gpu : cta;
      const std::size_t what = pick(7), which = pick(4);
      if (what < 2)
        thread.ops.push_back(read(v, reads[which], reads[which] == weak ? no : s));
      else if (what < 4)
        thread.ops.push_back(write(v, writes[which], writes[which] == weak ? no : s));
      else if (what == 4)
        thread.ops.push_back(exchange(v, both[which], s));
      else
        thread.ops.push_back(fence(which % 2 ? sc : acq_rel, s));
      Op& op = thread.ops.back();
      if (!vectors_left_ || !op.memory() || pick(2)) continue;
      op = pair(op);
      op.variable = x;
      --vectors_left_;
    }
  }
  std::mt19937 random_;
  const std::size_t vectors_;
  std::size_t vectors_left_ = 0;
};

// Returns how many have more than one outcome.
std::size_t shows_only_what_is_allowed(const Program& program, bool shared) {
  const std::set<Outcome> may = allowed(program), does = shown(program, shared);
  for (const Outcome& outcome : does)
    if (!may.count(outcome)) ADD_FAILURE() << text(program) << " not allowed: " << text(outcome);
  return does.size() > 1;
}

TEST(Histories, ShowNothingThatTheAxiomsForbid) {
  RandomPrograms programs(std::uint32_t(7 + seeds_from()));
  std::size_t weaker = 0;
  for (std::uint64_t n = 0; n < 6000 * seeds_times() && !HasFailure(); ++n)
    weaker += shows_only_what_is_allowed(programs.global(), false);
  EXPECT_GT(weaker, 4000u);
}
TEST(HistoriesVectors, ShowNothingThatTheAxiomsForbid) {
  for (const bool shared : {false, true}) {
    RandomPrograms programs(std::uint32_t(13 + seeds_from()), 2);
    std::size_t weaker = 0;
    for (std::uint64_t n = 0; n < 300 * seeds_times() && !HasFailure(); ++n)
      weaker += shows_only_what_is_allowed(shared ? programs.shared() : programs.global(), shared);
    EXPECT_GT(weaker, 100u);
  }
}
TEST(HistoriesShared, ShowNothingThatTheAxiomsForbid) {
  RandomPrograms programs(std::uint32_t(11 + seeds_from()));
  std::size_t weaker = 0;
  for (std::uint64_t n = 0; n < 3000 * seeds_times() && !HasFailure(); ++n)
    weaker += shows_only_what_is_allowed(programs.shared(), true);
  EXPECT_GT(weaker, 1000u);
}

} // namespace
} // namespace deadheat::test
