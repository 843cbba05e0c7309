// Tables by the numbers that a recorder gives out one after another: ids of operations, numbers of launches.
//
// Thread-safety: none.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace deadheat::order {

// A value for each of some numbers, 0 for all others. Where the numbers lie densely an entry costs what the value does;
// a damaged trace's numbers may lie anywhere.
template <typename Value>
class IdTable {
 public:
  Value operator[](std::uint32_t id) const {
    const auto page = pages_.find(id / in_page);
    return page == pages_.end() ? Value() : (*page->second)[id % in_page];
  }
  Value& at(std::uint32_t id) { // makes room for it
    std::unique_ptr<Page>& page = pages_[id / in_page];
    if (!page) page = std::make_unique<Page>();
    return (*page)[id % in_page];
  }

 private:
  static constexpr std::uint32_t in_page = 1024;
  using Page = std::array<Value, in_page>;
  std::unordered_map<std::uint32_t, std::unique_ptr<Page>> pages_;
};

class IdSet {
 public:
  bool contains(std::uint32_t id) const { return words_[id / 64] >> id % 64 & 1; }
  bool insert(std::uint32_t id) { // false: it was there
    std::uint64_t& word = words_.at(id / 64);
    const std::uint64_t bit = std::uint64_t(1) << id % 64, before = word & bit;
    word |= bit;
    return !before;
  }

 private:
  IdTable<std::uint64_t> words_;
};

} // namespace deadheat::order
