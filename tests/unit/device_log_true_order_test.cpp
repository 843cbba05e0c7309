// Logs of launches that truly happened, in an order that is known (device_log_true_order.h). What is made of the log
// must agree with what happened: every lane's own order, every wait after the arrivals that it was for, and every
// strong read after the write that it saw, as the newest before it.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/device_log_true_order.h"
#include "tests/unit/seeds.h"

namespace deadheat::device_log::true_order {
namespace {

// Follows the records as the analyzer does.
struct Checker final : Output {
  struct Write {
    std::uint64_t place = 0;
    std::uint32_t value = 0, number = 0;
  };
  std::map<Lane, std::vector<Event>>& truth;
  std::map<Lane, std::size_t> at;
  std::map<std::uint64_t, std::vector<Write>> writes; // by location, as they came
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> arrived; // at a cluster's phase, a block's object's
  std::map<Lane, std::uint32_t> written; // numbers of writes
  std::uint64_t edges_lost = 0, disorder = 0, events = 0, inexact = 0;
  bool unique = true; // no value is written to a location twice
  const std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint32_t>* numbers = nullptr;

  explicit Checker(std::map<Lane, std::vector<Event>>& t) : truth(t) {}

  const Event* next(Lane lane, const Event& said) {
    ++events;
    std::vector<Event>& list = truth[lane];
    std::size_t& place = at[lane];
    if (place == list.size() || !(list[place] == said)) {
      ++disorder;
      return nullptr;
    }
    return &list[place++];
  }
  void access(const trace::AccessView& a) override {
    std::vector<unsigned> lanes;
    for (unsigned l = 0; l < 32; ++l) {
      if (a.mask >> l & 1) lanes.push_back(l);
    }
    std::sort(lanes.begin(), lanes.end(), [&](unsigned x, unsigned y) {
      return a.order_first[x] < a.order_first[y];
    }); // (analyzer/detect/batch.cpp)
    for (unsigned l : lanes) {
      const bool wrote = a.wrote >> l & 1;
      const What what = What(a.site);
      const Event* event =
          next({a.warp.block, a.warp.warp * 32 + l}, {what, a.address[l], std::uint32_t(a.value_read[l]),
                                                      wrote ? std::uint32_t(a.value_written[l]) : 0, 0, wrote, 0});
      if (!event) continue;
      std::vector<Write>& here = writes[a.address[l]];
      inexact += a.order_first[l] != a.order_last[l];
      if (what != store && event->seen) { // (Causality::observed_write)
        const Write* seen = nullptr;
        for (auto w = here.rbegin(); w != here.rend() && !seen; ++w) {
          if (a.order_first[l] == a.order_last[l] ? w->place < a.order_first[l]
                                                  : w->place < a.order_last[l] && w->value == a.value_read[l]) {
            seen = &*w;
          }
        }
        edges_lost += !seen || seen->value != a.value_read[l] || (unique && seen->number != event->seen);
      }
      if (wrote) here.push_back({a.order_last[l], event->written, unique ? number_of(*event) : 0});
    }
  }
  std::uint32_t number_of(const Event& e) const {
    auto found = numbers->find({e.address, e.written});
    return found == numbers->end() ? 0 : found->second;
  }
  void record(const trace::Record& record) override {
    if (auto* r = std::get_if<trace::ClusterBarrier>(&record)) {
      each(r->warp, r->mask, {r->wait ? cluster_wait : cluster_arrive, 0, 0, 0, r->phase, false, 0});
      std::uint32_t& count = arrived[{r->warp.block / in_cluster, r->phase}];
      if (r->wait)
        disorder += count != threads * in_cluster;
      else
        count += std::uint32_t(__builtin_popcount(r->mask));
    } else if (auto* r = std::get_if<trace::BlockBarrier>(&record)) {
      for (std::uint32_t t = 0; t < threads; ++t) next({r->block, t}, of_barrier(r->barrier, r->phase));
    } else if (auto* r = std::get_if<trace::BarrierArrive>(&record)) {
      each(r->warp, r->mask, {r->sync ? named_barrier : named_arrive, 0, 0, 0, r->phase, false, 0});
      arrived[{2000 + r->warp.block, r->phase}] += std::uint32_t(__builtin_popcount(r->mask));
    } else if (auto* r = std::get_if<trace::BarrierComplete>(&record)) {
      disorder += arrived[{2000 + r->block, r->phase}] != threads;
    } else if (auto* r = std::get_if<trace::Mbarrier>(&record)) {
      const What what = r->what == trace::Mbarrier::What::init     ? object_init
                        : r->what == trace::Mbarrier::What::arrive ? object_arrive
                                                                   : object_wait;
      for (unsigned l = 0; l < 32; ++l) {
        if (!(r->mask >> l & 1)) continue;
        next({r->warp.block, r->warp.warp * 32 + l}, {what, 0, 0, 0, r->phase[l], false, 0});
        std::uint32_t& count = arrived[{1000 + r->warp.block, r->phase[l]}];
        if (what == object_wait) disorder += count != threads;
        count += what == object_arrive;
      }
    } else if (auto* r = std::get_if<trace::ThreadExit>(&record)) {
      each(r->warp, r->mask, {leave, 0, 0, 0, 0, false, 0});
    }
  }
  static Event of_barrier(std::uint32_t number, std::uint32_t phase) {
    return {number ? named_barrier : barrier, 0, 0, 0, phase, false, 0};
  }
  void each(const trace::Warp& warp, std::uint32_t mask, const Event& event) {
    for (unsigned l = 0; l < 32; ++l) {
      if (mask >> l & 1) next({warp.block, warp.warp * 32 + l}, event);
    }
  }
};

void check(const Options& options) {
  World world(options);
  Checker checker(world.truth);
  checker.unique = !options.leftover;
  checker.numbers = &world.numbers;
  world.run(checker);
  if (testing::Test::HasFatalFailure()) return;
  std::uint64_t events = 0, missing = 0;
  for (const auto& [lane, list] : world.truth) {
    events += list.size();
    missing += list.size() - checker.at[lane];
  }
  EXPECT_EQ(checker.disorder, 0u) << "seed " << options.seed;
  EXPECT_EQ(missing, 0u) << "seed " << options.seed;
  EXPECT_EQ(checker.events, events) << "seed " << options.seed;
  EXPECT_EQ(checker.edges_lost, 0u) << "seed " << options.seed;
  if (options.own || !options.stores) {
    EXPECT_EQ(world.guessed, 0u) << "seed " << options.seed;
    EXPECT_EQ(checker.inexact, 0u) << "seed " << options.seed;
  }
  if (options.early && !options.objects) {
    EXPECT_GT(world.settled, 0u);
  }
}

class TrueOrder : public testing::TestWithParam<unsigned> {};

TEST_P(TrueOrder, BarriersOfWarpsThatStayTogether) {
  check({.seed = GetParam(), .parted = false, .writers = 8, .stores = false});
}
TEST_P(TrueOrder, BarriersOfPartedWarps) { check({.seed = GetParam(), .writers = 8, .stores = false}); }
TEST_P(TrueOrder, ObjectsOfPartedWarps) {
  check({.seed = GetParam(), .objects = true, .writers = 8, .stores = false, .early = false});
}

TEST_P(TrueOrder, OneWriterOfEachLocation) {
  check({.seed = GetParam(), .writers = 3, .locations = blocks * warps, .own = true});
}
TEST_P(TrueOrder, Stores) { check({.seed = GetParam(), .writers = 2, .atomics = false, .locations = 6}); }
TEST_P(TrueOrder, StoresAndAtomics) { check({.seed = GetParam(), .writers = 4}); }
TEST_P(TrueOrder, ManyWrites) { check({.seed = GetParam(), .writers = 7, .locations = 2}); }
TEST_P(TrueOrder, WhatWasThereIsStored) {
  check({.seed = GetParam(), .stages = 2, .writers = 1, .atomics = false, .locations = 24, .leftover = true});
}

INSTANTIATE_TEST_SUITE_P(Seeds, TrueOrder, testing::ValuesIn(test::seed_list(1, 24)));

} // namespace
} // namespace deadheat::device_log::true_order
