// Tables of what lies here and there, in lines of a cache: seven entries to a line, each with its key.
//
// A key is a unit's number in its region, or says with its highest bit that the entry names an array (filter_arrays.h)
// of the unit's block. Where a block's entries lie depends on the block alone, so that a look at one finds the others.
//
// Thread-safety: none. Invariants: an entry of segment 0 is none; what belongs into a line lies in it or in one of the
// next `depth` ones of its probe sequence.
#pragma once

#include <emmintrin.h>

#include <array>
#include <cstdint>
#include <vector>

#include "analyzer/detect/filter_arrays.h"
#include "analyzer/detect/partition.h"

namespace deadheat::detect {

struct alignas(64) EntryLine {
  static constexpr unsigned slots = 7;
  std::array<std::uint32_t, slots> key;
  std::array<std::uint32_t, slots> segment; // of an array: its name and 1
  std::array<std::uint8_t, slots> who; // of an array: its size
  std::uint8_t depth;

  unsigned empty() const { // places
    const __m128i zero = _mm_setzero_si128();
    auto nothing = [&](unsigned from) {
      const __m128i names = _mm_loadu_si128(reinterpret_cast<const __m128i*>(&segment[from]));
      return unsigned(_mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(names, zero))));
    };
    return nothing(0) | nothing(3) << 3;
  }
  // The places whose keys are of the block that `wanted` is of, as far as they lie in the same way.
  [[gnu::always_inline]] unsigned near(std::uint32_t wanted) const {
    static_assert(slots == 7);
    const __m128i block = _mm_set1_epi32(int(wanted >> EntryArrays::units_log2));
    auto alike = [&](unsigned from) {
      const __m128i keys = _mm_loadu_si128(reinterpret_cast<const __m128i*>(&key[from]));
      const __m128i same = _mm_cmpeq_epi32(_mm_srli_epi32(keys, EntryArrays::units_log2), block);
      return unsigned(_mm_movemask_ps(_mm_castsi128_ps(same)));
    };
    return alike(0) | alike(3) << 3;
  }
  [[gnu::always_inline]] bool has(std::uint32_t wanted) const {
    bool any = false;
    for (unsigned place = 0; place < slots; ++place) any |= key[place] == wanted && segment[place];
    return any;
  }
};
static_assert(sizeof(EntryLine) == 64);

class LineTable {
 public:
  static constexpr unsigned slots = EntryLine::slots;
  static constexpr unsigned key_bits = 31; // of a unit's number
  static constexpr std::uint32_t array_bit = 1u << key_bits;
  static bool is_array(std::uint32_t key) { return key & array_bit; }
  static std::uint32_t array_key(std::uint32_t unit) {
    return array_bit | unit >> EntryArrays::units_log2 << EntryArrays::units_log2;
  }

  // Tables of a region, chosen by hash, which are of sizes that differ by a little each: so they do not grow all at the
  // same time, and what is free in them is always about the same share.
  static constexpr unsigned of_region_log2 = 3, of_region = 1 << of_region_log2;
  static unsigned number_of(std::uint32_t key) { return unsigned(mixed(key) >> (64 - of_region_log2)); }

  std::uint32_t lines() const { return count_; }
  std::uint32_t used() const { return used_; } // places
  std::uint64_t bytes() const { return pieces_.size() * sizeof(Piece); } // beside the lines
  [[gnu::always_inline]] EntryLine& line(std::uint32_t number) const {
    return pieces_[number / EntryArrays::piece_lines].lines[number % EntryArrays::piece_lines];
  }
  // Where the key's block begins; there must be lines.
  [[gnu::always_inline]] EntryLine& first_line(std::uint32_t key) const { return line(home(key, count_)); }
  // Calls each(line) for the lines in which the key's block may have something, until that says true.
  template <typename Each>
  [[gnu::always_inline]] void each_line(std::uint32_t key, Each&& each) const {
    if (!count_) return;
    const std::uint32_t home = this->home(key, count_);
    EntryLine& first = line(home);
    if (each(first) || !first.depth) return;
    const std::uint32_t step = this->step(key, count_);
    std::uint32_t number = home;
    for (unsigned left = first.depth; left; --left) {
      number += step;
      if (number >= count_) number -= count_;
      if (number == home || each(line(number))) return; // a small table, and the depth is another key's
    }
  }

  // Of a key that has none. number: the table's in its region. True: the table has grown.
  bool insert(EntryArrays& arrays, unsigned number, std::uint32_t key, std::uint32_t segment, std::uint8_t who);
  void clear(EntryLine& line, unsigned place) {
    line.key[place] = line.segment[place] = 0;
    --used_;
  }
  void cleared(std::uint32_t places) { used_ -= places; } // whose segments the caller has set to 0
  // No larger than what is there needs, if it is much larger: true.
  bool shrink(EntryArrays& arrays);
  void fit(EntryArrays& arrays); // the same, if it is larger at all
  // Calls name(size, id&) for all runs that it has of EntryArrays, which may move them.
  template <typename Name>
  void each_run(const EntryArrays& arrays, Name&& name) {
    for (Piece& piece : pieces_) {
      name(piece.size, piece.id);
      piece.lines = arrays.at<EntryLine>(piece.id);
    }
  }

 private:
  struct Piece {
    EntryLine* lines = nullptr; // null: not there yet
    std::uint32_t id = 0; // in EntryArrays
    std::uint8_t size = 0;
  };
  static constexpr unsigned most_depth = 200;
  // A block's hash, alike for all its units: of the product that partition_of() takes a page's part from, what lies
  // below the part. Pages at regular distances, of which such a product is spread evenly, lie evenly in a worker's
  // tables then as in those of one that has all pages: those of a part are an interval of the product, which these bits
  // divide again. By another product a worker's pages would be as good as random, and every third line too full for its
  // own; by the part's bits some places of its tables would be full and others empty.
  static std::uint64_t mixed(std::uint32_t key) {
    return block(key) * (std::uint64_t(part_multiplier) << (64 - part_shift));
  }
  static std::uint32_t block(std::uint32_t key) { return (key & ~array_bit) >> EntryArrays::units_log2; }
  // Monotonous in the hash: a table that grows is copied from front to back.
  static std::uint32_t home(std::uint32_t key, std::uint32_t count) {
    return std::uint32_t((std::uint64_t(std::uint32_t(mixed(key) >> (32 - of_region_log2))) * count) >> 32);
  }
  // From one line for the key to the next: near, and not the same for all keys, so that full lines do not cluster.
  static std::uint32_t step(std::uint32_t key, std::uint32_t count) {
    const std::uint32_t step = 1 + 2 * std::uint32_t(block(key) * 0xd6e8feb86659fd93u >> 59);
    return step < count ? step : 1;
  }
  static std::uint32_t larger(std::uint32_t count, unsigned number);
  // Do most entries name arrays?
  bool of_arrays() const { return 2 * named_arrays_ > used_; }
  std::uint32_t fitting_lines(unsigned percent) const; // for what there is, so full
  EntryLine& line_or_new(EntryArrays& arrays, std::uint32_t number) {
    const Piece& piece = pieces_[number / EntryArrays::piece_lines];
    if (!piece.lines) [[unlikely]]
      add_piece(arrays, number / EntryArrays::piece_lines);
    return piece.lines[number % EntryArrays::piece_lines];
  }
  void add_piece(EntryArrays& arrays, std::uint32_t number);
  bool try_insert(EntryArrays& arrays, std::uint32_t key, std::uint32_t segment, std::uint8_t who);
  void resize(EntryArrays& arrays, std::uint32_t count);

  std::vector<Piece> pieces_; // of piece_lines lines each, but for the last one
  std::uint32_t count_ = 0, used_ = 0; // lines; places that are taken
  std::uint32_t named_arrays_ = 0; // entries that name arrays: no fewer than there are, and as many when it was resized
};

} // namespace deadheat::detect
