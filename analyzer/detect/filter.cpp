#include "analyzer/detect/filter.h"

#include <algorithm>
#include <bit>

namespace deadheat::detect {

using order::ThreadKey;

namespace {

ThreadKey lane_of(ThreadKey lane0, unsigned lane) {
  return ThreadKey(lane0.operation(), lane0.block(), lane0.thread() + lane);
}
constexpr std::uint8_t mixed_sizes = 0xF0;  // like no size
std::uint8_t who_of(unsigned level, unsigned lane) { return std::uint8_t(level << 5 | lane); }

}  // namespace

// ---- segments and epochs
// -----------------------------------------------------------------------------------------------

Filter::SegmentId Filter::segment(ThreadKey lane0, order::Stamp now) {
  if (lane0.bits != last_warp_) {
    last_warp_ = lane0.bits;
    last_current_ = &current_[lane0.bits];  // node-based: it stays
  }
  SegmentId& current = *last_current_;
  if (!current || segments_[current].stamp <= causality_.last_sync(lane0)) {
    current = SegmentId(segments_.size());
    segments_.push_back({lane0, now, 0});
  }
  return current;
}

inline bool Filter::ordered(SegmentId segment, std::uint8_t who, Actor& actor, unsigned lane) {
  if (!segment || (segment == actor.segment && who == lane && !actor.asynchronous)) return true;
  for (SegmentId known : actor.ordered) {
    if (segment == known && who < 2 << 5) return true;
  }
  return ordered_slow(segment, who, actor, lane);
}

bool Filter::ordered_slow(SegmentId id, std::uint8_t who, Actor& actor, unsigned lane) {
  const Segment& at = segments_[id];
  const ThreadKey me = lane_of(actor.lane0, lane);
  switch (Level(who >> 5)) {
    case one_lane:
    case whole_warp: {
      if (at.group) return causality_.ordered(at.key, at.stamp, at.group, me);
      // A lane's own past is ordered; so is that of all lanes when the segment is older than a barrier of the warp.
      if (causality_.warp_ordered(at.key, at.stamp, actor.lane0)) {
        actor.ordered[actor.next++ % actor.ordered.size()] = id;
        return true;
      }
      if (who >> 5 == whole_warp) return false;
      return causality_.ordered(lane_of(at.key, who & 31), at.stamp, 0, me);
    }
    case whole_block: return causality_.block_ordered(at.key.operation(), at.key.block(), at.stamp, me);
    case whole_operation:
      if (id == actor.operation_ordered) return true;
      if (id == actor.operation_unordered) return false;
      if (causality_.operation_ordered(at.key.operation(), at.stamp, me)) {
        actor.operation_ordered = id;
        return true;
      }
      actor.operation_unordered = id;
      return false;
    case many: break;
  }
  return false;
}

// Makes the epoch stand for what it stood for and for the actor's lane.
void Filter::widen(SegmentId& segment, std::uint8_t& who, const Actor& actor, unsigned lane, Level least) {
  if (!segment) {
    segment = actor.segment;
    who = who_of(least, least == one_lane ? lane : 0);
    return;
  }
  const Segment &old = segments_[segment], &now = segments_[actor.segment];
  unsigned level = std::max<unsigned>(who >> 5, least);
  if (old.key.operation() != now.key.operation() || old.group || now.group) {
    level = many;
  } else if (old.key.block() != now.key.block()) {
    level = std::max<unsigned>(level, whole_operation);
  } else if (old.key.warp() != now.key.warp()) {
    level = std::max<unsigned>(level, whole_block);
  } else if ((who & 31) != lane || level != one_lane) {
    level = std::max<unsigned>(level, whole_warp);
  }
  segment = actor.segment;
  who = who_of(level, level == one_lane ? lane : 0);
}

bool Filter::same_operation(SegmentId segment, const Actor& actor) const {
  return segment && segments_[segment].key.operation() == actor.lane0.operation();
}

// ---- cells
// -------------------------------------------------------------------------------------------------------------

inline bool Filter::read(Cell& cell, Actor& actor, unsigned lane, Level level, bool outside) {
  // Read again by the same lane, or one more of a group that is known.
  if (cell.reads == actor.segment && !outside && (cell.reads_who == who_of(level, lane) || cell.reads_who >= 1 << 5) &&
      !actor.asynchronous) {
    return true;
  }
  if (!ordered(cell.write, cell.write_who, actor, lane) || (outside && same_operation(cell.write, actor))) return false;
  if ((cell.flags & strong_writes) && !ordered(cell.strong, cell.strong_who, actor, lane)) return false;
  if (outside) cell.flags |= non_coherent;
  if (ordered(cell.reads, cell.reads_who, actor, lane)) cell.reads = 0;
  widen(cell.reads, cell.reads_who, actor, lane, level);
  return true;
}

inline bool Filter::write(Cell& cell, Actor& actor, unsigned lane) {
  if (!ordered(cell.write, cell.write_who, actor, lane) || !ordered(cell.reads, cell.reads_who, actor, lane) ||
      !ordered(cell.strong, cell.strong_who, actor, lane)) {
    return false;
  }
  if ((cell.flags & non_coherent) && same_operation(cell.reads, actor)) return false;
  cell = Cell{};
  cell.write = actor.segment;
  cell.write_who = who_of(one_lane, lane);
  return true;
}

void Filter::mark(Cell& cell, std::uint64_t memory, std::uint64_t address) {
  cell.flags |= suspect;
  suspects_.add(memory, address);
}

Filter::Page& Filter::page(std::uint64_t memory, std::uint64_t address) {
  PageKey key{memory, address / page_bytes};
  if (key == last_key_) return *last_page_;
  auto [at, fresh] = pages_.try_emplace(key);
  if (fresh) {
    if (memory) shared_pages_[order::OperationIndex((memory - 1) >> 32)][memory - 1].push_back(key);
  }
  last_key_ = key;
  last_page_ = &at->second; // node-based: it stays
  return *last_page_;
}

void Filter::erase(const PageKey& key) {
  auto at = pages_.find(key);
  if (at == pages_.end()) return;
  cell_pages_ -= at->second.weight();
  pages_.erase(at);
}

Filter::Cell* Filter::cells(Page& page, std::uint32_t unit_log2) {
  if (page.cells && page.shift <= unit_log2) return page.cells.get();
  const std::uint32_t shift = std::min<std::uint32_t>(unit_log2, page.shift);
  const std::size_t count = page_bytes >> shift;
  auto finer = std::make_unique<Cell[]>(count);
  for (std::size_t i = 0; i < count; ++i) {
    finer[i] = page.cells ? page.cells[i >> (page.shift - shift)] : page.whole;
  }
  cell_pages_ -= page.weight();
  page.cells = std::move(finer);
  page.shift = std::uint8_t(shift);
  page.whole = Cell{};
  cell_pages_ += page.weight();
  return page.cells.get();
}

// Calls each(cell, address of the cell) for the cells of a range, each no larger than what the range divides into.
template <typename Each>
inline void Filter::each_cell(std::uint64_t memory, std::uint64_t address, std::uint64_t bytes, Each&& each) {
  if (address >= address_limit) return;
  const std::uint64_t bits = address | bytes;
  const std::uint32_t unit = bits & 1 ? 0 : bits & 2 ? 1 : 2;
  for (const std::uint64_t end = address + bytes; address < end;) {
    Page& at = page(memory, address);
    Cell* list = cells(at, unit);
    const std::uint64_t page_end = std::min(end, (address / page_bytes + 1) * page_bytes), step = 1ull << at.shift;
    for (; address < page_end; address += step) each(list[address % page_bytes >> at.shift], address);
  }
}

// ---- accesses
// ----------------------------------------------------------------------------------------------------------

void Filter::weak(const Warp& access) {
  Actor actor;
  actor.lane0 = access.lane0;
  actor.segment = segment(access.lane0, access.now);
  auto touch = [&](unsigned lane, std::uint64_t address, Level level) {
    each_cell(access.memory, address, access.bytes, [&](Cell& cell, std::uint64_t at) {
      if (cell.flags & suspect) return;
      bool good = access.write ? write(cell, actor, lane) : read(cell, actor, lane, level, access.non_coherent);
      if (!good) mark(cell, access.memory, at);
    });
  };
  const unsigned first = unsigned(std::countr_zero(access.mask)), lanes = unsigned(std::popcount(access.mask));
  if (access.affine && access.stride == 0 && lanes > 1 && !access.write) {
    // One look for all lanes, as those of the warp; a cell that one lane last wrote is no matter of the warp.
    each_cell(access.memory, access.address[first], access.bytes, [&](Cell& cell, std::uint64_t at) {
      if (cell.flags & suspect) return;
      bool good = true;
      for (std::uint32_t rest = access.mask; rest && good; rest &= rest - 1) {
        const unsigned lane = unsigned(std::countr_zero(rest));
        good = ordered(cell.write, cell.write_who, actor, lane) &&
               (!(cell.flags & strong_writes) || ordered(cell.strong, cell.strong_who, actor, lane));
        if (cell.write == 0 ||
            std::find(actor.ordered.begin(), actor.ordered.end(), cell.write) != actor.ordered.end()) {
          if (!(cell.flags & strong_writes)) break; // for all lanes alike
        }
      }
      if (!good || !read(cell, actor, first, whole_warp, access.non_coherent)) mark(cell, access.memory, at);
    });
    return;
  }
  // The usual case: a full warp, each lane the next word, all in one page.
  if (access.affine && access.bytes == 4 && access.stride == 4 && access.mask == ~0u && access.address[0] % 4 == 0 &&
      access.address[0] % page_bytes <= page_bytes - 128) {
    Page& at = page(access.memory, access.address[0]);
    Cell* list = cells(at, 2);
    if (at.shift == 2) {
      list += access.address[0] % page_bytes / 4;
      for (unsigned lane = 0; lane < 32; ++lane) {
        Cell& cell = list[lane];
        if (cell.flags & suspect) continue;
        bool good = access.write ? write(cell, actor, lane) : read(cell, actor, lane, one_lane, access.non_coherent);
        if (!good) mark(cell, access.memory, access.address[0] + 4 * lane);
      }
      return;
    }
  }
  for (std::uint32_t rest = access.mask; rest; rest &= rest - 1) {
    const unsigned lane = unsigned(std::countr_zero(rest));
    touch(lane, access.address[lane], one_lane);
  }
}

bool Filter::strong(const Strong& access) {
  const unsigned lane = access.thread.thread() & 31;
  Actor actor;
  actor.lane0 = ThreadKey(access.thread.operation(), access.thread.block(), access.thread.thread() & ~31u);
  actor.segment = segment(actor.lane0, access.now);
  const std::uint8_t size = std::uint8_t(std::bit_width(access.bytes) << 4);
  bool unordered = false;
  each_cell(access.memory, access.address, access.bytes, [&](Cell& cell, std::uint64_t at) {
    if (cell.flags & suspect) return;
    if (!access.covering) {
      bool good = access.write ? write(cell, actor, lane) : read(cell, actor, lane, one_lane, false);
      if (!good) mark(cell, access.memory, at);
      return;
    }
    const bool before = ordered(cell.strong, cell.strong_who, actor, lane);
    const bool conflict = access.write || (cell.flags & strong_writes);
    const bool alike = (cell.flags & 0xF0) == size;
    if (!ordered(cell.write, cell.write_who, actor, lane) ||
        (access.write && !ordered(cell.reads, cell.reads_who, actor, lane)) ||
        (access.write && (cell.flags & non_coherent) && same_operation(cell.reads, actor)) ||
        (!before && conflict && (!alike || access.plain || (cell.flags & strong_plain)))) {
      mark(cell, access.memory, at);
      return;
    }
    std::uint8_t kept = size;
    if (before) {
      // What comes before stays in what the epoch stands for: whatever it is unordered with is unordered with this.
      if (cell.strong && !alike) kept = mixed_sizes;
      cell.strong = 0;
    } else if (!alike) {
      mark(cell, access.memory, at); // reads of two sizes: rare, and too much for a cell
      return;
    } else {
      unordered = true;
    }
    widen(cell.strong, cell.strong_who, actor, lane, one_lane);
    cell.flags = std::uint8_t((cell.flags & 0x0F) | kept | (access.plain ? strong_plain : 0) |
                              (access.write ? strong_writes : 0));
  });
  return unordered && !access.plain;
}

void Filter::copy(std::uint64_t memory, ThreadKey thread, order::AsyncGroup group, std::uint64_t address,
                  std::uint32_t bytes, bool write_access, order::Stamp now) {
  Actor actor;
  actor.lane0 = ThreadKey(thread.operation(), thread.block(), thread.thread() & ~31u);
  actor.asynchronous = true;
  actor.segment = SegmentId(segments_.size());
  segments_.push_back({thread, now, group});
  const unsigned lane = thread.thread() & 31;
  each_cell(memory, address, bytes, [&](Cell& cell, std::uint64_t at) {
    if (cell.flags & suspect) return;
    bool good = write_access ? write(cell, actor, lane) : read(cell, actor, lane, one_lane, false);
    if (!good) mark(cell, memory, at);
  });
}

void Filter::range(order::OperationIndex operation, std::uint64_t address, std::uint64_t bytes, bool write_access,
                   order::Stamp now) {
  Actor actor;
  actor.lane0 = ThreadKey(operation, 0, 0);
  actor.segment = segment(actor.lane0, now);
  auto touch = [&](Cell& cell) { return write_access ? write(cell, actor, 0) : read(cell, actor, 0, one_lane, false); };
  for (const std::uint64_t end = address + bytes; address < end;) {
    const std::uint64_t page_end = std::min(end, (address / page_bytes + 1) * page_bytes);
    if (page_end - address == page_bytes) {
      Page& at = page(0, address);
      bool any = at.cells && write_access;
      bool good = true;
      if (!at.cells) {
        if (!(at.whole.flags & suspect) && !touch(at.whole)) {
          at.whole.flags |= suspect;
          suspects_.add_page(0, address / page_bytes);
        }
      } else {
        const std::uint64_t step = 1ull << at.shift;
        for (std::uint64_t i = 0; i < page_bytes; i += step) {
          Cell& cell = at.cells[i >> at.shift];
          if (!(cell.flags & suspect) && !touch(cell)) mark(cell, 0, address + i);
          good = good && !(cell.flags & suspect);
        }
      }
      if (any && good) { // all cells are equal now
        at.whole = at.cells[0];
        cell_pages_ -= at.weight();
        at.cells.reset();
        at.shift = 2;
      }
    } else {
      each_cell(0, address, page_end - address, [&](Cell& cell, std::uint64_t at) {
        if (!(cell.flags & suspect) && !touch(cell)) mark(cell, 0, at);
      });
    }
    address = page_end;
  }
}

// ---- memory that is over
// -----------------------------------------------------------------------------------------------

void Filter::forget_range(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t end = address + bytes, first = address / page_bytes, last = (end + page_bytes - 1) / page_bytes;
  last_key_ = {~0ull, ~0ull};
  auto forget = [&](auto at) {
    const std::uint64_t base = at->first.number * page_bytes;
    if (address <= base && base + page_bytes <= end) {
      cell_pages_ -= at->second.weight();
      return pages_.erase(at);
    }
    Page& page = at->second;
    Cell* list = cells(page, 2);
    const std::uint64_t step = 1ull << page.shift;
    for (std::uint64_t i = 0; i < page_bytes; i += step) {
      if (address <= base + i && base + i + step <= end) list[i >> page.shift] = Cell{};
    }
    return std::next(at);
  };
  if (last - first <= pages_.size()) {
    for (std::uint64_t number = first; number < last; ++number) {
      if (auto at = pages_.find({0, number}); at != pages_.end()) forget(at);
    }
    return;
  }
  for (auto at = pages_.begin(); at != pages_.end();) {
    bool inside = at->first.memory == 0 && first <= at->first.number && at->first.number < last;
    at = inside ? forget(at) : std::next(at);
  }
}

void Filter::forget_shared(order::OperationIndex operation) {
  std::erase_if(current_, [&](const auto& at) { return (at.first >> 42) == operation; }); // ThreadKey::operation
  last_warp_ = ~0ull;
  auto found = shared_pages_.find(operation);
  if (found == shared_pages_.end()) return;
  for (const auto& [block, keys] : found->second) {
    for (const PageKey& key : keys) erase(key);
  }
  shared_pages_.erase(found);
  last_key_ = {~0ull, ~0ull};
}

void Filter::forget_shared(ThreadKey block) {
  for (unsigned warp = 0; warp < 32; ++warp)
    current_.erase(ThreadKey(block.operation(), block.block(), warp * 32).bits);
  last_warp_ = ~0ull;
  auto found = shared_pages_.find(block.operation());
  if (found == shared_pages_.end()) return;
  auto pages = found->second.find(block.block_bits());
  if (pages == found->second.end()) return;
  for (const PageKey& key : pages->second) erase(key);
  found->second.erase(pages);
  last_key_ = {~0ull, ~0ull};
}

} // namespace deadheat::detect
