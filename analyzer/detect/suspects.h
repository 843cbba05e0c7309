// Words of memory that a race may touch: what the first pass leaves for the second to look at.
//
// A set of 4-byte words, by page of 4096 bytes, and ranges of pages of global memory all of whose words are.
// `memory` is 0 for global memory, else ThreadKey::block_bits + 1 of the block whose shared memory it is; a word that
// is suspect in one block is so in all blocks of the launch.
//
// Thread-safety: none while adding; const members may be called at once.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <unordered_map>
#include <vector>

#include "analyzer/order/clock.h"

namespace deadheat::detect {

inline constexpr std::uint64_t page_bytes = 4096;
// No device address reaches this; what a damaged trace says beyond it is left out.
inline constexpr std::uint64_t address_limit = std::uint64_t(1) << 62;

struct PageKey {
  std::uint64_t memory = 0, number = 0;
  friend bool operator==(const PageKey&, const PageKey&) = default;
};
struct PageHash {
  std::size_t operator()(const PageKey& key) const {
    std::uint64_t mixed = (key.number ^ key.memory * 0xc2b2ae3d27d4eb4fu) * 0x9e3779b97f4a7c15u;
    return std::size_t(mixed ^ mixed >> 32);
  }
};

class Suspects {
 public:
  void add(std::uint64_t memory, std::uint64_t address) {
    pages_[{home(memory), address / page_bytes}].set(address % page_bytes / 4);
  }
  void add_page(std::uint64_t memory, std::uint64_t number) { pages_[{home(memory), number}].set(); }
  void add_pages(std::uint64_t first, std::uint64_t end) { // of global memory
    auto at = ranges_.upper_bound(first);
    if (at != ranges_.begin() && std::prev(at)->second >= first) --at;
    while (at != ranges_.end() && at->first <= end) {
      first = std::min(first, at->first);
      end = std::max(end, at->second);
      at = ranges_.erase(at);
    }
    ranges_[first] = end;
  }

  void add(const Suspects& more) {
    for (const auto& [key, words] : more.pages_) pages_[key] |= words;
    for (const auto& [first, end] : more.ranges_) add_pages(first, end);
  }

  bool empty() const { return pages_.empty() && ranges_.empty(); }
  std::size_t words() const {
    std::size_t count = 0;
    for (const auto& [key, words] : pages_) count += key.memory || !in_range(key.number) ? words.count() : 0;
    for (const auto& [first, end] : ranges_) count += (end - first) * page_bytes / 4;
    return count;
  }
  bool page(std::uint64_t memory, std::uint64_t address) const {
    return pages_.count({home(memory), address / page_bytes}) || (!memory && in_range(address / page_bytes));
  }
  // Does the page of global memory lie in a range?
  bool in_range(std::uint64_t number) const {
    const auto behind = ranges_.upper_bound(number);
    return behind != ranges_.begin() && std::prev(behind)->second > number;
  }
  // Calls each(first, end) for what of those pages of global memory lies in ranges, in order.
  template <typename Each>
  void each_range(std::uint64_t first, std::uint64_t end, Each&& each) const {
    auto at = ranges_.upper_bound(first);
    if (at != ranges_.begin()) --at;
    for (; at != ranges_.end() && at->first < end; ++at)
      if (at->second > first) each(std::max(first, at->first), std::min(end, at->second));
  }
  // Calls each(number) for those of the pages of global memory that lie in none but have words, in order.
  template <typename Each>
  void each_page(std::uint64_t first, std::uint64_t end, Each&& each) const {
    std::vector<std::uint64_t> numbers;
    if (end - first <= pages_.size()) {
      for (std::uint64_t number = first; number < end; ++number)
        if (pages_.count({0, number})) numbers.push_back(number);
    } else {
      for (const auto& [key, words] : pages_)
        if (!key.memory && first <= key.number && key.number < end) numbers.push_back(key.number);
      std::sort(numbers.begin(), numbers.end());
    }
    for (const std::uint64_t number : numbers)
      if (!in_range(number)) each(number);
  }
  // Is any word of [address, address + bytes) suspect? For accesses: bytes at most a page.
  bool touches(std::uint64_t memory, std::uint64_t address, std::uint64_t bytes) const {
    const std::uint64_t end = address + bytes;
    for (std::uint64_t at = address & ~3ull; at < end;) {
      if (!memory && in_range(at / page_bytes)) return true;
      auto found = pages_.find({home(memory), at / page_bytes});
      std::uint64_t page_end = std::min(end, (at / page_bytes + 1) * page_bytes);
      if (found == pages_.end()) {
        at = page_end;
        continue;
      }
      for (; at < page_end; at += 4) {
        if (found->second.test(at % page_bytes / 4)) return true;
      }
    }
    return false;
  }

 private:
  static std::uint64_t home(std::uint64_t memory) {
    return memory ? std::uint64_t(order::operation_of_block(memory - 1)) + 1 : 0;
  }

  std::unordered_map<PageKey, std::bitset<page_bytes / 4>, PageHash> pages_;
  std::map<std::uint64_t, std::uint64_t> ranges_; // first page → the one behind the last; none touch
};

}  // namespace deadheat::detect
