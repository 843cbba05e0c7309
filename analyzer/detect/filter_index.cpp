#include "analyzer/detect/filter_index.h"

#include <utility>

namespace deadheat::detect {

void PageIndex::put(Table& table, Slot slot) {
  std::size_t at = home(slot.hash, table.size());
  while (table[at].id) at = next(at, table.size());
  table[at] = slot;
}

// From a beginning that is the table's own, so that they are not all full at the same time.
void PageIndex::grow(unsigned number) {
  Table& table = tables_[number];
  const std::size_t before = table.size(), size = before ? before + before / 4 : 16 + number / 16;
  const Table old = std::exchange(table, Table(size));
  places_ += size - before;
  for (const Slot& slot : old) {
    if (slot.id) put(table, slot);
  }
}

void PageIndex::insert(std::uint32_t hash, std::uint32_t id) {
  const unsigned number = number_of(hash);
  Table& table = tables_[number];
  if (4 * (used_[number] + std::size_t(1)) > 3 * table.size()) grow(number);
  put(table, {hash, id});
  ++used_[number];
  ++count_;
}

void PageIndex::erase(std::uint32_t hash, std::uint32_t id) {
  const unsigned number = number_of(hash);
  Table& table = tables_[number];
  const std::size_t size = table.size();
  std::size_t hole = home(hash, size);
  while (table[hole].id != id) hole = next(hole, size);
  --used_[number];
  --count_;
  // Whoever was put farther because of it moves up.
  for (std::size_t at = next(hole, size); table[at].id; at = next(at, size)) {
    const std::size_t begin = home(table[at].hash, size);
    const std::size_t far = at >= begin ? at - begin : at + size - begin;
    if (far < (at >= hole ? at - hole : at + size - hole)) continue;
    table[hole] = table[at];
    hole = at;
  }
  table[hole] = {};
}

} // namespace deadheat::detect
