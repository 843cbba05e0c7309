#include "analyzer/detect/filter_sparse.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

namespace deadheat::detect {

namespace {

// Entries from which on a sheet costs less than 12 bytes for each, and below which it is given up when some are
// forgotten.
constexpr unsigned least_of_sheet = 505, too_few_of_sheet = 400;

} // namespace

std::uint8_t SparseCells::reads_entry(const Cell& cell) {
  if (cell.write_who & Cell::suspect) return who_of(many, wide_suspect);
  const bool outside = cell.write_who & Cell::non_coherent;
  if (cell.reads_who >> 5 == one_lane) {
    return outside ? who_of(non_coherent_level, cell.reads_who & 31) : cell.reads_who;
  }
  return std::uint8_t(cell.reads_who | (outside ? wide_non_coherent : 0));
}

void SparseCells::read_entry(std::uint32_t segment, std::uint8_t who, Cell& cell) {
  const unsigned level = who >> 5;
  if (level == one_lane) {
    cell.reads_who = who;
  } else if (level == non_coherent_level) {
    cell.reads_who = who & 31;
    cell.write_who |= Cell::non_coherent;
  } else {
    cell.reads_who = who & 0xE0;
    if (who & wide_suspect) cell.write_who |= Cell::suspect;
    if (who & wide_non_coherent) cell.write_who |= Cell::non_coherent;
  }
  cell.reads = segment;
}

SparseCells::Found SparseCells::find(std::uint64_t address) const {
  Found found;
  Region* const of = region(address);
  if (!of) return found;
  const std::uint32_t wanted = key(address);
  auto take = [&](std::uint32_t segment, std::uint8_t who, Found::At at) {
    if (who >> 5 == write_level) {
      found.cell.write = segment;
      found.cell.write_who |= who & 31;
    } else {
      read_entry(segment, who, found.cell);
    }
    found.at[found.count++ & 1] = at;
  };
  if (const Place place = in_sheet(address); place.entry) {
    found.sheet = place.sheet;
    if (place.entry->segment) {
      take(place.entry->segment, place.entry->who, {reinterpret_cast<unsigned char*>(place.entry), &place.entry->who});
    }
    return found;
  }
  if (!of->blocks.empty() && (found.block = of->blocks.find(block_of(wanted)))) {
    const std::uint32_t bit = 1u << unit_of(wanted);
    if (!(found.block->present & bit)) return found;
    Entry* const first = of->blocks.entry(*found.block, unit_of(wanted));
    auto one = [&](Entry* entry) {
      take(entry->segment, entry->who, {reinterpret_cast<unsigned char*>(entry), &entry->who});
    };
    one(first);
    if (found.block->both & bit) one(first + 1);
    return found;
  }
  each_line(of->of(wanted), wanted, [&](Line& line) {
    unsigned alike = 0;
    for (unsigned slot = 0; slot < slots; ++slot) {
      alike |= unsigned((line.key[slot] ^ wanted) < EntryBlocks::units) << slot;
    }
    for (; alike; alike &= alike - 1) {
      const unsigned slot = unsigned(std::countr_zero(alike));
      if (!line.segment[slot]) continue;
      ++found.near;
      if (line.key[slot] != wanted) continue;
      take(line.segment[slot], line.who[slot],
           {reinterpret_cast<unsigned char*>(&line.segment[slot]), &line.who[slot]});
    }
  });
  return found;
}

void SparseCells::prefetch_rest(std::uint64_t address) const {
  const Region* const of = region(address);
  if (!of) return;
  each_line(of->of(key(address)), key(address), [home = true](const Line& line) mutable {
    if (!std::exchange(home, false)) __builtin_prefetch(&line, 1);
  });
}

bool SparseCells::insert(Table& table, std::uint32_t wanted, std::uint32_t segment, std::uint8_t who) {
  if (!table.count) return false;
  const std::uint32_t home = Region::home(wanted, table.count), step = Region::step(wanted, table.count);
  std::uint32_t number = home;
  for (unsigned depth = 0; depth <= most_depth; ++depth) {
    Line& line = table.lines[number];
    for (unsigned slot = 0; slot < slots; ++slot) {
      if (line.segment[slot]) continue;
      line.key[slot] = wanted;
      line.segment[slot] = segment;
      line.who[slot] = who;
      ++table.used;
      std::uint8_t& deepest = table.lines[home].depth;
      deepest = std::max(deepest, std::uint8_t(depth));
      return true;
    }
    number += step;
    if (number >= table.count) number -= table.count;
  }
  return false;
}

void SparseCells::resize(Table& table, std::uint32_t count) {
  const Table old = std::move(table);
  auto fill = [&] {
    table = {Zeroed<Line>::make(count), count, 0};
    for (std::uint32_t i = 0; i < old.count; ++i) {
      const Line& line = old.lines[i];
      for (unsigned slot = 0; slot < slots; ++slot) {
        if (line.segment[slot] && !insert(table, line.key[slot], line.segment[slot], line.who[slot])) return false;
      }
    }
    return true;
  };
  while (!fill()) count += count / 8 + 1;
  bytes_ += std::uint64_t(table.count) * sizeof(Line);
  bytes_ -= std::uint64_t(old.count) * sizeof(Line);
}

void SparseCells::put(std::uint64_t address, const Found& found, const Cell& cell, bool with_write) {
  const bool suspect = cell.write_who & Cell::suspect;
  std::array<Entry, 2> wanted;
  unsigned count = 0;
  if (cell.write && with_write && !suspect) wanted[count++] = {cell.write, who_of(write_level, cell.write_who & 31)};
  if (const SegmentId reads = suspect ? std::max({1u, cell.reads, cell.write}) : cell.reads) {
    wanted[count++] = {reads, reads_entry(cell)};
  }
  for (unsigned i = 0; i < std::min(count, found.count); ++i) {
    std::memcpy(found.at[i].segment, &wanted[i].segment, sizeof(SegmentId));
    *found.at[i].who = wanted[i].who;
  }
  for (unsigned i = found.count; i > count; --i) remove(address, found, i - 1);
  for (unsigned i = found.count; i < count; ++i) add(address, i == found.count ? found : find(address), wanted[i]);
}

void SparseCells::put(std::uint64_t address, const Found& found, Entry entry) {
  if (!found.count) return add(address, found, entry);
  std::memcpy(found.at[0].segment, &entry.segment, sizeof(SegmentId));
  *found.at[0].who = entry.who;
}

void SparseCells::add(std::uint64_t address, const Found& found, Entry entry) {
  Region* of = region(address);
  if (!of) {
    const std::uint64_t number = address >> unit_log2_ >> 32;
    of = (regions_[number] = std::make_unique<Region>(arrays_)).get();
  }
  const std::uint32_t wanted = key(address);
  if (found.sheet && !found.count)
    return put(Place{of->sheets.entry(*found.sheet, sheet_unit_of(wanted)), found.sheet}, entry);
  EntryBlocks::Slot* block = found.block;
  if (found.sheet) {
    split_sheet(*of, found.sheet);
    block = of->blocks.find(block_of(wanted));
  }
  ++used_;
  if (!block && found.near >= most_near) {
    move_block(*of, wanted);
    block = of->blocks.find(block_of(wanted));
  }
  if (block) {
    bytes_ -= of->bytes();
    const bool moved = of->blocks.insert(block, block_of(wanted), unit_of(wanted), entry);
    if (moved && block->size() == EntryArrays::one_each) make_sheet(*of, wanted);
    bytes_ += of->bytes();
    if (moved && arrays_.much_free()) pack_arrays();
    return;
  }
  Table& table = of->of(wanted);
  bool room = 100ull * (table.used + 1) <= 91ull * slots * table.count;
  while (!room || !insert(table, wanted, entry.segment, entry.who)) {
    resize(table, table.count + table.count / 6 + 1);
    room = true;
  }
  pages_.set(page_bit(address / page_bytes));
}

void SparseCells::move_block(Region& of, std::uint32_t wanted) {
  Table& table = of.of(wanted);
  bytes_ -= of.blocks.bytes();
  each_line(table, wanted, [&](Line& line) {
    for (unsigned slot = 0; slot < slots; ++slot) {
      if (!line.segment[slot] || (line.key[slot] ^ wanted) >= EntryBlocks::units) continue;
      of.blocks.insert(of.blocks.find(block_of(wanted)), block_of(wanted), unit_of(line.key[slot]),
                       {line.segment[slot], line.who[slot]});
      line.segment[slot] = 0;
      --table.used;
    }
  });
  bytes_ += of.blocks.bytes();
  if (table.count > 8 && 100ull * table.used < 70ull * slots * table.count)
    resize(table, table.used * 100 / 82 / slots + 1);
}

void SparseCells::pack_arrays() {
  arrays_.pack([&](auto&& name) {
    for (auto& [number, region] : regions_) {
      region->blocks.each_array(name);
      region->sheets.each_array(name);
    }
  });
}

void SparseCells::make_sheet(Region& of, std::uint32_t key) {
  constexpr unsigned blocks = EntrySheets::units / EntryBlocks::units;
  const std::uint32_t number = sheet_of(key), first_block = number * blocks;
  unsigned entries = 0;
  std::uint32_t in_lines = 0; // blocks
  for (unsigned i = 0; i < blocks; ++i) { // from the one on that has grown; a few tell whether it is much too early
    if (i == 5 && 8 * entries < least_of_sheet) return;
    const unsigned at = (block_of(key) + i) % blocks;
    const EntryBlocks::Slot* const block = of.blocks.find(first_block + at);
    if (!block) {
      in_lines |= 1u << at;
    } else if (block->both) {
      return;
    } else {
      entries += unsigned(std::popcount(block->present));
    }
  }
  if (entries < least_of_sheet) return;
  const std::uint32_t first_key = number << EntrySheets::units_log2;
  auto each_near = [&](auto&& each) { // each(line, slot) of the blocks' entries in lines
    for (std::uint32_t rest = in_lines; rest; rest &= rest - 1) {
      const std::uint32_t key = first_key + unsigned(std::countr_zero(rest)) * EntryBlocks::units;
      each_line(of.of(key), key, [&](Line& line) {
        for (unsigned slot = 0; slot < slots; ++slot) {
          if (line.segment[slot] && (line.key[slot] ^ key) < EntryBlocks::units) each(line, slot);
        }
      });
    }
  };
  std::bitset<EntrySheets::units> seen;
  bool twice = false;
  each_near([&](Line& line, unsigned slot) {
    const unsigned unit = sheet_unit_of(line.key[slot]);
    twice |= seen[unit];
    seen.set(unit);
  });
  if (twice) return;
  EntrySheets::Slot& sheet = of.sheets.add(number);
  each_near([&](Line& line, unsigned slot) {
    *of.sheets.entry(sheet, sheet_unit_of(line.key[slot])) = {line.segment[slot], line.who[slot]};
    line.segment[slot] = 0;
    --of.of(line.key[slot]).used;
    ++sheet.used;
  });
  for (unsigned i = 0; i < blocks; ++i) {
    EntryBlocks::Slot* const block = of.blocks.find(first_block + i);
    if (!block) continue;
    for (std::uint32_t rest = block->present; rest; rest &= rest - 1) {
      const unsigned unit = unsigned(std::countr_zero(rest));
      *of.sheets.entry(sheet, i * EntryBlocks::units + unit) = *of.blocks.entry(*block, unit);
    }
    of.blocks.erase(block);
  }
  sheet.used += entries;
}

void SparseCells::split_sheet(Region& of, EntrySheets::Slot* sheet) {
  bytes_ -= of.bytes();
  const std::uint32_t first_block = sheet->number() * (EntrySheets::units / EntryBlocks::units);
  for (unsigned i = 0; i < EntrySheets::units; i += EntryBlocks::units) {
    std::array<Entry, EntryBlocks::units> list;
    std::uint32_t present = 0;
    for (unsigned unit = 0; unit < EntryBlocks::units; ++unit) {
      list[unit] = *of.sheets.entry(*sheet, i + unit);
      present |= std::uint32_t(list[unit].segment != 0) << unit;
    }
    if (present) of.blocks.put(first_block + i / EntryBlocks::units, present, list.data());
  }
  of.sheets.erase(sheet);
  bytes_ += of.bytes();
  if (arrays_.much_free()) pack_arrays();
}

void SparseCells::remove(std::uint64_t address, const Found& found, unsigned entry) {
  --used_;
  Region& of = *region(address);
  if (found.sheet) {
    std::memset(found.at[entry].segment, 0, sizeof(SegmentId));
    if (--found.sheet->used) return;
    bytes_ -= of.bytes();
    of.sheets.erase(found.sheet);
    bytes_ += of.bytes();
    return;
  }
  if (found.block) return of.blocks.remove(found.block, unit_of(key(address)));
  std::memset(found.at[entry].segment, 0, sizeof(SegmentId));
  --of.of(key(address)).used;
}

void SparseCells::erase(std::uint64_t address, const Found& found) {
  for (unsigned i = found.count; i; --i) remove(address, found, i - 1);
}

void SparseCells::shrink() {
  for (auto at = regions_.begin(); at != regions_.end();) {
    Region& of = *at->second;
    std::vector<std::uint32_t> thin;
    of.sheets.each_slot([&](EntrySheets::Slot& sheet) {
      if (sheet.used < too_few_of_sheet) thin.push_back(sheet.number());
    });
    for (std::uint32_t number : thin) {
      EntrySheets::Slot* const sheet = of.sheets.find(number);
      sheet->used ? split_sheet(of, sheet) : of.sheets.erase(sheet);
    }
    bool any = !of.blocks.empty() || !of.sheets.empty();
    for (Table& table : at->second->table) {
      std::uint32_t used = 0;
      for (std::uint32_t i = 0; i < table.count; ++i) {
        for (std::uint32_t segment : table.lines[i].segment) used += segment != 0;
      }
      any |= used != 0;
      table.used = used;
      const std::uint32_t wanted = used ? used * 100 / 88 / slots + 1 : 0;
      if (wanted >= table.count) continue;
      if (used) {
        resize(table, wanted);
      } else {
        bytes_ -= std::uint64_t(table.count) * sizeof(Line);
        table = {};
      }
    }
    at = any ? std::next(at) : regions_.erase(at);
  }
  recent_number_ = ~0ull;
  bytes_ = 0;
  for (const auto& [number, of] : regions_) {
    bytes_ += of->bytes();
    for (const Table& table : of->table) bytes_ += std::uint64_t(table.count) * sizeof(Line);
  }
  pack_arrays(); // what is free counts, and whoever forgets needs it back
  if (!used_) pages_.reset();
}

} // namespace deadheat::detect
