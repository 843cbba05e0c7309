// How pages of the first pass are found, against a map that says the same.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <unordered_map>

#include "analyzer/detect/filter_index.h"
#include "analyzer/detect/filter_pages.h"

namespace {

using namespace deadheat::detect;

TEST(PageIndex, FindsWhatAMapFinds) {
  std::mt19937 random(1);
  PageIndex index;
  std::unordered_map<std::uint32_t, std::uint32_t> known; // number → hash
  // Few hashes, near each other and at both ends of a table, so that many are put farther, and around its end.
  auto hash_of = [](std::uint32_t number) {
    const std::uint32_t table = number % 3 << 26, spread = number % 7 * 0x9e3779bu % 64;
    return table | (number % 2 ? (1u << 26) - 1 - spread : spread);
  };
  for (unsigned step = 0; step < 40000; ++step) {
    const std::uint32_t number = 1 + random() % 300, hash = hash_of(number);
    const std::uint32_t found = index.find(hash, [&](std::uint32_t id) { return id == number; });
    ASSERT_EQ(found, known.count(number) ? number : 0) << "step " << step;
    if (found) {
      index.erase(hash, number);
      known.erase(number);
    } else {
      index.insert(hash, number);
      known[number] = hash;
    }
    ASSERT_EQ(index.count(), known.size());
  }
  for (const auto& [number, hash] : known) {
    EXPECT_EQ(index.find(hash, [&](std::uint32_t id) { return id == number; }), number);
  }
  std::size_t seen = 0;
  index.each([&](std::uint32_t number) { seen += known.count(number); });
  EXPECT_EQ(seen, known.size());
}

TEST(PageIndex, APageTakesThirteenBytesAtMost) {
  std::mt19937 random(2);
  PageIndex index;
  for (std::uint32_t number = 1; number <= 400000; ++number) {
    index.insert(std::uint32_t(random()), number);
    if (number > 50000 && number % 1000 == 0) {
      ASSERT_LT(double(index.bytes()) / number, 13.4) << number << " pages";
      ASSERT_GT(double(index.bytes()) / number, 10.6) << number << " pages";
    }
  }
}

TEST(ShadowPage, OfARangeThatWasTouchedInOrderTheNextLiesBehind) {
  FilterPages pages;
  bool fresh = false;
  std::uint32_t id = 0;
  for (std::uint64_t number = 5; number < 9; ++number) pages.get({0, number}, fresh, id);
  EXPECT_EQ(pages.behind(id, {0, 9}), nullptr); // there is none
  pages.get({0, 5}, fresh, id);
  EXPECT_FALSE(fresh);
  EXPECT_EQ(pages.behind(id, {0, 7}), nullptr); // another one does
  EXPECT_EQ(pages.behind(id, {0, 6}), pages.find({0, 6}));
  EXPECT_EQ(pages.behind(id, {0, 7}), pages.find({0, 7}));
  pages.erase({0, 8});
  EXPECT_EQ(pages.behind(id, {0, 8}), nullptr);
  ShadowPage& other = pages.get({0, 20}, fresh, id); // in its place
  pages.get({0, 7}, fresh, id);
  EXPECT_EQ(pages.behind(id, {0, 8}), nullptr);
  EXPECT_EQ(pages.behind(id, {0, 20}), &other);
}

TEST(ShadowPage, FewGroupsAndGroupsTakeTheSamePlace) {
  FilterPages pages;
  bool fresh = false;
  std::uint32_t id = 0;
  ShadowPage& page = pages.get({0, 5}, fresh, id);
  ASSERT_TRUE(fresh);
  GroupEpochs* const group = FilterPages::few(page, 7);
  ASSERT_NE(group, nullptr);
  group->write = 3;
  page.whole.reads = 4;
  pages.refine(page, 2);
  ASSERT_NE(page.groups(), nullptr);
  EXPECT_EQ(page.few_count, 0);
  for (unsigned i = 0; i < page.group_count(); ++i) {
    EXPECT_EQ(page.groups()[i].write, i == 7 ? 3u : 0u);
    EXPECT_EQ(page.groups()[i].reads, i == 7 ? 0u : 4u);
  }
  pages.collapse(page, {});
  EXPECT_EQ(page.groups(), nullptr);
  GroupEpochs* const again = FilterPages::few(page, 9);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->write, 0u);
  EXPECT_EQ(again->reads, 0u);
}

} // namespace
