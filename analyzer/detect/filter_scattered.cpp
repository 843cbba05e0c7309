// The first pass's weak accesses of lanes that lie anywhere, and what it knows of memory here and there.
#include <algorithm>
#include <bit>
#include <bitset>
#include <cstring>
#include <optional>

#include "analyzer/detect/filter.h"
#include "analyzer/detect/filter_units.h"
#include "deadheat/lanes.h"

namespace deadheat::detect {

// The group and unit of what is one unit of a page that is known.
inline Filter::Spot Filter::spot_of(const ShadowPage* at, std::uint64_t address, std::uint32_t bytes) {
  if (!at || at->sparse || !at->groups_id || bytes != 1u << at->shift || address & (bytes - 1)) return {};
  const unsigned number = unsigned(address % page_bytes >> at->shift);
  return {&at->groups()[number / group_units], number % group_units, address};
}

void Filter::bring(Ahead& lanes, const std::uint64_t* addresses, unsigned step) {
  const std::uint32_t all = std::uint32_t((std::uint64_t(1) << lanes.count) - 1);
  if (step == 0 && !lanes.bytes) {
    Brought& brought = brought_[lanes.strong];
    each_lane(all, [&](std::uint32_t i) { brought.kind[(lanes.first + i) % remembered] = Brought::unknown; });
  } else {
    lanes.left = step == 0   ? bring_step<0>(lanes, all, addresses)
                 : step == 1 ? bring_step<1>(lanes, lanes.left, addresses)
                             : bring_step<2>(lanes, lanes.left, addresses);
  }
}

template <unsigned step>
inline std::uint32_t Filter::bring_step(const Ahead& lanes, std::uint32_t of, const std::uint64_t* addresses) {
  if (!of) return 0;
  SparseCells& cells = lanes.strong ? words_ : sparse_of(lanes.bytes);
  Brought& brought = brought_[lanes.strong];
  const std::uint32_t bytes = lanes.bytes;
  const bool any_pages = pages_.count() != 0, one_unit = bytes == 1u << cells.unit_log2(), of_words = &cells == &words_;
  const auto in_array = std::uint8_t(Brought::in_array | (of_words ? Brought::in_words : 0)),
             in_sheet = std::uint8_t(Brought::in_sheet | (of_words ? Brought::in_words : 0));
  if (brought.moves[of_words] != cells.moves()) {
    brought.moves[of_words] = cells.moves();
    forget_brought(lanes.strong);
  }
  SparseCells::Glance glance(cells);
  std::uint32_t left = 0;
  for (; of; of &= of - 1) {
    const std::uint32_t i = unsigned(std::countr_zero(of)), number = (lanes.first + i) % remembered;
    const std::uint64_t address = addresses[lanes.first + i];
    EntryArrays::Name array{0, SparseCells::no_array};
    if constexpr (step == 0) {
      brought.kind[number] = Brought::unknown;
      if (any_pages) pages_.prefetch({0, address / page_bytes});
      if (glance.prefetch(address, array) || any_pages) left |= of & -of;
    } else if constexpr (step == 1) {
      if (any_pages) pages_.prefetch_page({0, address / page_bytes});
      if (glance.prefetch_entry(address, array)) left |= of & -of;
    } else {
      glance.prefetch_array(address, array);
    }
    if (array.size == SparseCells::no_array) continue;
    const bool usual = one_unit && !(address & (bytes - 1)) && address < address_limit;
    if (array.size == EntryArrays::sheet) [[likely]] {
      Entry* const entry = cells.place_in(array, address);
      soon_.add(entry);
      if (!usual) continue;
      brought.place[number].in_sheet = entry;
      brought.kind[number] = in_sheet;
    } else {
      soon_.add(cells.first_in(array, address));
      if (!usual) continue;
      brought.place[number].array = array;
      brought.kind[number] = in_array;
    }
  }
  return left;
}

[[gnu::always_inline]] inline bool Filter::usual_entry(Entry& entry, bool write, Actor& actor, unsigned lane) {
  if (entry.segment & SparseCells::both_bits) return false;
  if (write) {
    if (!SparseCells::is_write(entry) || !epochs_.ordered_write(entry.segment, entry.who & 31, actor, lane, true))
      return false;
    entry = SparseCells::write_entry(actor.segment, lane);
    return true;
  }
  if (SparseCells::is_write(entry) && own_write(entry.segment, entry.who & 31, actor, lane)) return true;
  if (!SparseCells::plain_reads(entry)) return false;
  if (entry.segment == actor.segment && (entry.who == lane || entry.who >= 1 << 5)) return true;
  SegmentId reads = entry.segment;
  if (!epochs_.join_apart(reads, entry.who, one_lane, actor)) read_epoch(reads, entry.who, actor, lane, one_lane);
  entry.segment = reads;
  return true;
}

// Every lane somewhere. What is left to be brought nearer is, for all lanes at once.
void Filter::scattered(const Warp& access, Actor& actor, const std::uint64_t* addresses) {
  const bool sparsely = access.memory == 0 && access.bytes <= 16 && std::has_single_bit(access.bytes);
  const bool any_pages = pages_.count() != 0 || !runs_.empty();
  const auto count = unsigned(std::popcount(access.mask));
  epochs_.look_around(actor);
  ShadowPage* page[32];
  if (any_pages) {
    for (unsigned i = 0; i < count; ++i) {
      page[i] = known_page(access.memory, addresses[i]);
      if (const Spot at = spot_of(page[i], addresses[i], access.bytes); at.group) __builtin_prefetch(at.group);
    }
    for (unsigned i = 0; i < count; ++i) {
      if (const Spot at = spot_of(page[i], addresses[i], access.bytes); at.group)
        pages_.prefetch_cell(*at.group, at.unit);
    }
  }
  // Where nothing but entries of one size is known, and where they lie, no more is asked.
  SparseCells& cells = sparse_of(access.bytes);
  const bool of_words = &cells == &words_;
  const bool alone = sparsely && !any_pages && !access.non_coherent && (of_words ? bytes_ : words_).empty();
  const bool places = alone && access.brought;
  const std::uint32_t first = access.brought.value_or(0);
  const std::uint8_t table = of_words ? Brought::in_words : 0;
  const Brought& brought = brought_[false];
  const auto in_place = [&] { return places && brought.moves[of_words] == cells.moves(); };
  // What the epochs of lanes that come soon are is brought nearer, too, whichever access they are of.
  constexpr std::uint32_t soon = 16;
  constexpr std::uint32_t line = group_units * 4; // of whole groups there is one look
  std::uint32_t rest = access.mask;
  for (unsigned i = 0; i < count; ++i, rest &= rest - 1) {
    const unsigned lane = unsigned(std::countr_zero(rest));
    const std::uint64_t address = addresses[i];
    soon_.bring_one();
    if (in_place()) {
      const std::uint32_t number = (first + i) % remembered, next = (first + i + soon) % remembered;
      if (brought.kind[next] == (Brought::in_sheet | table)) epochs_.bring(brought.place[next].in_sheet->segment);
      if (const std::uint8_t kind = brought.kind[number]; kind) {
        const Brought::Place place = brought.place[number];
        Entry* const entry =
            kind & Brought::in_sheet ? cells.in_or_new(place.in_sheet) : cells.in_or_new(place.array, address);
        if (entry && !entry->segment) {
          *entry =
              access.write ? SparseCells::write_entry(actor.segment, lane) : Entry{actor.segment, std::uint8_t(lane)};
          continue;
        }
        if (entry && usual_entry(*entry, access.write, actor, lane)) continue;
      }
    }
    if (access.bytes == line && address % line == 0 && address < address_limit) {
      stretch({access.memory, address, address + line, lane, all_one_lane, 2, access.write, access.non_coherent},
              actor);
      continue;
    }
    ShadowPage* at = any_pages ? page[i] : nullptr;
    if (sparsely && address < address_limit && address % access.bytes == 0) {
      if (!at) at = known_page(0, address); // another lane may have made it
      if (sparse(access, actor, lane, address, at)) continue;
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

bool Filter::sparse(const Warp& access, Actor& actor, unsigned lane, std::uint64_t address, ShadowPage* at) {
  SparseCells& cells = sparse_of(access.bytes);
  const std::uint64_t step = 1ull << cells.unit_log2();
  Cell known; // what the page says of each unit; it must say the same of all
  if (at) {
    // Only reads of what was written as a group, or never, and not read since, have their place in SparseCells then.
    const std::uint32_t number = std::uint32_t(address % page_bytes >> at->shift);
    bool is_whole = false;
    const Group group = FilterPages::group_of(*at, number / group_units, is_whole);
    if (at->dense || access.write || group.cells || group.strong || group.suspect || group.reads) return false;
    if (access.bytes > 1u << at->shift && !is_whole && group.write) return false; // several lanes' writes
    known.write = group.write;
    if (group.write) known.write_who = who_at(group.write_pattern, number % group_units) & 31;
  } else if (!share_.has_page(0, address / page_bytes)) {
    return true;
  }
  // The other size's units may say something of the same bytes: the page sorts that out.
  SparseCells& others = access.bytes < 4 ? words_ : bytes_;
  if (others.may_have_page(address / page_bytes)) return false;
  for (std::uint64_t unit = address; unit < address + access.bytes; unit += step) {
    const bool quick =
        !access.non_coherent &&
        (!at || (!access.write && epochs_.ordered_write(known.write, known.writer(), actor, lane, false)));
    const SparseCells::Found found = quick ? cells.find_or_new(unit) : cells.find(unit);
    if (quick && found) { // the usual cases
      Entry entry = found.entry();
      if (!entry.segment) {
        found.set(access.write ? SparseCells::write_entry(actor.segment, lane)
                               : Entry{actor.segment, std::uint8_t(lane)});
        if (at) mark_sparse(*at);
        continue;
      }
      if (usual_entry(entry, access.write, actor, lane)) {
        found.set(entry);
        continue;
      }
    }
    const Entry strongly = cells.strong(found);
    const bool beside = strongly.segment && !found.is_callers(); // weak accesses are known, too
    Cell cell = cells.cell(found);
    if (cell.write_who & Cell::suspect) continue;
    StrongCell before;
    bool read_before = false;
    if (strongly.segment) {
      const std::optional<StrongCell> strong = strong_cell(strongly);
      if (!strong) continue; // suspect
      before = *strong;
      read_before = before.flags & StrongCell::read_since;
      if (!beside && !access.write && !access.non_coherent && !at && own(before, actor, lane)) {
        if (read_before) continue;
        if (before.flags == StrongCell::of_atomics) {
          before.flags |= StrongCell::read_since;
          cells.put(unit, found, *strong_entry(before));
          continue;
        }
      }
      before.flags &= std::uint8_t(~StrongCell::read_since);
      if (read_before) cell = read_since(before);
    }
    if (at) {
      cell.write = known.write;
      cell.write_who |= known.write_who;
    }
    const Cell weakly = cell;
    StrongCell strong = before;
    const bool good =
        access.write ? write(cell, strongly.segment ? &strong : nullptr, actor, lane)
                     : read(cell, strongly.segment ? &strong : nullptr, actor, lane, one_lane, access.non_coherent);
    if (!good) {
      if (at) return false; // found again there
      cell.write_who |= Cell::suspect;
      suspects_.add(0, unit);
    }
    if (std::memcmp(&cell, &weakly, sizeof cell) == 0) continue;
    if (good && !access.write && strongly.segment && (at || read_before || !as_weak(cell, strong, actor))) {
      cells.put(unit, found, cell, !at, *strong_entry(strong));
    } else {
      cells.put(unit, found, cell, !at);
    }
    if (at) mark_sparse(*at);
  }
  return true;
}

void Filter::mark_sparse(ShadowPage& page) {
  if (page.sparse) return;
  page.sparse = true;
  last_key_ = {~0ull, ~0ull};
}

void Filter::absorb(ShadowPage& page) {
  page.sparse = false;
  const std::uint64_t base = page.key.number * page_bytes;
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
      const Entry strongly = from->strong(found);
      const bool weakly = !found.is_callers();
      const Cell cell = from->cell(found);
      for (std::uint64_t at = offset; at < offset + step; at += 1ull << page.shift) {
        const unsigned number = unsigned(at >> page.shift);
        Group& group = page.groups()[number / group_units];
        if (strongly.segment) absorb_strong(group, number % group_units, strongly);
        if (!weakly) continue;
        Cell& to = pages_.expand(group)[number % group_units];
        if (cell.write) {
          to.write = cell.write;
          to.write_who = std::uint8_t((to.write_who & ~Cell::writer_bits) | (cell.write_who & Cell::writer_bits));
        }
        to.write_who |= cell.write_who & (Cell::suspect | Cell::non_coherent);
        to.reads = cell.reads;
        to.reads_who = cell.reads_who;
      }
      from->erase(base + offset, found);
    }
  }
}

} // namespace deadheat::detect
