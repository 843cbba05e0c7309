// What the first pass remembers of memory that is touched here and there: epochs of units of 4 bytes, or of one byte,
// found by their address.
//
// A unit has one entry, which names a pair of epochs (filter_pairs.h) where it was both written and read since. Entries
// of blocks that have a few only lie in *lines*: 9 bytes each, seven of them and a mark are a line of a cache, which is
// all that a look-up reads as a rule. The table of lines grows by a seventh when it is nearly full, so that an entry
// costs 10 to 11.5 bytes at any time. Where more than five entries of a block would lie there, they move to an array
// (filter_arrays.h), which has one entry in the lines.
//
// Global memory only. Invariants: tables hold units of one size; a block's entries lie all in lines, or all in one
// array.
// Thread-safety: none.
#pragma once

#include <array>
#include <bit>
#include <bitset>
#include <cstdint>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/detect/filter_arrays.h"
#include "analyzer/detect/filter_lines.h"
#include "analyzer/detect/filter_pages.h"
#include "analyzer/detect/suspects.h"

namespace deadheat::detect {

class SparseCells {
 private:
  static constexpr unsigned slots = EntryLine::slots;
  using Line = EntryLine;
  struct Slot { // of an array
    Line* line = nullptr;
    unsigned place = 0;
    explicit operator bool() const { return line; }
    EntryArrays::Name name() const { return {line->segment[place] - 1, line->who[place]}; }
    void rename(EntryArrays::Name name) const {
      line->segment[place] = name.id + 1;
      line->who[place] = name.size;
    }
  };

 public:
  // pairs: of cells' epochs; null: entries are the caller's.
  explicit SparseCells(unsigned unit_log2, EpochPairs* pairs = nullptr) : unit_log2_(unit_log2), pairs_(pairs) {}
  SparseCells(const SparseCells&) = delete;
  SparseCells& operator=(const SparseCells&) = delete;

  // A unit's entry, until anything is put or erased.
  struct Found {
    Cell cell; // what it says, where there are pairs; segments 0 when there is none
    unsigned char* at = nullptr; // its segment's four bytes; null: there is none
    std::uint8_t* who = nullptr;
    Slot slot; // of its block's array
    unsigned near = 0; // entries of its block, where it has no array
    explicit operator bool() const { return at; }
    Entry entry() const {
      Entry entry{0, *who};
      std::memcpy(static_cast<void*>(&entry), at, sizeof(SegmentId));
      return entry;
    }
  };
  Found find(std::uint64_t address) const;
  void put(std::uint64_t address, const Found& found, const Cell& cell, bool with_write);
  // The same of an entry whose `who` is the caller's.
  void put(std::uint64_t address, const Found& found, Entry entry);
  void erase(std::uint64_t address, const Found& found);
  // The unit's entry, where it lies in an array; null otherwise.
  [[gnu::always_inline]] Entry* in_array(std::uint64_t address) const { return in_array(address, nullptr); }
  // The same; or, where the unit has none and its array has room, a new one of segment 0, which the caller has to fill.
  [[gnu::always_inline]] Entry* in_array_or_new(std::uint64_t address) {
    bool fresh = false;
    Entry* const entry = in_array(address, &fresh);
    used_ += fresh;
    return entry;
  }
  // Which units of the address's block have entries.
  std::bitset<EntryArrays::units> touched(std::uint64_t address) const;
  // Are they a few only?
  bool few(std::uint64_t address) const {
    const Region* const of = region(address);
    const Slot slot = of ? array_slot(*of, key(address)) : Slot();
    return !slot || slot.name().size == 0;
  }
  // Does the unit's block have a place for each unit?
  bool in_sheet(std::uint64_t address) const {
    const Region* const of = region(address);
    const Slot slot = of ? array_slot(*of, key(address)) : Slot();
    return slot && slot.name().size == EntryArrays::sheet;
  }
  // Of an entry of a weak write: by which lane.
  static bool is_write(Entry entry) { return entry.who >> 5 == write_level; }
  static Entry write_entry(SegmentId segment, unsigned lane) { return {segment, who_of(write_level, lane)}; }
  // Does the entry say of reads and of nothing else?
  static bool plain_reads(Entry entry) {
    return entry.who < 1 << 5 || (entry.who < write_level << 5 && !(entry.who & 31));
  }

  // For whoever is about to find() many: two steps, each for all, bring nearer what the next one and find() read.
  // False: there is no further step for this one.
  // Either may set `place`: where the unit's entry lies, or is to, as long as moves() stays the same.
  [[gnu::always_inline]] bool prefetch(std::uint64_t address, Entry*& place) const {
    const Region* const of = region(address);
    if (!of || !of->count) return false;
    if (of->count > near_lines) {
      __builtin_prefetch(&line(*of, home(key(address), of->count)), 1);
      return true;
    }
    prefetch_entry(address, place);
    return false;
  }
  [[gnu::always_inline]] void prefetch_entry(std::uint64_t address, Entry*& place) const {
    const Region* const of = region(address);
    if (!of || !of->count) return;
    const std::uint32_t wanted = key(address);
    if (const Slot slot = array_slot(*of, wanted)) {
      const EntryArrays::Name array = slot.name();
      if (array.size == EntryArrays::sheet) {
        place = arrays_.in_sheet(array.id, unit_of(wanted));
        __builtin_prefetch(place, 1);
      } else {
        __builtin_prefetch(arrays_.first(array, unit_of(wanted)), 1);
      }
    } else if (line(*of, home(wanted, of->count)).depth) {
      prefetch_rest(*of, wanted);
    }
  }

  std::uint64_t moves() const { return arrays_.moves(); }
  void count_new() { ++used_; } // of an entry that the caller put where prefetch() said

  // May units of the page have entries? Errs to the side of yes.
  bool may_have_page(std::uint64_t number) const { return used_ && pages_[page_bit(number)]; }
  bool empty() const { return !used_; }
  std::uint64_t entries() const { return used_; }
  std::uint64_t bytes() const { return arrays_.bytes() + pieces_ * sizeof(std::uint32_t); }
  unsigned unit_log2() const { return unit_log2_; }

  // Calls name(SegmentId&) for all segments that entries name, but for those in pairs.
  template <typename Name>
  void each_name(Name&& name) {
    each_slot([&](std::uint64_t, Line& line, unsigned place) {
      if (!is_array(line.key[place])) {
        if (!names_pair(line.who[place])) name(line.segment[place]);
        return;
      }
      arrays_.each(Slot{&line, place}.name(), [&](unsigned, Entry& entry) {
        if (names_pair(entry.who)) return;
        SegmentId segment = entry.segment;
        name(segment);
        entry.segment = segment;
      });
    });
  }
  // Drops the units for which forget(address) says so; gives memory back.
  template <typename Forget>
  void forget_if(Forget&& forget) {
    each_slot([&](std::uint64_t high, Line& line, unsigned place) {
      auto gone = [&](std::uint32_t unit, Entry entry) {
        const bool is = forget((high | unit) << unit_log2_);
        used_ -= is;
        if (is && names_pair(entry.who)) pairs_->drop(entry.segment);
        return is;
      };
      if (!is_array(line.key[place])) {
        if (gone(line.key[place], {line.segment[place], line.who[place]})) line.segment[place] = 0;
        return;
      }
      const std::uint32_t first = first_unit(line.key[place]);
      const EntryArrays::Name array = Slot{&line, place}.name();
      bool any = false;
      arrays_.each(array, [&](unsigned unit, Entry& entry) {
        if (!gone(first | unit, entry)) return;
        entry.segment = 0;
        any = true;
      });
      if (any) arrays_.swept(array);
    });
    shrink();
  }

 private:
  static constexpr unsigned most_depth = 200, most_near = 5;
  static constexpr std::uint32_t near_lines = 4096; // of a table that is in a near cache anyway
  // `who` of entries: as in cells, but levels that cells do not use say more of one lane.
  static constexpr std::uint8_t write_level = 6, non_coherent_level = 7;
  static_assert(many < write_level);
  static constexpr std::uint8_t wide_non_coherent = 1, wide_suspect = 16; // in the place of the lane, where it is none
  Entry entry_of(const Cell& cell, bool with_write) const; // segment 0: there is nothing to say
  void say(Entry entry, Cell& cell) const; // what it says
  bool names_pair(std::uint8_t who) const { return pairs_ && EpochPairs::is_pair(who); }

  static constexpr unsigned region_log2 = 31; // units of a region; a key has one bit more
  struct Region {
    std::vector<std::uint32_t> pieces; // of its table of lines, in EntryArrays; no_piece: not there yet
    std::uint32_t count = 0, used = 0; // lines; slots that are taken
  };
  static constexpr std::uint32_t no_piece = ~0u;
  static constexpr std::uint32_t array_bit = 1u << region_log2;
  static bool is_array(std::uint32_t key) { return key & array_bit; }
  static std::uint32_t array_key(std::uint32_t unit) {
    return array_bit | unit >> EntryArrays::units_log2 << EntryArrays::units_log2;
  }
  static std::uint32_t first_unit(std::uint32_t array_key) { return array_key & ~array_bit; }
  static unsigned unit_of(std::uint32_t key) { return key % EntryArrays::units; }
  static std::size_t page_bit(std::uint64_t number) { return number * 0x9e3779b97f4a7c15u >> (64 - page_bits_log2); }
  static constexpr unsigned page_bits_log2 = 20;

  // Alike for all units of a block. Not by what partition_of() multiplies: a worker's pages have some bits of that
  // product in common, and tables would be full in some places and empty in others.
  static std::uint64_t mixed(std::uint32_t key) {
    return ((key & ~array_bit) >> EntryArrays::units_log2) * 0xd6e8feb86659fd93u;
  }
  // Monotonous in the hash: a table that grows is copied from front to back.
  static std::uint32_t home(std::uint32_t key, std::uint32_t count) {
    return std::uint32_t((std::uint64_t(std::uint32_t(mixed(key) >> 32)) * count) >> 32);
  }
  // From one line for the key to the next: near, and not the same for all keys, so that full lines do not cluster.
  static std::uint32_t step(std::uint32_t key, std::uint32_t count) {
    const std::uint32_t step = 1 + 2 * (std::uint32_t(mixed(key) >> 24) & 31);
    return step < count ? step : 1;
  }

  std::uint32_t key(std::uint64_t address) const { return std::uint32_t(address >> unit_log2_) & ~array_bit; }
  Region* region(std::uint64_t address) const {
    const std::uint64_t number = address >> unit_log2_ >> region_log2;
    Recent& recent = recent_[number % recent_.size()];
    if (recent.number == number) return recent.region;
    return far_region(number);
  }
  Region* far_region(std::uint64_t number) const;
  [[gnu::always_inline]] Line& line(const Region& of, std::uint32_t number) const {
    return arrays_.at<Line>(of.pieces[number / EntryArrays::piece_lines])[number % EntryArrays::piece_lines];
  }
  Line& line_or_new(Region& of, std::uint32_t number);
  // Calls each(line) for the lines in which the key's block may have something, until that says true.
  template <typename Each>
  [[gnu::always_inline]] void each_line(const Region& of, std::uint32_t key, Each&& each) const {
    if (!of.count) return;
    const std::uint32_t home = this->home(key, of.count);
    Line& first = line(of, home);
    if (each(first) || !first.depth) return;
    const std::uint32_t step = this->step(key, of.count);
    std::uint32_t number = home;
    for (unsigned left = first.depth; left; --left) {
      number += step;
      if (number >= of.count) number -= of.count;
      if (number == home || each(line(of, number))) return; // a small table, and the depth is another key's
    }
  }
  [[gnu::always_inline]] Slot array_slot(const Region& of, std::uint32_t key) const {
    Slot slot;
    each_line(of, key, [&](Line& line) {
      const unsigned near = line.near(key | array_bit);
      if (near) slot = {&line, unsigned(std::countr_zero(near))};
      return near != 0;
    });
    return slot;
  }
  [[gnu::always_inline]] Entry* in_array(std::uint64_t address, bool* fresh) const {
    const Region* const of = region(address);
    if (!of) return nullptr;
    const Slot slot = array_slot(*of, key(address));
    return slot ? arrays_.find(slot.name(), unit_of(key(address)), fresh) : nullptr;
  }
  void prefetch_rest(const Region& of, std::uint32_t key) const;
  void add(std::uint64_t address, const Found& found, Entry entry);
  // In a table that has room.
  void insert(Region& of, std::uint32_t key, std::uint32_t segment, std::uint8_t who);
  // filled: of each line, how many places are taken, from the first on; such a line is written without being read.
  bool try_insert(Region& of, std::uint32_t key, std::uint32_t segment, std::uint8_t who,
                  std::uint8_t* filled = nullptr);
  static void clear(Region& of, Line& line, unsigned place) {
    line.key[place] = line.segment[place] = 0;
    --of.used;
  }
  EntryArrays::Name collect_block(Region& of, std::uint32_t key); // from lines to a new array
  void make_room(Region& of);
  void resize(Region& of, std::uint32_t count);
  void release(Region& of); // its table
  void pack(bool soon); // as EntryArrays
  void shrink();
  // Calls each(first unit of the region, line, place).
  template <typename Each>
  void each_slot(Each&& each) {
    for (auto& [number, of] : regions_) {
      for (std::uint32_t i = 0; i < of->count; ++i) {
        Line& at = line(*of, i);
        for (unsigned place = 0; place < slots; ++place) {
          if (at.segment[place]) each(number << region_log2, at, place);
        }
      }
    }
  }

  const unsigned unit_log2_;
  EpochPairs* const pairs_;
  EntryArrays arrays_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Region>> regions_; // by number
  struct Recent {
    std::uint64_t number = ~0ull;
    Region* region = nullptr;
  };
  mutable std::array<Recent, 64> recent_;
  std::uint64_t used_ = 0, pieces_ = 0; // entries; of tables
  std::bitset<std::size_t(1) << page_bits_log2> pages_; // by hash
};

} // namespace deadheat::detect
