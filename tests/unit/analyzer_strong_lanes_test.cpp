// Strong accesses come out of a batch as they went in, whoever looks, in the order in which lanes reached the location;
// and each worker gets the lanes whose memory begins in its parts.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "analyzer/detect/batch.h"
#include "deadheat/address.h"
#include "deadheat/lanes.h"
#include "tests/unit/seeds.h"
#include "tests/unit/trace_generate.h"

namespace deadheat::test {
namespace {

using detect::page_bytes;
using detect::StrongView;

// What a column of a warp may look like, so that each way to keep it comes up.
void fill(std::array<std::uint64_t, 32>& column, trace::Random& random) {
  const std::uint64_t kind = random.below(5), first = kind == 0 ? random.below(1 << 20) : random.below(~0ull);
  for (std::uint64_t& value : column) {
    value = kind <= 1   ? first
            : kind == 2 ? random.below(1 << 8)
            : kind == 3 ? random.below(1ull << 32)
                        : random.below(~0ull);
  }
}

struct Warp {
  trace::Access access;
  std::vector<StrongView::Lane> lanes; // by place
};

Warp some(trace::Random& random) {
  Warp made;
  trace::Access& access = made.access;
  access.warp = {1, std::uint32_t(random.below(40)), std::uint32_t(random.below(32))};
  access.module = 1;
  access.site = std::uint32_t(random.below(9));
  access.space = random.below(4) ? Space::global : Space::shared;
  access.mask = random.below(3) ? ~0u : std::uint32_t(random.below(~0u)) | 1u << random.below(32);
  if (random.below(3) == 0) access.mask = 1u << random.below(32);
  fill(access.value_read, random);
  fill(access.value_written, random);
  fill(access.order_first, random);
  access.order_last = access.order_first;
  if (random.below(2)) fill(access.order_last, random);
  for (unsigned lane = 0; lane < 32; ++lane) {
    access.address[lane] = random.below(access.space == Space::shared ? 1 << 14 : 1 << 20);
    if (access.space == Space::shared && random.below(20) == 0)
      access.address[lane] |= random.below(4) << cluster_shift;
    access.digest[lane] = std::uint32_t(random.below(~0u));
    access.wrote[lane] = random.below(2) != 0;
  }
  std::vector<unsigned> order;
  each_lane(access.mask, [&](unsigned lane) { order.push_back(lane); });
  std::ranges::stable_sort(order, {}, [&](unsigned lane) { return access.order_first[lane]; });
  for (const unsigned lane : order)
    made.lanes.push_back(
        {access.address[lane],
         access.digest[lane],
         std::uint8_t(lane),
         access.wrote[lane] != 0,
         {access.order_first[lane], access.order_last[lane], access.value_read[lane], access.value_written[lane]}});
  return made;
}

void expect_same(const StrongView::Lane& got, const StrongView::Lane& wanted, bool digests) {
  EXPECT_EQ(got.lane, wanted.lane);
  EXPECT_EQ(got.address, wanted.address);
  EXPECT_EQ(got.digest, digests ? wanted.digest : 0);
  EXPECT_EQ(got.wrote, wanted.wrote);
  EXPECT_EQ(got.values.read, wanted.values.read);
  EXPECT_EQ(got.values.written, wanted.values.written);
  EXPECT_EQ(got.values.order_first, wanted.values.order_first);
  EXPECT_EQ(got.values.order_last, wanted.values.order_last);
}

// The worker in whose parts the lane's memory begins.
unsigned owner(const Warp& of, std::uint64_t address, unsigned workers) {
  const bool shared = of.access.space == Space::shared;
  return shared ? detect::partition_of_block(of.access.warp.block + 1) % workers
                : detect::partition_of(0, address / page_bytes) % workers;
}

TEST(StrongLanes, ComeOutAsTheyWentIn) {
  for (const std::uint64_t seed : seeds(1, 1000)) {
    trace::Random random(seed);
    detect::Suspects suspects;
    detect::Routing routing;
    routing.workers = unsigned(1 + random.below(5));
    const bool digests = random.below(2);
    if (digests) routing.suspects = &suspects;
    detect::Batch batch;
    detect::Batcher batcher(routing, batch, [&]() -> detect::Batch& { return batch; });
    std::vector<Warp> warps(1 + random.below(4));
    for (Warp& warp : warps) {
      warp = some(random);
      trace::AccessView view = trace::view_of(warp.access);
      view.strong = true;
      batcher.access(view);
    }
    ASSERT_EQ(batch.strong.size(), warps.size());
    for (std::uint32_t number = 0; number < warps.size(); ++number) {
      const Warp& warp = warps[number];
      std::uint32_t found = 0;
      for (unsigned worker = 0; worker < routing.workers; ++worker) {
        const StrongView view(batch, number, worker);
        std::array<StrongView::Lane, 32> lanes;
        ASSERT_EQ(view.lanes(lanes), warp.lanes.size());
        std::vector<unsigned> own;
        for (std::size_t place = 0; place < warp.lanes.size(); ++place) {
          const StrongView::Lane& wanted = warp.lanes[place];
          expect_same(lanes[place], wanted, digests);
          EXPECT_EQ(view.address(wanted.lane), wanted.address);
          if (owner(warp, wanted.address, routing.workers) != worker) continue;
          own.push_back(wanted.lane);
          found |= 1u << wanted.lane;
          EXPECT_TRUE(view.own() >> wanted.lane & 1);
        }
        std::vector<unsigned> seen;
        view.each_own([&](std::uint64_t address, unsigned lane) {
          EXPECT_EQ(address, warp.access.address[lane]);
          seen.push_back(lane);
        });
        EXPECT_EQ(seen, own);
        ASSERT_FALSE(::testing::Test::HasFailure())
            << "seed " << seed << ", access " << number << ", worker " << worker;
      }
      EXPECT_EQ(found, warp.access.mask);
    }
  }
}

TEST(StrongLanes, WhoeverTouchesAnotherBlocksMemoryIsNamed) {
  detect::Routing routing;
  routing.workers = 2;
  detect::Batch batch;
  detect::Batcher batcher(routing, batch, [&]() -> detect::Batch& { return batch; });
  trace::Access access;
  access.mask = 0b1111;
  access.address[1] = 2ull << cluster_shift;
  trace::AccessView view = trace::view_of(access);
  view.strong = true;
  batcher.access(view);
  EXPECT_EQ(batch.strong[0].of_cluster, 0u); // global memory
  view.space = Space::shared;
  batcher.access(view);
  EXPECT_EQ(batch.strong[1].of_cluster, 0b0010u);
}

TEST(StrongLanes, ValuesThatAreAlikeTakeOneWord) {
  detect::WordRoom words;
  trace::Access access;
  access.mask = ~0u;
  access.value_written.fill(7);
  access.order_first.fill(~0ull);
  access.order_last.fill(~0ull);
  detect::StrongAccesses of;
  of.mask = ~0u;
  std::array<std::uint8_t, 32> ascending{};
  detect::put_values(trace::view_of(access), ascending, false, of, words);
  EXPECT_LE(words.count(), 5u); // of 128
}

} // namespace
} // namespace deadheat::test
