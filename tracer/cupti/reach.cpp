#include "tracer/cupti/reach.h"

#include <algorithm>
#include <iterator>

#include "deadheat/footprint.h"

namespace deadheat::cupti {

namespace {

bool has_range(const std::vector<std::uint64_t>& reached, std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t first = address | trace::footprint_range;
  for (std::size_t i = 0; i + 1 < reached.size(); ++i) {
    // Sizes carry the bit, too, but no allocation begins so low.
    if (reached[i] == first && reached[i + 1] == (bytes | trace::footprint_range)) return true;
  }
  return false;
}

}  // namespace

void Reach::allocated(const trace::Allocate& memory) {
  live_[memory.address] = {memory.bytes, memory.allocation, false};
  addresses_[memory.allocation] = memory.address;
}

void Reach::freed(std::uint32_t allocation) {
  const auto known = addresses_.find(allocation);
  if (known == addresses_.end()) return;
  const auto memory = live_.find(known->second);
  if (memory != live_.end() && memory->second.allocation == allocation) {
    // Blocks in it are gone, those that reach into it from below as well.
    const std::uint64_t end = memory->first + memory->second.bytes;
    forget(memory->first, end);
    former_.erase(former_.lower_bound(memory->first), former_.lower_bound(end));
    live_.erase(memory);
  }
  addresses_.erase(known);
}

void Reach::forget(std::uint64_t begin, std::uint64_t end) {
  auto block = blocks_.lower_bound(begin);
  while (block != blocks_.begin() && end_of(std::prev(block)) > begin) --block;
  while (block != blocks_.end() && block->first < end) block = blocks_.erase(block);
}

Reach::Live::const_iterator Reach::holder(std::uint64_t address) const {
  const auto above = live_.upper_bound(address);
  if (above == live_.begin()) return live_.end();
  const auto at = std::prev(above);
  return address - at->first < at->second.bytes ? at : live_.end();
}

bool Reach::give_up() {
  believed_ = false;
  blocks_.clear();
  former_.clear();
  return false;
}

bool Reach::block_taken(std::uint64_t address, std::uint64_t bytes) {
  const auto first = holder(address);
  if (!believed_ || first == live_.end()) return true;  // memory that is not known: nothing to narrow
  if (!bytes || address + bytes < address) return give_up();
  if (gaps_) forget(address, address + bytes);
  const auto above = blocks_.lower_bound(address);
  if (above != blocks_.end() && above->first < address + bytes) return give_up();
  if (above != blocks_.begin() && end_of(std::prev(above)) > address) return give_up();
  const Block block{bytes, address + bytes <= first->first + first->second.bytes};
  if (spare_) {  // the allocator hands out as many as it takes back
    spare_.key() = address;
    spare_.mapped() = block;
    blocks_.insert(std::move(spare_));
  } else {
    blocks_[address] = block;
  }
  // A block of an expandable segment may lie in several mappings, one behind the other.
  for (auto memory = live_.find(first->first); memory != live_.end() && memory->first < address + bytes; ++memory) {
    memory->second.in_blocks = true;
    memory->second.goes_on |= memory->first + memory->second.bytes < address + bytes;
  }
  return true;
}

bool Reach::block_given(std::uint64_t address, std::uint64_t bytes) {
  if (!believed_) return true;
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) {
    // Where others were told of, one was not: what is free there is not known.
    const auto memory = holder(address);
    return memory == live_.end() || !memory->second.in_blocks || gaps_ || give_up();
  }
  if (block->second.bytes != bytes && !gaps_) return give_up();
  spare_ = blocks_.extract(block);
  if (holder(address) == live_.end()) return true;  // its first mapping is gone
  std::uint64_t& most = former_[address];
  most = std::max(most, bytes);
  return true;
}

void Reach::of(std::span<std::uint64_t> words, std::vector<std::uint64_t>& reached) const {
  if (live_.empty()) return;
  const std::uint64_t least = live_.begin()->first;
  const std::uint64_t most = live_.rbegin()->first + live_.rbegin()->second.bytes;
  std::sort(words.begin(), words.end());
  std::uint64_t done = least;  // up to where all is reached that lies there
  for (const std::uint64_t marked_word : words) {
    const std::uint64_t word = marked_word >> 1;
    if (word < done) continue;
    if (word >= most) break;
    if (const std::uint64_t end = add_block(word, reached)) {
      done = end;
      continue;
    }
    const auto memory = holder(word);
    if (memory == live_.end()) continue;
    if (memory->second.in_blocks && believed_) {
      add_free(word, marked_word & 1, reached);
    } else {
      reached.push_back(memory->second.allocation);
      done = memory->first + memory->second.bytes;
    }
  }
}

std::uint64_t Reach::add_block(std::uint64_t word, std::vector<std::uint64_t>& reached) const {
  const auto above = blocks_.upper_bound(word);
  if (above == blocks_.begin()) return 0;
  const auto block = std::prev(above);
  if (word - block->first >= block->second.bytes) return 0;
  if (block->second.in_one)
    trace::add_range(reached, block->first, block->second.bytes);
  else
    add_parts(block->first, block->second.bytes, false, reached);
  return end_of(block);
}

void Reach::add_free(std::uint64_t word, bool alone, std::vector<std::uint64_t>& reached) const {
  const auto above = blocks_.upper_bound(word);
  std::uint64_t begin = above == blocks_.begin() ? 0 : end_of(std::prev(above));
  std::uint64_t end = above == blocks_.end() ? ~std::uint64_t(0) : above->first;
  if (!alone) {
    const auto later = former_.upper_bound(word);
    if (later == former_.begin()) return;
    const auto [address, bytes] = *std::prev(later);
    if (word - address >= bytes) return;
    begin = std::max(begin, address);
    end = std::min(end, address + bytes);
  }
  // Over the mappings that blocks lay in together.
  auto first = holder(word), last = first;
  const auto follows = [](const auto& memory, const auto& next) {
    return memory->second.goes_on && memory->first + memory->second.bytes == next->first;
  };
  while (first->first > begin && first != live_.begin() && follows(std::prev(first), first)) --first;
  while (last->first + last->second.bytes < end && std::next(last) != live_.end() && follows(last, std::next(last))) {
    ++last;
  }
  begin = std::max(begin, first->first);
  add_parts(begin, std::min(end, last->first + last->second.bytes) - begin, true, reached);
}

void Reach::add_parts(std::uint64_t address, std::uint64_t bytes, bool once,
                      std::vector<std::uint64_t>& reached) const {
  const std::uint64_t end = address + bytes;
  for (auto memory = holder(address); memory != live_.end() && memory->first < end; ++memory) {
    const std::uint64_t from = std::max(address, memory->first);
    const std::uint64_t size = std::min(end, memory->first + memory->second.bytes) - from;
    if (!once || !has_range(reached, from, size)) trace::add_range(reached, from, size);
  }
}

}  // namespace deadheat::cupti
