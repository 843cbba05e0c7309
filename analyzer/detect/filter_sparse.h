// What the first pass remembers of memory that is touched here and there: one epoch a unit of 4 bytes, or of one byte,
// found by its address.
//
// An entry has 9 bytes; seven of them and a mark are a line of a cache, which is all that a look-up reads as a rule. A
// unit that was both written and read since has two entries. Tables grow by a sixth when they are nearly full, one of
// many at a time, so that an entry costs 10 to 12 bytes at any time.
//
// Global memory only. Invariants: a table holds units of one size; no unit has two entries of one kind.
// Thread-safety: none.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <unordered_map>

#include "analyzer/detect/filter_pages.h"
#include "analyzer/detect/suspects.h"

namespace deadheat::detect {

class SparseCells {
 public:
  explicit SparseCells(unsigned unit_log2) : unit_log2_(unit_log2) {}
  SparseCells(const SparseCells&) = delete;
  SparseCells& operator=(const SparseCells&) = delete;

  // A unit's entries, until another unit is put.
  struct Found {
    Cell cell; // what they say; segments 0 when there is none
    std::uint32_t *write = nullptr, *reads = nullptr; // the entries' segments
    std::uint8_t *write_who = nullptr, *reads_who = nullptr;
  };
  Found find(std::uint64_t address) const;
  void put(std::uint64_t address, const Found& found, const Cell& cell, bool with_write);
  void erase(std::uint64_t address, const Found& found);
  [[gnu::always_inline]] void prefetch(std::uint64_t address) {
    if (Tables* of = region(address)) __builtin_prefetch(of->line(key(address)), 1);
  }
  // The same of the other lines that find() reads, when the first is near.
  [[gnu::always_inline]] void prefetch_rest(std::uint64_t address) {
    Tables* const of = region(address);
    if (!of || !of->of(key(address)).count) return;
    const Table& table = of->of(key(address));
    std::uint32_t number = Tables::home(key(address), table.count);
    const std::uint32_t step = Tables::step(key(address), table.count);
    for (unsigned left = table.lines[number].depth; left; --left) {
      number += step;
      if (number >= table.count) number -= table.count;
      __builtin_prefetch(&table.lines[number], 1);
    }
  }

  // May units of the page have entries? Errs to the side of yes.
  bool may_have_page(std::uint64_t number) const { return used_ && pages_[page_bit(number)]; }
  bool empty() const { return !used_; }
  std::uint64_t entries() const { return used_; }
  std::uint64_t bytes() const { return line_count_ * sizeof(Line); }
  unsigned unit_log2() const { return unit_log2_; }

  template <typename Name>
  void each_name(Name&& name) {
    each_entry([&](std::uint64_t, std::uint32_t& segment) { name(segment); });
  }
  // Drops the units for which forget(address) says so; gives memory back.
  template <typename Forget>
  void forget_if(Forget&& forget) {
    each_entry([&](std::uint64_t address, std::uint32_t& segment) {
      if (forget(address)) {
        segment = 0;
        --used_;
      }
    });
    shrink();
  }

 private:
  static constexpr unsigned slots = 7, tables = 32, most_depth = 200;
  struct alignas(64) Line {
    std::uint32_t key[slots], segment[slots]; // segment 0: nothing
    std::uint8_t who[slots];
    std::uint8_t depth; // what belongs here lies in so many lines more
  };
  static_assert(sizeof(Line) == 64);
  struct Free {
    std::size_t bytes;
    Free() : bytes(0) {}
    explicit Free(std::size_t size) : bytes(size) {}
    void operator()(Line* lines) const;
  };
  using Lines = std::unique_ptr<Line[], Free>;
  static Lines allocate(std::uint32_t count);
  struct Table {
    Lines lines;
    std::uint32_t count, used; // lines; entries
    Table() : count(0), used(0) {}
    explicit Table(std::uint32_t size) : lines(allocate(size)), count(size), used(0) {}
  };
  struct Tables { // of 2^32 units
    std::array<Table, tables> table;
    static std::uint64_t mixed(std::uint32_t key) { return key * 0x9e3779b97f4a7c15u; }
    Table& of(std::uint32_t key) { return table[mixed(key) >> 59]; }
    // Monotonous in the hash: a table that grows is copied from front to back.
    Line* line(std::uint32_t key) { return &of(key).lines[home(key, of(key).count)]; }
    static std::uint32_t home(std::uint32_t key, std::uint32_t count) {
      return std::uint32_t((std::uint64_t(std::uint32_t(mixed(key) >> 27)) * count) >> 32);
    }
    // From one line for the key to the next: near, and not the same for all keys, so that full lines do not cluster.
    static std::uint32_t step(std::uint32_t key, std::uint32_t count) {
      const std::uint32_t step = 1 + 2 * (std::uint32_t(mixed(key) >> 20) & 31);
      return step < count ? step : 1;
    }
  };
  static std::size_t page_bit(std::uint64_t number) { return number * 0x9e3779b97f4a7c15u >> (64 - page_bits_log2); }
  static constexpr unsigned page_bits_log2 = 20;

  std::uint32_t key(std::uint64_t address) const { return std::uint32_t(address >> unit_log2_); }
  Tables* region(std::uint64_t address) const {
    const std::uint64_t number = address >> unit_log2_ >> 32;
    if (number == recent_number_) return recent_;
    auto found = regions_.find(number);
    if (found == regions_.end()) return nullptr;
    recent_number_ = number;
    return recent_ = found->second.get();
  }
  // False: there was no room within most_depth lines.
  static bool insert(Table& table, std::uint32_t key, std::uint32_t segment, std::uint8_t who);
  void gone(std::uint64_t address); // an entry
  void resize(Table& table, std::uint32_t count);
  void shrink();
  template <typename Each>
  void each_entry(Each&& each) {
    for (auto& [number, all] : regions_) {
      for (Table& table : all->table) {
        for (std::uint32_t i = 0; i < table.count; ++i) {
          Line& line = table.lines[i];
          for (unsigned slot = 0; slot < slots; ++slot) {
            if (line.segment[slot]) each((number << 32 | line.key[slot]) << unit_log2_, line.segment[slot]);
          }
        }
      }
    }
  }

  const unsigned unit_log2_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Tables>> regions_; // by address / 2^32 units
  mutable std::uint64_t recent_number_ = ~0ull;
  mutable Tables* recent_ = nullptr;
  std::uint64_t used_ = 0, line_count_ = 0;
  std::bitset<std::size_t(1) << page_bits_log2> pages_; // by hash
};

} // namespace deadheat::detect
