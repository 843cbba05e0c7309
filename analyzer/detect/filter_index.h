// Finds pages by hash: numbers that a pool has for them, in tables of eight bytes a place.
//
// Tables of a fixed number, chosen by hash, grow by a quarter each when they are full to three quarters, at different
// times: so a page takes 10.7 to 13.3 bytes whatever their number, and what is copied is small.
//
// Thread-safety: none. Invariants: what belongs to a place lies there or behind it, with no empty place between.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace deadheat::detect {

class PageIndex {
 public:
  // The number of the one with that hash for which is(number) says so; 0: there is none.
  template <typename Is>
  std::uint32_t find(std::uint32_t hash, Is&& is) const {
    const Table& table = tables_[number_of(hash)];
    if (table.empty()) return 0;
    for (std::size_t at = home(hash, table.size()); table[at].id; at = next(at, table.size())) {
      if (table[at].hash == hash && is(table[at].id)) return table[at].id;
    }
    return 0;
  }
  void insert(std::uint32_t hash, std::uint32_t id); // of one that is not there
  void erase(std::uint32_t hash, std::uint32_t id); // of one that is
  template <typename Each>
  void each(Each&& each) const {
    for (const Table& table : tables_) {
      for (const Slot& slot : table) {
        if (slot.id) each(slot.id);
      }
    }
  }
  std::size_t count() const { return count_; }
  std::uint64_t bytes() const { return places_ * sizeof(Slot); }
  // For whoever is about to find() many: brings nearer where it begins; and what lies there, 0 for nothing.
  [[gnu::always_inline]] void prefetch(std::uint32_t hash) const {
    const Table& table = tables_[number_of(hash)];
    if (!table.empty()) __builtin_prefetch(&table[home(hash, table.size())]);
  }
  [[gnu::always_inline]] std::uint32_t first(std::uint32_t hash) const {
    const Table& table = tables_[number_of(hash)];
    return table.empty() ? 0 : table[home(hash, table.size())].id;
  }

 private:
  struct Slot {
    std::uint32_t hash = 0, id = 0;
  };
  static_assert(sizeof(Slot) == 8);
  using Table = std::vector<Slot>;
  static constexpr unsigned tables_log2 = 6, tables = 1 << tables_log2;
  static unsigned number_of(std::uint32_t hash) { return hash >> (32 - tables_log2); }
  static std::size_t home(std::uint32_t hash, std::size_t size) {
    return std::size_t(std::uint64_t(hash << tables_log2) * size >> 32);
  }
  static std::size_t next(std::size_t at, std::size_t size) { return at + 1 == size ? 0 : at + 1; }
  static void put(Table& table, Slot slot);
  void grow(unsigned number);

  std::array<Table, tables> tables_;
  std::array<std::uint32_t, tables> used_{};
  std::uint64_t places_ = 0;
  std::size_t count_ = 0;
};

} // namespace deadheat::detect
