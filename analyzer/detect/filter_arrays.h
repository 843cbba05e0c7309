// Where the entries of memory that is touched here and there lie: arrays in a few sizes, named by numbers.
//
// Invariants: an array in use has one name, so that pack() may move it.
// Thread-safety: none.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>

#include "analyzer/detect/filter_pages.h"

namespace deadheat::detect {

struct [[gnu::packed]] Entry {
  SegmentId segment = 0;
  std::uint8_t who = 0;
};
static_assert(sizeof(Entry) == 5);

// Bytes that begin where a large page may when there are many, and are all zero.
template <typename T>
struct Zeroed {
  struct Free {
    std::size_t bytes = 0;
    void operator()(T* list) const { free_zeroed(list, bytes); }
  };
  using Pointer = std::unique_ptr<T[], Free>;
  static Pointer make(std::size_t count) {
    return Pointer(static_cast<T*>(allocate_zeroed(count * sizeof(T))), Free{count * sizeof(T)});
  }
};

// By what block numbers are multiplied. Not by what partition_of() multiplies: a worker's pages have some bits of that
// product in common, and tables would be full in some places and empty in others.
inline constexpr std::uint64_t block_mix = 0xd6e8feb86659fd93u;

// Entries of a sheet (filter_sheets.h), those that share a line of a cache: none lies in two.
struct alignas(64) SheetLine {
  static constexpr unsigned entries = 12;
  std::array<Entry, entries> entry;
};
static_assert(sizeof(SheetLine) == 64);

// Arrays of entries for blocks, in a few sizes, and for sheets.
class EntryArrays {
 public:
  // The last two have a place, or two, for each unit; the others are for entries in their units' order.
  static constexpr std::array<std::uint8_t, 9> room = {4, 6, 10, 16, 24, 34, 48, 32, 64};
  static constexpr unsigned one_each = 7, two_each = 8;
  static constexpr unsigned sheet = 9, sheet_lines = (1024 + SheetLine::entries - 1) / SheetLine::entries;

  [[gnu::always_inline]] Entry* at(unsigned size, std::uint32_t id) const {
    if (size == one_each) [[likely]]
      return std::get<one_each>(pools_).at(id);
    return at_any(size, id);
  }
  [[gnu::always_inline]] SheetLine* sheet_at(std::uint32_t id) const { return std::get<sheet>(pools_).at(id); }
  std::uint32_t allocate(unsigned size);
  void free(unsigned size, std::uint32_t id);
  std::uint64_t bytes() const;
  // Is so much free that it is time to pack()?
  bool much_free() const;
  // Gives what is free back. each_name(name) calls name(size, id&) for all arrays in use.
  template <typename EachName>
  void pack(EachName&& each_name) {
    each([](auto& pool) { pool.begin_packing(); });
    each_name([&](unsigned size, std::uint32_t& id) { pack_one(size, id); });
    each([](auto& pool) { pool.end_packing(); });
  }

 private:
  Entry* at_any(unsigned size, std::uint32_t id) const;
  void pack_one(unsigned size, std::uint32_t& id);
  template <typename Each>
  void each(Each&& each) {
    std::apply([&](auto&... pool) { (each(pool), ...); }, pools_);
  }
  template <std::size_t... i>
  static auto pools(std::index_sequence<i...>)
      -> std::tuple<CellPool<Entry, room[i]>..., CellPool<SheetLine, sheet_lines>>;
  decltype(pools(std::make_index_sequence<room.size()>())) pools_;
};

} // namespace deadheat::detect
