#include "analyzer/detect/filter_sparse.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

namespace deadheat::detect {

Entry SparseCells::entry_of(const Cell& cell, bool with_write) const {
  if (cell.write_who & Cell::suspect) return {std::max({1u, cell.reads, cell.write}), who_of(many, wide_suspect)};
  if (cell.write && with_write) {
    if (cell.reads || cell.write_who & Cell::wide) return pairs_->put(cell);
    return write_entry(cell.write, cell.write_who & 31);
  }
  const bool outside = cell.write_who & Cell::non_coherent;
  if (cell.reads_who >> 5 == one_lane) {
    return {cell.reads, outside ? who_of(non_coherent_level, cell.reads_who & 31) : cell.reads_who};
  }
  return {cell.reads, std::uint8_t(cell.reads_who | (outside ? wide_non_coherent : 0))};
}

void SparseCells::say(Entry entry, Cell& cell) const {
  const unsigned level = entry.who >> 5;
  if (names_pair(entry.who)) return pairs_->get(entry, cell);
  if (level == write_level) {
    cell.write = entry.segment;
    cell.write_who = entry.who & 31;
    return;
  }
  cell.reads = entry.segment;
  if (level == one_lane) {
    cell.reads_who = entry.who;
  } else if (level == non_coherent_level) {
    cell.reads_who = entry.who & 31;
    cell.write_who = Cell::non_coherent;
  } else {
    cell.reads_who = entry.who & 0xE0;
    if (entry.who & wide_suspect) cell.write_who = Cell::suspect;
    if (entry.who & wide_non_coherent) cell.write_who |= Cell::non_coherent;
  }
}

SparseCells::Region* SparseCells::far_region(std::uint64_t number) const {
  const auto found = regions_.find(number);
  if (found == regions_.end()) return nullptr;
  recent_[number % recent_.size()] = {number, found->second.get()};
  return found->second.get();
}

SparseCells::Found SparseCells::find(std::uint64_t address) const {
  Found found;
  const Region* const of = region(address);
  if (!of) return found;
  const std::uint32_t wanted = key(address);
  each_line(*of, wanted, [&](Line& line) {
    if (const unsigned array = line.near(wanted | array_bit)) {
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
    }
    return false;
  });
  if (found.slot) {
    if (Entry* const entry = arrays_.find(found.slot.name(), unit_of(wanted))) {
      found.at = reinterpret_cast<unsigned char*>(entry);
      found.who = &entry->who;
    }
  }
  if (found && pairs_) say(found.entry(), found.cell);
  return found;
}

std::bitset<EntryArrays::units> SparseCells::touched(std::uint64_t address) const {
  std::bitset<EntryArrays::units> units;
  const Region* const of = region(address);
  if (!of) return units;
  each_line(*of, key(address), [&](Line& line) {
    if (const unsigned array = line.near(key(address) | array_bit)) {
      const EntryArrays::Name name = Slot{&line, unsigned(std::countr_zero(array))}.name();
      arrays_.each(name, [&](unsigned unit, const Entry&) { units.set(unit); });
      return true;
    }
    for (unsigned near = line.near(key(address)); near; near &= near - 1) {
      const unsigned place = unsigned(std::countr_zero(near));
      if (line.segment[place]) units.set(unit_of(line.key[place]));
    }
    return false;
  });
  return units;
}

void SparseCells::prefetch_rest(const Region& of, std::uint32_t wanted) const {
  each_line(of, wanted, [&, home = true](const Line& line) mutable {
    if (!std::exchange(home, false)) __builtin_prefetch(&line, 1);
    return false;
  });
}

// ---- tables of lines

SparseCells::Line& SparseCells::line_or_new(Region& of, std::uint32_t number) {
  std::uint32_t& piece = of.pieces[number / EntryArrays::piece_lines];
  if (piece == no_piece) {
    piece = arrays_.allocate(EntryArrays::piece);
    std::memset(arrays_.at<unsigned char>(piece), 0, sizeof(Line) * EntryArrays::piece_lines);
  }
  return line(of, number);
}

bool SparseCells::try_insert(Region& of, std::uint32_t wanted, std::uint32_t segment, std::uint8_t who,
                             std::uint8_t* filled) {
  if (!of.count) return false;
  const std::uint32_t home = this->home(wanted, of.count), step = this->step(wanted, of.count);
  std::uint32_t number = home;
  for (unsigned depth = 0; depth <= most_depth; ++depth) {
    const unsigned place =
        filled ? filled[number] : unsigned(std::countr_zero(line_or_new(of, number).empty() | 1u << slots));
    if (place < slots) {
      Line& at = line_or_new(of, number);
      if (filled) ++filled[number];
      at.key[place] = wanted;
      at.segment[place] = segment;
      at.who[place] = who;
      ++of.used;
      if (depth) {
        std::uint8_t& deepest = line(of, home).depth;
        deepest = std::max(deepest, std::uint8_t(depth));
      }
      return true;
    }
    number += step;
    if (number >= of.count) number -= of.count;
  }
  return false;
}

void SparseCells::insert(Region& of, std::uint32_t wanted, std::uint32_t segment, std::uint8_t who) {
  while (!try_insert(of, wanted, segment, who)) resize(of, of.count + of.count / 7 + 1);
}

void SparseCells::make_room(Region& of) {
  if (100ull * (of.used + 1) > 91ull * slots * of.count) resize(of, of.count + of.count / 7 + 1);
}

// The pieces of the old table are free for the new one as soon as they were copied.
void SparseCells::resize(Region& of, std::uint32_t count) {
  struct Left {
    std::uint32_t key, segment;
    std::uint8_t who;
  };
  std::vector<Left> left; // for which there was no room
  const Region old = std::exchange(of, {});
  of.count = count;
  of.pieces.assign((count + EntryArrays::piece_lines - 1) / EntryArrays::piece_lines, no_piece);
  std::vector<std::uint8_t> filled(count); // so that lines that were just written to are not read
  for (std::uint32_t i = 0; i < old.count; ++i) {
    const Line& from = line(old, i);
    for (unsigned place = 0; place < slots; ++place) {
      if (!from.segment[place] ||
          try_insert(of, from.key[place], from.segment[place], from.who[place], filled.data())) {
        continue;
      }
      left.push_back({from.key[place], from.segment[place], from.who[place]});
    }
    if (i + 1 == old.count || (i + 1) % EntryArrays::piece_lines == 0) {
      arrays_.free(EntryArrays::piece, old.pieces[i / EntryArrays::piece_lines]);
    }
  }
  for (std::uint32_t i = 0; i < count; i += EntryArrays::piece_lines) line_or_new(of, i);
  pieces_ += of.pieces.size();
  pieces_ -= old.pieces.size();
  for (const Left& one : left) insert(of, one.key, one.segment, one.who);
}

void SparseCells::release(Region& of) {
  for (const std::uint32_t piece : of.pieces) arrays_.free(EntryArrays::piece, piece);
  pieces_ -= of.pieces.size();
  of = {};
}

// ---- entries

void SparseCells::put(std::uint64_t address, const Found& found, const Cell& cell, bool with_write) {
  const Entry wanted = entry_of(cell, with_write), old = found ? found.entry() : Entry();
  if (wanted.segment) {
    put(address, found, wanted);
  } else if (found) {
    return erase(address, found);
  }
  if (found && names_pair(old.who)) pairs_->drop(old.segment);
}

void SparseCells::put(std::uint64_t address, const Found& found, Entry entry) {
  if (!found) return add(address, found, entry);
  std::memcpy(found.at, static_cast<const void*>(&entry), sizeof(SegmentId));
  *found.who = entry.who;
}

void SparseCells::add(std::uint64_t address, const Found& found, Entry entry) {
  Region* of = region(address);
  if (!of) {
    const std::uint64_t number = address >> unit_log2_ >> region_log2;
    of = (regions_[number] = std::make_unique<Region>()).get();
  }
  const std::uint32_t wanted = key(address);
  ++used_;
  if (found.slot) {
    if (arrays_.insert(found.slot.name(), unit_of(wanted), entry)) return;
    EntryArrays::Name array = found.slot.name();
    do {
      array = arrays_.grow(array);
    } while (!arrays_.insert(array, unit_of(wanted), entry));
    found.slot.rename(array);
    if (arrays_.much_free()) pack(true);
    return;
  }
  if (found.near >= most_near) {
    const EntryArrays::Name array = collect_block(*of, wanted);
    arrays_.insert(array, unit_of(wanted), entry); // the first one has room
    insert(*of, array_key(wanted), array.id + 1, array.size);
    if (of->count > 8 && 100ull * of->used < 76ull * slots * of->count) resize(*of, of->used * 100 / 88 / slots + 1);
    return;
  }
  make_room(*of);
  insert(*of, wanted, entry.segment, entry.who);
  pages_.set(page_bit(address / page_bytes));
}

EntryArrays::Name SparseCells::collect_block(Region& of, std::uint32_t wanted) {
  static_assert(most_near < ArrayLine::entries);
  const EntryArrays::Name array = arrays_.make(0);
  each_line(of, wanted, [&](Line& line) {
    for (unsigned near = line.near(wanted); near; near &= near - 1) {
      const unsigned place = unsigned(std::countr_zero(near));
      if (!line.segment[place]) continue;
      arrays_.insert(array, unit_of(line.key[place]), {line.segment[place], line.who[place]});
      clear(of, line, place);
    }
    return false;
  });
  return array;
}

void SparseCells::erase(std::uint64_t address, const Found& found) {
  if (!found) return;
  --used_;
  if (names_pair(*found.who)) pairs_->drop(found.entry().segment);
  if (!found.slot) {
    std::memset(found.at, 0, sizeof(SegmentId));
    --region(address)->used;
    return;
  }
  const EntryArrays::Name array = found.slot.name();
  if (!arrays_.erase(array, reinterpret_cast<Entry*>(found.at))) return;
  arrays_.free(array.size, array.id);
  clear(*region(address), *found.slot.line, found.slot.place);
}

void SparseCells::pack(bool soon) {
  arrays_.pack(soon, [&](auto&& name) {
    for (auto& [number, of] : regions_) {
      for (std::uint32_t& piece : of->pieces) name(EntryArrays::piece, piece);
    }
    each_slot([&](std::uint64_t, Line& line, unsigned place) {
      if (!is_array(line.key[place])) return;
      EntryArrays::Name array = Slot{&line, place}.name();
      name(array.size, array.id);
      Slot{&line, place}.rename(array);
    });
  });
}

// Arrays that have become too large for what is in them are made anew, tables too.
void SparseCells::shrink() {
  struct Thin {
    std::uint32_t key;
    std::vector<std::pair<unsigned, Entry>> entries;
  };
  for (auto at = regions_.begin(); at != regions_.end();) {
    Region& of = *at->second;
    std::vector<Thin> thin;
    of.used = 0;
    for (std::uint32_t i = 0; i < of.count; ++i) {
      Line& line = this->line(of, i);
      for (unsigned place = 0; place < slots; ++place) {
        if (!line.segment[place]) continue;
        ++of.used;
        if (!is_array(line.key[place])) continue;
        const EntryArrays::Name array = Slot{&line, place}.name();
        Thin one{line.key[place], {}};
        arrays_.each(array, [&](unsigned unit, Entry& entry) { one.entries.emplace_back(unit, entry); });
        if (one.entries.size() * 12 > EntryArrays::lines[array.size] * sizeof(Line)) continue;
        arrays_.free(array.size, array.id);
        clear(of, line, place);
        if (!one.entries.empty()) thin.push_back(std::move(one));
      }
    }
    const std::uint64_t first = at->first << region_log2;
    for (const Thin& one : thin) {
      for (const auto& [unit, entry] : one.entries) {
        const std::uint64_t address = (first | first_unit(one.key) | unit) << unit_log2_;
        add(address, find(address), entry);
        --used_; // it was there
      }
    }
    const std::uint32_t wanted = of.used ? of.used * 100 / 88 / slots + 1 : 0;
    if (!wanted) {
      release(of);
    } else if (wanted < of.count) {
      resize(of, wanted);
    }
    at = of.count ? std::next(at) : regions_.erase(at);
  }
  recent_.fill({});
  pack(false); // what is free counts, and whoever forgets needs it back
  if (!used_) pages_.reset();
  if (pairs_) pairs_->trim();
}

} // namespace deadheat::detect
