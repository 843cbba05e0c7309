// Words of memory that a race may touch: what the first pass leaves for the second to look at.
//
// A set of 4-byte words, by page of 4096 bytes. `memory` is 0 for global memory, else ThreadKey::block_bits + 1 of the
// block whose shared memory it is; a word that is suspect in one block is so in all blocks of the launch.
//
// Thread-safety: none while adding; const members may be called at once.
#pragma once

#include <bitset>
#include <cstdint>
#include <functional>
#include <unordered_map>

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

  void add(const Suspects& more) {
    for (const auto& [key, words] : more.pages_) pages_[key] |= words;
  }

  bool empty() const { return pages_.empty(); }
  std::size_t words() const {
    std::size_t count = 0;
    for (const auto& [key, words] : pages_) count += words.count();
    return count;
  }
  bool page(std::uint64_t memory, std::uint64_t address) const {
    return pages_.count({home(memory), address / page_bytes}) != 0;
  }
  // Is any word of [address, address + bytes) suspect? For accesses: bytes at most a page.
  bool touches(std::uint64_t memory, std::uint64_t address, std::uint64_t bytes) const {
    const std::uint64_t end = address + bytes;
    for (std::uint64_t at = address & ~3ull; at < end;) {
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
};

}  // namespace deadheat::detect
