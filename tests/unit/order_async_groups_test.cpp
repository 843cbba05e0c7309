#include "analyzer/order/async_groups.h"

#include <gtest/gtest.h>

namespace deadheat::order {
namespace {

TEST(AsyncGroups, NumbersRiseAndWhatIsKeptStays) {
  AsyncGroups groups;
  EXPECT_EQ(groups.find(0), nullptr);
  EXPECT_EQ(groups.find(1), nullptr);
  for (AsyncGroup n = 1; n <= 10; ++n) {
    ASSERT_EQ(groups.make(n % 2), n);
    groups.find(n)->told = 100 + n;
  }
  groups.keep({7, 0, 3, 7, 99}); // of 0 and 99 nothing is known
  EXPECT_EQ(groups.size(), 2u);
  for (AsyncGroup n = 0; n <= 12; ++n) {
    const AsyncState* const of = groups.find(n);
    ASSERT_EQ(of != nullptr, n == 3 || n == 7) << n;
    if (of) {
      EXPECT_EQ(of->told, 100 + n);
    }
  }
  EXPECT_EQ(groups.make(true), 11u);
  groups.find(11)->told = 111;
  groups.keep({11, 3});
  EXPECT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups.find(7), nullptr);
  EXPECT_EQ(groups.find(3)->told, 103u);
  EXPECT_TRUE(groups.find(11)->bulk);
  EXPECT_EQ(groups.find(11)->told, 111u);
  groups.keep({});
  EXPECT_EQ(groups.size(), 0u);
  EXPECT_EQ(groups.make(false), 12u);
}

// More than lie in one piece of memory: none is another's, and what points to one stays.
TEST(AsyncGroups, ManyAreKeptApart) {
  constexpr AsyncGroup many = 1000;
  AsyncGroups groups;
  const auto make = [&](AsyncGroup first) {
    for (AsyncGroup n = first; n < first + many; ++n) {
      ASSERT_EQ(groups.make(false), n);
      groups.find(n)->told = n;
    }
  };
  make(1);
  AsyncState* const one = groups.find(1);
  std::vector<AsyncGroup> kept;
  for (AsyncGroup n = 1; n <= many; ++n) {
    ASSERT_EQ(groups.find(n)->told, n);
    if (n % 3 == 0) kept.push_back(n);
  }
  EXPECT_EQ(groups.find(1), one);
  EXPECT_EQ(groups.find(many + 1), nullptr);
  groups.keep(kept);
  EXPECT_EQ(groups.size(), kept.size());
  make(many + 1);
  EXPECT_EQ(groups.size(), kept.size() + many);
  for (AsyncGroup n = 1; n <= 2 * many; ++n) {
    const AsyncState* const of = groups.find(n);
    ASSERT_EQ(of != nullptr, n > many || n % 3 == 0) << n;
    if (of) {
      ASSERT_EQ(of->told, n);
    }
  }
}

} // namespace
} // namespace deadheat::order
