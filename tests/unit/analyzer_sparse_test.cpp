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
    for (unsigned seed = 0; seed < 3; ++seed) {
      SCOPED_TRACE(testing::Message() << shape.units << " units, " << shape.apart << " apart, seed " << seed);
      Model model(shape.unit_log2, shape.base, shape.units, shape.apart, seed);
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

// A first pass that looks at a launch of several blocks.
class Looked {
 public:
  Looked() : causality_(operations_), filter_(causality_, suspects_, all()) { launch(); }
  void launch(std::uint32_t stream = 2) { // after the one before of the stream
    deadheat::trace::Operation operation;
    operation.id = ++launches_;
    operation.stream = stream;
    operation.what = deadheat::trace::Launch();
    operation_ = operations_.submitted(operation);
    causality_.launch_begin(operation_, {4, 1, 1}, {256, 1, 1}, {1, 1, 1});
  }
  void row(std::uint32_t block, std::uint64_t address, std::uint32_t bytes, bool write) {
    weak(block, bytes / 32, write, true, [&](unsigned lane) { return address + bytes / 32 * lane; });
  }
  template <typename Address>
  void weak(std::uint32_t block, std::uint32_t bytes, bool write, bool affine, Address&& address,
            std::uint32_t mask = ~0u, unsigned warp = 0, std::int64_t stride = 0) {
    std::array<std::uint64_t, 32> addresses;
    for (unsigned lane = 0; lane < 32; ++lane) addresses[lane] = address(lane);
    Filter::Warp access;
    access.lane0 = deadheat::order::ThreadKey(operation_, block, warp * 32);
    access.mask = mask;
    access.bytes = bytes;
    access.address = addresses.data();
    access.affine = affine;
    access.stride = stride ? stride : affine ? bytes : 0;
    access.write = write;
    access.now = stamp_ += 32;
    filter_.weak(access);
  }
  void add(std::uint32_t block, unsigned lane, std::uint64_t address) {
    filter_.strong({0, deadheat::order::ThreadKey(operation_, block, lane), address, 4, true, true, false, ++stamp_});
  }
  std::uint64_t bytes() const { return filter_.bytes(); }
  bool suspect(std::uint64_t address) const { return suspects_.touches(0, address, 4); }

 private:
  static const Partitions& all() {
    static const Partitions set = Partitions().set();
    return set;
  }
  deadheat::order::OperationClocks operations_;
  deadheat::order::Causality causality_;
  Suspects suspects_;
  Filter filter_;
  deadheat::order::OperationIndex operation_ = 0;
  std::uint32_t launches_ = 0;
  deadheat::order::Stamp stamp_ = 0;
};

constexpr std::uint64_t apart = 8192, far_base = 0xA00000000000;

TEST(FarApart, RowsCostThreeBytesAByte) {
  for (const std::uint32_t bytes : {128u, 256u, 512u}) {
    Looked looked;
    for (std::uint64_t i = 1; i <= 20000; ++i) {
      looked.row(0, far_base + i * apart, bytes, true);
      if (i % 1000) continue;
      ASSERT_LE(looked.bytes(), 3 * bytes * i + 65536) << i << " rows of " << bytes;
    }
    // What is known of a row is what was: the same warp may go on, another block's may not.
    looked.row(0, far_base + apart, bytes, false);
    looked.row(0, far_base + 2 * apart + bytes, bytes, true);
    EXPECT_FALSE(looked.suspect(far_base + apart) || looked.suspect(far_base + 2 * apart));
    looked.row(1, far_base + apart, 128, false);
    EXPECT_TRUE(looked.suspect(far_base + apart) && looked.suspect(far_base + apart + 124));
    // A third place of a page, and smaller units, come to the same words.
    looked.row(0, far_base + 3 * apart + 2048, 128, true);
    looked.row(0, far_base + 3 * apart + 3072, 32, true);
    looked.weak(1, 1, false, false, [&](unsigned) { return far_base + 3 * apart + bytes - 1; });
    EXPECT_TRUE(looked.suspect(far_base + 3 * apart + bytes - 4));
    EXPECT_FALSE(looked.suspect(far_base + 3 * apart));
  }
}

TEST(FarApart, ShortRowsCostThreeBytesAByte) {
  for (const unsigned lanes : {3u, 8u, 16u, 24u, 31u}) {
    Looked looked;
    const std::uint32_t mask = (1u << lanes) - 1;
    auto row = [&](std::uint32_t block, std::uint64_t at, bool write) {
      looked.weak(block, 4, write, true, [&](unsigned lane) { return at + 4 * lane; }, mask);
    };
    for (std::uint64_t i = 1; i <= 20000; ++i) {
      row(0, far_base + i * apart, true);
      if (i % 1000 == 0) {
        ASSERT_LE(looked.bytes(), 12 * lanes * i + 65536) << i << " rows of " << lanes;
      }
    }
    row(0, far_base + apart, false);
    EXPECT_FALSE(looked.suspect(far_base + apart));
    row(1, far_base + apart, false);
    EXPECT_TRUE(looked.suspect(far_base + apart) && looked.suspect(far_base + apart + 4 * lanes - 4));
    EXPECT_FALSE(looked.suspect(far_base + apart + 4 * lanes));
    // Other rows of a page, until it is one of groups, and what comes to it then.
    for (std::uint64_t at = 256; at < 4096; at += 128) row(0, far_base + 2 * apart + at, true);
    looked.row(1, far_base + 2 * apart, 128, true);
    EXPECT_TRUE(looked.suspect(far_base + 2 * apart) && looked.suspect(far_base + 2 * apart + 4 * lanes - 4));
    EXPECT_FALSE(looked.suspect(far_base + 2 * apart + 4 * lanes));
    looked.row(1, far_base + 2 * apart + 1024, 128, false);
    EXPECT_TRUE(looked.suspect(far_base + 2 * apart + 1024));
    EXPECT_FALSE(looked.suspect(far_base + 2 * apart + 1024 + 4 * lanes));
  }
}

TEST(FarApart, ColumnsCostThreeBytesAByte) {
  for (const std::uint64_t stride : {std::uint64_t(8), std::uint64_t(256), apart}) {
    Looked looked;
    constexpr std::uint64_t words = 1 << 15;
    for (std::uint64_t i = 0; i < words; i += 32) {
      looked.weak(
          0, 4, true, true, [&](unsigned lane) { return far_base + (i + lane) * stride; }, ~0u, 0,
          std::int64_t(stride));
    }
    EXPECT_LE(looked.bytes(), 12 * words + 65536) << stride;
    looked.weak(1, 4, false, false, [&](unsigned lane) { return far_base + 5 * lane * stride; });
    for (unsigned lane = 0; lane < 32; ++lane) EXPECT_TRUE(looked.suspect(far_base + 5 * lane * stride));
    EXPECT_FALSE(looked.suspect(far_base + stride));
  }
}

// Words that are written, and in the next launch read: each warp's by one warp, or in any order, so that the writes'
// epochs are widened.
TEST(FarApart, WordsWrittenThenReadCostThreeBytesAByte) {
  for (const std::uint64_t between : {apart, std::uint64_t(8), std::uint64_t(12)}) {
    for (const bool any : {false, true}) {
      SCOPED_TRACE(testing::Message() << between << " apart" << (any ? ", in any order" : ""));
      Looked looked;
      constexpr std::uint64_t words = 1 << 17;
      auto word = [&](std::uint64_t i) { return far_base + i * 0x9e3779b1u % words * between; };
      std::vector<std::uint64_t> order(words);
      for (std::uint64_t i = 0; i < words; ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), std::mt19937(1));
      auto read = [&](std::uint64_t i) { return word(any ? order[i] : i + 32); };
      auto each_warp = [&](bool write) {
        for (std::uint64_t i = 0; i < words; i += 32) {
          looked.weak(
              std::uint32_t(i / 32 % 4), 4, write, false,
              [&](unsigned lane) { return write ? word(i + lane) : read(i + lane); }, ~0u, unsigned(i / 128 % 8));
          if (i % 4096 == 0) {
            const std::uint64_t touched = write ? i + 32 : words;
            ASSERT_LE(looked.bytes(), 12 * touched + 131072) << touched;
          }
        }
      };
      each_warp(true);
      looked.launch();
      each_warp(false);
      for (std::uint64_t i = 0; i < words; ++i) ASSERT_FALSE(looked.suspect(word(i)));
      auto suspects = [&](std::uint64_t from) {
        unsigned count = 0;
        for (unsigned lane = 0; lane < 32; ++lane) count += looked.suspect(word(from + lane));
        return count;
      };
      // Who writes in the same launch comes after the writes, not after what others read.
      looked.weak(3, 4, true, false, [&](unsigned lane) { return word(lane + 64); }, ~0u, 5);
      EXPECT_GT(suspects(64), 28u);
      // In the next one all that is over.
      looked.launch();
      looked.weak(0, 4, true, false, [&](unsigned lane) { return word(lane); });
      EXPECT_EQ(suspects(0), 0u);
      looked.weak(1, 4, false, false, [&](unsigned lane) { return word(lane); });
      EXPECT_EQ(suspects(0), 32u);
    }
  }
}

// Words that one launch writes and the next one adds to, or the other way round: one entry a word tells of both.
TEST(FarApart, WordsWrittenAndCountedCostThreeBytesAByte) {
  constexpr std::uint64_t words = 1 << 16;
  auto word = [&](std::uint64_t i) { return far_base + i * 0x9e3779b1u % words * apart; };
  for (const bool adds_first : {false, true}) {
    SCOPED_TRACE(adds_first);
    Looked looked;
    auto little = [&](std::uint64_t i) { // now and then, and half-way above all
      if (i % 4096) return;
      EXPECT_LE(looked.bytes(), 12 * words + 65536) << i;
    };
    auto weakly = [&](bool write) {
      for (std::uint64_t i = 0; i < words; i += 32) {
        looked.weak(
            std::uint32_t(i / 32 % 4), 4, write, false, [&](unsigned lane) { return word(i + lane); }, ~0u,
            unsigned(i / 128 % 8));
        little(i);
      }
    };
    auto add = [&](std::uint32_t block) {
      for (std::uint64_t i = 0; i < words; ++i) {
        looked.add((block + i) % 4, i % 32, word(i));
        little(i);
      }
    };
    for (unsigned round = 0; round < 3; ++round) {
      if (adds_first || round) add(0);
      EXPECT_LE(looked.bytes(), 12 * words + 131072) << round;
      looked.launch();
      weakly(!adds_first);
      EXPECT_LE(looked.bytes(), 12 * words + 131072) << round;
      looked.launch();
    }
    add(0);
    add(1); // of other blocks: atomics all the same
    EXPECT_LE(looked.bytes(), 12 * words + 131072);
    for (std::uint64_t i = 0; i < words; ++i) ASSERT_FALSE(looked.suspect(word(i)));
    looked.weak(3, 4, adds_first, false, [&](unsigned lane) { return word(lane); }, ~0u, 5);
    for (unsigned lane = 0; lane < 32; ++lane) EXPECT_TRUE(looked.suspect(word(lane)));
    looked.launch(3); // nothing orders it with those of the other stream, weak ones among them
    looked.add(0, 1, word(64));
    EXPECT_TRUE(looked.suspect(word(64)));
  }
}

TEST(FarApart, WordsOfAtomicsThatAreReadCostNoPage) {
  Looked looked;
  constexpr std::uint64_t words = 32 * 1000;
  auto word = [&](std::uint64_t i) { return far_base + i * 17 % words * apart; };
  for (std::uint64_t i = 0; i < words; ++i) looked.add(0, i % 32, word(i));
  for (std::uint64_t i = 0; i < words; i += 32)
    looked.weak(0, 4, false, false, [&](unsigned lane) { return word(i + lane); });
  EXPECT_LE(looked.bytes(), 12 * words + 16384);
  for (std::uint64_t i = 0; i < words; ++i) ASSERT_FALSE(looked.suspect(word(i)));
  // The same lane's atomics and reads go on.
  looked.add(0, 5, word(5));
  looked.weak(0, 4, false, false, [&](unsigned lane) { return word(lane); });
  EXPECT_FALSE(looked.suspect(word(5)));
  // Another block's atomic comes to them, or another's write, or its read, or bytes of them, or another lane's atomic.
  looked.add(1, 0, word(5));
  EXPECT_TRUE(looked.suspect(word(5)));
  looked.weak(1, 4, true, false, [&](unsigned lane) { return word(lane + 64); });
  EXPECT_TRUE(looked.suspect(word(64)));
  looked.weak(1, 4, false, false, [&](unsigned lane) { return word(lane + 96); });
  EXPECT_TRUE(looked.suspect(word(96)));
  looked.weak(1, 1, true, false, [&](unsigned lane) { return word(lane + 160) + 1; });
  EXPECT_TRUE(looked.suspect(word(160)));
  looked.row(1, word(192), 128, true);
  EXPECT_TRUE(looked.suspect(word(192)));
  looked.add(0, 2, word(225));
  EXPECT_TRUE(looked.suspect(word(225)));
  // A write of the same lane: the atomics before it are over.
  looked.weak(0, 4, true, false, [&](unsigned lane) { return word(lane + 128); });
  EXPECT_FALSE(looked.suspect(word(128)));
  looked.add(1, 0, word(128));
  EXPECT_TRUE(looked.suspect(word(128)));
  // One that adds only, after another block's weak read.
  looked.weak(2, 4, false, false, [&](unsigned lane) { return far_base + (words + lane) * apart; });
  looked.add(3, 0, far_base + words * apart);
  EXPECT_TRUE(looked.suspect(far_base + words * apart));
  looked.weak(3, 4, false, false, [&](unsigned lane) { return far_base + (words + lane) * apart; });
}

} // namespace
