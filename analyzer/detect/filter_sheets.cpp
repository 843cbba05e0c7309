#include "analyzer/detect/filter_sheets.h"

#include <algorithm>

namespace deadheat::detect {

void EntrySheets::resize(std::uint32_t count) {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(count));
  for (const Slot& slot : old) {
    if (!slot.name) continue;
    std::uint32_t at = home(slot.number(), count);
    while (slots_[at].name) at = at + 1 == count ? 0 : at + 1;
    slots_[at] = slot;
  }
}

EntrySheets::Slot& EntrySheets::add(std::uint32_t number) {
  if (3ull * (count_ + 1) > 2ull * slots_.size()) resize(count_of_slots() + count_of_slots() / 2 + 8);
  std::uint32_t at = home(number, count_of_slots());
  while (slots_[at].name) at = at + 1 == slots_.size() ? 0 : at + 1;
  ++count_;
  slots_[at] = {number + 1, arrays_.allocate(EntryArrays::sheet), 0};
  std::fill_n(arrays_.sheet_at(slots_[at].array), EntryArrays::sheet_lines, SheetLine{});
  return slots_[at];
}

void EntrySheets::erase(Slot* slot) {
  arrays_.free(EntryArrays::sheet, slot->array);
  const std::uint32_t count = count_of_slots();
  auto hole = std::uint32_t(slot - slots_.data());
  auto away = [&](std::uint32_t from, std::uint32_t to) { return to >= from ? to - from : to + count - from; };
  // Whoever was put farther because of it moves up.
  for (std::uint32_t at = hole;;) {
    at = at + 1 == count ? 0 : at + 1;
    if (!slots_[at].name || at == hole) break;
    if (away(home(slots_[at].number(), count), at) < away(hole, at)) continue;
    slots_[hole] = slots_[at];
    hole = at;
  }
  slots_[hole] = {};
  --count_;
  if (!count_) {
    slots_ = {};
  } else if (count > 64 && count_ < count / 4) {
    resize(count_ * 2);
  }
}

} // namespace deadheat::detect
