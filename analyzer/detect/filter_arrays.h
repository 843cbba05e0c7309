// Where the entries of memory that is touched here and there lie: runs of lines of a cache, in a few sizes, named by
// numbers.
//
// Entries of a block, 1024 neighbouring units, lie in an *array* that grows with their number by a third or more: ten
// to a line, each with ten bits that say whose it is, found from the unit by arithmetic. Where nearly half of the units
// have an entry, a *sheet* takes less: a place for each unit, twelve to a line, and no names. So an entry costs 5.4 to
// 9 bytes, and a look at one reads one line as a rule.
//
// Invariants: a run in use has one name, so that pack() may move it; a unit has one entry at most; an entry of segment
// 0 is none, and arrays have none. Thread-safety: none.
#pragma once

#include <emmintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "analyzer/detect/filter_pages.h"
#include "analyzer/detect/filter_pairs.h"

namespace deadheat::detect {

// Of an array. What belongs into a line lies in it or in one of the next few.
struct alignas(64) ArrayLine {
  static constexpr unsigned entries = 10, most_depth = 3;
  static constexpr std::uint32_t all = (1u << entries) - 1;
  std::uint32_t marks = 0; // from the lowest bit on: the places that are taken; their units' high bits; the depth
  std::array<std::uint8_t, entries> low{}; // of the units
  std::array<Entry, entries> entry{};

  unsigned depth() const { return marks >> 30; } // what belongs here lies in so many lines more
  void deepen(unsigned depth) { marks = std::max(marks >> 30, depth) << 30 | (marks & ~0u >> 2); }
  unsigned taken() const { return marks & all; }
  unsigned unit(unsigned place) const { return low[place] | (marks >> (entries + 2 * place) & 3) << 8; }
  // A unit's entry, or null.
  [[gnu::always_inline]] Entry* of(unsigned wanted) {
    const __m128i names = _mm_loadu_si128(reinterpret_cast<const __m128i*>(low.data()));
    unsigned alike = unsigned(_mm_movemask_epi8(_mm_cmpeq_epi8(names, _mm_set1_epi8(char(wanted))))) & taken();
    for (; alike; alike &= alike - 1) {
      const unsigned place = unsigned(std::countr_zero(alike));
      if (unit(place) == wanted) return &entry[place];
    }
    return nullptr;
  }
  // Where there is room.
  Entry* add(unsigned unit, Entry added) {
    const unsigned place = unsigned(std::countr_zero(~marks));
    marks = (marks & ~(3u << (entries + 2 * place))) | 1u << place | unit >> 8 << (entries + 2 * place);
    low[place] = std::uint8_t(unit);
    entry[place] = added;
    return &entry[place];
  }
};
static_assert(sizeof(ArrayLine) == 64);

struct alignas(64) SheetLine {
  static constexpr unsigned entries = 12;
  std::array<Entry, entries> entry;
};
static_assert(sizeof(SheetLine) == 64);

class EntryArrays {
 public:
  static constexpr unsigned units_log2 = 10, units = 1 << units_log2;
  // Lines of a size: of arrays, of sheets, and of pieces of tables, which know themselves what is in them (smaller ones
  // have the sizes of arrays).
  static constexpr std::array<std::uint8_t, 13> lines = {1, 2, 3, 4, 6, 9, 13, 19, 28, 42, 54, 86, 64};
  static constexpr unsigned sheet = 11, piece = 12;
  static constexpr std::uint32_t piece_lines = lines[piece];
  // Of the smallest run of so many lines, piece_lines at most.
  static constexpr std::uint8_t size_for(std::uint32_t count) {
    std::uint8_t size = 0;
    while (lines[size] < count) ++size;
    return size == sheet ? std::uint8_t(piece) : size;
  }
  static_assert(units <= SheetLine::entries * lines[sheet]);
  struct Name {
    std::uint32_t id = 0;
    std::uint8_t size = 0;
  };

  template <typename Line>
  [[gnu::always_inline]] Line* at(std::uint32_t id) const {
    return reinterpret_cast<Line*>(slabs_[id / slab_lines].begin.get() + id % slab_lines * 64);
  }
  [[gnu::always_inline]] Entry* in_sheet(std::uint32_t id, unsigned unit) const {
    return &at<SheetLine>(id)[unit / SheetLine::entries].entry[unit % SheetLine::entries];
  }
  // What a look at the unit's entries reads first.
  [[gnu::always_inline]] const void* first(Name name, unsigned unit) const {
    if (name.size < sheet) return at<ArrayLine>(name.id) + home(name.size, unit);
    return at<SheetLine>(name.id) + unit / SheetLine::entries;
  }
  // The unit's entry; null where it has none. fresh: where it has none and there is room at once, one is made, of
  // segment 0, which the caller is to fill, and `fresh` is set.
  [[gnu::always_inline]] Entry* find(Name name, unsigned unit, bool* fresh = nullptr) const;
  // Of a unit that has none. False: there is no room.
  bool insert(Name name, unsigned unit, Entry added) const;
  bool erase(Name name, Entry* entry); // true: nothing is left
  Name make(unsigned size); // empty
  Name grow(Name from); // a larger array, or a sheet, that has the same
  // Calls each(unit, Entry&) for all entries; it may set segments to 0 and must call swept() then.
  template <typename Each>
  void each(Name name, Each&& each) const;
  void swept(Name name) const;

  std::uint32_t allocate(unsigned size); // lines of any contents
  void free(unsigned size, std::uint32_t id);
  // Changes whenever an entry may lie elsewhere, or be gone.
  std::uint64_t moves() const { return moves_; }
  std::uint64_t bytes() const;
  // Is so much free that it is time to pack()?
  bool much_free() const;
  // Gives what is free back, or some of it for other sizes where `soon` says that they need it. each_name(name) calls
  // name(size, id&) for all that is in use.
  template <typename EachName>
  void pack(bool soon, EachName&& each_name) {
    begin_packing();
    each_name([&](unsigned size, std::uint32_t& id) { pack_one(size, id); });
    end_packing(soon);
  }

 private:
  static constexpr std::uint32_t slab_lines = std::uint32_t(slab_bytes / 64);
  struct Release {
    void operator()(unsigned char* slab) const { free_slab(slab); }
  };
  struct Slab {
    std::unique_ptr<unsigned char, Release> begin;
    std::uint32_t number = 0; // among those of its size
  };
  struct Pool { // of one size
    std::vector<std::uint32_t> slabs, free; // the free runs' names
    std::uint32_t next = 0, used = 0; // runs that were ever handed out; that are in use
  };
  static constexpr std::uint32_t per_slab(unsigned size) { return slab_lines / lines[size]; }
  // Neighbours of four lie together, and the fours spread evenly, whatever stretch or stride they are of.
  static unsigned home(unsigned size, unsigned unit) {
    const unsigned spread = ((unit >> 2) * 0x9d & 0xff) << 2 | (unit & 3);
    return spread * lines[size] >> units_log2;
  }
  static unsigned next_line(unsigned size, unsigned line) { return line + 1 == lines[size] ? 0 : line + 1; }
  void clear(Name name) const;
  bool move(Name from, Name to) const;
  void begin_packing();
  void pack_one(unsigned size, std::uint32_t& id);
  void end_packing(bool soon);
  // Of a run among those of its size.
  std::uint32_t ordinal(unsigned size, std::uint32_t id) const {
    return slabs_[id / slab_lines].number * per_slab(size) + id % slab_lines / lines[size];
  }

  std::array<Pool, lines.size()> pools_;
  std::vector<Slab> slabs_;
  std::vector<std::uint32_t> unused_; // slabs that are of no size; the last `spare_` of them have memory
  std::size_t spare_ = 0;
  std::uint64_t moves_ = 0;
};

inline Entry* EntryArrays::find(Name name, unsigned unit, bool* fresh) const {
  if (name.size == sheet) [[likely]] {
    Entry* const one = in_sheet(name.id, unit);
    if (one->segment) return one;
    if (!fresh) return nullptr;
    *fresh = true;
    *one = {};
    return one;
  }
  ArrayLine* const begin = at<ArrayLine>(name.id);
  unsigned number = home(name.size, unit);
  ArrayLine& first = begin[number];
  for (unsigned left = first.depth() + 1; left; --left, number = next_line(name.size, number)) {
    if (Entry* const found = begin[number].of(unit)) return found;
  }
  if (!fresh || first.taken() == ArrayLine::all) return nullptr;
  *fresh = true;
  return first.add(unit, {});
}

template <typename Each>
inline void EntryArrays::each(Name name, Each&& each) const {
  if (name.size < sheet) {
    ArrayLine* const begin = at<ArrayLine>(name.id);
    for (unsigned i = 0; i < lines[name.size]; ++i) {
      for (unsigned rest = begin[i].taken(); rest; rest &= rest - 1) {
        const unsigned place = unsigned(std::countr_zero(rest));
        each(begin[i].unit(place), begin[i].entry[place]);
      }
    }
    return;
  }
  for (unsigned unit = 0; unit < units; ++unit) {
    if (Entry* const one = in_sheet(name.id, unit); one->segment) each(unit, *one);
  }
}

} // namespace deadheat::detect
