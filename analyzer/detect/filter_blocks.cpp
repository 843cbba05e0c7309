#include "analyzer/detect/filter_blocks.h"

#include <algorithm>
#include <cstring>

namespace deadheat::detect {

namespace {

// The least size for so many entries.
unsigned size_for(unsigned entries, bool any_both) {
  if (!any_both && entries > 16) return EntryArrays::one_each;
  for (unsigned size = 0; size < EntryArrays::one_each; ++size) {
    if (entries <= EntryArrays::room[size]) return size;
  }
  return EntryArrays::two_each;
}

} // namespace

void EntryBlocks::resize(Table& table, std::uint32_t count) {
  count = (count + line_slots - 1) / line_slots * line_slots;
  const Table old = std::move(table);
  table = {Zeroed<Slot>::make(count), count, old.used};
  for (std::uint32_t i = 0; i < old.count; ++i) {
    const Slot& slot = old.slots[i];
    if (!slot.present) continue;
    std::uint32_t at = home(slot.number(), count);
    while (table.slots[at].present) at = at + 1 == count ? 0 : at + 1;
    table.slots[at] = slot;
  }
  slot_count_ += count;
  slot_count_ -= old.count;
}

EntryBlocks::Slot& EntryBlocks::add(std::uint32_t number) {
  Table& table = of(number);
  if (5ull * (table.used + 1) > 4ull * table.count) resize(table, table.count + table.count / 4 + 8);
  std::uint32_t at = home(number, table.count);
  while (table.slots[at].present) at = at + 1 == table.count ? 0 : at + 1;
  ++table.used;
  ++count_;
  table.slots[at] = {number, 0, 0, arrays_.allocate(0)};
  return table.slots[at];
}

void EntryBlocks::erase(Slot* slot) {
  arrays_.free(slot->size(), slot->array);
  Table& table = of(slot->number());
  --table.used;
  --count_;
  // Whoever was put farther because of it moves up.
  auto hole = std::uint32_t(slot - table.slots.get());
  auto away = [&](std::uint32_t from, std::uint32_t to) { return to >= from ? to - from : to + table.count - from; };
  for (std::uint32_t at = hole;;) {
    at = at + 1 == table.count ? 0 : at + 1;
    if (!table.slots[at].present || at == hole) break;
    if (away(home(table.slots[at].number(), table.count), at) < away(hole, at)) continue;
    table.slots[hole] = table.slots[at];
    hole = at;
  }
  table.slots[hole] = {};
  if (table.count > 256 && table.used < table.count / 2) resize(table, table.used + table.used / 3 + 8);
}

void EntryBlocks::put(std::uint32_t number, std::uint32_t present, const Entry* by_unit) {
  Slot& slot = add(number);
  arrays_.free(slot.size(), slot.array);
  const unsigned size = size_for(unsigned(std::popcount(present)), false);
  slot = {size << number_bits | number, present, 0, arrays_.allocate(size)};
  for (std::uint32_t rest = present; rest; rest &= rest - 1) {
    const unsigned unit = unsigned(std::countr_zero(rest));
    *entry(slot, unit) = by_unit[unit];
  }
}

void EntryBlocks::move(Slot& slot, unsigned size) {
  const std::uint32_t array = arrays_.allocate(size);
  Slot moved = slot;
  moved.name = size << number_bits | slot.number();
  moved.array = array;
  const Entry* from = arrays_.at(slot.size(), slot.array);
  Entry* to = arrays_.at(size, array);
  const bool direct = slot.size() == EntryArrays::one_each, packed = size < EntryArrays::one_each;
  if (packed && !direct) {
    std::memcpy(static_cast<void*>(to), from, sizeof(Entry) * entries_of(slot));
  } else {
    const unsigned places = size == EntryArrays::two_each ? 2 : 1;
    for (std::uint32_t rest = slot.present; rest; rest &= rest - 1) {
      const unsigned unit = unsigned(std::countr_zero(rest));
      Entry* const at = packed ? to++ : to + places * unit;
      at[0] = direct ? from[unit] : *from++;
      if (slot.both >> unit & 1) at[1] = *from++; // only in an array that is not direct
    }
  }
  arrays_.free(slot.size(), slot.array);
  slot = moved;
}

bool EntryBlocks::insert(Slot* slot, std::uint32_t number, unsigned unit, Entry added) {
  if (!slot) slot = &add(number);
  const std::uint32_t bit = 1u << unit;
  const bool second = slot->present & bit;
  const unsigned entries = entries_of(*slot), size = slot->size();
  const bool moves = size != EntryArrays::two_each &&
                     (entries == EntryArrays::room[size] || (size == EntryArrays::one_each && second));
  if (moves) move(*slot, size_for(entries + 1, second || slot->both));
  Entry* const at = entry(*slot, unit) + second;
  if (slot->size() < EntryArrays::one_each) {
    Entry* const list = arrays_.at(slot->size(), slot->array);
    std::memmove(static_cast<void*>(at + 1), at, sizeof(Entry) * (entries - unsigned(at - list)));
  }
  *at = added;
  (second ? slot->both : slot->present) |= bit;
  return moves;
}

void EntryBlocks::remove(Slot* slot, unsigned unit) {
  const std::uint32_t bit = 1u << unit;
  const bool second = slot->both & bit;
  if (slot->size() < EntryArrays::one_each) {
    Entry* const at = entry(*slot, unit) + second;
    Entry* const end = arrays_.at(slot->size(), slot->array) + entries_of(*slot);
    std::memmove(static_cast<void*>(at), at + 1, sizeof(Entry) * unsigned(end - at - 1));
  }
  (second ? slot->both : slot->present) &= ~bit;
  if (!slot->present) erase(slot);
}

void EntryBlocks::drop(Slot& slot, std::uint32_t gone) {
  Entry kept[2 * units];
  unsigned count = 0;
  Slot after = slot;
  after.present &= ~gone;
  after.both &= ~gone;
  for (std::uint32_t rest = after.present; rest; rest &= rest - 1) {
    const unsigned unit = unsigned(std::countr_zero(rest));
    const Entry* const from = entry(slot, unit);
    kept[count++] = from[0];
    if (slot.both >> unit & 1) kept[count++] = from[1];
  }
  arrays_.free(slot.size(), slot.array);
  slot = after;
  if (!slot.present) return;
  const unsigned size = size_for(count, slot.both != 0);
  slot.name = size << number_bits | slot.number();
  slot.array = arrays_.allocate(size);
  count = 0;
  for (std::uint32_t rest = slot.present; rest; rest &= rest - 1) {
    const unsigned unit = unsigned(std::countr_zero(rest));
    Entry* const to = entry(slot, unit);
    to[0] = kept[count++];
    if (slot.both >> unit & 1) to[1] = kept[count++];
  }
}

void EntryBlocks::pack() {
  count_ = 0;
  for (Table& table : tables_) {
    table.used = 0;
    for (std::uint32_t i = 0; i < table.count; ++i) table.used += table.slots[i].present != 0;
    count_ += table.used;
    const std::uint32_t count = table.used ? table.used + table.used / 3 + 8 : 0;
    if (count) {
      resize(table, count);
    } else {
      slot_count_ -= table.count;
      table = {};
    }
  }
}

} // namespace deadheat::detect
