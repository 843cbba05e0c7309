// Entries of units that lie near each other: of 32 neighbours, a *block*, those that have any, one after another.
//
// A unit has at most two entries of 5 bytes; a block's lie in an array that has room for as many as there are, or a few
// more, so that what is touched here and there costs little and what is touched all over costs least. Blocks are found
// by their number in tables whose entries have 16 bytes, four to a line of a cache.
//
// Invariants: no block is without entries; arrays with a place for each unit (direct ones) hold an entry at its unit.
// Thread-safety: none.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "analyzer/detect/filter_arrays.h"

namespace deadheat::detect {

// The blocks of 2^32 units.
class EntryBlocks {
 public:
  static constexpr unsigned units_log2 = 5, units = 1 << units_log2;
  static constexpr unsigned number_bits = 32 - units_log2;
  struct Slot {
    std::uint32_t name = 0; // size << number_bits | number
    std::uint32_t present = 0, both = 0; // units that have an entry; that have two
    std::uint32_t array = 0;
    std::uint32_t number() const { return name & ((1u << number_bits) - 1); }
    unsigned size() const { return name >> number_bits; }
  };
  static_assert(sizeof(Slot) == 16);

  explicit EntryBlocks(EntryArrays& arrays) : arrays_(arrays) {}

  bool empty() const { return !count_; }
  Slot* find(std::uint32_t number) const {
    const Table& table = of(number);
    if (!table.count) return nullptr;
    for (std::uint32_t at = home(number, table.count);;) {
      Slot& slot = table.slots[at];
      if (!slot.present) return nullptr;
      if (slot.number() == number) return &slot;
      if (++at == table.count) at = 0;
    }
  }
  [[gnu::always_inline]] void prefetch(std::uint32_t number) const {
    const Table& table = of(number);
    __builtin_prefetch(&table.slots[home(number, table.count)], 1);
  }
  // The first entry of a unit, or where it would be; the second comes after it.
  [[gnu::always_inline]] Entry* entry(const Slot& slot, unsigned unit) const {
    Entry* const list = arrays_.at(slot.size(), slot.array);
    if (slot.size() == EntryArrays::one_each) [[likely]]
      return list + unit;
    return list + place(slot, unit);
  }
  // Puts an entry for a unit that has one at most. The block is made if `slot` is null. True: an array became free.
  bool insert(Slot* slot, std::uint32_t number, unsigned unit, Entry entry);
  // Takes the unit's second entry away, or its only one; of a block without entries nothing is left.
  void remove(Slot* slot, unsigned unit);
  // Puts a block that is not there, of units that have one entry each: by_unit[unit] for those of `present`.
  void put(std::uint32_t number, std::uint32_t present, const Entry* by_unit);
  void erase(Slot* slot); // a block and its entries

  std::uint64_t bytes() const { return slot_count_ * sizeof(Slot); }
  template <typename Name>
  void each_array(Name&& name) {
    each_slot([&](Slot& slot) { name(slot.size(), slot.array); });
  }
  // Calls each(number, unit, entry) for all.
  template <typename Each>
  void each_entry(Each&& each) {
    each_slot([&](Slot& slot) {
      for (std::uint32_t rest = slot.present; rest; rest &= rest - 1) {
        const unsigned unit = unsigned(std::countr_zero(rest));
        Entry* const first = entry(slot, unit);
        each(slot.number(), unit, *first);
        if (slot.both >> unit & 1) each(slot.number(), unit, first[1]);
      }
    });
  }
  // Drops entries of units for which forget(number, unit) says so. Returns how many.
  template <typename Forget>
  std::uint64_t forget_if(Forget&& forget) {
    std::uint64_t dropped = 0;
    each_slot([&](Slot& slot) {
      std::uint32_t gone = 0;
      for (std::uint32_t rest = slot.present; rest; rest &= rest - 1) {
        if (forget(slot.number(), unsigned(std::countr_zero(rest)))) gone |= rest & -rest;
      }
      dropped += unsigned(std::popcount(gone) + std::popcount(gone & slot.both));
      if (gone) drop(slot, gone);
    });
    if (dropped) pack();
    return dropped;
  }

 private:
  static constexpr unsigned tables_log2 = 1; // few, so that large ones lie in large pages
  struct Table { // open addressing
    Zeroed<Slot>::Pointer slots;
    std::uint32_t count = 0, used = 0;
  };
  static std::uint64_t mixed(std::uint32_t number) { return number * block_mix; }
  const Table& of(std::uint32_t number) const { return tables_[mixed(number) >> (64 - tables_log2)]; }
  Table& of(std::uint32_t number) { return tables_[mixed(number) >> (64 - tables_log2)]; }
  // The first slot of a line, so that most are found in the one that was brought nearer. Monotonous in the hash: a
  // table that grows is copied from front to back.
  static constexpr std::uint32_t line_slots = 64 / sizeof(Slot);
  static std::uint32_t home(std::uint32_t number, std::uint32_t count) {
    const std::uint64_t hash = std::uint32_t(mixed(number) >> (32 - tables_log2));
    return std::uint32_t((hash * (count / line_slots)) >> 32) * line_slots;
  }
  static unsigned ones(std::uint32_t a, std::uint32_t b) { // without the instruction, which not all machines have
    std::uint64_t bits = std::uint64_t(a) << 32 | b;
    bits -= bits >> 1 & 0x5555555555555555u;
    bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
    return unsigned(((bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u >> 56);
  }
  static unsigned entries_of(const Slot& slot) { return ones(slot.present, slot.both); }
  static unsigned place(const Slot& slot, unsigned unit) {
    if (slot.size() == EntryArrays::two_each) return 2 * unit;
    const std::uint32_t below = (1u << unit) - 1;
    return ones(slot.present & below, slot.both & below);
  }
  template <typename Each>
  void each_slot(Each&& each) {
    for (Table& table : tables_) {
      for (std::uint32_t i = 0; i < table.count; ++i) {
        if (table.slots[i].present) each(table.slots[i]);
      }
    }
  }
  Slot& add(std::uint32_t number);
  void resize(Table& table, std::uint32_t count);
  void move(Slot& slot, unsigned size); // to an array of another size
  void drop(Slot& slot, std::uint32_t gone); // may leave it empty, which pack() takes away
  void pack();

  EntryArrays& arrays_;
  std::array<Table, 1 << tables_log2> tables_; // of whole lines
  std::uint64_t count_ = 0, slot_count_ = 0;
};

} // namespace deadheat::detect
