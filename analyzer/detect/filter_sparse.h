// What the first pass remembers of memory that is touched here and there: epochs of units of 4 bytes, or of one byte,
// found by their address.
//
// A unit has one entry, which names a pair of epochs (filter_pairs.h) where it was both written and read since, or says
// what strong accesses to it were (strong_codes.h), or names a pair of the two (filter_mixed.h). Entries
// of blocks that have a few only lie in *lines* (filter_lines.h): 9 bytes each, seven of them and a mark are a line of
// a cache, which is all that a look-up reads as a rule. Of the tables of lines some are full and some have just grown,
// so that an entry costs 10.5 bytes or so at any time. Where more than five entries of a block would lie there, they
// move to an array (filter_arrays.h), which has one entry in the lines.
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
#include "analyzer/detect/filter_mixed.h"
#include "analyzer/detect/filter_pages.h"
#include "analyzer/detect/suspects.h"

namespace deadheat::detect {

class SparseCells {
 private:
  using Line = EntryLine;
  static constexpr unsigned region_log2 = LineTable::key_bits; // units of a region
  using Region = std::array<LineTable, LineTable::of_region>;
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
  // In the segment of an entry: `callers`: its `who` is the caller's, and so is a further bit of the segment. That bit
  // alone: the rest names a pair of what weak and strong accesses were, and `who` is a lane.
  static constexpr SegmentId callers = 1u << 31, callers_bit = 1u << 30, both_bits = callers | callers_bit;
  static_assert(Epochs::most_segments <= callers_bit);
  // pairs: of cells' epochs; null: no cell is both written and read. mixed: of units that have strong accesses; null:
  // there are none.
  explicit SparseCells(unsigned unit_log2, EpochPairs* pairs = nullptr, MixedPairs* mixed = nullptr)
      : unit_log2_(unit_log2), pairs_(pairs), mixed_(mixed) {}
  SparseCells(const SparseCells&) = delete;
  SparseCells& operator=(const SparseCells&) = delete;

  // A unit's entry, until anything is put or erased.
  struct Found {
    unsigned char* at = nullptr; // its segment's four bytes; null: there is none
    std::uint8_t* who = nullptr;
    Slot slot; // of its block's array
    unsigned near = 0; // where there is none: entries of its block, which has no array then
    explicit operator bool() const { return at; }
    Entry entry() const {
      Entry entry{0, *who};
      std::memcpy(static_cast<void*>(&entry), at, sizeof(SegmentId));
      return entry;
    }
    void set(Entry entry) const { // of one that names no pair
      std::memcpy(at, static_cast<const void*>(&entry), sizeof(SegmentId));
      *who = entry.who;
    }
    bool is_callers() const { return at && (entry().segment & callers); }
    bool is_mixed() const { return at && (entry().segment & both_bits) == callers_bit; }
  };
  Found find(std::uint64_t address) const { return find(address, nullptr); }
  // The same; or, where the unit has none and its array has room, a new one of segment 0, which the caller has to fill.
  Found find_or_new(std::uint64_t address) {
    bool fresh = false;
    const Found found = find(address, &fresh);
    used_ += fresh;
    return found;
  }
  // What it says of weak accesses; segments 0 when there is nothing.
  Cell cell(const Found& found) const {
    Cell cell;
    if (found) say(found.entry(), cell);
    return cell;
  }
  void put(std::uint64_t address, const Found& found, const Cell& cell, bool with_write);
  // What it says of strong accesses, which the caller put; of segment 0 when there is nothing.
  Entry strong(const Found& found) const;
  // The same of an entry that is the caller's, which is all that is known.
  void put(std::uint64_t address, const Found& found, Entry strong);
  // Of both; and of one whose weak accesses stay what they are.
  void put(std::uint64_t address, const Found& found, const Cell& cell, bool with_write, Entry strong);
  void put_beside(std::uint64_t address, const Found& found, Entry strong);
  void erase(std::uint64_t address, const Found& found);
  // The unit's entry, where it lies in an array; null otherwise.
  [[gnu::always_inline]] Entry* in_array(std::uint64_t address) const {
    const Slot slot = array_slot(address);
    return slot ? arrays_.find(slot.name(), unit_of(key(address))) : nullptr;
  }
  // Which units of the address's block have entries.
  std::bitset<EntryArrays::units> touched(std::uint64_t address) const;
  // Are they a few only?
  bool few(std::uint64_t address) const {
    const Slot slot = array_slot(address);
    return !slot || slot.name().size == 0;
  }
  // Does the unit's block have a place for each unit?
  bool in_sheet(std::uint64_t address) const {
    const Slot slot = array_slot(address);
    return slot && slot.name().size == EntryArrays::sheet;
  }
  // Of an entry of a weak write, which is not the caller's: by which lane.
  static bool is_write(Entry entry) { return entry.who >> 5 == write_level; }
  static Entry write_entry(SegmentId segment, unsigned lane) { return {segment, who_of(write_level, lane)}; }
  // Does it say of reads and of nothing else?
  static bool plain_reads(Entry entry) {
    return entry.who < 1 << 5 || (entry.who < write_level << 5 && !(entry.who & 31));
  }

  // For whoever is about to find() many, most of them in one region: three steps, each for all, bring nearer what the
  // next one reads, and read nothing that is far. False: there is no further step for this one.
  // Each may set `array`: where the unit's entry lies, or is to, as long as moves() stays the same. What is left to be
  // brought nearer then is first_in().
  static constexpr std::uint8_t no_array = 0xFF; // as its size
  class Glance {
   public:
    explicit Glance(const SparseCells& cells) : cells_(cells) {}
    [[gnu::always_inline]] bool prefetch(std::uint64_t address, EntryArrays::Name& array) {
      const std::uint32_t wanted = cells_.key(address);
      const LineTable* const of = table(address, wanted);
      if (!of || !of->lines()) return false;
      Line& first = of->first_line(wanted);
      if (of->lines() > near_lines) {
        __builtin_prefetch(&first, 1);
        return true;
      }
      if (const unsigned near = first.near(wanted | LineTable::array_bit)) [[likely]] {
        array = Slot{&first, unsigned(std::countr_zero(near))}.name();
      } else if (first.depth && !first.has(wanted)) {
        if (const Slot slot = array_slot(*of, wanted)) array = slot.name();
      }
      return false;
    }
    [[gnu::always_inline]] bool prefetch_entry(std::uint64_t address, EntryArrays::Name& array) {
      const std::uint32_t wanted = cells_.key(address);
      const LineTable* const of = table(address, wanted);
      if (!of || !of->lines()) return false;
      Line& first = of->first_line(wanted);
      if (const unsigned near = first.near(wanted | LineTable::array_bit)) [[likely]] {
        array = Slot{&first, unsigned(std::countr_zero(near))}.name();
        return false;
      }
      if (!first.depth || first.has(wanted)) return false;
      prefetch_rest(*of, wanted);
      return true;
    }
    [[gnu::always_inline]] void prefetch_array(std::uint64_t address, EntryArrays::Name& array) {
      const std::uint32_t wanted = cells_.key(address);
      const LineTable* const of = table(address, wanted);
      if (!of) return;
      if (const Slot slot = array_slot(*of, wanted)) array = slot.name();
    }

   private:
    [[gnu::always_inline]] const LineTable* table(std::uint64_t address, std::uint32_t key) {
      const std::uint64_t number = address >> cells_.unit_log2_ >> region_log2;
      if (number != number_) {
        number_ = number;
        region_ = cells_.region(address);
      }
      return region_ ? &(*region_)[LineTable::number_of(key)] : nullptr;
    }
    const SparseCells& cells_;
    std::uint64_t number_ = ~0ull;
    const Region* region_ = nullptr;
  };
  // What a look at the unit's entry in its array reads first.
  [[gnu::always_inline]] const void* first_in(EntryArrays::Name array, std::uint64_t address) const {
    return arrays_.first(array, unit_of(key(address)));
  }
  // The unit's place in a sheet that is known, whatever is there.
  [[gnu::always_inline]] Entry* place_in(EntryArrays::Name sheet, std::uint64_t address) const {
    return arrays_.in_sheet(sheet.id, unit_of(key(address)));
  }
  // The unit's entry in an array that is known, or null; and as find() finds it.
  [[gnu::always_inline]] Entry* in(EntryArrays::Name array, std::uint64_t address) const {
    return arrays_.find(array, unit_of(key(address)));
  }
  static Found found_in_array(Entry* entry) {
    Found found;
    found.at = reinterpret_cast<unsigned char*>(entry);
    found.who = &entry->who;
    return found;
  }
  // As find_or_new(), of such a place.
  [[gnu::always_inline]] Entry* in_or_new(Entry* place) {
    if (place->segment) return place;
    ++used_;
    *place = {};
    return place;
  }
  // As find_or_new(), of an array that is known.
  [[gnu::always_inline]] Entry* in_or_new(EntryArrays::Name array, std::uint64_t address) {
    bool fresh = false;
    Entry* const entry = arrays_.find(array, unit_of(key(address)), &fresh);
    used_ += fresh;
    return entry;
  }

  std::uint64_t moves() const { return arrays_.moves(); }

  // May units of the page have entries? Errs to the side of yes.
  bool may_have_page(std::uint64_t number) const { return used_ && pages_[page_bit(number)]; }
  // The same of any page of a tract: so many at a time.
  static constexpr std::uint64_t tract_pages = 256;
  bool may_have_tract(std::uint64_t tract) const { return used_ && tracts_[tract_bit(tract)]; }
  bool empty() const { return !used_; }
  std::uint64_t entries() const { return used_; }
  std::uint64_t bytes() const {
    std::uint64_t lists = 0; // of pieces
    for (const auto& [number, region] : regions_) {
      lists += sizeof(Region);
      for (const LineTable& of : *region) lists += of.bytes();
    }
    return arrays_.bytes() + lists;
  }
  unsigned unit_log2() const { return unit_log2_; }

  // Calls name(SegmentId&) for all segments that entries name, but for those in pairs of epochs.
  template <typename Name>
  void each_name(Name&& name) {
    auto renamed = [&](Entry entry) {
      if (names_pair(entry) || names_mixed(entry)) return entry.segment;
      const SegmentId bits = entry.segment & (callers | callers_bit);
      SegmentId segment = entry.segment & ~bits;
      name(segment);
      return segment | bits;
    };
    if (mixed_) {
      mixed_->each([&](Entry& weak, Entry& strong) {
        weak.segment = renamed(weak);
        strong.segment = renamed(strong);
      });
    }
    each_slot([&](std::uint64_t, Line& line, unsigned place) {
      if (!LineTable::is_array(line.key[place])) {
        line.segment[place] = renamed({line.segment[place], line.who[place]});
        return;
      }
      arrays_.each(Slot{&line, place}.name(), [&](unsigned, Entry& entry) { entry.segment = renamed(entry); });
    });
  }
  // Drops the units for which forget(address) says so; gives memory back.
  template <typename Forget>
  void forget_if(Forget&& forget) {
    each_slot([&](std::uint64_t high, Line& line, unsigned place) {
      auto gone = [&](std::uint32_t unit, Entry entry) {
        const bool is = forget((high | unit) << unit_log2_);
        used_ -= is;
        if (is) release(entry);
        return is;
      };
      if (!LineTable::is_array(line.key[place])) {
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
  static constexpr unsigned most_near = 5;
  static constexpr std::uint32_t near_lines = 4096 / LineTable::of_region; // of a table that is in a near cache anyway
  // `who` of entries: as in cells, but levels that cells do not use say more of one lane.
  static constexpr std::uint8_t write_level = 6, non_coherent_level = 7;
  static_assert(many < write_level);
  static constexpr std::uint8_t wide_non_coherent = 1, wide_suspect = 16; // in the place of the lane, where it is none
  Entry entry_of(const Cell& cell, bool with_write) const; // segment 0: there is nothing to say
  void say(Entry entry, Cell& cell) const; // what it says
  static bool names_pair(Entry entry) { return !(entry.segment & both_bits) && EpochPairs::is_pair(entry.who); }
  static bool names_mixed(Entry entry) { return (entry.segment & both_bits) == callers_bit; }
  void release(Entry entry); // of the pairs that it names
  // Of an entry of weak accesses: does it say a lane, which one, and what it would be of another.
  bool of_lane(Entry weak) const {
    const unsigned level = weak.who >> 5;
    return names_pair(weak) ? pairs_->of_lane(weak)
                            : level == one_lane || level == write_level || level == non_coherent_level;
  }
  static unsigned lane_of(Entry weak) { return names_pair(weak) ? EpochPairs::lane_of(weak.who) : weak.who & 31u; }
  static Entry with_lane(Entry weak, unsigned lane) {
    return {weak.segment, names_pair(weak) ? EpochPairs::who_of_lane(lane) : std::uint8_t((weak.who & 0xE0) | lane)};
  }
  Entry weak_of(Entry mixed) const; // with its lane
  // weak: counted by its pair, if it names one. cell: the same.
  Entry mixed_of(Entry weak, const Cell& cell, Entry strong);
  void place(std::uint64_t address, const Found& found, Entry entry);

  static std::uint32_t first_unit(std::uint32_t array_key) { return array_key & ~LineTable::array_bit; }
  static unsigned unit_of(std::uint32_t key) { return key % EntryArrays::units; }
  static std::size_t page_bit(std::uint64_t number) { return number * 0x9e3779b97f4a7c15u >> (64 - page_bits_log2); }
  static std::size_t tract_bit(std::uint64_t tract) { return tract * 0x9e3779b97f4a7c15u >> (64 - tract_bits_log2); }
  static constexpr unsigned page_bits_log2 = 20, tract_bits_log2 = 16;

  std::uint32_t key(std::uint64_t address) const {
    return std::uint32_t(address >> unit_log2_) & ~LineTable::array_bit;
  }
  Region* region(std::uint64_t address) const {
    const std::uint64_t number = address >> unit_log2_ >> region_log2;
    Recent& recent = recent_[number % recent_.size()];
    if (recent.number == number) return recent.region;
    return far_region(number);
  }
  Region* far_region(std::uint64_t number) const;
  [[gnu::always_inline]] LineTable* table(std::uint64_t address, std::uint32_t key) const {
    Region* const of = region(address);
    return of ? &(*of)[LineTable::number_of(key)] : nullptr;
  }
  [[gnu::always_inline]] static Slot array_slot(const LineTable& of, std::uint32_t key) {
    Slot slot;
    of.each_line(key, [&](Line& line) {
      const unsigned near = line.near(key | LineTable::array_bit);
      if (near) slot = {&line, unsigned(std::countr_zero(near))};
      return near != 0;
    });
    return slot;
  }
  [[gnu::always_inline]] Slot array_slot(std::uint64_t address) const {
    const std::uint32_t wanted = key(address);
    const LineTable* const of = table(address, wanted);
    return of ? array_slot(*of, wanted) : Slot();
  }
  [[gnu::always_inline]] Found find(std::uint64_t address, bool* fresh) const;
  static void prefetch_rest(const LineTable& of, std::uint32_t key);
  void add(std::uint64_t address, const Found& found, Entry entry);
  EntryArrays::Name collect_block(LineTable& of, std::uint32_t key); // from lines to a new array
  void pack(bool soon); // as EntryArrays
  void shrink();
  void shrink(LineTable& of, std::uint64_t first_unit);
  // Calls each(first unit of the region, line, place).
  template <typename Each>
  void each_slot(Each&& each) {
    for (auto& [number, region] : regions_) {
      for (LineTable& of : *region)
        each_slot(of, [&](Line& at, unsigned place) { each(number << region_log2, at, place); });
    }
  }
  template <typename Each>
  static void each_slot(LineTable& of, Each&& each) {
    for (std::uint32_t i = 0; i < of.lines(); ++i) {
      Line& at = of.line(i);
      for (unsigned place = 0; place < LineTable::slots; ++place) {
        if (at.segment[place]) each(at, place);
      }
    }
  }

  const unsigned unit_log2_;
  EpochPairs* const pairs_;
  MixedPairs* const mixed_;
  EntryArrays arrays_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Region>> regions_; // by number
  struct Recent {
    std::uint64_t number = ~0ull;
    Region* region = nullptr;
  };
  mutable std::array<Recent, 64> recent_;
  std::uint64_t used_ = 0; // entries
  std::bitset<std::size_t(1) << page_bits_log2> pages_; // by hash
  std::bitset<std::size_t(1) << tract_bits_log2> tracts_; // by hash
};

inline SparseCells::Found SparseCells::find(std::uint64_t address, bool* fresh) const {
  Found found;
  const std::uint32_t wanted = key(address);
  const LineTable* const of = table(address, wanted);
  if (!of) return found;
  of->each_line(wanted, [&](Line& line) {
    if (const unsigned array = line.near(wanted | LineTable::array_bit)) {
      found.slot = {&line, unsigned(std::countr_zero(array))};
      return true;
    }
    for (unsigned near = line.near(wanted); near; near &= near - 1) {
      const unsigned place = unsigned(std::countr_zero(near));
      if (!line.segment[place]) continue;
      ++found.near;
      if (line.key[place] != wanted) continue;
      found.at = reinterpret_cast<unsigned char*>(&line.segment[place]);
      found.who = &line.who[place];
      return true;
    }
    return false;
  });
  if (found.slot) {
    if (Entry* const entry = arrays_.find(found.slot.name(), unit_of(wanted), fresh)) {
      found.at = reinterpret_cast<unsigned char*>(entry);
      found.who = &entry->who;
    }
  }
  return found;
}

} // namespace deadheat::detect
