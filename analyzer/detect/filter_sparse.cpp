#include "analyzer/detect/filter_sparse.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

namespace deadheat::detect {

namespace {

// `who` of entries: as in cells, but levels that cells do not use say more of one lane.
constexpr std::uint8_t write_level = 6, non_coherent_level = 7;
static_assert(many < write_level);
constexpr std::uint8_t wide_non_coherent = 1, wide_suspect = 16; // in the place of the lane, where it is none

std::uint8_t reads_entry(const Cell& cell) {
  if (cell.write_who & Cell::suspect) return who_of(many, wide_suspect);
  const bool outside = cell.write_who & Cell::non_coherent;
  if (cell.reads_who >> 5 == one_lane) {
    return outside ? who_of(non_coherent_level, cell.reads_who & 31) : cell.reads_who;
  }
  return std::uint8_t(cell.reads_who | (outside ? wide_non_coherent : 0));
}

void read_entry(std::uint32_t segment, std::uint8_t who, Cell& cell) {
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

// Bytes; smaller arrays are the heap's, which keeps the holes that tables leave when they grow.
constexpr std::size_t mapped_from = std::size_t(1) << 14;
constexpr std::size_t large_page = std::size_t(1) << 21;

// Begins where a large page may, since every look-up would miss in the TLB otherwise.
void* map(std::size_t bytes) {
  const std::size_t room = bytes >= large_page ? bytes + large_page : bytes;
  void* const got = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) throw std::bad_alloc();
  if (room == bytes) return got;
  char* const from = static_cast<char*>(got);
  char* const begin = from + (large_page - reinterpret_cast<std::uintptr_t>(from) % large_page) % large_page;
  char* const end = begin + (bytes + 4095) / 4096 * 4096;
  if (begin > from) munmap(from, std::size_t(begin - from));
  if (from + room > end) munmap(end, std::size_t(from + room - end));
  madvise(begin, bytes, MADV_HUGEPAGE); // a wish
  return begin;
}

} // namespace

void SparseCells::Free::operator()(Line* lines) const {
  bytes >= mapped_from ? void(munmap(lines, bytes)) : std::free(lines);
}

SparseCells::Lines SparseCells::allocate(std::uint32_t count) {
  const std::size_t bytes = count * sizeof(Line);
  if (bytes >= mapped_from) return Lines(static_cast<Line*>(map(bytes)), Free(bytes));
  void* const at = std::aligned_alloc(sizeof(Line), bytes);
  if (!at) throw std::bad_alloc();
  std::memset(at, 0, bytes);
  return Lines(static_cast<Line*>(at), Free(bytes));
}

SparseCells::Found SparseCells::find(std::uint64_t address) const {
  Found found;
  Tables* const all = region(address);
  if (!all) return found;
  const std::uint32_t wanted = key(address);
  Table& table = all->of(wanted);
  if (!table.count) return found;
  const std::uint32_t step = Tables::step(wanted, table.count);
  std::uint32_t number = Tables::home(wanted, table.count);
  for (unsigned left = table.lines[number].depth + 1u; left; --left) {
    Line& line = table.lines[number];
    unsigned alike = 0;
    for (unsigned slot = 0; slot < slots; ++slot) alike |= unsigned(line.key[slot] == wanted) << slot;
    for (; alike; alike &= alike - 1) {
      const unsigned slot = unsigned(std::countr_zero(alike));
      if (!line.segment[slot]) continue;
      const std::uint8_t who = line.who[slot];
      if (who >> 5 == write_level) {
        found.write = &line.segment[slot];
        found.write_who = &line.who[slot];
        found.cell.write = line.segment[slot];
        found.cell.write_who |= who & 31;
      } else {
        found.reads = &line.segment[slot];
        found.reads_who = &line.who[slot];
        read_entry(line.segment[slot], who, found.cell);
      }
    }
    number += step;
    if (number >= table.count) number -= table.count;
  }
  return found;
}

bool SparseCells::insert(Table& table, std::uint32_t wanted, std::uint32_t segment, std::uint8_t who) {
  if (!table.count) return false;
  const std::uint32_t home = Tables::home(wanted, table.count), step = Tables::step(wanted, table.count);
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
    table = Table(count);
    for (std::uint32_t i = 0; i < old.count; ++i) {
      const Line& line = old.lines[i];
      for (unsigned slot = 0; slot < slots; ++slot) {
        if (line.segment[slot] && !insert(table, line.key[slot], line.segment[slot], line.who[slot])) return false;
      }
    }
    return true;
  };
  while (!fill()) count += count / 8 + 1;
  line_count_ += table.count;
  line_count_ -= old.count;
}

void SparseCells::put(std::uint64_t address, const Found& found, const Cell& cell, bool with_write) {
  auto one = [&](std::uint32_t* segment, std::uint8_t* at, std::uint32_t now, std::uint8_t who) {
    if (segment) {
      *segment = now;
      *at = who;
      if (!now) gone(address);
      return;
    }
    if (!now) return;
    Tables* all = region(address);
    if (!all) {
      const std::uint64_t number = address >> unit_log2_ >> 32;
      all = (regions_[number] = std::make_unique<Tables>()).get();
    }
    const std::uint32_t wanted = key(address);
    Table& table = all->of(wanted);
    bool room = 100ull * (table.used + 1) <= 91ull * slots * table.count;
    while (!room || !insert(table, wanted, now, who)) {
      resize(table, table.count + table.count / 6 + 1);
      room = true;
    }
    ++used_;
    pages_.set(page_bit(address / page_bytes));
  };
  const bool suspect = cell.write_who & Cell::suspect;
  // The second may move what `found` points to; so what is there comes first.
  const std::uint8_t write_who = who_of(write_level, cell.write_who & 31), reads_who = reads_entry(cell);
  const std::uint32_t write = with_write && !suspect ? cell.write : 0;
  const std::uint32_t reads = suspect ? std::max(1u, std::max<std::uint32_t>(cell.reads, cell.write)) : cell.reads;
  if (found.write) one(found.write, found.write_who, write, write_who);
  if (found.reads) one(found.reads, found.reads_who, reads, reads_who);
  if (!found.write) one(nullptr, nullptr, write, write_who);
  if (!found.reads) one(nullptr, nullptr, reads, reads_who);
}

void SparseCells::gone(std::uint64_t address) {
  --used_;
  --region(address)->of(key(address)).used;
}

void SparseCells::erase(std::uint64_t address, const Found& found) {
  for (std::uint32_t* segment : {found.write, found.reads}) {
    if (!segment) continue;
    *segment = 0;
    gone(address);
  }
}

void SparseCells::shrink() {
  for (auto at = regions_.begin(); at != regions_.end();) {
    bool any = false;
    for (Table& table : at->second->table) {
      std::uint32_t used = 0;
      for (std::uint32_t i = 0; i < table.count; ++i) {
        for (std::uint32_t segment : table.lines[i].segment) used += segment != 0;
      }
      any |= used != 0;
      table.used = used;
      const std::uint32_t wanted = used ? used * 100 / 88 / slots + 1 : 0;
      if (wanted < table.count) {
        if (used) {
          resize(table, wanted);
        } else {
          line_count_ -= table.count;
          table = Table{};
        }
      }
    }
    at = any ? std::next(at) : regions_.erase(at);
  }
  recent_number_ = ~0ull;
  if (!used_) pages_.reset();
}

} // namespace deadheat::detect
