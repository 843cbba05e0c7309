// Directed runs: the pair in the order asked for, and as little else in another order as can be.
#include "replay/search/directed.h"

#include <gtest/gtest.h>

#include <string>

namespace deadheat::search {
namespace {

using device::NextAccess;

// Threads of one block that each perform `steps` operations; the site is the step's number. The order, as
// "thread.step". Step 0 of thread `issuer` issues a copy, "copy", which an agent of its own performs.
std::string run(Directed& chooser, std::uint32_t threads, std::uint32_t steps, std::uint32_t issuer = ~0u) {
  std::vector<std::uint32_t> at(threads, 0);
  std::string order;
  bool copied = false;
  for (;;) {
    std::vector<NextAccess> able;
    for (std::uint32_t t = 0; t < threads; ++t) {
      if (at[t] == steps) continue;
      NextAccess next;
      next.agent = {.kind = Agent::Kind::thread, .operation = 5, .block = 0, .thread = t};
      next.module = 1;
      next.site = at[t];
      next.issues = t == issuer && at[t] == 0;
      able.push_back(next);
    }
    if (issuer < threads && at[issuer] && !copied) {
      NextAccess copy;
      copy.agent = {.kind = Agent::Kind::async_copy, .operation = 5, .block = 0, .thread = issuer};
      copy.module = 1;
      copy.issued_by = {0};
      able.push_back(copy);
    }
    if (able.empty()) return order;
    const Agent agent = able.at(chooser.choose(able, {})).agent;
    if (agent.kind == Agent::Kind::async_copy) {
      copied = true;
      order += " copy";
      continue;
    }
    const std::uint32_t t = agent.thread;
    order += (order.empty() ? "" : " ") + std::to_string(t) + "." + std::to_string(at[t]++);
  }
}

AccessName name(std::uint32_t thread, std::uint32_t site) { return {5, 1, 0, thread, 1, site, 0}; }

TEST(Directed, BaseOrders) {
  Directed on(Directed::Base::runs_on, std::nullopt), in_step(Directed::Base::in_step, std::nullopt);
  EXPECT_EQ(run(on, 3, 2), "0.0 0.1 1.0 1.1 2.0 2.1");
  EXPECT_EQ(run(in_step, 3, 2), "0.0 1.0 2.0 0.1 1.1 2.1");
}

TEST(Directed, TheHeldOneWaitsForTheOtherAlone) {
  Directed on(Directed::Base::runs_on, Hold{name(0, 1), name(2, 0)});
  EXPECT_EQ(run(on, 3, 2), "0.0 2.0 0.1 1.0 1.1 2.1");
  EXPECT_TRUE(on.kept());
  Directed in_step(Directed::Base::in_step, Hold{name(0, 1), name(2, 1)});
  EXPECT_EQ(run(in_step, 3, 3), "0.0 1.0 2.0 2.1 0.1 1.1 0.2 1.2 2.2");
  EXPECT_TRUE(in_step.kept());
}

TEST(Directed, WhatComesInThatOrderAnywayIsNotKept) {
  Directed on(Directed::Base::runs_on, Hold{name(1, 0), name(0, 1)});
  EXPECT_EQ(run(on, 2, 2), "0.0 0.1 1.0 1.1");
  EXPECT_FALSE(on.kept());
}

TEST(Directed, TwoThreadsApartFromTheOthers) {
  using When = Directed::Apart::When;
  const Directed::Apart after{When::after_others, name(0, 0), name(2, 0)};
  const Directed::Apart before{When::before_others, name(1, 0), name(2, 0)};
  Directed last(Directed::Base::runs_on, std::nullopt, after), first(Directed::Base::in_step, std::nullopt, before);
  EXPECT_EQ(run(last, 4, 2), "1.0 1.1 3.0 3.1 0.0 0.1 2.0 2.1");
  EXPECT_EQ(run(first, 4, 2), "1.0 2.0 1.1 2.1 0.0 3.0 0.1 3.1");
  Directed held(Directed::Base::runs_on, Hold{name(0, 1), name(2, 0)}, after);
  EXPECT_EQ(run(held, 4, 2), "1.0 1.1 3.0 3.1 0.0 2.0 0.1 2.1");
  EXPECT_TRUE(held.kept());
}

TEST(Directed, TheHeldOneWaitsForACopyNotForItsIssue) {
  Directed plain(Directed::Base::runs_on, std::nullopt);
  EXPECT_EQ(run(plain, 3, 2, 2), "0.0 0.1 1.0 1.1 2.0 2.1 copy");
  Directed held(Directed::Base::runs_on, Hold{name(0, 1), name(2, 0)});
  EXPECT_EQ(run(held, 3, 2, 2), "0.0 2.0 copy 0.1 1.0 1.1 2.1");
  EXPECT_TRUE(held.kept());
  Directed own(Directed::Base::runs_on, Hold{name(0, 1), name(0, 0)}); // of the same thread
  EXPECT_EQ(run(own, 2, 2, 0), "0.0 copy 0.1 1.0 1.1");
  EXPECT_TRUE(own.kept());
}

TEST(Directed, AnAwaitedAccessThatNeverComesHoldsNobodyForEver) {
  Directed on(Directed::Base::runs_on, Hold{name(0, 1), name(1, 7)});
  EXPECT_EQ(run(on, 2, 2), "0.0 1.0 1.1 0.1");
  EXPECT_FALSE(on.kept());
}

} // namespace
} // namespace deadheat::search
