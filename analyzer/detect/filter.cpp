#include "analyzer/detect/filter.h"

#include <algorithm>
#include <bit>
#include <bitset>
#include <cstring>

namespace deadheat::detect {

using order::ThreadKey;

Epochs::Actor& Filter::actor(ThreadKey lane0, order::Stamp now) {
  if (epochs_.crowded()) collect_segments();
  return epochs_.actor(lane0, now);
}

// Renumbers the segments that something still names, so that the others' memory is free.
void Filter::collect_segments() {
  epochs_.collect([&](auto&& name) {
    pages_.each_page([&](ShadowPage& page) {
      auto group = [&](Group& at) {
        name(at.write);
        name(at.reads);
        for (unsigned unit = 0; unit < group_units; ++unit) {
          if (at.cells) {
            Cell& cell = pages_.cells(at)[unit];
            SegmentId write = cell.write, reads = cell.reads;
            name(write);
            name(reads);
            cell.write = write;
            cell.reads = reads;
          }
          if (at.strong) {
            StrongCell& cell = pages_.strong(at)[unit];
            SegmentId epoch = cell.epoch;
            name(epoch);
            cell.epoch = epoch;
          }
        }
      };
      group(page.whole);
      for (unsigned i = 0; i < page.few.count; ++i) group(page.few.group[i]);
      for (std::size_t i = 0; page.groups && i < page.group_count(); ++i) group(page.groups[i]);
    });
    for (SparseCells* cells : {&words_, &bytes_, &strong_}) cells->each_name(name);
    pairs_.each_name(name);
  });
}

// ---- units and groups

inline bool Filter::read(Cell& cell, const StrongCell* strong, Actor& actor, unsigned lane, Level level, bool outside) {
  const std::uint8_t who = who_of(level, level == one_lane ? lane : 0);
  const bool again = cell.reads == actor.segment && !outside && !actor.asynchronous;
  if (again && cell.reads_who == who && level == one_lane) return true;
  if (!strong && !outside && level == one_lane && own_write(cell.write, cell.writer(), actor, lane)) return true;
  if (!epochs_.ordered_write(cell.write, cell.writer(), actor, lane) ||
      (outside && epochs_.same_operation(cell.write, actor))) {
    return false;
  }
  if (strong && comes_after_writes(*strong, actor) &&
      (!epochs_.ordered_write(strong->epoch, strong->who, actor, lane) ||
       (outside && epochs_.same_operation(strong->epoch, actor)))) {
    return false;
  }
  if (again && cell.reads_who >= 1 << 5) return true; // one more of those that the epoch stands for
  if (outside) cell.write_who |= Cell::non_coherent;
  SegmentId reads = cell.reads;
  read_epoch(reads, cell.reads_who, actor, lane, level);
  cell.reads = reads;
  return true;
}

inline void Filter::read_epoch(SegmentId& reads, std::uint8_t& reads_who, Actor& actor, unsigned lane, Level level) {
  if (epochs_.apart_from(reads, reads_who, actor)) {
    reads_who = who_of(std::max<unsigned>(reads_who >> 5, std::max<unsigned>(level, whole_operation)), 0);
    reads = epochs_.joint(reads, actor);
  } else if (epochs_.ordered(reads, reads_who, actor, lane)) {
    reads_who = who_of(level, level == one_lane ? lane : 0);
    reads = actor.segment;
  } else {
    unsigned wide = epochs_.widened(reads, std::max<unsigned>(reads_who >> 5, level), actor);
    if (wide == one_lane && (reads_who & 31) != lane) wide = whole_warp;
    reads_who = who_of(wide, wide == one_lane ? lane : 0);
    reads = wide < whole_operation ? actor.segment : epochs_.joint(reads, actor);
  }
}

inline bool Filter::write(Cell& cell, StrongCell* strong, Actor& actor, unsigned lane) {
  const bool strong_written = strong && (strong->flags & StrongCell::writes);
  if (!epochs_.ordered_write(cell.write, cell.writer(), actor, lane) ||
      !epochs_.ordered(cell.reads, cell.reads_who, actor, lane) ||
      (strong && !(strong_written ? epochs_.ordered_write(strong->epoch, strong->who, actor, lane)
                                  : epochs_.ordered(strong->epoch, strong->who, actor, lane)))) {
    return false;
  }
  if ((cell.write_who & Cell::non_coherent) && epochs_.same_operation(cell.reads, actor)) return false;
  if (strong) *strong = StrongCell{};
  cell.write = actor.segment;
  cell.write_who = std::uint8_t(lane);
  cell.reads = 0;
  cell.reads_who = 0;
  return true;
}

void Filter::mark(const Spot& spot, std::uint64_t memory) {
  pages_.expand(*spot.group)[spot.unit].write_who |= Cell::suspect;
  suspects_.add(memory, spot.address);
}

void Filter::touch(const Spot& spot, std::uint64_t memory, Actor& actor, unsigned lane, Level level, bool write_access,
                   bool non_coherent) {
  if (spot.group->suspect) return;
  Cell& cell = pages_.expand(*spot.group)[spot.unit];
  if (cell.write_who & Cell::suspect) return;
  StrongCell* strong = spot.group->strong ? &pages_.strong(*spot.group)[spot.unit] : nullptr;
  const bool good =
      write_access ? write(cell, strong, actor, lane) : read(cell, strong, actor, lane, level, non_coherent);
  if (!good) mark(spot, memory);
}

bool Filter::read_group(Group& group, Actor& actor, std::uint8_t pattern, bool outside) {
  if (group.suspect) return true;
  if (group.cells || group.strong) return false;
  const bool again = group.reads == actor.segment && !outside;
  if (again && group.reads_pattern == pattern) return true;
  if (!epochs_.ordered_write_group(group.write, group.write_pattern, actor, pattern)) return false;
  if (again && group.reads_pattern >= first_level_pattern) return true;
  if (outside && epochs_.same_operation(group.write, actor)) return false;
  group.non_coherent |= outside;
  if (epochs_.ordered_group(group.reads, group.reads_pattern, actor, pattern)) {
    group.reads_pattern = pattern;
    group.reads = actor.segment;
  } else {
    const std::uint8_t old = group.reads_pattern;
    unsigned wide = epochs_.widened(
        group.reads, old >= first_level_pattern ? unsigned(who_at(old, 0) >> 5) : unsigned(one_lane), actor);
    if (wide == one_lane && old != pattern) wide = whole_warp;
    group.reads_pattern = wide == one_lane ? pattern : level_pattern(wide);
    group.reads = wide < whole_operation ? actor.segment : epochs_.joint(group.reads, actor);
  }
  return true;
}

bool Filter::write_group(Group& group, Actor& actor, std::uint8_t pattern) {
  if (group.suspect) return true;
  if (group.cells || group.strong) return false;
  if (!epochs_.ordered_write_group(group.write, group.write_pattern, actor, pattern) ||
      !epochs_.ordered_group(group.reads, group.reads_pattern, actor, pattern) ||
      (group.non_coherent && epochs_.same_operation(group.reads, actor))) {
    return false;
  }
  group = Group{};
  group.write = actor.segment;
  group.write_pattern = pattern;
  return true;
}

ShadowPage* Filter::page(std::uint64_t memory, std::uint64_t address) {
  PageKey key{memory, address / page_bytes};
  if (key == last_key_) return last_page_;
  last_key_ = key;
  if (!active_.test(partition_of(memory, key.number))) return last_page_ = nullptr;
  bool fresh = false;
  last_page_ = &pages_.get(key, fresh);
  if (memory) {
    if (fresh) shared_pages_[order::OperationIndex((memory - 1) >> 32)][memory].push_back(key.number);
  } else if (last_page_->sparse || (fresh && (words_.may_have_page(key.number) || bytes_.may_have_page(key.number) ||
                                              strong_.may_have_page(key.number)))) {
    absorb(*last_page_);
  }
  return last_page_;
}

void Filter::erase(const PageKey& key) {
  if (key == last_key_) last_key_ = {~0ull, ~0ull};
  pages_.erase(key);
}

// ---- accesses

bool Filter::stretch_few(const Stretch& access, ShadowPage& page, std::uint64_t address, std::uint64_t end,
                         Actor& actor) {
  constexpr std::uint64_t span = group_units * 4;
  if (page.groups || access.unit != 2 || address % span || end % span || end - address > 2 * span) return false;
  const unsigned units_log2 = std::min(access.lane_log2 - 2, 5u); // of a lane's, in a group
  for (; address < end; address += span) {
    Group* const group = pages_.few(page, unsigned(address % page_bytes / span));
    if (!group) return false;
    const unsigned lane = access.first + unsigned((address - access.begin) >> access.lane_log2);
    const std::uint8_t pattern = std::uint8_t(units_log2 << 5 | lane);
    if (!(access.write ? write_group(*group, actor, pattern)
                       : read_group(*group, actor, pattern, access.non_coherent))) {
      return false;
    }
  }
  return true;
}

// Whole groups at once where they can be.
void Filter::stretch(const Stretch& access, Actor& actor) {
  auto lane_at = [&](std::uint64_t address) {
    return access.first + unsigned((address - access.begin) >> access.lane_log2);
  };
  for (std::uint64_t address = access.begin; address < access.end;) {
    const std::uint64_t page_end = std::min(access.end, (address / page_bytes + 1) * page_bytes);
    ShadowPage* const found = page(access.memory, address);
    if (!found) {
      address = page_end;
      continue;
    }
    ShadowPage& at = *found;
    if (stretch_few(access, at, address, page_end, actor)) {
      address = page_end;
      continue;
    }
    pages_.refine(at, access.unit);
    const unsigned units_log2 = std::min(access.lane_log2 - at.shift, 5u); // of a lane's, in a group
    const std::uint64_t span = std::uint64_t(group_units) << at.shift;
    while (address < page_end) {
      Group& group = at.groups[address % page_bytes / span];
      const std::uint64_t group_begin = address / span * span, group_end = std::min(page_end, group_begin + span);
      const bool whole = address == group_begin && group_end == group_begin + span;
      const std::uint8_t pattern = std::uint8_t(units_log2 << 5 | lane_at(address));
      if (whole && (access.write ? write_group(group, actor, pattern)
                                 : read_group(group, actor, pattern, access.non_coherent))) {
        address = group_end;
        continue;
      }
      for (; address < group_end; address += 1ull << at.shift) {
        touch({&group, unsigned((address - group_begin) >> at.shift), address}, access.memory, actor, lane_at(address),
              one_lane, access.write, access.non_coherent);
      }
      if (!whole || !access.write || !group.cells) continue;
      // All written by this access now, or all suspect: one entry again.
      const Cell* list = pages_.cells(group);
      const auto suspects =
          std::count_if(list, list + group_units, [](const Cell& cell) { return cell.write_who & Cell::suspect; });
      if (suspects && suspects != group_units) continue;
      pages_.clear(group);
      group.suspect = suspects != 0;
      if (group.suspect) continue;
      group.write = actor.segment;
      group.write_pattern = pattern;
    }
  }
}

// One look for all lanes, as those of the warp; a unit that one lane last wrote is no matter of the warp.
void Filter::broadcast(const Warp& access, Actor& actor, unsigned first) {
  each_unit(access.memory, access.address[first], access.bytes, [&](const Spot& spot) {
    if (spot.group->suspect) return;
    Cell& cell = pages_.expand(*spot.group)[spot.unit];
    if (cell.write_who & Cell::suspect) return;
    const StrongCell* strong = spot.group->strong ? &pages_.strong(*spot.group)[spot.unit] : nullptr;
    const bool strong_write = strong && comes_after_writes(*strong, actor);
    bool good = true;
    for (std::uint32_t rest = access.mask; rest && good; rest &= rest - 1) {
      const unsigned lane = unsigned(std::countr_zero(rest));
      good = epochs_.ordered_write(cell.write, cell.writer(), actor, lane) &&
             (!strong_write || epochs_.ordered(strong->epoch, strong->who, actor, lane));
      if (strong_write) continue;
      if (!cell.write || std::find(actor.ordered.begin(), actor.ordered.end(), cell.write) != actor.ordered.end()) {
        break; // for all lanes alike
      }
    }
    if (!good || !read(cell, strong, actor, first, whole_warp, access.non_coherent)) mark(spot, access.memory);
  });
}

// The group and unit of what is one unit of a page that is known.
inline Filter::Spot Filter::spot_of(const ShadowPage* at, std::uint64_t address, std::uint32_t bytes) {
  if (!at || at->sparse || !at->groups || bytes != 1u << at->shift || address % bytes) return {};
  const unsigned number = unsigned(address % page_bytes >> at->shift);
  return {&at->groups[number / group_units], number % group_units, address};
}

std::uint32_t Filter::bring(std::uint32_t mask, std::uint32_t bytes, const std::uint64_t* addresses, unsigned step) {
  SparseCells& cells = sparse_of(bytes);
  const bool any_pages = pages_.count() != 0, one_unit = bytes == 1u << cells.unit_log2();
  std::uint32_t left = 0;
  Brought* found = brought(addresses);
  if (step == 0) found = &brought_[next_brought_++ % brought_.size()];
  if (found && (step == 0 || found->moves != cells.moves())) {
    found->addresses = addresses;
    found->moves = cells.moves();
    found->mask = 0;
  }
  for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
    const unsigned lane = unsigned(std::countr_zero(rest));
    const std::uint64_t address = addresses[lane];
    EntryArrays::Name array{0, SparseCells::no_array};
    if (step == 0) {
      if (any_pages) pages_.prefetch({0, address / page_bytes});
      if (cells.prefetch(address, array) || any_pages) left |= rest & -rest;
    } else {
      if (any_pages) pages_.prefetch_page({0, address / page_bytes});
      cells.prefetch_entry(address, array);
    }
    if (!found || array.size == SparseCells::no_array || !one_unit || address % bytes || address >= address_limit) {
      continue;
    }
    found->array[lane] = array;
    found->mask |= rest & -rest;
  }
  return left;
}

inline bool Filter::usual_entry(Entry& entry, bool write, Actor& actor, unsigned lane) {
  if (write) {
    if (!SparseCells::is_write(entry) || !epochs_.ordered_write(entry.segment, entry.who & 31, actor, lane))
      return false;
    entry = SparseCells::write_entry(actor.segment, lane);
    return true;
  }
  if (SparseCells::is_write(entry) && own_write(entry.segment, entry.who & 31, actor, lane)) return true;
  if (!SparseCells::plain_reads(entry)) return false;
  if (entry.segment == actor.segment && (entry.who == lane || entry.who >= 1 << 5)) return true;
  SegmentId reads = entry.segment;
  read_epoch(reads, entry.who, actor, lane, one_lane);
  entry.segment = reads;
  return true;
}

// Every lane somewhere. What is left to be brought nearer is, for all lanes at once.
void Filter::scattered(const Warp& access, Actor& actor) {
  const bool sparsely = access.memory == 0 && access.bytes <= 16 && std::has_single_bit(access.bytes);
  const bool any_pages = pages_.count() != 0;
  epochs_.look_around(actor);
  ShadowPage* page[32];
  if (any_pages) {
    for (std::uint32_t rest = access.mask; rest; rest &= rest - 1) {
      const unsigned lane = unsigned(std::countr_zero(rest));
      page[lane] = pages_.find({access.memory, access.address[lane] / page_bytes});
      if (const Spot at = spot_of(page[lane], access.address[lane], access.bytes); at.group)
        __builtin_prefetch(at.group);
    }
    for (std::uint32_t rest = access.mask; rest; rest &= rest - 1) {
      const unsigned lane = unsigned(std::countr_zero(rest));
      if (const Spot at = spot_of(page[lane], access.address[lane], access.bytes); at.group) {
        pages_.prefetch_cell(*at.group, at.unit);
      }
    }
  }
  // Where nothing but entries of one size is known, and where they lie, no more is asked.
  SparseCells& cells = sparse_of(access.bytes);
  const bool alone =
      sparsely && !any_pages && !access.non_coherent && strong_.empty() && (access.bytes < 4 ? words_ : bytes_).empty();
  Brought* const places = alone ? brought(access.address) : nullptr;
  for (std::uint32_t rest = access.mask; rest; rest &= rest - 1) {
    const unsigned lane = unsigned(std::countr_zero(rest));
    const std::uint64_t address = access.address[lane];
    if (places && (places->mask & rest & -rest) && places->moves == cells.moves()) {
      Entry* const entry = cells.in_or_new(places->array[lane], address);
      if (entry && !entry->segment) {
        *entry =
            access.write ? SparseCells::write_entry(actor.segment, lane) : Entry{actor.segment, std::uint8_t(lane)};
        continue;
      }
      if (entry && usual_entry(*entry, access.write, actor, lane)) continue;
    }
    ShadowPage* at = any_pages ? page[lane] : nullptr;
    if (sparsely && address < address_limit && address % access.bytes == 0) {
      if (!at) at = pages_.find({0, address / page_bytes}); // another lane may have made it
      if (sparse(access, actor, lane, at)) continue;
    }
    auto one = [&](const Spot& spot) {
      touch(spot, access.memory, actor, lane, one_lane, access.write, access.non_coherent);
    };
    if (const Spot spot = spot_of(at, address, access.bytes); spot.group) {
      one(spot);
    } else {
      each_unit(access.memory, address, access.bytes, one);
    }
  }
}

// ---- memory that is touched here and there

bool Filter::sparse(const Warp& access, Actor& actor, unsigned lane, ShadowPage* at) {
  const std::uint64_t address = access.address[lane];
  SparseCells& cells = sparse_of(access.bytes);
  const std::uint64_t step = 1ull << cells.unit_log2();
  Cell known; // what the page says of each unit; it must say the same of all
  if (at) {
    // Only reads of what was written as a group, or never, and not read since, have their place in SparseCells then.
    const std::uint32_t number = std::uint32_t(address % page_bytes >> at->shift);
    const Group& group = FilterPages::group_of(*at, number / group_units);
    if (at->dense || access.write || group.cells || group.strong || group.suspect || group.reads) return false;
    if (access.bytes > 1u << at->shift && &group != &at->whole && group.write) return false; // several lanes' writes
    known.write = group.write;
    if (group.write) known.write_who = who_at(group.write_pattern, number % group_units) & 31;
  } else if (!active_.test(partition_of(0, address / page_bytes))) {
    return true;
  }
  // The other size's units may say something of the same bytes: the page sorts that out.
  SparseCells& others = access.bytes < 4 ? words_ : bytes_;
  if (others.may_have_page(address / page_bytes)) return false;
  const bool any_strong = strong_.may_have_page(address / page_bytes);
  if (any_strong && access.bytes < 4 && strong_.find(address & ~3ull)) return false; // the page sorts that out, too
  for (std::uint64_t unit = address; unit < address + access.bytes; unit += step) {
    const SparseCells::Found strongly = any_strong && access.bytes >= 4 ? strong_.find(unit) : SparseCells::Found();
    const std::optional<StrongCell> strong_known = strongly ? strong_cell(strongly.entry()) : StrongCell();
    if (!strong_known) continue; // suspect
    StrongCell strong_before = *strong_known;
    if (strong_before.flags & StrongCell::read_since) {
      if (!access.write && !access.non_coherent && own(strong_before, actor, lane)) continue;
      separate(unit, strongly);
      strong_before.flags &= std::uint8_t(~StrongCell::read_since);
    } else if (!access.write && !access.non_coherent && strongly && !at && own(strong_before, actor, lane) &&
               fold_read(unit, strongly)) {
      continue;
    }
    StrongCell* const strong = strongly ? &strong_before : nullptr;
    if (!strong && !access.non_coherent && usual(cells, unit, access.write, actor, lane, at, known)) continue;
    const SparseCells::Found found = cells.find(unit);
    Cell cell = found.cell;
    if (cell.write_who & Cell::suspect) continue;
    if (at) {
      cell.write = known.write;
      cell.write_who |= known.write_who;
    }
    const Cell before = cell;
    const bool good = access.write ? write(cell, strong, actor, lane)
                                   : read(cell, strong, actor, lane, one_lane, access.non_coherent);
    if (good && access.write && strong) strong_.erase(unit, strongly);
    if (!good) {
      if (at) return false; // found again there
      cell.write_who |= Cell::suspect;
      suspects_.add(0, unit);
    }
    if (good && !access.write && strong && !at && !found && as_weak(cell, *strong, actor)) {
      strong_.erase(unit, strongly);
    }
    if (std::memcmp(&cell, &before, sizeof cell) == 0) continue;
    cells.put(unit, found, cell, !at);
    if (at) mark_sparse(*at);
  }
  return true;
}

inline bool Filter::usual(SparseCells& cells, std::uint64_t unit, bool write, Actor& actor, unsigned lane,
                          ShadowPage* at, const Cell& known) {
  if (at && (write || !epochs_.ordered_write(known.write, known.writer(), actor, lane))) return false;
  Entry* const entry = cells.in_array_or_new(unit);
  if (!entry) return false;
  if (!entry->segment) {
    *entry = write ? SparseCells::write_entry(actor.segment, lane) : Entry{actor.segment, std::uint8_t(lane)};
    if (at) mark_sparse(*at);
    return true;
  }
  return usual_entry(*entry, write, actor, lane);
}

void Filter::mark_sparse(ShadowPage& page) {
  if (page.sparse) return;
  page.sparse = true;
  last_key_ = {~0ull, ~0ull};
}

void Filter::absorb(ShadowPage& page) {
  page.sparse = false;
  const std::uint64_t base = page.key.number * page_bytes;
  separate_page(base);
  for (SparseCells* from : {&words_, &bytes_}) {
    if (!from->may_have_page(page.key.number)) continue;
    const std::uint64_t step = 1ull << from->unit_log2();
    std::bitset<EntryArrays::units> touched;
    for (std::uint64_t offset = 0; offset < page_bytes; offset += step) {
      const std::uint64_t unit = offset / step % EntryArrays::units;
      if (unit == 0) touched = from->touched(base + offset);
      if (!touched[unit]) continue;
      const SparseCells::Found found = from->find(base + offset);
      page.dense = true;
      pages_.refine(page, from->unit_log2());
      for (std::uint64_t at = offset; at < offset + step; at += 1ull << page.shift) {
        const unsigned number = unsigned(at >> page.shift);
        Cell& to = pages_.expand(page.groups[number / group_units])[number % group_units];
        if (found.cell.write) {
          to.write = found.cell.write;
          to.write_who = std::uint8_t((to.write_who & ~Cell::writer_bits) | (found.cell.write_who & Cell::writer_bits));
        }
        to.write_who |= found.cell.write_who & (Cell::suspect | Cell::non_coherent);
        to.reads = found.cell.reads;
        to.reads_who = found.cell.reads_who;
      }
      from->erase(base + offset, found);
    }
  }
  absorb_strong(page);
}

// Of a part of a group, in a page of which little is known: cells would cost more than entries of its words.
inline bool Filter::short_row(const Warp& access, std::uint64_t begin, std::uint64_t end) const {
  constexpr std::uint64_t span = group_units * 4;
  return !access.memory && access.bytes >= 4 && end - begin < span && begin / page_bytes == (end - 1) / page_bytes &&
         words_.few(begin) && !pages_.find({0, begin / page_bytes});
}

void Filter::weak(const Warp& access) {
  Actor& actor = this->actor(access.lane0, access.now);
  const unsigned first = unsigned(std::countr_zero(access.mask)), lanes = unsigned(std::popcount(access.mask));
  if (access.affine) {
    const std::uint64_t base = access.address[first];
    if (access.stride == 0 && lanes > 1 && !access.write) return broadcast(access, actor, first);
    if (access.stride == std::int64_t(access.bytes) && access.bytes <= 16 && std::has_single_bit(access.bytes) &&
        base % access.bytes == 0 && base < address_limit && (access.mask >> first) + 1ull == 1ull << lanes) {
      const unsigned lane_log2 = unsigned(std::countr_zero(access.bytes));
      if (short_row(access, base, base + (std::uint64_t(lanes) << lane_log2))) return scattered(access, actor);
      return stretch({access.memory, base, base + (std::uint64_t(lanes) << lane_log2), first, lane_log2,
                      std::min(lane_log2, 2u), access.write, access.non_coherent},
                     actor);
    }
  }
  if (!access.affine || lanes == 1 || !access.memory) return scattered(access, actor); // columns lie far apart
  for (std::uint32_t rest = access.mask; rest; rest &= rest - 1) {
    const unsigned lane = unsigned(std::countr_zero(rest));
    each_unit(access.memory, access.address[lane], access.bytes, [&](const Spot& spot) {
      touch(spot, access.memory, actor, lane, one_lane, access.write, access.non_coherent);
    });
  }
}

void Filter::copy(const Copy& access) {
  if (epochs_.crowded()) collect_segments();
  Epochs::Actor actor = epochs_.copy(access.thread, access.group, access.async_proxy, access.memory != 0, access.now);
  const std::uint64_t bits = access.address | access.bytes;
  const std::uint32_t unit = bits & 1 ? 0 : bits & 2 ? 1 : 2;
  if (access.address >= address_limit) return;
  stretch({access.memory, access.address, access.address + access.bytes, access.thread.thread() & 31, all_one_lane,
           unit, access.write, false},
          actor);
}

void Filter::range(order::OperationIndex operation, std::uint64_t address, std::uint64_t bytes, bool write_access,
                   order::Stamp now) {
  Actor& actor = this->actor(ThreadKey(operation, 0, 0), now);
  const std::uint8_t pattern = one_lane_pattern(0);
  for (const std::uint64_t end = address + bytes; address < end;) {
    const std::uint64_t page_end = std::min(end, (address / page_bytes + 1) * page_bytes);
    if (page_end - address < page_bytes) {
      each_unit(0, address, page_end - address,
                [&](const Spot& spot) { touch(spot, 0, actor, 0, one_lane, write_access, false); });
      address = page_end;
      continue;
    }
    ShadowPage* const found = page(0, address);
    if (!found) {
      address = page_end;
      continue;
    }
    ShadowPage& at = *found;
    auto touch_group = [&](Group& group) {
      return write_access ? write_group(group, actor, pattern) : read_group(group, actor, pattern, false);
    };
    if (at.few.count) pages_.refine(at, 2);
    if (!at.groups) {
      if (!touch_group(at.whole)) {
        at.whole.suspect = true;
        suspects_.add_page(0, address / page_bytes);
      }
    } else {
      bool good = true;
      const std::uint64_t span = std::uint64_t(group_units) << at.shift;
      for (std::size_t g = 0; g < at.group_count(); ++g) {
        Group& group = at.groups[g];
        if (touch_group(group)) {
          good &= !group.suspect;
          continue;
        }
        for (unsigned unit = 0; unit < group_units; ++unit) {
          touch({&group, unit, address + g * span + (std::uint64_t(unit) << at.shift)}, 0, actor, 0, one_lane,
                write_access, false);
          good &= !group.cells || !(pages_.cells(group)[unit].write_who & Cell::suspect);
        }
      }
      if (write_access && good) { // all units are equal now
        Group whole;
        whole.write = actor.segment;
        whole.write_pattern = pattern;
        pages_.collapse(at, whole);
      }
    }
    address = page_end;
  }
}

} // namespace deadheat::detect
