#include "analyzer/detect/filter.h"

#include <algorithm>
#include <bit>

#include "analyzer/detect/filter_units.h"

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
      auto epochs = [&](GroupEpochs& of) {
        name(of.write);
        name(of.reads);
      };
      auto group = [&](Group& at) {
        epochs(at);
        for (unsigned unit = 0; at.cells && unit < group_units; ++unit) {
          Cell& cell = pages_.cells(at)[unit];
          SegmentId write = cell.write, reads = cell.reads;
          name(write);
          name(reads);
          cell.write = write;
          cell.reads = reads;
        }
        for (unsigned unit = 0; at.strong && unit < group_units; ++unit) {
          StrongCell& cell = pages_.strong(at)[unit];
          SegmentId epoch = cell.epoch;
          name(epoch);
          cell.epoch = epoch;
        }
      };
      epochs(page.whole);
      for (unsigned i = 0; i < page.few_count; ++i) epochs(page.few(i));
      for (std::size_t i = 0; page.groups_id && i < page.group_count(); ++i) group(page.groups()[i]);
    });
    runs_.each([&](GroupEpochs& of) {
      name(of.write);
      name(of.reads);
    });
    for (SparseCells* cells : {&words_, &bytes_}) cells->each_name(name);
    pairs_.each_name(name);
  });
}

// ---- units and groups

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

bool Filter::read_group(GroupEpochs& group, Actor& actor, std::uint8_t pattern, bool outside) {
  if (group.suspect) return true;
  const bool again = group.reads == actor.segment && !outside;
  if (again && group.reads_pattern == pattern) return true;
  if (!epochs_.ordered_write_group(group.write, group.write_pattern, actor, pattern, false)) return false;
  if (again && group.reads_pattern >= first_level_pattern) return true;
  if (outside && epochs_.beside(group.write, actor)) return false;
  if (epochs_.ordered_group(group.reads, group.reads_pattern, actor, pattern)) {
    // Its epoch would stand for another launch's.
    if (group.non_coherent && epochs_.of_another_beside(group.reads, actor)) return false;
    if (actor.asynchronous) epochs_.stands_for(group.reads, actor, false, group.reads_pattern == pattern);
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
  group.non_coherent |= outside;
  return true;
}

bool Filter::write_group(GroupEpochs& group, Actor& actor, std::uint8_t pattern) {
  if (group.suspect) return true;
  if (!epochs_.ordered_write_group(group.write, group.write_pattern, actor, pattern, true) ||
      !epochs_.ordered_group(group.reads, group.reads_pattern, actor, pattern) ||
      (group.non_coherent && epochs_.beside(group.reads, actor))) {
    return false;
  }
  if (actor.asynchronous) {
    epochs_.stands_for(group.write, actor, true, group.write_pattern == pattern);
    epochs_.stands_for(group.reads, actor, false, group.reads_pattern == pattern);
  }
  group = {};
  group.write = actor.segment;
  group.write_pattern = pattern;
  return true;
}

ShadowPage* Filter::page(std::uint64_t memory, std::uint64_t address) {
  PageKey key{memory, address / page_bytes};
  if (key == last_key_) return last_page_;
  const bool follows = memory == last_key_.memory && key.number - last_key_.number <= most_pages_on;
  last_key_ = key;
  if (!share_.has_page(memory, key.number)) return last_page_ = nullptr;
  bool fresh = false;
  last_page_ = follows ? pages_.behind(last_id_, key) : nullptr;
  if (!last_page_) last_page_ = &pages_.get(key, fresh, last_id_);
  if (memory) {
    if (fresh) shared_pages_[order::operation_of_block(memory - 1)][memory].push_back(key.number);
    return last_page_;
  }
  if (const GroupEpochs* const run = fresh ? runs_.find(key.number) : nullptr) last_page_->whole = *run;
  if (last_page_->sparse || (fresh && (words_.may_have_page(key.number) || bytes_.may_have_page(key.number)))) {
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
  if (page.groups_id || access.unit != 2 || address % span || end % span || end - address > 2 * span) return false;
  const unsigned units_log2 = std::min(access.lane_log2 - 2, 5u); // of a lane's, in a group
  for (; address < end; address += span) {
    GroupEpochs* const group = pages_.few(page, unsigned(address % page_bytes / span));
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
      Group& group = at.groups()[address % page_bytes / span];
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
      good = epochs_.ordered_write(cell.write, cell.writer(), actor, lane, false) &&
             (!strong_write || epochs_.ordered(strong->epoch, strong->who, actor, lane));
      if (strong_write) continue;
      if (!cell.write || std::find(actor.ordered.begin(), actor.ordered.end(), cell.write) != actor.ordered.end()) {
        break; // for all lanes alike
      }
    }
    if (!good || !read(cell, strong, actor, first, whole_warp, access.non_coherent)) mark(spot, access.memory);
  });
}

// Of a part of a group, in a page of which little is known: cells would cost more than entries of its words.
inline bool Filter::short_row(const Warp& access, std::uint64_t begin, std::uint64_t end) {
  constexpr std::uint64_t span = group_units * 4;
  return !access.memory && access.bytes >= 4 && end - begin < span && begin / page_bytes == (end - 1) / page_bytes &&
         words_.few(begin) && !known_page(0, begin);
}

void Filter::weak(const Warp& access) {
  Actor& actor = this->actor(access.lane0, access.now);
  if (!access.affine) return scattered(access, actor, access.address);
  const unsigned first = unsigned(std::countr_zero(access.mask)), end = 32 - unsigned(std::countl_zero(access.mask));
  const unsigned lanes = end - first; // with those between that take no part
  const std::uint64_t base = access.address[first];
  const auto one_by_one = [&] {
    std::uint64_t packed[32];
    pack_lanes(access.address, access.mask, packed);
    scattered(access, actor, packed);
  };
  if (access.stride == 0 && lanes > 1 && !access.write) return broadcast(access, actor, first);
  if (access.stride == std::int64_t(access.bytes) && access.bytes <= 16 && std::has_single_bit(access.bytes) &&
      base % access.bytes == 0 && base < address_limit && !(access.mask >> first & ((access.mask >> first) + 1))) {
    const unsigned lane_log2 = unsigned(std::countr_zero(access.bytes));
    if (short_row(access, base, base + (std::uint64_t(lanes) << lane_log2))) return one_by_one();
    return stretch({access.memory, base, base + (std::uint64_t(lanes) << lane_log2), first, lane_log2,
                    std::min(lane_log2, 2u), access.write, access.non_coherent},
                   actor);
  }
  if (lanes == 1 || !access.memory) return one_by_one(); // columns lie far apart
  for (std::uint32_t rest = access.mask; rest; rest &= rest - 1) {
    const unsigned lane = unsigned(std::countr_zero(rest));
    each_unit(access.memory, access.address[lane], access.bytes, [&](const Spot& spot) {
      touch(spot, access.memory, actor, lane, one_lane, access.write, access.non_coherent);
    });
  }
}

void Filter::copy(const Copy& access) {
  if (epochs_.crowded()) collect_segments();
  Epochs::Actor actor =
      epochs_.copy(access.lane0, access.mask, access.group, access.async_proxy, access.memory != 0, access.now);
  for (std::uint32_t rest = access.mask; rest;) { // lanes whose parts follow one another are one stretch
    const unsigned first = unsigned(std::countr_zero(rest));
    const std::uint64_t begin = access.address[first];
    const bool row = access.bytes <= 16 && std::has_single_bit(access.bytes) && begin % access.bytes == 0;
    std::uint64_t end = begin + access.bytes;
    unsigned next = first + 1;
    for (; row && next < 32 && (rest >> next & 1) && access.address[next] == end; ++next) end += access.bytes;
    rest &= next < 32 ? ~0u << next : 0;
    if (begin >= address_limit) continue;
    const std::uint64_t bits = begin | access.bytes;
    const std::uint32_t unit = bits & 1 ? 0 : bits & 2 ? 1 : 2;
    const unsigned lane_log2 = next - first > 1 ? unsigned(std::countr_zero(access.bytes)) : all_one_lane;
    stretch({access.memory, begin, end, first, lane_log2, unit, access.write, false}, actor);
  }
}

// ---- ranges

bool Filter::touch_group(GroupEpochs& group, const RangeAccess& access) {
  const std::uint8_t pattern = one_lane_pattern(access.lane);
  return access.write ? write_group(group, access.actor, pattern) : read_group(group, access.actor, pattern, false);
}

bool Filter::touch_group(Group& group, const RangeAccess& access) {
  if (group.cells || group.strong) return group.suspect;
  return touch_group(static_cast<GroupEpochs&>(group), access);
}

void Filter::range(ThreadKey thread, std::uint64_t address, std::uint64_t bytes, bool write_access, order::Stamp now) {
  const unsigned lane = thread.thread() & 31;
  const RangeAccess access{actor(ThreadKey(thread.operation(), thread.block(), thread.thread() - lane), now), lane,
                           write_access};
  const std::uint64_t end = address + bytes, first = (address + page_bytes - 1) / page_bytes, last = end / page_bytes;
  if (first > last) return range_part(access, address, end);
  range_part(access, address, first * page_bytes);
  if (last - first >= least_run) {
    range_run(access, first, last);
  } else {
    for (std::uint64_t number = first; number < last; ++number) range_page(access, number);
  }
  range_part(access, last * page_bytes, end);
}

void Filter::range_part(const RangeAccess& access, std::uint64_t address, std::uint64_t end) {
  each_unit(0, address, end - address,
            [&](const Spot& spot) { touch(spot, 0, access.actor, access.lane, one_lane, access.write, false); });
}

void Filter::range_run(const RangeAccess& access, std::uint64_t first, std::uint64_t end) {
  for (const SparseCells* cells : {&words_, &bytes_}) {
    for (std::uint64_t at = first, next; !cells->empty() && at < end; at = next) {
      next = std::min(end, (at / SparseCells::tract_pages + 1) * SparseCells::tract_pages);
      if (!cells->may_have_tract(at / SparseCells::tract_pages)) continue;
      for (std::uint64_t number = at; number < next; ++number)
        if (cells->may_have_page(number)) page(0, number * page_bytes);
    }
  }
  runs_.over(first, end, [&](std::uint64_t from, std::uint64_t to, GroupEpochs& whole) {
    if (touch_group(whole, access)) return;
    whole.suspect = true;
    suspects_.add_pages(from, to);
  });
  runs_.join(first, end);
  pages_.each_number(first, end, [&](std::uint64_t number) {
    range_page(access, number);
    const ShadowPage* const at = pages_.find({0, number});
    if (at && !at->groups_id && !at->few_count && at->whole == *runs_.find(number)) erase({0, number});
  });
}

void Filter::range_page(const RangeAccess& access, std::uint64_t number) {
  const std::uint64_t address = number * page_bytes;
  ShadowPage* const found = page(0, address);
  if (!found) return;
  ShadowPage& at = *found;
  if (at.few_count) pages_.refine(at, 2);
  if (!at.groups_id) {
    if (touch_group(at.whole, access)) return;
    at.whole.suspect = true;
    suspects_.add_page(0, number);
    return;
  }
  bool good = true;
  const std::uint64_t span = std::uint64_t(group_units) << at.shift;
  for (std::size_t g = 0; g < at.group_count(); ++g) {
    Group& group = at.groups()[g];
    if (touch_group(group, access)) {
      good &= !group.suspect;
      continue;
    }
    for (unsigned unit = 0; unit < group_units; ++unit) {
      touch({&group, unit, address + g * span + (std::uint64_t(unit) << at.shift)}, 0, access.actor, access.lane,
            one_lane, access.write, false);
      good &= !group.cells || !(pages_.cells(group)[unit].write_who & Cell::suspect);
    }
  }
  if (!access.write || !good) return;
  GroupEpochs whole; // all units are equal now
  whole.write = access.actor.segment;
  whole.write_pattern = one_lane_pattern(access.lane);
  pages_.collapse(at, whole);
}

} // namespace deadheat::detect
