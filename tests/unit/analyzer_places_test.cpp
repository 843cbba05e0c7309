// Words and larger units all over memory, and going from thread to thread: the first pass, which keeps them in several
// ways, leaves nothing out.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/analyzer_chunks.h"

namespace deadheat::test {
namespace {

// Memory that is touched here and there, in units of several sizes, before, between and after sets of all of it or of a
// part, affine accesses, and memory handed out anew; by launches that are in one stream or in two. Everywhere: most
// words of two pages.
std::vector<trace::Record> here_and_there(std::uint64_t seed, bool everywhere = false) {
  Random random(seed);
  std::vector<SiteOf> sites;
  for (unsigned bytes : {1u, 2u, 4u, 8u, 16u}) {
    sites.push_back({AccessKind::read, Space::global, bytes});
    sites.push_back({AccessKind::write, Space::global, bytes});
    sites.push_back({AccessKind::read, Space::global, bytes, 1, Ordering::nc});
  }
  sites.push_back({AccessKind::atomic, Space::global, 4, 1, Ordering::relaxed, Scope::gpu});
  std::vector<trace::Record> records = launch(sites, 3, 2, 1 << 16);
  const auto operation = std::get<trace::Operation>(records[2]);
  records.resize(2); // the operations come below
  std::uint64_t ticket = 0;
  const bool one_size = random.below(2); // else all
  const std::uint32_t width_of_all = 1u << random.below(4);
  for (std::uint32_t number = 1; number <= 6; ++number) {
    trace::Operation now = operation;
    now.id = number;
    now.stream = random.below(4) ? 2 : 3; // 1 is the legacy stream
    now.launch = 0;
    if (number % 2) { // a set
      trace::Set set;
      set.api = "cudaMemsetAsync";
      const bool whole = random.below(2);
      set.destination = {
          memory + (whole ? 0 : 4 * random.below(9000)), 0, whole ? 1u << 16 : 4 * random.below(6000), 1, 1, 0};
      now.what = set;
      records.push_back(now);
      if (random.below(3)) {
        records.push_back(trace::OperationBegin{number});
        records.push_back(trace::OperationEnd{number});
      }
      if (random.below(6) == 0) { // a block of the allocator's: nothing of it is known
        trace::Allocate again;
        again.allocation = number + 1;
        again.address = memory + 256 * random.below(200);
        again.bytes = 1 + random.below(9000);
        records.push_back(again);
        records.push_back(trace::Free{number + 1, 0, 1});
        again.allocation = 1;
        again.address = memory;
        again.bytes = 1 << 16;
        if (random.below(2)) records.push_back(again);
      }
      continue;
    }
    now.launch = number / 2;
    records.push_back(now);
    records.push_back(trace::OperationBegin{number});
    const std::uint32_t kinds = random.below(4); // of sites, everywhere
    for (std::uint32_t i = 0, count = everywhere ? 60 + random.below(60) : 10 + random.below(30); i < count; ++i) {
      trace::Access access;
      access.warp = {now.launch, random.below(3), random.below(2)};
      if (random.below(8) == 0) {
        records.push_back(trace::BlockBarrier{now.launch, access.warp.block, 0, i, 1, 0});
        continue;
      }
      access.module = 1;
      access.site = random.below(std::uint32_t(sites.size()));
      if (one_size) access.site = std::min(4u, width_of_all) * 3 % 15 + random.below(3);
      if (everywhere && (kinds < 3 || random.below(20)))
        access.site = kinds == 0 ? 6 : (kinds < 3 ? 6 : 0) + random.below(3);
      const SiteOf& of = sites[access.site];
      access.mask = random.below(everywhere ? 20 : 3) ? ~0u : 1u << random.below(32);
      const std::uint32_t shape = random.below(8), base = 1024 * random.below(60);
      for (unsigned lane = 0; lane < 32; ++lane) {
        // Mostly a place of the thread's own, so that there is something for a race to be missing in.
        const std::uint32_t own = (access.warp.block * 2 + access.warp.warp) * 32 + lane;
        if (everywhere && shape) { // words of the thread's own; bytes are as close
          const std::uint32_t at = (random.below(10) * 192 + own) * 4 + random.below(4);
          access.address[lane] = memory + (shape == 7 ? random.below(8000) : at) / of.bytes * of.bytes;
          if (!is_strong(of.ordering)) continue;
          access.order_first[lane] = access.order_last[lane] = ++ticket;
          access.wrote[lane] = true;
          continue;
        }
        access.address[lane] =
            memory + (shape == 0  ? base + lane * of.bytes
                      : shape < 7 ? ((random.below(16) * 192 + own) * 16 + random.below(16) / of.bytes * of.bytes)
                                  : random.below(1 << 12) * 16);
        if (!is_strong(of.ordering)) continue;
        access.order_first[lane] = access.order_last[lane] = ++ticket;
        access.wrote[lane] = true;
      }
      records.push_back(access);
    }
    records.push_back(trace::OperationEnd{number});
  }
  return records;
}

TEST(Scale, MemoryTouchedHereAndThere) {
  std::size_t races = 0;
  ASSERT_NO_FATAL_FAILURE(compare_ways([](std::uint64_t seed) { return here_and_there(seed); }, 250, 60, 1, races));
  EXPECT_GT(races, 500u);
}

TEST(Scale, MemoryTouchedEverywhere) {
  std::size_t races = 0;
  ASSERT_NO_FATAL_FAILURE(
      compare_ways([](std::uint64_t seed) { return here_and_there(seed, true); }, 120, 60, 1, races));
  EXPECT_GT(races, 200u);
}

// Most words of sixteen pages go from thread to thread: between two barriers of all blocks to any, between barriers of
// blocks within the block, between others not at all; and one in some hundred goes astray. added: some are added to.
std::vector<trace::Record> handed_on(std::uint64_t seed, bool added) {
  Random random(seed);
  constexpr std::uint32_t blocks = 6, warps = 4, words = 1 << 14;
  const std::vector<SiteOf> sites{{AccessKind::read, Space::global, 4},
                                  {AccessKind::write, Space::global, 4},
                                  {AccessKind::read, Space::global, 4, 1, Ordering::nc},
                                  {AccessKind::atomic, Space::global, 4, 1, Ordering::relaxed, Scope::gpu},
                                  {AccessKind::atomic, Space::global, 4, 1, Ordering::acq_rel, Scope::gpu}};
  std::vector<trace::Record> records = launch(sites, blocks, warps, (words + 1024) * 4);
  // How often sums of floats depend on their order, the two passes count in different ways.
  std::get<trace::Module>(records[0]).sites[3].opcode = "atom.add.u32";
  const trace::Operation first = std::get<trace::Operation>(records[2]);
  std::uint32_t launched = 1, phase = 0;
  std::uint64_t ticket = 0;
  auto barriers = [&] {
    for (std::uint32_t block = 0; block < blocks; ++block)
      records.push_back(trace::BlockBarrier{launched, block, 0, ++phase, 1, 0});
  };
  auto meet = [&] { // all blocks
    barriers();
    for (std::uint32_t i = 0; i < 2 * blocks; ++i) { // the second time they see all
      trace::Access add;
      add.warp = {launched, i % blocks, 0};
      add.module = 1;
      add.site = 4;
      add.mask = 1;
      add.address[0] = memory + words * 4;
      add.value_read[0] = ticket;
      add.order_first[0] = add.order_last[0] = add.value_written[0] = ++ticket;
      add.wrote[0] = true;
      records.push_back(add);
    }
    barriers();
  };
  const std::uint32_t thinned = 1 + random.below(3), astray = 100 + random.below(1000);
  std::vector<std::uint32_t> thread_of(words);
  std::vector<std::uint64_t> values(words);
  std::uint64_t ticket_of_adds = 0;
  enum class Hands { any, of_block, own } hands = Hands::any;
  for (std::uint32_t step = 0, steps = 4 + random.below(4); step < steps; ++step) {
    const std::uint32_t adds_of_8 = step && added ? random.below(3) * 4 : 0;
    const std::uint32_t writes_of_8 = step == 0 ? 8 : random.below(3) * 4, readers = 1 + random.below(2);
    struct One {
      std::uint32_t word, site;
    };
    std::vector<std::vector<One>> by_thread(blocks * warps * 32);
    for (std::uint32_t word = 0; word < words; ++word) {
      if (random.below(4) < thinned - 1) continue;
      const bool write = random.below(8) < writes_of_8;
      const std::uint32_t per_block = warps * 32;
      for (std::uint32_t reader = 0; reader < (write ? 1 : readers); ++reader) {
        std::uint32_t& thread = thread_of[word];
        if (hands == Hands::any) thread = random.below(blocks * per_block);
        if (hands == Hands::of_block) thread = thread / per_block * per_block + random.below(per_block);
        const std::uint32_t by = random.below(astray) ? thread : random.below(blocks * per_block);
        const bool add = added && random.below(8) < adds_of_8;
        by_thread[by].push_back({word, add ? 3u : write ? 1u : random.below(50) ? 0u : 2u});
      }
    }
    for (bool any = true; any;) { // warps in turn
      any = false;
      for (std::uint32_t warp = 0; warp < blocks * warps; ++warp) {
        for (std::uint32_t site = 0; site < 4; ++site) {
          trace::Access access;
          access.warp = {launched, warp / warps, warp % warps};
          access.module = 1;
          access.site = site;
          for (unsigned lane = 0; lane < 32; ++lane) {
            std::vector<One>& left = by_thread[warp * 32 + lane];
            if (left.empty() || left.back().site != site) continue;
            access.mask |= 1u << lane;
            access.address[lane] = memory + 4 * left.back().word;
            if (site == 3) {
              std::uint64_t& value = values[left.back().word];
              access.value_read[lane] = value;
              access.order_first[lane] = access.order_last[lane] = access.value_written[lane] = value =
                  ++ticket_of_adds;
              access.wrote[lane] = true;
            }
            left.pop_back();
          }
          if (!access.mask) continue;
          any = true;
          records.push_back(access);
        }
      }
    }
    hands = Hands(random.below(3));
    if (hands == Hands::own) continue;
    if (hands == Hands::of_block) {
      barriers();
    } else if (random.below(2)) {
      meet();
    } else {
      records.push_back(trace::OperationEnd{launched});
      trace::Operation next = first;
      next.id = next.launch = ++launched;
      records.push_back(next);
      records.push_back(trace::OperationBegin{launched});
    }
  }
  records.push_back(trace::OperationEnd{launched});
  return records;
}

TEST(Scale, WordsHandedOn) {
  std::size_t races = 0;
  ASSERT_NO_FATAL_FAILURE(compare_ways([](std::uint64_t seed) { return handed_on(seed, false); }, 12, 600, 4, races));
  EXPECT_GT(races, 20u);
}

TEST(Scale, WordsHandedOnAndAddedTo) {
  std::size_t races = 0;
  ASSERT_NO_FATAL_FAILURE(compare_ways([](std::uint64_t seed) { return handed_on(seed, true); }, 16, 600, 2, races));
  EXPECT_GT(races, 30u);
}

// Block 0 reads all words, block 1 too, in an order of its own, and then block 0 writes them: each is in a race, also
// where a chunk's accesses lie in memory where those of the chunk before lay.
TEST(Scale, AChunkIsNotTakenForTheOneBefore) {
  constexpr std::uint32_t words = 1 << 13, warps = 8;
  std::vector<trace::Record> records =
      launch({{AccessKind::read, Space::global, 4}, {AccessKind::write, Space::global, 4}}, 2, warps, words * 4);
  auto each_word = [&](std::uint32_t block, std::uint32_t site, std::uint32_t factor) {
    for (std::uint32_t i = 0; i < words; i += 32) {
      trace::Access access;
      access.warp = {1, block, i / 32 % warps};
      access.module = 1;
      access.site = site;
      access.mask = ~0u;
      for (unsigned lane = 0; lane < 32; ++lane) {
        const std::uint32_t word = (i + lane) * factor % words;
        access.address[lane] = memory + 4 * (word ^ (word >> 6 & 3));
      }
      records.push_back(access);
    }
  };
  each_word(0, 0, 0x9e3779b1);
  each_word(1, 0, 0x85ebca6b);
  each_word(0, 1, 0x9e3779b1);
  records.push_back(trace::OperationEnd{1});
  for (const std::size_t length : {3u, 5u, 64u}) {
    const Chunks chunks(records, length);
    EXPECT_EQ(left_out(chunks), "") << length;
    EXPECT_EQ(detect::find_races(chunks).suspect_words, words) << length;
  }
}

} // namespace
} // namespace deadheat::test
