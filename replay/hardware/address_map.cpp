#include "replay/hardware/address_map.h"

#include <algorithm>
#include <cstring>

#include "deadheat/address.h"

namespace deadheat::hardware {

namespace {
// Behind each allocation lies a gap, and ranges begin at such multiples (replay/device/memory.h).
constexpr std::uint64_t alignment = 512;
} // namespace

void AddressMap::Range::include(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t begin = address / alignment * alignment;
  const std::uint64_t end = (address + bytes + alignment) / alignment * alignment;
  low = high == 0 ? begin : std::min(low, begin);
  high = std::max(high, end);
}

bool AddressMap::is_symbol(const trace::Allocate& record) {
  return record.kind == trace::Allocate::Kind::symbol ||
         (record.kind == trace::Allocate::Kind::managed && !record.name.empty());
}

void AddressMap::add(const trace::Allocate& record) {
  if (is_symbol(record)) return;
  if (record.address & device_bit) {
    device_.include(record.address, record.bytes);
  } else {
    host_.include(record.address, record.bytes);
  }
}

void AddressMap::place_freed(std::uint64_t recorded, std::uint64_t bytes, std::uint64_t at) {
  freed_ = {recorded, recorded + bytes, at};
}

void AddressMap::place_symbol(std::uint64_t recorded, std::uint64_t bytes, std::uint64_t at) {
  symbols_.push_back({recorded, recorded + std::max<std::uint64_t>(bytes, 1), at});
}

std::uint64_t AddressMap::here(std::uint64_t recorded) const {
  for (const Range& symbol : symbols_) {
    if (symbol.holds(recorded)) return symbol.at + (recorded - symbol.low);
  }
  for (const Range* range : {&freed_, &device_, &host_}) {
    if (range->at && range->holds(recorded)) return range->at + (recorded - range->low);
  }
  return 0;
}

std::uint64_t AddressMap::recorded(std::uint64_t here) const {
  auto inside = [&](const Range& range) { return range.at && here - range.at < range.high - range.low; };
  for (const Range& symbol : symbols_) {
    if (inside(symbol)) return symbol.low + (here - symbol.at);
  }
  for (const Range* range : {&freed_, &device_, &host_}) {
    if (inside(*range)) return range->low + (here - range->at);
  }
  return 0;
}

void AddressMap::to_here(std::uint8_t* data, std::uint64_t bytes) const {
  for (std::uint64_t at = 0; at + 8 <= bytes; at += 8) {
    std::uint64_t word;
    std::memcpy(&word, data + at, 8);
    if (word < pinned_arena && !(word & device_bit)) continue; // most words: too small for any
    if (std::uint64_t found = here(word)) std::memcpy(data + at, &found, 8);
  }
}

void AddressMap::to_recorded(std::uint8_t* data, std::uint64_t bytes) const {
  for (std::uint64_t at = 0; at + 8 <= bytes; at += 8) {
    std::uint64_t word;
    std::memcpy(&word, data + at, 8);
    if (word >> 32 == 0) continue;
    if (std::uint64_t found = recorded(word)) std::memcpy(data + at, &found, 8);
  }
}

} // namespace deadheat::hardware
