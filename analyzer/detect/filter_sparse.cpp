#include "analyzer/detect/filter_sparse.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "analyzer/detect/strong_codes.h"

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
  if (names_mixed(entry)) entry = weak_of(entry);
  const unsigned level = entry.who >> 5;
  if (entry.segment & callers) return;
  if (names_pair(entry)) return pairs_->get(entry, cell);
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

std::bitset<EntryArrays::units> SparseCells::touched(std::uint64_t address) const {
  std::bitset<EntryArrays::units> units;
  const std::uint32_t wanted = key(address);
  const LineTable* const of = table(address, wanted);
  if (!of) return units;
  of->each_line(wanted, [&](Line& line) {
    if (const unsigned array = line.near(wanted | LineTable::array_bit)) {
      const EntryArrays::Name name = Slot{&line, unsigned(std::countr_zero(array))}.name();
      arrays_.each(name, [&](unsigned unit, const Entry&) { units.set(unit); });
      return true;
    }
    for (unsigned near = line.near(wanted); near; near &= near - 1) {
      const unsigned place = unsigned(std::countr_zero(near));
      if (line.segment[place]) units.set(unit_of(line.key[place]));
    }
    return false;
  });
  return units;
}

void SparseCells::prefetch_rest(const LineTable& of, std::uint32_t wanted) {
  of.each_line(wanted, [&, home = true](const Line& line) mutable {
    if (!std::exchange(home, false)) __builtin_prefetch(&line, 1);
    return false;
  });
}

// ---- entries

void SparseCells::put(std::uint64_t address, const Found& found, const Cell& cell, bool with_write) {
  const Entry wanted = entry_of(cell, with_write);
  if (wanted.segment) {
    place(address, found, wanted);
  } else {
    erase(address, found);
  }
}

void SparseCells::put(std::uint64_t address, const Found& found, Entry strong) {
  strong.segment |= callers;
  place(address, found, strong);
}

void SparseCells::put(std::uint64_t address, const Found& found, const Cell& cell, bool with_write, Entry strong) {
  const Entry weak = entry_of(cell, with_write);
  if (!weak.segment) return put(address, found, strong);
  if (cell.write_who & Cell::suspect) return place(address, found, weak);
  Cell kept = cell;
  if (!with_write) kept.write = 0;
  place(address, found, mixed_of(weak, kept, strong));
}

void SparseCells::put_beside(std::uint64_t address, const Found& found, Entry strong) {
  const Entry weak = found.is_mixed() ? weak_of(found.entry()) : found.entry();
  const Cell cell = this->cell(found);
  if (names_pair(weak) && !pairs_->share(weak.segment)) return put(address, found, cell, true, strong);
  place(address, found, mixed_of(weak, cell, strong));
}

// ---- weak and strong accesses in one entry

Entry SparseCells::weak_of(Entry mixed) const {
  const Entry weak = mixed_->get(mixed.segment & ~both_bits).weak;
  return of_lane(weak) ? with_lane(weak, (lane_of(weak) + mixed.who) & 31) : weak;
}

Entry SparseCells::strong(const Found& found) const {
  if (found.is_callers()) return found.entry();
  if (!found.is_mixed()) return {};
  const Entry mixed = found.entry();
  Entry strong = mixed_->get(mixed.segment & ~both_bits).strong;
  if (strong_codes::of_lane(strong.who)) strong.who = strong_codes::with_lane(strong.who, mixed.who);
  return strong;
}

Entry SparseCells::mixed_of(Entry weak, const Cell& cell, Entry strong) {
  const bool strong_lane = strong_codes::of_lane(strong.who);
  strong.segment |= callers;
  unsigned lane = strong_lane ? strong_codes::lane_of(strong.who) : 0;
  if (strong_lane) strong.who = strong_codes::with_lane(strong.who, 0);
  auto wanted = [&] {
    if (!of_lane(weak)) return MixedPairs::Mixed{weak, strong};
    if (!strong_lane) lane = lane_of(weak);
    return MixedPairs::Mixed{with_lane(weak, (lane_of(weak) - lane) & 31), strong};
  };
  if (mixed_->crowded() && !mixed_->known(wanted())) {
    const Entry wide = pairs_->put_wide(cell, strong.segment & ~both_bits);
    if (names_pair(weak)) pairs_->drop(weak.segment);
    weak = wide;
    if (!strong_lane) lane = 0;
  }
  bool fresh = false;
  const SegmentId name = mixed_->put(wanted(), fresh);
  if (!fresh && names_pair(weak)) pairs_->drop(weak.segment); // the mixed pair counts as one
  return {name | callers_bit, std::uint8_t(lane)};
}

void SparseCells::release(Entry entry) {
  if (names_mixed(entry)) {
    const std::optional<Entry> weak = mixed_->drop(entry.segment & ~both_bits);
    if (!weak) return;
    entry = *weak;
  }
  if (names_pair(entry)) pairs_->drop(entry.segment);
}

// The pair that is wanted counts its unit before the old one loses it: they may be the same.
void SparseCells::place(std::uint64_t address, const Found& found, Entry entry) {
  if (!found) return add(address, found, entry);
  const Entry before = found.entry();
  found.set(entry);
  release(before);
}

void SparseCells::add(std::uint64_t address, const Found& found, Entry entry) {
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
  if (!region(address)) regions_[address >> unit_log2_ >> region_log2] = std::make_unique<Region>();
  LineTable& of = *table(address, wanted);
  const unsigned number = LineTable::number_of(wanted);
  if (found.near >= most_near) {
    const EntryArrays::Name array = collect_block(of, wanted);
    arrays_.insert(array, unit_of(wanted), entry); // the first one has room
    of.insert(arrays_, number, LineTable::array_key(wanted), array.id + 1, array.size);
    of.shrink(arrays_);
    return;
  }
  pages_.set(page_bit(address / page_bytes));
  tracts_.set(tract_bit(address / page_bytes / tract_pages));
  if (of.insert(arrays_, number, wanted, entry.segment, entry.who) && arrays_.much_free()) pack(true);
}

EntryArrays::Name SparseCells::collect_block(LineTable& of, std::uint32_t wanted) {
  static_assert(most_near < ArrayLine::entries);
  const EntryArrays::Name array = arrays_.make(0);
  of.each_line(wanted, [&](Line& line) {
    for (unsigned near = line.near(wanted); near; near &= near - 1) {
      const unsigned place = unsigned(std::countr_zero(near));
      if (!line.segment[place]) continue;
      arrays_.insert(array, unit_of(line.key[place]), {line.segment[place], line.who[place]});
      of.clear(line, place);
    }
    return false;
  });
  return array;
}

void SparseCells::erase(std::uint64_t address, const Found& found) {
  if (!found) return;
  --used_;
  release(found.entry());
  if (!found.slot) {
    std::memset(found.at, 0, sizeof(SegmentId));
    LineTable& of = *table(address, key(address));
    of.cleared(1);
    if (of.shrink(arrays_) && arrays_.much_free()) pack(true);
    return;
  }
  const EntryArrays::Name array = found.slot.name();
  if (!arrays_.erase(array, reinterpret_cast<Entry*>(found.at))) return;
  arrays_.free(array.size, array.id);
  table(address, key(address))->clear(*found.slot.line, found.slot.place);
}

void SparseCells::pack(bool soon) {
  arrays_.pack(soon, [&](auto&& name) {
    for (auto& [number, region] : regions_) {
      for (LineTable& of : *region) of.each_run(arrays_, name);
    }
    each_slot([&](std::uint64_t, Line& line, unsigned place) {
      if (!LineTable::is_array(line.key[place])) return;
      EntryArrays::Name array = Slot{&line, place}.name();
      name(array.size, array.id);
      Slot{&line, place}.rename(array);
    });
  });
}

// Arrays that have become too large for what is in them are made anew.
void SparseCells::shrink(LineTable& of, std::uint64_t first) {
  struct Thin {
    std::uint32_t key;
    std::vector<std::pair<unsigned, Entry>> entries;
  };
  std::vector<Thin> thin;
  std::uint32_t kept = 0;
  each_slot(of, [&](Line& line, unsigned place) {
    ++kept;
    if (!LineTable::is_array(line.key[place])) return;
    const EntryArrays::Name array = Slot{&line, place}.name();
    Thin one{line.key[place], {}};
    arrays_.each(array, [&](unsigned unit, Entry& entry) { one.entries.emplace_back(unit, entry); });
    if (one.entries.size() * 12 > EntryArrays::lines[array.size] * sizeof(Line)) return;
    arrays_.free(array.size, array.id);
    --kept;
    line.key[place] = line.segment[place] = 0;
    if (!one.entries.empty()) thin.push_back(std::move(one));
  });
  of.cleared(of.used() - kept);
  for (const Thin& one : thin) {
    for (const auto& [unit, entry] : one.entries) {
      const std::uint64_t address = (first | first_unit(one.key) | unit) << unit_log2_;
      add(address, find(address), entry);
      --used_; // it was there
    }
  }
  of.fit(arrays_);
}

void SparseCells::shrink() {
  for (auto at = regions_.begin(); at != regions_.end();) {
    for (LineTable& of : *at->second) shrink(of, at->first << region_log2);
    const bool any =
        std::any_of(at->second->begin(), at->second->end(), [](const LineTable& of) { return of.lines() != 0; });
    at = any ? std::next(at) : regions_.erase(at);
  }
  recent_.fill({});
  pack(false); // what is free counts, and whoever forgets needs it back
  if (!used_) {
    pages_.reset();
    tracts_.reset();
  }
  if (mixed_) mixed_->trim();
  if (pairs_) pairs_->trim();
}

} // namespace deadheat::detect
