#include "analyzer/detect/refills.h"

#include <algorithm>
#include <bit>

#include "deadheat/lanes.h"
#include "deadheat/vector_values.h"

namespace deadheat::detect {

namespace {

bool has(const std::vector<std::uint32_t>& sites, std::uint32_t site) {
  return std::binary_search(sites.begin(), sites.end(), site);
}

// Of the read's elements, those whose value the write leaves as it was; as far as that is known.
std::uint32_t unchanged(const Refills::Vector& read, const Refills::Vector& write) {
  const std::uint32_t bytes = read.access.bytes;
  if (read.access.address != write.access.address || bytes != write.access.bytes || read.elements != write.elements)
    return 0;
  if (!packed(bytes, read.elements)) return read.value == write.value ? ~0u : 0;
  std::uint32_t same = 0;
  for (std::uint32_t e = 0; e < read.elements; ++e)
    same |= std::uint32_t(element_of(read.value, e, bytes) == element_of(write.value, e, bytes)) << e;
  return same;
}

// Can it be that the write came first?
bool may_be_older(const Refills::Vector& write, const Refills::Vector& read) {
  const bool exact = read.order_first == read.order_last && write.order_first == write.order_last;
  return !exact && read.order_last >= write.order_first;
}

} // namespace

void Refills::next(const Next& next) {
  const auto warp = warps_.find(next.lane0.bits);
  if (warp == warps_.end()) return;
  auto& lanes = warp->second;
  for (auto at = lanes.begin(); at != lanes.end();) {
    std::vector<Waiting>& reads = at->second;
    const unsigned lane = at->first;
    if (next.mask >> lane & 1) {
      std::erase_if(reads, [&](Waiting& read) {
        if (read.module != next.module) return true;
        if (has(read.next().beside, next.site)) {
          read.behind_others = true;
          return false;
        }
        const bool again = has(read.flagged->again, next.site);
        const bool elsewhere = next.memory != read.vector.memory || next.address != read.vector.access.address;
        if (again ? elsewhere && read.flagged->moves_on : has(read.next().behind, next.site)) take(read);
        return true;
      });
    }
    at = reads.empty() ? lanes.erase(at) : std::next(at);
  }
  if (lanes.empty()) warps_.erase(warp);
}

void Refills::ends(order::ThreadKey lane0, std::uint32_t mask) {
  const auto warp = warps_.find(lane0.bits);
  if (warp == warps_.end()) return;
  each_lane(mask, [&](unsigned lane) {
    const auto reads = warp->second.find(lane);
    if (reads == warp->second.end()) return;
    for (const Waiting& read : reads->second)
      if (read.next().ends) take(read);
    warp->second.erase(reads);
  });
  if (warp->second.empty()) warps_.erase(warp);
}

void Refills::read(const Vector& vector, std::uint32_t module, const ptx::FlaggedRead& flagged) {
  if (!looks_at(vector.memory, vector.access.address)) return;
  const order::ThreadKey thread = vector.access.thread;
  const unsigned lane = thread.thread() & 31;
  warps_[thread.bits - lane][lane].push_back({vector, module, &flagged, false, {}});
  const auto [slot, fresh] = slots_[vector.memory].try_emplace(vector.access.address / slot_bytes);
  places_ += fresh;
  looked_ += slot->second.looked.insert(thread.bits).second;
}

void Refills::take(const Waiting& read) {
  for (const Race& race : read.beside) sink_(race.first, race.second, race.overlap);
  const MemoryAccess& access = read.vector.access;
  const auto [place, fresh] = slots_[read.vector.memory].try_emplace(access.address / slot_bytes);
  places_ += fresh;
  std::vector<Taken>& taken = place->second.taken;
  for (Taken& one : taken) { // what comes behind this one comes behind those before it
    const MemoryAccess& before = one.vector.access;
    if (before.thread != access.thread || before.place != access.place || before.address != access.address) continue;
    if (before.stamp < access.stamp) one.vector = read.vector;
    return;
  }
  if (taken.size() == most_of_slot || taken_ == most_of_all) {
    ++left_out_;
    return;
  }
  taken.push_back({read.vector, read.flagged->data});
  ++taken_;
}

void Refills::write(const Vector& vector) {
  const auto memory = slots_.find(vector.memory);
  if (memory == slots_.end()) return;
  const std::uint64_t begin = vector.access.address, end = begin + vector.access.bytes * vector.elements;
  for (std::uint64_t slot = begin / slot_bytes - (begin >= slot_bytes); slot <= (end - 1) / slot_bytes; ++slot) {
    const auto found = memory->second.find(slot);
    if (found == memory->second.end()) continue;
    for (const Taken& read : found->second.taken)
      if (const auto race = compare(read.vector, read.data, vector)) sink_(race->first, race->second, race->overlap);
    write_beside(slot, found->second, vector);
  }
}

// Reads of which nobody knows yet whether they were the last ones.
void Refills::write_beside(std::uint64_t number, Slot& slot, const Vector& write) {
  looked_ -= std::erase_if(slot.looked, [&](std::uint64_t thread) {
    const auto warp = warps_.find(thread & ~std::uint64_t(31));
    if (warp == warps_.end()) return true;
    const auto reads = warp->second.find(unsigned(thread & 31));
    if (reads == warp->second.end()) return true;
    for (Waiting& read : reads->second) {
      if (read.vector.memory != write.memory || read.vector.access.address / slot_bytes != number) continue;
      const auto race = compare(read.vector, read.flagged->data, write);
      if (!race) continue;
      if (read.beside.size() < most_beside)
        read.beside.push_back(*race);
      else
        ++left_out_;
    }
    return false;
  });
}

std::optional<Refills::Race> Refills::compare(const Vector& read, std::uint32_t data, const Vector& write) const {
  const MemoryAccess &first = read.access, &second = write.access;
  if (first.thread == second.thread) return {};
  const std::uint64_t begin = second.address, end = begin + second.bytes * write.elements;
  std::uint32_t overlapping = 0;
  for (std::uint32_t e = 0; e < read.elements; ++e) {
    const std::uint64_t at = first.address + std::uint64_t(e) * first.bytes;
    if ((data >> e & 1) && at < end && begin < at + first.bytes) overlapping |= 1u << e;
  }
  overlapping &= ~unchanged(read, write);
  if (!overlapping || may_be_older(write, read)) return {};
  if (causality_.ordered(first.thread, first.stamp, 0, second.thread, order::Restriction::none, true)) return {};
  MemoryAccess one = first, two = second;
  one.address += std::uint64_t(std::countr_zero(overlapping)) * first.bytes;
  two.address += (std::max(one.address, begin) - begin) / second.bytes * second.bytes;
  const std::uint64_t from = std::max(one.address, two.address);
  const std::uint64_t to = std::min(one.address + one.bytes, two.address + two.bytes);
  return Race{one, two, {read.memory, from, std::uint32_t(to - from)}};
}

// ---- memory that has another owner, or none

void Refills::forget_range(std::uint64_t address, std::uint64_t bytes) {
  const auto memory = slots_.find(0);
  if (memory == slots_.end()) return;
  const auto in_range = [&](const Taken& read) { return read.vector.access.address - address < bytes; };
  const auto each = [&](auto at) { taken_ -= std::erase_if(at->second.taken, in_range); };
  Slots& slots = memory->second;
  const std::uint64_t first = address / slot_bytes, count = bytes / slot_bytes + 2;
  if (count > slots.size()) {
    for (auto at = slots.begin(); at != slots.end(); ++at) each(at);
    return;
  }
  for (std::uint64_t slot = first; slot < first + count; ++slot)
    if (const auto at = slots.find(slot); at != slots.end()) each(at);
}

void Refills::forget(order::OperationIndex operation) {
  std::erase_if(warps_, [&](const auto& warp) {
    order::ThreadKey lane0;
    lane0.bits = warp.first;
    return lane0.operation() == operation;
  });
  std::erase_if(slots_, [&](const auto& memory) {
    if (!memory.first || order::operation_of_block(memory.first - 1) != operation) return false;
    for (const auto& [address, slot] : memory.second) forget(slot);
    return true;
  });
}

void Refills::forget(order::ThreadKey block) {
  const auto memory = slots_.find(block.block_bits() + 1);
  if (memory == slots_.end()) return;
  for (const auto& [address, slot] : memory->second) forget(slot);
  slots_.erase(memory);
}

void Refills::forget_inactive() {
  for (auto& [lane0, lanes] : warps_) {
    for (auto& [lane, reads] : lanes)
      std::erase_if(reads,
                    [&](const Waiting& read) { return !looks_at(read.vector.memory, read.vector.access.address); });
  }
  for (auto& of_memory : slots_) {
    std::erase_if(of_memory.second, [&](const auto& slot) {
      if (looks_at(of_memory.first, slot.first * slot_bytes)) return false;
      forget(slot.second);
      return true;
    });
  }
}

} // namespace deadheat::detect
