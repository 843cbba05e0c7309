// The first pass's strong accesses.
//
// Those to words here and there have an entry of SparseCells, whose `who` says what a StrongCell does (strong_codes.h):
// alone where nothing else is known of the word, or as much as the strong ones tell. What does not fit into an entry
// has a page.
#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <optional>

#include "analyzer/detect/filter.h"
#include "analyzer/detect/strong_codes.h"

namespace deadheat::detect {

using order::ThreadKey;

using namespace strong_codes;

namespace {

// What the group says of a unit's weak accesses, without cells.
Cell weak_of(const Group& group, unsigned unit) {
  Cell weak;
  weak.write = group.write;
  weak.reads = group.reads;
  weak.write_who = who_at(group.write_pattern, unit) & 31;
  weak.reads_who = who_at(group.reads_pattern, unit);
  if (group.non_coherent) weak.write_who |= Cell::non_coherent;
  return weak;
}

} // namespace

inline bool Filter::join_strong(const Strong& access, Actor& actor, const Cell& weak, StrongCell& cell,
                                bool& unordered) {
  const unsigned lane = access.thread.thread() & 31;
  const std::uint8_t size = size_of(access.bytes);
  const bool before =
      !epochs_.apart_from(cell.epoch, cell.who, actor) && epochs_.ordered(cell.epoch, cell.who, actor, lane);
  const bool conflict = access.write || (cell.flags & StrongCell::writes);
  const bool alike = (cell.flags & 0xF0) == size;
  if (!epochs_.ordered(weak.write, weak.writer(), actor, lane, access.write) ||
      (access.write && !epochs_.ordered(weak.reads, weak.reads_who, actor, lane)) ||
      (access.write && (weak.write_who & Cell::non_coherent) && epochs_.beside(weak.reads, actor)) ||
      (!before && conflict && (!alike || access.plain || (cell.flags & StrongCell::plain)))) {
    return false;
  }
  // The weak accesses that it came after come before all of its operation, and of whatever is after that.
  if ((cell.flags & StrongCell::after_weak) && !epochs_.same_operation(cell.epoch, actor) &&
      !(before && epochs_.before_operation(cell.epoch, actor))) {
    return false;
  }
  std::uint8_t kept = size;
  if (before) {
    // What comes before stays in what the epoch stands for: whatever it is unordered with is unordered with this.
    if (cell.epoch && !alike) kept = mixed_sizes;
    cell.who = std::uint8_t(lane);
    cell.epoch = actor.segment;
  } else if (!alike) {
    return false; // reads of two sizes: rare, and too much for a cell
  } else {
    unordered = true;
    unsigned wide = epochs_.widened(cell.epoch, cell.who >> 5, actor);
    if (wide == one_lane && (cell.who & 31) != lane) wide = whole_warp;
    cell.who = who_of(wide, wide == one_lane ? lane : 0);
    cell.epoch = wide < whole_operation ? actor.segment : epochs_.joint(cell.epoch, actor);
  }
  cell.flags = std::uint8_t((cell.flags & 0x0F) | kept | (access.plain ? StrongCell::plain : 0) |
                            (access.write ? StrongCell::writes : 0));
  return true;
}

bool Filter::strong(const Strong& access) {
  return strong(
      access,
      actor(ThreadKey(access.thread.operation(), access.thread.block(), access.thread.thread() & ~31u), access.now));
}

bool Filter::strong(const Strong& access, Actor& actor, Entry* known) {
  const unsigned lane = access.thread.thread() & 31;
  bool unordered = false;
  // Where nothing but entries of words is known, the usual ones tell all.
  if (known && access.covering && access.bytes == 4 && known->segment & SparseCells::callers && !pages_.count() &&
      runs_.empty() && bytes_.empty()) {
    if (strong_alone(SparseCells::found_in_array(known), access, actor, unordered)) return unordered && !access.plain;
    known = nullptr;
  }
  if (strong_sparse(access, actor, known, unordered)) return unordered && !access.plain;
  each_unit(access.memory, access.address, access.bytes, [&](const Spot& spot) {
    if (!access.covering) return touch(spot, access.memory, actor, lane, one_lane, access.write, false);
    Group& group = *spot.group;
    const Cell weak = group.cells ? pages_.cells(group)[spot.unit] : weak_of(group, spot.unit);
    if (group.suspect || (weak.write_who & Cell::suspect)) return;
    if (!join_strong(access, actor, weak, pages_.strong_of(group)[spot.unit], unordered)) mark(spot, access.memory);
  });
  return unordered && !access.plain;
}

std::uint32_t Filter::strong(Strong& access, std::uint32_t wanted, const StrongView& view) {
  if (!wanted) return 0;
  const ThreadKey lane0 = access.thread;
  Actor& actor = this->actor(lane0, access.now);
  epochs_.look_around(actor);
  const Brought& brought = brought_[true];
  // What the epochs of lanes that come soon are is brought nearer, too, whichever access they are of.
  constexpr std::uint32_t soon = 16;
  std::uint32_t unordered = 0;
  view.each_own([&, number = view.first().value_or(0)](std::uint64_t address, unsigned lane) mutable {
    const std::uint32_t at = number++;
    soon_.bring_one();
    Entry* known = nullptr;
    if (view.first() && brought.moves[1] == words_.moves()) {
      const std::uint32_t next = (at + soon) % remembered;
      if (brought.kind[next] & Brought::in_sheet)
        epochs_.bring(brought.place[next].in_sheet->segment & ~SparseCells::both_bits);
      const Brought::Place place = brought.place[at % remembered];
      const std::uint8_t kind = brought.kind[at % remembered];
      if (kind) known = kind & Brought::in_sheet ? place.in_sheet : words_.in(place.array, address);
    }
    if (!(wanted >> lane & 1)) return;
    access.address = address;
    access.thread.bits = lane0.bits + lane;
    unordered |= std::uint32_t(strong(access, actor, known)) << lane;
  });
  return unordered;
}

void Filter::strong(Strong& access, std::uint32_t lanes) {
  const ThreadKey lane0 = access.thread;
  Actor& actor = this->actor(lane0, access.now);
  each_unit(access.memory, access.address, access.bytes, [&](const Spot& spot) {
    Group& group = *spot.group;
    const Cell weak = group.cells ? pages_.cells(group)[spot.unit] : weak_of(group, spot.unit);
    if (group.suspect || (weak.write_who & Cell::suspect)) return;
    const bool alike = epochs_.alike(weak.write, actor) && epochs_.alike(weak.reads, actor);
    StrongCell& cell = pages_.strong_of(group)[spot.unit];
    for (std::uint32_t rest = lanes; rest; rest &= rest - 1) {
      access.thread.bits = lane0.bits + std::uint64_t(std::countr_zero(rest));
      const StrongCell before = cell;
      bool unordered = false;
      if (!join_strong(access, actor, weak, cell, unordered)) return mark(spot, access.memory);
      // What changes nothing for one lane, and names none, changes nothing for the others.
      if (alike && cell.who >> 5 != one_lane && cell.epoch == before.epoch && cell.who == before.who &&
          cell.flags == before.flags)
        break;
    }
  });
}

std::optional<StrongCell> Filter::strong_cell(Entry entry) {
  if (entry.who == strong_codes::suspect) return std::nullopt;
  StrongCell cell = decoded[entry.who];
  cell.epoch = entry.segment & ~(SparseCells::callers | SparseCells::callers_bit);
  if (entry.segment & SparseCells::callers_bit) cell.flags |= StrongCell::after_weak;
  return cell;
}

std::optional<Entry> Filter::strong_entry(const StrongCell& cell) {
  const unsigned level = cell.who >> 5, size = cell.flags & 0xF0u, kind = (cell.flags & 0x0Cu) / StrongCell::plain;
  if (level == complete_operation || (size != size_of(4) && size != size_of(8)) || !kind) return std::nullopt;
  const unsigned whom = level == one_lane ? cell.who & 31u : level == many ? whoms - 1 : lanes - 1 + level;
  const unsigned code = cell.flags & StrongCell::read_since ? first_read_since + whom
                                                            : ((kind - 1) * 2 + (size == size_of(8))) * whoms + whom;
  const SegmentId bit = cell.flags & StrongCell::after_weak ? SparseCells::callers_bit : 0;
  return Entry{cell.epoch | SparseCells::callers | bit, std::uint8_t(code)};
}

bool Filter::can_forget(const Cell& weak, const StrongCell& cell, const Actor& actor) const {
  auto over = [&](SegmentId segment, std::uint8_t who) {
    return !segment || (who >> 5 < many && epochs_.before_operation(segment, actor));
  };
  return cell.who >> 5 <= whole_operation && epochs_.same_operation(cell.epoch, actor) &&
         over(weak.write, weak.writer()) && over(weak.reads, weak.reads_who);
}

// Whoever comes after the reads comes after what they read; a strong read that does not is suspect then. Those that
// wait for a word read it strongly, as a rule, before anybody reads it weakly.
bool Filter::as_weak(Cell& cell, const StrongCell& strong, const Actor& actor) const {
  const unsigned level = strong.who >> 5;
  if (!(strong.flags & StrongCell::writes) || level == many || (cell.write_who & Cell::non_coherent)) return false;
  if (epochs_.of_copy(cell.write)) return false;
  if ((strong.flags & StrongCell::plain) && !epochs_.before_operation(strong.epoch, actor)) return false;
  cell.write = strong.epoch;
  cell.write_who &= std::uint8_t(~Cell::writer_bits);
  cell.write_who |= level == one_lane ? strong.who & 31 : Cell::wide | level;
  return true;
}

inline bool Filter::strong_alone(const SparseCells::Found& found, const Strong& access, Actor& actor, bool& unordered) {
  Entry entry = found.entry();
  if (entry.who == strong_codes::suspect) return true;
  const SegmentId bits = entry.segment & (SparseCells::callers | SparseCells::callers_bit);
  if (entry.who == of_blocks && access.write && !access.plain &&
      epochs_.apart_from(entry.segment & ~bits, who_of(whole_operation, 0), actor)) {
    // One more of those, none of which orders any; what came before them comes before their operation.
    entry.segment = epochs_.joint(entry.segment & ~bits, actor) | bits;
    found.set(entry);
    return unordered = true;
  }
  if (entry.who >= first_read_since) return false;
  StrongCell cell = *strong_cell(entry);
  if (!join_strong(access, actor, Cell(), cell, unordered)) {
    suspects_.add(0, access.address);
    found.set({entry.segment, strong_codes::suspect});
    return true;
  }
  const auto wanted = strong_entry(cell);
  if (wanted) found.set(*wanted);
  return bool(wanted);
}

bool Filter::strong_sparse(const Strong& access, Actor& actor, Entry* known, bool& unordered) {
  if (access.memory || !access.covering || (access.bytes != 4 && access.bytes != 8) || access.address % access.bytes ||
      access.address >= address_limit) {
    return false;
  }
  const std::uint64_t number = access.address / page_bytes;
  ShadowPage* const at = known_page(0, access.address);
  if (at && at->dense) return false;
  if (!at && !share_.has_page(0, number)) return true;
  if (bytes_.may_have_page(number)) return false;
  if (!at && access.bytes == 4 && known && known->segment & SparseCells::callers &&
      strong_alone(SparseCells::found_in_array(known), access, actor, unordered)) {
    return true;
  }
  const SparseCells::Found found = words_.find(access.address);
  if (!at && access.bytes == 4 && found.is_callers() && strong_alone(found, access, actor, unordered)) return true;
  return strong_units(access, actor, at, found, unordered);
}

bool Filter::strong_units(const Strong& access, Actor& actor, ShadowPage* at, const SparseCells::Found& first,
                          bool& unordered) {
  const unsigned lane = access.thread.thread() & 31;
  struct Unit {
    std::uint64_t address = 0;
    SparseCells::Found found;
    Entry entry; // of segment 0: nothing changes
    bool alone = false; // nothing else is to be known
    std::optional<Cell> read; // or this
  };
  std::array<Unit, 2> units;
  const unsigned count = access.bytes / 4;
  bool any_unordered = false;
  for (unsigned i = 0; i < count; ++i) {
    Unit& unit = units[i];
    unit.address = access.address + 4 * i;
    unit.found = i ? words_.find(unit.address) : first;
    unit.alone = !unit.found || unit.found.is_callers();
    Cell weak = words_.cell(unit.found);
    StrongCell cell;
    if (const Entry known = words_.strong(unit.found); known.segment) {
      const std::optional<StrongCell> strong = strong_cell(known);
      if (!strong) continue; // suspect
      cell = *strong;
    }
    if (cell.flags & StrongCell::read_since) {
      if (count == 1 && !access.plain && access.write && own(cell, actor, lane)) return true;
      cell.flags &= std::uint8_t(~StrongCell::read_since);
      unit.read = weak = read_since(cell);
      unit.alone = false;
    }
    if (at) {
      const unsigned of_page = unsigned(unit.address % page_bytes >> at->shift);
      bool is_whole = false;
      const Group group = FilterPages::group_of(*at, of_page / group_units, is_whole);
      if (group.cells || group.strong || group.suspect || at->shift != 2) return false;
      weak = weak_of(group, of_page % group_units);
      if (!unit.alone) return false; // later reads
    }
    if (weak.write_who & Cell::suspect) continue;
    if (!join_strong(access, actor, weak, cell, any_unordered)) {
      unit.entry = {actor.segment, strong_codes::suspect};
      unit.alone = true;
      continue;
    }
    if (!unit.alone && can_forget(weak, cell, actor)) {
      unit.alone = true;
      cell.flags |= StrongCell::after_weak;
    }
    const auto wanted = strong_entry(cell);
    if (!wanted) return false;
    unit.entry = *wanted;
  }
  for (unsigned i = 0; i < count; ++i) {
    Unit& unit = units[i];
    if (!unit.entry.segment) continue;
    if (unit.entry.who == strong_codes::suspect) suspects_.add(0, unit.address);
    if (i) unit.found = words_.find(unit.address); // the first one's may have moved it
    if (unit.alone) {
      words_.put(unit.address, unit.found, unit.entry);
    } else if (unit.read) {
      words_.put(unit.address, unit.found, *unit.read, true, unit.entry);
    } else {
      words_.put_beside(unit.address, unit.found, unit.entry);
    }
  }
  if (at) mark_sparse(*at);
  unordered |= any_unordered;
  return true;
}

void Filter::absorb_strong(Group& group, unsigned unit, Entry entry) {
  const std::optional<StrongCell> known = strong_cell(entry);
  if (!known) {
    pages_.expand(group)[unit].write_who |= Cell::suspect;
    return;
  }
  StrongCell& cell = pages_.strong_of(group)[unit];
  cell = *known;
  if (!(cell.flags & StrongCell::read_since)) return;
  cell.flags &= std::uint8_t(~StrongCell::read_since);
  pages_.expand(group)[unit].reads = cell.epoch;
  pages_.expand(group)[unit].reads_who = cell.who;
}

} // namespace deadheat::detect
