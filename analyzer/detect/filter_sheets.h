// Entries of units that lie close together: of 1024 neighbours, a *sheet*, of which nearly half or more have an entry,
// and none has two.
//
// A sheet has a place for each unit, twelve to a line of a cache, so that a look-up reads one line of memory; sheets
// are found through a table that is small enough for a near cache. An entry costs 5.4 bytes in a full sheet.
//
// Invariants: no sheet is without entries; an entry of segment 0 is none.
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "analyzer/detect/filter_arrays.h"

namespace deadheat::detect {

// The sheets of 2^32 units.
class EntrySheets {
 public:
  static constexpr unsigned units_log2 = 10, units = 1 << units_log2;
  static_assert(units <= SheetLine::entries * EntryArrays::sheet_lines);
  struct Slot {
    std::uint32_t name = 0; // the sheet's number and 1; 0: empty
    std::uint32_t array = 0;
    std::uint32_t used = 0; // entries
    std::uint32_t number() const { return name - 1; }
  };

  explicit EntrySheets(EntryArrays& arrays) : arrays_(arrays) {}

  bool empty() const { return !count_; }
  [[gnu::always_inline]] Slot* find(std::uint32_t number) const {
    if (!count_) return nullptr;
    for (std::uint32_t at = home(number, count_of_slots());;) {
      Slot& slot = slots_[at];
      if (slot.name == number + 1) [[likely]]
        return &slot;
      if (!slot.name) return nullptr;
      if (++at == slots_.size()) at = 0;
    }
  }
  [[gnu::always_inline]] Entry* entry(const Slot& slot, unsigned unit) const {
    return &arrays_.sheet_at(slot.array)[unit / SheetLine::entries].entry[unit % SheetLine::entries];
  }
  Slot& add(std::uint32_t number); // without entries yet
  void erase(Slot* slot);

  std::uint64_t bytes() const { return slots_.size() * sizeof(Slot); }
  template <typename Name>
  void each_array(Name&& name) {
    for (Slot& slot : slots_) {
      if (slot.name) name(EntryArrays::sheet, slot.array);
    }
  }
  // Calls each(unit, entry) for the entries of a sheet.
  template <typename Each>
  void each_entry(const Slot& slot, Each&& each) {
    for (unsigned unit = 0; unit < units; ++unit) {
      if (Entry& at = *entry(slot, unit); at.segment) each(unit, at);
    }
  }
  template <typename Each>
  void each_slot(Each&& each) {
    for (Slot& slot : slots_) {
      if (slot.name) each(slot);
    }
  }

 private:
  static std::uint32_t home(std::uint32_t number, std::uint32_t count) {
    return std::uint32_t((std::uint64_t(std::uint32_t(number * block_mix >> 32)) * count) >> 32);
  }
  std::uint32_t count_of_slots() const { return std::uint32_t(slots_.size()); }
  void resize(std::uint32_t count);

  EntryArrays& arrays_;
  mutable std::vector<Slot> slots_; // open addressing
  std::uint32_t count_ = 0;
};

} // namespace deadheat::detect
