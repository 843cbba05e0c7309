#include "tracer/cupti/locked_memory.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>

namespace deadheat::cupti {

namespace {

constexpr std::uint64_t page_bytes = 4096;

const std::uint8_t* memory_at(std::uint64_t address) { return reinterpret_cast<const std::uint8_t*>(address); }

// One call copies; false: not all of it is there.
bool read(std::uint64_t address, std::uint8_t* to, std::uint64_t bytes) {
  const iovec here{to, bytes}, there{reinterpret_cast<void*>(address), bytes};
  return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == ssize_t(bytes);
}

bool is_mapped(std::uint64_t address) {
  unsigned char resident;
  return mincore(reinterpret_cast<void*>(address / page_bytes * page_bytes), 1, &resident) == 0;
}

// Mappings that other processes may have, too (proc(5), maps).
std::vector<trace::Span> shared_mappings() {
  std::vector<trace::Span> shared;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> maps(std::fopen("/proc/self/maps", "re"), std::fclose);
  if (!maps) return {{0, ~std::uint64_t(0)}};
  char line[512];
  unsigned long long begin = 0, end = 0;
  char permissions[8] = {};
  for (bool whole = true; std::fgets(line, sizeof line, maps.get());) {
    if (whole && std::sscanf(line, "%llx-%llx %7s", &begin, &end, permissions) == 3 && permissions[3] == 's')
      shared.push_back({begin, end - begin});
    whole = std::strchr(line, '\n');
  }
  return shared;
}

bool meets(const std::vector<trace::Span>& spans, std::uint64_t address, std::uint64_t bytes) {
  return std::any_of(spans.begin(), spans.end(), [&](const trace::Span& span) {
    return span.address < address + bytes && address - std::min(address, span.address) < span.bytes;
  });
}

} // namespace

void LockedMemory::allocated(std::uint64_t address, std::uint64_t bytes) {
  memory_[address] = {bytes, next_++, 0, false, false};
}
void LockedMemory::not_to_be_read(std::uint64_t address) {
  if (const auto found = memory_.find(address); found != memory_.end()) found->second.unread = true;
}
void LockedMemory::may_vanish(std::uint64_t address) {
  if (const auto found = memory_.find(address); found != memory_.end()) found->second.registered = true;
}
void LockedMemory::freed(std::uint64_t address) { memory_.erase(address); }

std::map<std::uint64_t, LockedMemory::Memory>::const_iterator LockedMemory::holder(std::uint64_t address) const {
  const auto above = memory_.upper_bound(address);
  if (above == memory_.begin()) return memory_.end();
  const auto at = std::prev(above);
  return address - at->first < at->second.bytes ? at : memory_.end();
}

void LockedMemory::used(std::uint64_t address, std::uint64_t when) {
  if (const auto found = holder(address); found != memory_.end()) memory_[found->first].used = when;
}

void LockedMemory::keep(std::uint64_t address, std::uint64_t bytes, const Memory& memory) {
  const std::uint64_t at = bytes_.size();
  bytes_.resize(at + bytes);
  bool there = false;
  if (memory.registered) {
    there = read(address, bytes_.data() + at, bytes);
  } else if (is_mapped(address)) {
    std::memcpy(bytes_.data() + at, memory_at(address), bytes);
    there = true;
  }
  if (there)
    kept_.push_back({address, bytes, memory.number, at, memory.registered});
  else
    bytes_.resize(at);
}

bool LockedMemory::keep(const std::vector<trace::Span>& wanted, std::uint64_t& left_out) {
  forget();
  std::vector<std::pair<std::uint64_t, const Memory*>> all;
  std::uint64_t bytes = 0;
  const bool any_registered =
      std::any_of(memory_.begin(), memory_.end(), [](const auto& of) { return of.second.registered; });
  const std::vector<trace::Span> shared = any_registered ? shared_mappings() : std::vector<trace::Span>();
  for (const auto& [address, memory] : memory_) {
    if (memory.unread || (memory.registered && meets(shared, address, memory.bytes))) continue;
    all.emplace_back(address, &memory);
    bytes += memory.bytes;
  }
  if (bytes <= most_bytes) {
    for (const auto& [address, memory] : all) keep(address, memory->bytes, *memory);
    return !kept_.empty();
  }
  std::uint64_t room = most_bytes;
  std::vector<trace::Span> taken; // of allocations that are not kept as a whole: without what they have in common
  for (const trace::Span& span : wanted) {
    const auto of = holder(span.address);
    const auto is_this = [&](const auto& one) { return one.first == of->first; };
    if (of == memory_.end() || std::none_of(all.begin(), all.end(), is_this)) continue;
    const std::uint64_t count = std::min(span.bytes, of->first + of->second.bytes - span.address);
    if (count > room || meets(taken, span.address, count)) continue;
    keep(span.address, count, of->second);
    taken.push_back({span.address, count});
    room -= count;
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.second->used > b.second->used; });
  for (const auto& [address, memory] : all) {
    if (memory->bytes > room || meets(taken, address, memory->bytes)) continue;
    keep(address, memory->bytes, *memory);
    room -= memory->bytes;
  }
  left_out += bytes - (most_bytes - room);
  return !kept_.empty();
}

bool LockedMemory::compare(const std::vector<trace::Span>& without, const Changed& changed) const {
  std::size_t changes = 0;
  std::vector<std::uint8_t> now(page_bytes), told;
  for (const Kept& kept : kept_) {
    const auto memory = holder(kept.address);
    if (memory == memory_.end() || memory->second.number != kept.number) continue;
    if (!kept.registered && !is_mapped(kept.address)) continue;
    std::uint64_t begin = 0;
    const auto tell = [&] {
      if (told.empty()) return true;
      changed(begin, std::move(told));
      told.clear();
      return ++changes < most_changes;
    };
    for (std::uint64_t at = 0; at < kept.bytes; at += page_bytes) {
      const std::uint64_t count = std::min(page_bytes, kept.bytes - at), address = kept.address + at;
      const std::uint8_t* const before = bytes_.data() + kept.at + at;
      if (kept.registered) {
        if (!read(address, now.data(), count)) break;
      } else {
        if (std::memcmp(memory_at(address), before, count) == 0) {
          if (!tell()) return false;
          continue;
        }
        std::memcpy(now.data(), memory_at(address), count);
      }
      const bool parted = meets(without, address, count);
      for (std::uint64_t i = 0; i < count; ++i) {
        if (now[i] == before[i] || (parted && meets(without, address + i, 1))) {
          if (!tell()) return false;
          continue;
        }
        if (told.empty()) begin = address + i;
        told.push_back(now[i]);
      }
    }
    if (!tell()) return false;
  }
  return true;
}

void LockedMemory::forget() {
  constexpr std::uint64_t most_room = std::uint64_t(4) << 20;
  kept_.clear();
  bytes_.clear();
  if (bytes_.capacity() > most_room) std::vector<std::uint8_t>().swap(bytes_);
}

} // namespace deadheat::cupti
