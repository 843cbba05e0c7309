// Blocks that synchronize among themselves, and now and then with each other: what is found does not depend on who
// looks at whose shared memory (analyzer/order/deferred.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "deadheat/address.h"
#include "tests/unit/analyzer_chunks.h"
#include "tests/unit/seeds.h"

namespace deadheat::test {
namespace {

// Warps of some blocks hand rows of their shared memory on by mbarriers and barriers, copy in bulk, touch rows of
// global memory that other blocks touch too, and tell each other by flags. Many forget to wait.
std::vector<trace::Record> some_blocks(std::uint64_t seed) {
  enum Site : std::uint32_t { load, store, get, put, object, bulk, fence, acquire, release, relaxed };
  constexpr std::uint32_t blocks = 5, warps = 3;
  constexpr std::uint64_t rows = 4096, objects = rows, flags = memory + (1 << 16);
  Random random(seed);
  std::vector<trace::Record> records =
      launch({{AccessKind::read, Space::global, 4},
              {AccessKind::write, Space::global, 4},
              {AccessKind::read, Space::shared, 4},
              {AccessKind::write, Space::shared, 4},
              {AccessKind::atomic, Space::shared, 8},
              {AccessKind::read, Space::shared, 4},
              {AccessKind::read, Space::shared, 1},
              {AccessKind::read, Space::global, 4, 1, Ordering::acquire, Scope::gpu},
              {AccessKind::write, Space::global, 4, 1, Ordering::release, Scope::gpu},
              {AccessKind::atomic, Space::shared, 4, 1, Ordering::relaxed, Scope::cta}},
             blocks, warps, 1 << 20);
  std::vector<deadheat::Site>& sites = std::get<trace::Module>(records[0]).sites;
  sites[object].kind = SiteKind::mbarrier;
  sites[bulk].kind = SiteKind::bulk_copy;
  sites[fence].kind = SiteKind::proxy_fence;
  sites[bulk].proxy = sites[fence].proxy = Proxy::async;
  std::vector<std::uint32_t> barriers(blocks), flag(2);
  std::uint32_t block = 0, ticket = 0;
  const auto of_warp = [&](auto record, std::uint32_t warp, std::uint32_t site, std::uint32_t mask) {
    record.warp = {1, block, warp};
    record.module = 1;
    record.site = site;
    record.mask = mask;
    return record;
  };
  const auto touch = [&](std::uint32_t warp, std::uint32_t site, Space space, std::uint64_t from, std::uint32_t mask) {
    auto record = of_warp(trace::Access{}, warp, site, mask);
    record.space = space;
    for (unsigned lane = 0; lane < 32; ++lane) {
      record.address[lane] = from + 4 * lane;
      record.digest[lane] = lane;
    }
    return record;
  };
  const auto at_object = [&](trace::Mbarrier::What what, std::uint32_t warp, std::uint32_t site, std::uint32_t mask,
                             std::uint32_t number, std::uint32_t phase) {
    auto record = of_warp(trace::Mbarrier{}, warp, site, mask);
    record.what = what;
    record.block = block;
    record.ordering = what == trace::Mbarrier::What::test ? Ordering::acquire : Ordering::release;
    record.address.fill(objects + 8 * number);
    record.count.fill(1);
    record.phase.fill(phase);
    record.succeeded = mask;
    records.push_back(record);
  };
  using What = trace::Mbarrier::What;
  for (std::uint32_t i = 0; i < 400; ++i) {
    if (random.below(6) == 0) block = random.below(blocks); // blocks run for a while
    const std::uint32_t warp = random.below(warps), mask = random.below(4) ? ~0u : 1u + random.below(~0u);
    const std::uint32_t number = random.below(2), phase = random.below(3);
    switch (random.below(18)) {
      case 0:
      case 1:
      case 2:
        records.push_back(touch(warp, random.below(3) ? get : put, Space::shared, 128 * random.below(8), mask));
        break;
      case 3:
      case 4: // rows of its own, or of all
        records.push_back(touch(warp, random.below(3) ? load : store, Space::global,
                                memory + 4096 * (random.below(3) ? block : 8) + 128 * random.below(4), mask));
        break;
      case 5:
      case 6: at_object(What::arrive, warp, object, mask, number, phase); break;
      case 7:
      case 8:
      case 9: at_object(What::test, warp, object, mask, number, phase); break;
      case 10: {
        auto record = of_warp(trace::BulkCopy{}, warp, bulk, 1);
        record.source[0] = memory + 4096 * (random.below(2) ? block : 8);
        record.destination[0] = shared_window + 128 * random.below(8);
        record.mbarrier[0] = shared_window + objects + 8 * number;
        record.bytes[0] = 256;
        records.push_back(record);
        if (random.below(4)) at_object(What::complete_tx, warp, bulk, 1, number, phase);
        break;
      }
      case 11: {
        auto record = of_warp(trace::Fence{}, warp, fence, mask);
        record.ordering = Ordering::acq_rel;
        record.scope = Scope::none;
        record.proxy = Proxy::async;
        records.push_back(record);
        break;
      }
      case 12: records.push_back(trace::BlockBarrier{1, block, 0, barriers[block]++, 1, 0}); break;
      case 13: {
        trace::WarpBarrier together;
        together.warp = {1, block, warp};
        together.mask = mask;
        records.push_back(together);
        break;
      }
      case 14:
      case 15: { // of lane 0
        const std::uint32_t which = random.below(2);
        const bool writes = random.below(2);
        auto record = touch(warp, writes ? release : acquire, Space::global, flags + 4096 * which, 1);
        record.order_first[0] = record.order_last[0] = ++ticket;
        if (writes)
          record.value_written[0] = ++flag[which], record.wrote[0] = true;
        else
          record.value_read[0] = flag[which];
        records.push_back(record);
        break;
      }
      case 16: {
        auto record = touch(warp, relaxed, Space::shared, 128 * random.below(8), mask);
        for (unsigned lane = 0; lane < 32; ++lane) record.order_first[lane] = record.order_last[lane] = ++ticket;
        record.wrote.fill(true);
        records.push_back(record);
        break;
      }
      case 17:
        if (random.below(12)) break;
        trace::ThreadExit exit;
        exit.warp = {1, block, warp};
        exit.mask = ~0u;
        records.push_back(exit);
    }
  }
  records.push_back(trace::OperationEnd{1});
  return records;
}

TEST(Blocks, ThreadsDoNotMatter) {
  std::size_t races = 0;
  for (const std::uint64_t seed : seeds(1, 40)) {
    const Chunks chunks(some_blocks(seed), 50);
    const std::string expected = found(chunks, 1);
    races += std::size_t(std::count(expected.begin(), expected.end(), '\n'));
    for (unsigned jobs : {2u, 3u, 7u})
      ASSERT_EQ(found(chunks, jobs, 0, 2000), expected) << jobs << " threads, seed " << seed;
  }
  EXPECT_GT(races, 300u);
}

} // namespace
} // namespace deadheat::test
