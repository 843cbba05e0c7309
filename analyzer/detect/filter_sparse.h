// What the first pass remembers of memory that is touched here and there: epochs of units of 4 bytes, or of one byte,
// found by their address.
//
// A unit that was both written and read since has two entries, any other one. Entries of units with few neighbours lie
// in *lines*: 9 bytes each, seven of them and a mark are a line of a cache, which is all that a look-up reads as a
// rule. Tables of lines grow by a sixth when they are nearly full, one of many at a time, so that an entry costs 10 to
// 12 bytes at any time. Where more than three entries of a block would lie there, they move to EntryBlocks, and where
// nearly half of a sheet's units have one entry each, to EntrySheets, for as long as none has two.
//
// Global memory only. Invariants: tables hold units of one size; a unit has one entry of a kind at most; a block's
// entries lie either in lines or in EntryBlocks or in EntrySheets.
// Thread-safety: none.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "analyzer/detect/filter_blocks.h"
#include "analyzer/detect/filter_pages.h"
#include "analyzer/detect/filter_sheets.h"
#include "analyzer/detect/suspects.h"

namespace deadheat::detect {

class SparseCells {
 public:
  explicit SparseCells(unsigned unit_log2) : unit_log2_(unit_log2) {}
  SparseCells(const SparseCells&) = delete;
  SparseCells& operator=(const SparseCells&) = delete;

  // A unit's entries, until anything is put or erased.
  struct Found {
    struct At {
      unsigned char* segment = nullptr; // its four bytes
      std::uint8_t* who = nullptr;
    };
    Cell cell; // what they say; segments 0 when there is none
    unsigned count = 0;
    std::array<At, 2> at;
    EntryBlocks::Slot* block = nullptr; // that it lies in, or would
    EntrySheets::Slot* sheet = nullptr; // likewise
    unsigned near = 0; // entries of its block, where it has none in EntryBlocks
  };
  Found find(std::uint64_t address) const;
  void put(std::uint64_t address, const Found& found, const Cell& cell, bool with_write);
  // The same of an entry that is the unit's only one, and whose `who` is the caller's.
  void put(std::uint64_t address, const Found& found, Entry entry);
  static SegmentId segment_of(const Found::At& at) {
    SegmentId segment;
    std::memcpy(&segment, at.segment, sizeof segment);
    return segment;
  }
  void erase(std::uint64_t address, const Found& found);
  // The unit's entry, where it lies in EntrySheets or EntryBlocks and is the only one; null otherwise.
  [[gnu::always_inline]] Entry* only(std::uint64_t address) const {
    const Place place = in_sheet(address);
    return !place.entry ? only_in_block(address) : place.entry->segment ? place.entry : nullptr;
  }
  // Where the unit's entry lies, or will, in EntrySheets; null: not there.
  struct Place {
    Entry* entry = nullptr;
    EntrySheets::Slot* sheet = nullptr;
  };
  [[gnu::always_inline]] Place in_sheet(std::uint64_t address) const {
    const Region* const of = region(address);
    if (!of || of->sheets.empty()) return {};
    EntrySheets::Slot* const sheet = of->sheets.find(sheet_of(key(address)));
    return sheet ? Place{of->sheets.entry(*sheet, sheet_unit_of(key(address))), sheet} : Place{};
  }
  [[gnu::always_inline]] void put(const Place& place, Entry entry) {
    if (!place.entry->segment) ++place.sheet->used, ++used_;
    *place.entry = entry;
  }
  Entry* only_in_block(std::uint64_t address) const {
    const Region* const of = region(address);
    if (!of || of->blocks.empty()) return nullptr;
    const EntryBlocks::Slot* const block = of->blocks.find(block_of(key(address)));
    const unsigned unit = unit_of(key(address));
    if (!block || !(block->present & ~block->both & 1u << unit)) return nullptr;
    return of->blocks.entry(*block, unit);
  }
  // Of an entry of a weak write: by which lane.
  static bool is_write(const Entry& entry) { return entry.who >> 5 == write_level; }
  static Entry write_entry(SegmentId segment, unsigned lane) { return {segment, who_of(write_level, lane)}; }
  // Does the entry say of reads and of nothing else?
  static bool plain_reads(const Entry& entry) {
    return entry.who < 1 << 5 || (entry.who < write_level << 5 && !(entry.who & 31));
  }

  // For whoever is about to find() many: three steps, each for all, bring nearer what the next one and find() read.
  // False: there is no further step for this one.
  [[gnu::always_inline]] bool prefetch(std::uint64_t address) const {
    const Region* of = region(address);
    if (!of) return false;
    if (const Place place = in_sheet(address); place.entry) {
      __builtin_prefetch(place.entry, 1);
      return false;
    }
    of->blocks.empty() ? __builtin_prefetch(of->line(key(address)), 1) : of->blocks.prefetch(block_of(key(address)));
    return true;
  }
  // False: there is no third step for this one.
  [[gnu::always_inline]] bool prefetch_entry(std::uint64_t address) const {
    const Region* of = region(address);
    if (!of) return false;
    if (of->blocks.empty()) return true;
    if (const EntryBlocks::Slot* block = of->blocks.find(block_of(key(address)))) {
      const Entry* const entry = of->blocks.entry(*block, unit_of(key(address)));
      __builtin_prefetch(entry, 1);
      __builtin_prefetch(&entry->who, 1); // perhaps in the next line
      return false;
    }
    __builtin_prefetch(of->line(key(address)), 1);
    return true;
  }
  void prefetch_rest(std::uint64_t address) const;

  // May units of the page have entries? Errs to the side of yes.
  bool may_have_page(std::uint64_t number) const { return used_ && pages_[page_bit(number)]; }
  bool empty() const { return !used_; }
  std::uint64_t entries() const { return used_; }
  std::uint64_t bytes() const { return bytes_ + arrays_.bytes(); }
  unsigned unit_log2() const { return unit_log2_; }

  template <typename Name>
  void each_name(Name&& name) {
    for (auto& [number, of] : regions_) {
      each_in_lines(*of, [&](std::uint32_t, std::uint32_t& segment) { name(segment); });
      auto one = [&](Entry& entry) {
        SegmentId segment = entry.segment;
        name(segment);
        entry.segment = segment;
      };
      of->blocks.each_entry([&](std::uint32_t, unsigned, Entry& entry) { one(entry); });
      of->sheets.each_slot(
          [&](EntrySheets::Slot& sheet) { of->sheets.each_entry(sheet, [&](unsigned, Entry& entry) { one(entry); }); });
    }
  }
  // Drops the units for which forget(address) says so; gives memory back.
  template <typename Forget>
  void forget_if(Forget&& forget) {
    for (auto& [number, of] : regions_) {
      const std::uint64_t high = number << 32;
      each_in_lines(*of, [&](std::uint32_t key, std::uint32_t& segment) {
        if (!forget((high | key) << unit_log2_)) return;
        segment = 0;
        --used_;
      });
      used_ -= of->blocks.forget_if([&](std::uint32_t block, unsigned unit) {
        return forget((high | block << EntryBlocks::units_log2 | unit) << unit_log2_);
      });
      of->sheets.each_slot([&](EntrySheets::Slot& sheet) {
        const std::uint64_t first = high | std::uint64_t(sheet.number()) << EntrySheets::units_log2;
        of->sheets.each_entry(sheet, [&](unsigned unit, Entry& entry) {
          if (!forget((first | unit) << unit_log2_)) return;
          entry.segment = 0;
          --sheet.used;
          --used_;
        });
      });
    }
    shrink();
  }

 private:
  static constexpr unsigned slots = 7, tables = 32, most_depth = 200;
  // `who` of entries: as in cells, but levels that cells do not use say more of one lane.
  static constexpr std::uint8_t write_level = 6, non_coherent_level = 7;
  static_assert(many < write_level);
  static constexpr std::uint8_t wide_non_coherent = 1, wide_suspect = 16; // in the place of the lane, where it is none
  static std::uint8_t reads_entry(const Cell& cell);
  static void read_entry(std::uint32_t segment, std::uint8_t who, Cell& cell);

  static constexpr unsigned most_near = 3; // entries of a block in lines
  struct alignas(64) Line {
    std::uint32_t key[slots], segment[slots]; // segment 0: nothing
    std::uint8_t who[slots];
    std::uint8_t depth; // what belongs here lies in so many lines more
  };
  static_assert(sizeof(Line) == 64);
  struct Table {
    Zeroed<Line>::Pointer lines;
    std::uint32_t count = 0, used = 0; // lines; entries
  };
  struct Region { // of 2^32 units
    std::array<Table, tables> table;
    EntryBlocks blocks;
    EntrySheets sheets;
    explicit Region(EntryArrays& arrays) : blocks(arrays), sheets(arrays) {}
    std::uint64_t bytes() const { return blocks.bytes() + sheets.bytes(); }
    // Alike for all units of a block.
    static std::uint64_t mixed(std::uint32_t key) { return block_of(key) * block_mix; }
    Table& of(std::uint32_t key) { return table[mixed(key) >> 59]; }
    const Table& of(std::uint32_t key) const { return table[mixed(key) >> 59]; }
    // Monotonous in the hash: a table that grows is copied from front to back.
    const Line* line(std::uint32_t key) const { return of(key).lines.get() + home(key, of(key).count); }
    static std::uint32_t home(std::uint32_t key, std::uint32_t count) {
      return std::uint32_t((std::uint64_t(std::uint32_t(mixed(key) >> 27)) * count) >> 32);
    }
    // From one line for the key to the next: near, and not the same for all keys, so that full lines do not cluster.
    static std::uint32_t step(std::uint32_t key, std::uint32_t count) {
      const std::uint32_t step = 1 + 2 * (std::uint32_t(mixed(key) >> 20) & 31);
      return step < count ? step : 1;
    }
  };
  static std::uint32_t block_of(std::uint32_t key) { return key >> EntryBlocks::units_log2; }
  static unsigned unit_of(std::uint32_t key) { return key % EntryBlocks::units; }
  static std::uint32_t sheet_of(std::uint32_t key) { return key >> EntrySheets::units_log2; }
  static unsigned sheet_unit_of(std::uint32_t key) { return key % EntrySheets::units; }
  static std::size_t page_bit(std::uint64_t number) { return number * 0x9e3779b97f4a7c15u >> (64 - page_bits_log2); }
  static constexpr unsigned page_bits_log2 = 20;

  std::uint32_t key(std::uint64_t address) const { return std::uint32_t(address >> unit_log2_); }
  Region* region(std::uint64_t address) const {
    const std::uint64_t number = address >> unit_log2_ >> 32;
    if (number == recent_number_) return recent_;
    auto found = regions_.find(number);
    if (found == regions_.end()) return nullptr;
    recent_number_ = number;
    return recent_ = found->second.get();
  }
  // Calls each(line) for the lines in which the key's block may have entries.
  template <typename Each>
  static void each_line(const Table& table, std::uint32_t key, Each&& each) {
    if (!table.count) return;
    const std::uint32_t step = Region::step(key, table.count);
    const std::uint32_t home = Region::home(key, table.count);
    std::uint32_t number = home;
    for (unsigned left = table.lines[home].depth + 1u; left; --left) {
      each(table.lines[number]);
      number += step;
      if (number >= table.count) number -= table.count;
      if (number == home) return; // a small table, and the depth is another key's
    }
  }
  // False: there was no room within most_depth lines.
  static bool insert(Table& table, std::uint32_t key, std::uint32_t segment, std::uint8_t who);
  void add(std::uint64_t address, const Found& found, Entry entry);
  void remove(std::uint64_t address, const Found& found, unsigned entry);
  void move_block(Region& region, std::uint32_t key); // from lines to EntryBlocks
  void make_sheet(Region& region, std::uint32_t key); // the key's, if it has enough entries, and nowhere two
  void split_sheet(Region& region, EntrySheets::Slot* sheet); // back to EntryBlocks
  void pack_arrays();
  void resize(Table& table, std::uint32_t count);
  void shrink();
  template <typename Each>
  static void each_in_lines(Region& region, Each&& each) {
    for (Table& table : region.table) {
      for (std::uint32_t i = 0; i < table.count; ++i) {
        Line& line = table.lines[i];
        for (unsigned slot = 0; slot < slots; ++slot) {
          if (line.segment[slot]) each(line.key[slot], line.segment[slot]);
        }
      }
    }
  }

  const unsigned unit_log2_;
  EntryArrays arrays_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Region>> regions_; // by address / 2^32 units
  mutable std::uint64_t recent_number_ = ~0ull;
  mutable Region* recent_ = nullptr;
  std::uint64_t used_ = 0, bytes_ = 0; // entries; of tables
  std::bitset<std::size_t(1) << page_bits_log2> pages_; // by hash
};

} // namespace deadheat::detect
