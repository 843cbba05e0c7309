#include "replay/device/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace deadheat::device {

namespace {
constexpr std::uint64_t page = 4096, gap = 64; // runs closer than a gap are reported as one
const std::uint8_t* at(std::uint64_t address) { return reinterpret_cast<const std::uint8_t*>(address); }
} // namespace

void HostMemory::add(std::uint64_t address, std::uint64_t bytes) {
  saved_[address].assign(at(address), at(address) + bytes);
}

void HostMemory::compare(const Changed& changed) {
  for (auto& [address, saved] : saved_) compare(address, saved, changed);
}

void HostMemory::compare_at(std::uint64_t address, const Changed& changed) {
  auto found = saved_.upper_bound(address);
  if (found == saved_.begin()) return;
  --found;
  if (address - found->first < found->second.size()) compare(found->first, found->second, changed);
}

void HostMemory::compare(std::uint64_t address, std::vector<std::uint8_t>& saved, const Changed& changed) {
  const std::uint64_t size = saved.size();
  const std::uint8_t* now = at(address);
  std::uint64_t first = size, last = 0; // of the run that is being collected
  auto report = [&] {
    if (first >= last) return;
    changed(address + first, now + first, last - first);
    std::memcpy(saved.data() + first, now + first, last - first);
    first = size;
    last = 0;
  };
  for (std::uint64_t p = 0; p < size; p += page) {
    const std::uint64_t end = std::min(p + page, size);
    if (std::memcmp(saved.data() + p, now + p, end - p) == 0) continue;
    for (std::uint64_t i = p; i < end; ++i) {
      if (saved[i] == now[i]) continue;
      if (first < last && i - last >= gap) report();
      first = std::min(first, i);
      last = i + 1;
    }
  }
  report();
}

void HostMemory::forget(std::uint64_t address, std::uint64_t bytes) {
  auto found = saved_.upper_bound(address);
  if (found == saved_.begin()) return;
  --found;
  const std::uint64_t offset = address - found->first, size = found->second.size();
  if (offset >= size) return;
  std::memcpy(found->second.data() + offset, at(address), std::min(bytes, size - offset));
}

std::uint8_t* HostMemory::saved(std::uint64_t address, std::uint64_t bytes) {
  auto found = saved_.upper_bound(address);
  if (found == saved_.begin()) return nullptr;
  --found;
  const std::uint64_t offset = address - found->first, size = found->second.size();
  return offset < size && bytes <= size - offset ? found->second.data() + offset : nullptr;
}

std::vector<HostMemory::Run> HostMemory::set_aside() {
  std::vector<Run> runs;
  compare([&](std::uint64_t address, const std::uint8_t* data, std::uint64_t bytes) {
    const std::uint8_t* known = saved(address, bytes);
    runs.push_back({address, {known, known + bytes}, {data, data + bytes}});
  });
  return runs;
}

void HostMemory::put_back(const std::vector<Run>& runs) {
  for (const Run& run : runs) {
    std::uint8_t* known = saved(run.address, run.now.size());
    for (std::uint64_t i = 0; known && i < run.now.size(); ++i)
      if (known[i] == run.now[i]) known[i] = run.known[i];
  }
}

namespace {

// What differs at `from` from what both sides held last goes to `to`.
void carry(std::vector<std::uint8_t>& agreed, std::uint64_t from, std::uint64_t to) {
  const std::uint64_t size = agreed.size();
  const std::uint8_t* source = at(from);
  auto* destination = reinterpret_cast<std::uint8_t*>(to);
  for (std::uint64_t p = 0; p < size; p += page) {
    const std::uint64_t end = std::min(p + page, size);
    if (std::memcmp(agreed.data() + p, source + p, end - p) == 0) continue;
    for (std::uint64_t i = p; i < end; ++i) {
      if (agreed[i] != source[i]) agreed[i] = destination[i] = source[i];
    }
  }
}

} // namespace

void HostMirrors::add(std::uint64_t place, std::uint64_t host, std::uint64_t bytes) {
  std::memcpy(reinterpret_cast<void*>(place), at(host), bytes);
  mirrors_[place] = {host, {at(host), at(host) + bytes}};
}

void HostMirrors::to_device() {
  drop_unmapped();
  for (auto& [place, mirror] : mirrors_) carry(mirror.agreed, mirror.host, place);
}

void HostMirrors::to_host() {
  drop_unmapped();
  for (auto& [place, mirror] : mirrors_) carry(mirror.agreed, place, mirror.host);
}

void HostMirrors::drop_unmapped() {
  std::erase_if(mirrors_, [](const auto& entry) {
    const std::uint64_t low = entry.second.host / page * page, high = entry.second.host + entry.second.agreed.size();
    return msync(reinterpret_cast<void*>(low), high - low, MS_ASYNC) != 0; // fails where no page is
  });
}

} // namespace deadheat::device
