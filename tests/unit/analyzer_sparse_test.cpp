// What is remembered of memory touched here and there, against a map that remembers the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "analyzer/detect/filter.h"
#include "analyzer/detect/filter_sparse.h"
#include "analyzer/detect/strong_codes.h"
#include "tests/unit/seeds.h"

namespace {

using namespace deadheat::detect;

bool same(const Cell& a, const Cell& b) { return std::memcmp(&a, &b, sizeof(Cell)) == 0; }

// One of reads only.
Cell reads_only(std::mt19937& random) {
  Cell cell;
  cell.reads = 1 + random() % 1000;
  cell.reads_who = std::uint8_t(random() % 32);
  return cell;
}

// A cell as the first pass may leave it.
Cell some_cell(std::mt19937& random) {
  Cell cell;
  const unsigned kind = random() % 8, lane = random() % 32;
  if (kind == 0) { // suspect: nothing else is said of it
    cell.reads = 1 + random() % 1000;
    cell.write_who = Cell::suspect;
    cell.reads_who = who_of(many, 0);
    return cell;
  }
  if (kind != 1) {
    cell.write = 1 + random() % 1000;
    cell.write_who = std::uint8_t(lane);
  }
  if (kind > 4 || kind == 1) {
    cell.reads = 1 + random() % 1000;
    const unsigned level = random() % (many + 1u);
    cell.reads_who = who_of(level, level == one_lane ? random() % 32 : 0);
    if (random() % 4 == 0) cell.write_who |= Cell::non_coherent;
  }
  return cell;
}

class Model {
 public:
  Model(unsigned unit_log2, std::uint64_t base, unsigned units, unsigned apart, unsigned seed)
      : cells_(unit_log2, &pairs_, &mixed_), base_(base), units_(units), apart_(apart), random_(seed) {}

  // alone: of 1024 cells, those that have one entry.
  void steps(unsigned count, unsigned erased_of_8, unsigned alone = 0) {
    for (unsigned i = 0; i < count; ++i) {
      const std::uint64_t address = base_ + (std::uint64_t(random_() % units_ * apart_) << cells_.unit_log2());
      const SparseCells::Found found = random_() % 2 ? cells_.find(address) : cells_.find_or_new(address);
      if (found && !found.entry().segment) {
        EXPECT_FALSE(known_.contains(address));
      } else {
        expect(address, found);
      }
      const auto before = callers_.find(address);
      const bool alone_before = before != callers_.end() && !mixed(address);
      if (found && found.entry().segment && !alone_before && random_() % 16 == 0 &&
          !(known_[address].write_who & Cell::suspect)) { // what is known weakly stays
        const Entry strong = some_strong();
        cells_.put_beside(address, found, strong);
        callers_[address] = {strong.segment | SparseCells::callers, strong.who};
        continue;
      }
      callers_.erase(address);
      if (random_() % 8 < erased_of_8) {
        cells_.erase(address, found);
        known_.erase(address);
      } else if (random_() % 8 == 0) { // the caller's
        const Entry entry{SegmentId(1 + random_() % 1000) | (random_() % 2 ? SparseCells::callers_bit : 0),
                          std::uint8_t(random_())};
        cells_.put(address, found, entry);
        callers_[address] = {entry.segment | SparseCells::callers, entry.who};
        known_[address] = {};
      } else if (random_() % 8 == 0) { // both
        const Cell cell = some_cell(random_);
        const Entry strong = some_strong();
        cells_.put(address, found, cell, true, strong);
        known_[address] = cell;
        if (!(cell.write_who & Cell::suspect)) callers_[address] = {strong.segment | SparseCells::callers, strong.who};
      } else {
        known_[address] = random_() % 1024 < alone ? reads_only(random_) : some_cell(random_);
        cells_.put(address, found, known_[address], true);
      }
    }
    all();
  }
  void forget(std::uint64_t modulus) {
    auto gone = [&](std::uint64_t address) { return (address >> cells_.unit_log2()) % modulus == 0; };
    cells_.forget_if(gone);
    std::erase_if(known_, [&](const auto& at) { return gone(at.first); });
    std::erase_if(callers_, [&](const auto& at) { return gone(at.first); });
    all();
  }
  void rename() {
    auto name = [](SegmentId& id) { id += id ? 3000 : 0; };
    cells_.each_name(name);
    pairs_.each_name(name);
    for (auto& [address, cell] : known_) {
      if (cell.write) cell.write += 3000;
      if (cell.reads) cell.reads += 3000;
    }
    for (auto& [address, entry] : callers_) entry.segment += 3000;
    all();
  }
  void nothing_left() {
    forget(1);
    EXPECT_TRUE(cells_.empty());
    EXPECT_EQ(cells_.bytes(), 0u);
    EXPECT_EQ(pairs_.bytes(), 0u);
    EXPECT_EQ(mixed_.bytes(), 0u);
  }
  SparseCells& cells() { return cells_; }
  unsigned in_sheets() const {
    unsigned count = 0;
    for (const auto& [address, cell] : known_) count += cells_.in_sheet(address);
    return count;
  }

 private:
  Entry some_strong() { // with any lane, of few epochs
    return {SegmentId(1 + random_() % 5) | (random_() % 2 ? SparseCells::callers_bit : 0),
            std::uint8_t(random_() % strong_codes::count)};
  }
  bool mixed(std::uint64_t address) const {
    const Cell& cell = known_.at(address);
    return cell.write || cell.reads;
  }
  void expect(std::uint64_t address, const SparseCells::Found& found) {
    const auto known = known_.find(address);
    if (known == known_.end()) {
      EXPECT_FALSE(found) << address;
      return;
    }
    EXPECT_TRUE(same(cells_.cell(found), known->second)) << address;
    const auto callers = callers_.find(address);
    ASSERT_EQ(found.is_callers() || found.is_mixed(), callers != callers_.end()) << address;
    const Entry strong = cells_.strong(found);
    EXPECT_EQ(strong.segment, callers == callers_.end() ? 0u : callers->second.segment);
    if (callers != callers_.end()) {
      EXPECT_EQ(found.is_mixed(), mixed(address));
      EXPECT_EQ(strong.who, callers->second.who);
      return;
    }
    EXPECT_TRUE(cells_.may_have_page(address / page_bytes));
    if (Entry* const only = cells_.in_array(address); only && SparseCells::plain_reads(*only)) {
      EXPECT_EQ(only->segment, known->second.reads);
      EXPECT_EQ(only->who, known->second.reads_who);
      EXPECT_EQ(known->second.write, 0u);
    }
  }
  void all() {
    for (unsigned unit = 0; unit < units_; ++unit) {
      const std::uint64_t address = base_ + (std::uint64_t(unit * apart_) << cells_.unit_log2());
      expect(address, cells_.find(address));
    }
    EXPECT_EQ(cells_.entries(), known_.size());
    const auto pairs = std::count_if(known_.begin(), known_.end(), [](const auto& at) {
      return at.second.write && at.second.reads && !(at.second.write_who & Cell::suspect);
    });
    EXPECT_LE(pairs_.count(), std::uint64_t(pairs));
    EXPECT_EQ(pairs_.count() != 0, pairs != 0);
  }

  EpochPairs pairs_{nullptr, 1};
  MixedPairs mixed_{1};
  SparseCells cells_;
  std::map<std::uint64_t, Cell> known_;
  std::map<std::uint64_t, Entry> callers_; // of those, what is not a cell
  std::uint64_t base_;
  unsigned units_, apart_;
  std::mt19937 random_;
};

TEST(Sparse, SaysWhatAMapSays) {
  struct Shape {
    unsigned unit_log2, units, apart;
    std::uint64_t base;
  };
  // Dense and far, and across the end of what one region holds.
  const Shape shapes[] = {{2, 40, 1, 0x1000},       {0, 40, 1, 0x1000},         {2, 5000, 1, 0xA00000000000},
                          {2, 5000, 7, 0},          {0, 3000, 2048, 0x7000000}, {2, 3000, 1, (1ull << 34) - 4096},
                          {2, 1500, 11, 0xA0000000}};
  for (const Shape& shape : shapes) {
    for (const std::uint64_t seed : deadheat::test::seeds(0, 3)) {
      SCOPED_TRACE(testing::Message() << shape.units << " units, " << shape.apart << " apart, seed " << seed);
      Model model(shape.unit_log2, shape.base, shape.units, shape.apart, unsigned(seed));
      model.steps(shape.units * 2, 1);
      model.rename();
      model.steps(shape.units * 3, 0); // all are there, and full
      model.forget(3);
      model.steps(shape.units * 2, 6); // hardly any are left
      model.forget(2);
      model.steps(shape.units, 4);
      model.rename();
      model.nothing_left();
      model.steps(shape.units, 2); // and again
    }
  }
}

TEST(Sparse, SheetsComeAndGo) {
  for (const auto& [unit_log2, base] :
       {std::pair(2u, 0xA00000000000ull), {0u, 0x7000123ull}, {2u, (1ull << 34) - 8192}}) {
    SCOPED_TRACE(base);
    constexpr unsigned units = 5000;
    Model model(unit_log2, base, units, 1, unit_log2);
    model.steps(3 * units, 0, 1024);
    const unsigned full = model.in_sheets();
    EXPECT_GT(full, units / 2);
    model.rename();
    model.steps(units / 4, 1, 1024); // some are taken away, and come again
    model.steps(12, 0, 0); // and some that are both written and read
    EXPECT_GE(model.in_sheets(), full / 2);
    model.forget(3);
    model.steps(8 * units, 0, 1024); // and back
    EXPECT_GT(model.in_sheets(), 0u);
    model.forget(5);
    EXPECT_GT(model.in_sheets(), 0u);
    model.rename();
    model.steps(4 * units, 7, 1024); // hardly any are left
    model.forget(2);
    EXPECT_EQ(model.in_sheets(), 0u);
    model.nothing_left();
    model.steps(3 * units, 0, 1024);
    EXPECT_GT(model.in_sheets(), units / 2);
    model.nothing_left();
  }
}

// Bytes for each entry, at every point of growing: what scattered words cost at most is 3 bytes a byte.
TEST(Sparse, CostsLittleForWhatIsTouched) {
  for (const unsigned apart : {1u, 3u, 8u, 16u, 2048u}) {
    SparseCells cells(2);
    std::mt19937 random(apart);
    constexpr unsigned units = 1 << 19;
    std::vector<bool> is_touched(units);
    std::uint64_t touched = 0;
    Cell cell;
    cell.reads = 1;
    for (unsigned i = 0; i < 2 * units; ++i) {
      const unsigned unit = random() % units;
      if (is_touched[unit]) continue;
      is_touched[unit] = true;
      ++touched;
      const std::uint64_t address = 4ull * unit * apart;
      cells.put(address, cells.find(address), cell, true);
      if (touched > 50000 && touched % 1000 == 0) {
        ASSERT_LE(cells.bytes(), 12 * touched + 16384) << touched << " words, " << apart;
      }
    }
  }
}

// A detector that has too much forgets half of its pages until the rest has room: what counts becomes less with them.
TEST(Sparse, GivesBackWhatIsForgotten) {
  for (const unsigned apart : {1u, 2u, 8u, 1025u}) {
    SparseCells cells(2);
    Cell cell;
    cell.reads = 1;
    for (std::uint64_t unit = 0; unit < 1 << 17; ++unit) {
      const std::uint64_t address = 4 * unit * apart;
      cells.put(address, cells.find(address), cell, true);
    }
    for (std::uint64_t kept = 2; kept <= 32; kept *= 2) {
      const std::uint64_t before = cells.entries();
      cells.forget_if([&](std::uint64_t address) { return address / page_bytes % kept != 0; });
      EXPECT_LE(cells.entries(), before * 9 / 16);
      EXPECT_LE(cells.bytes(), 12 * cells.entries() + 4096) << "one of " << kept << " pages, " << apart << " apart";
    }
  }
}

// Pairs of epochs of warps of two launches, put together at random: what a unit's entry says, until the end, is what
// was put, or more of the same. Where `regular`, each lane reads what its like has written.
TEST(Pairs, CoverWhatTheyStandFor) {
  for (const bool regular : {true, false}) {
    deadheat::order::OperationClocks operations;
    deadheat::order::Causality causality(operations);
    Epochs epochs(causality);
    std::mt19937 random(regular);
    std::vector<SegmentId> segments[2];
    for (std::uint32_t i = 0; i < 2048; ++i) {
      for (const unsigned launch : {0u, 1u}) {
        const deadheat::order::ThreadKey warp(launch + 1, i / 8, i % 8 * 32);
        if (i % 8 == 0) causality.block_barrier(launch + 1, i / 8, 1 + random() % 100000);
        epochs.ask_again();
        segments[launch].push_back(epochs.actor(warp, ~0ull).segment);
      }
    }
    EpochPairs pairs(&epochs, 24);
    struct Put {
      Cell cell;
      Entry entry;
    };
    std::vector<Put> all;
    constexpr unsigned warps_apart = 2048 * 32;
    for (unsigned i = 0; i < 1 << 16; ++i) {
      Cell cell;
      const unsigned from = regular ? i : random() % warps_apart, lane = i & 31;
      cell.write = segments[random() % 64 == 0][from / 32];
      cell.write_who = std::uint8_t(from & 31);
      cell.reads = segments[1][i / 32];
      const unsigned level = random() % 64 ? unsigned(one_lane) : random() % (many + 1u);
      cell.reads_who = who_of(level, level == one_lane ? lane : 0);
      if (random() % 64 == 0) cell.write_who |= Cell::non_coherent;
      all.push_back({cell, pairs.put(cell)});
      ASSERT_TRUE(EpochPairs::is_pair(all.back().entry.who));
    }
    EXPECT_LE(pairs.count(), all.size() / 24 + 8192) << regular;
    unsigned exact = 0;
    for (const Put& put : all) {
      Cell now;
      pairs.get(put.entry, now);
      exact += same(now, put.cell);
      if (put.cell.reads_who >> 5 < whole_operation) {
        EXPECT_EQ(now.reads, put.cell.reads);
      } else {
        EXPECT_EQ(epochs.group_of(now.reads, whole_operation), epochs.group_of(put.cell.reads, whole_operation));
        EXPECT_EQ(epochs.later(put.cell.reads, now.reads), now.reads);
      }
      EXPECT_EQ(now.reads_who, put.cell.reads_who);
      EXPECT_EQ(now.write_who & Cell::non_coherent, put.cell.write_who & Cell::non_coherent);
      if (now.writer() >> 5 == one_lane) {
        EXPECT_EQ(now.write, put.cell.write);
        EXPECT_EQ(now.writer(), put.cell.writer());
      } else {
        const unsigned level = now.writer() >> 5;
        EXPECT_EQ(epochs.group_of(now.write, level), epochs.group_of(put.cell.write, level));
        EXPECT_EQ(epochs.later(put.cell.write, now.write), now.write);
      }
    }
    if (regular) {
      EXPECT_GT(exact, all.size() * 9 / 10);
    }
    for (const Put& put : all) pairs.drop(put.entry.segment);
    pairs.trim();
    EXPECT_EQ(pairs.bytes(), 0u);
  }
}

} // namespace
