#include "analyzer/order/histories.h"

#include <algorithm>
#include <cstring>
#include <functional>

namespace deadheat::order {

namespace {

constexpr Stamp newest = ~Stamp(0);

// Tickets of Causality::strong_access: a write has an even one, a read the odd one behind the write that it returns.
std::uint64_t ticket_of_write(Stamp stamp) { return 2 * stamp; }
std::uint64_t ticket_of_read(Stamp position) { return 2 * position + 1; }

std::uint64_t low_bytes(const std::uint8_t* bytes, std::uint32_t count) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes, std::min<std::uint32_t>(count, 8));
  return value;
}

template <typename F>
void each_byte(std::uint8_t mask, F&& f) {
  for (; mask; mask = std::uint8_t(mask & (mask - 1))) f(std::size_t(__builtin_ctz(mask)));
}

Stamp most(const std::array<Stamp, 8>& stamps, std::uint8_t mask) {
  Stamp all = 0;
  each_byte(mask, [&](std::size_t byte) { all = std::max(all, stamps[byte]); });
  return all;
}

} // namespace

template <typename F>
void Histories::each_granule(const HistoryAccess& access, F&& f) {
  const std::uint64_t begin = access.location.address, end = begin + access.location.bytes;
  for (std::uint64_t granule = begin / granule_bytes; granule * granule_bytes < end; ++granule) {
    const std::uint64_t at = granule * granule_bytes;
    const std::uint64_t from = std::max(begin, at) - at, to = std::min(end, at + granule_bytes) - at;
    const std::uint8_t mask = std::uint8_t((0xffu << from) & (0xffu >> (granule_bytes - to)));
    f(Key{access.location.block, granule}, mask, std::int64_t(at - begin));
  }
}

OperationIndex Histories::launch_begin(const Dim3& grid, const Dim3& block, const Dim3& cluster) {
  settle();
  // A stream of its own that waits for no other: whoever runs at the same time is unordered.
  trace::StreamCreate stream;
  stream.stream = ++launches_ + 1;
  stream.kind = trace::StreamCreate::Kind::non_blocking;
  operations_.apply(stream);
  trace::Operation operation;
  operation.id = launches_;
  operation.stream = stream.stream;
  const OperationIndex index = operations_.submitted(operation);
  causality_.launch_begin(index, grid, block, cluster);
  return index;
}

void Histories::launch_end(OperationIndex operation) {
  settle();
  causality_.launch_end(operation);
}

bool Histories::morally_strong(const Version& version, const HistoryAccess& access) const {
  if (version.scope == Scope::none || access.scope == Scope::none) return false;
  if (version.bytes != access.element_bytes || version.address < access.location.address ||
      (version.address - access.location.address) % access.element_bytes)
    return false;
  return causality_.mutual(version.writer, version.scope, access.thread, access.scope);
}

// May the read return nothing older than the version?
bool Histories::binds(const Version& version, const HistoryAccess& read) const {
  if (version.seen_by_all || version.writer == read.thread) return true;
  if (read.atomic && morally_strong(version, read)) return true;
  if (causality_.ordered(version.writer, version.stamp, 0, read.thread)) return true;
  return std::any_of(version.observers.begin(), version.observers.end(), [&](const auto& observer) {
    return causality_.ordered(observer.first, observer.second, 0, read.thread);
  });
}

// Whether a read-modify-write that returned what was there at the horizon would come between morally strong ones.
bool Histories::ambiguous(const HistoryAccess& read, Stamp horizon) const {
  bool any = false;
  each_granule(read, [&](const Key& key, std::uint8_t mask, std::int64_t) {
    auto found = granules_.find(key);
    if (found == granules_.end()) return;
    each_byte(mask, [&](std::size_t byte) { any |= horizon && found->second.base_stamp[byte] == horizon; });
    for (const Version& version : found->second.versions)
      any |= version.stamp == horizon && version.mask & mask && morally_strong(version, read);
  });
  return any;
}

// Does memory hold what the stores that were told left there? If not, somebody else has written: nothing older is seen.
bool Histories::up_to_date(const HistoryAccess& read, const std::uint8_t* bytes) {
  bool good = true;
  each_granule(read, [&](const Key& key, std::uint8_t mask, std::int64_t offset) {
    auto found = granules_.find(key);
    if (found == granules_.end()) return;
    std::uint8_t left = mask;
    bool same = true;
    for (auto version = found->second.versions.rbegin(); version != found->second.versions.rend() && left; ++version) {
      each_byte(std::uint8_t(version->mask & left), [&](std::size_t byte) {
        same &= bytes[offset + std::int64_t(byte)] == std::uint8_t(version->value >> 8 * byte);
      });
      left = std::uint8_t(left & ~version->mask);
    }
    if (same) return;
    good = false;
    granules_.erase(found);
  });
  return good;
}

std::size_t Histories::choices(const HistoryAccess& read, const std::uint8_t* bytes) {
  positions_.clear();
  Stamp horizon = 0;
  bool any = false;
  each_granule(read, [&](const Key& key, std::uint8_t mask, std::int64_t) {
    auto found = granules_.find(key);
    if (found == granules_.end()) return;
    const Granule& granule = found->second;
    any = true;
    horizon = std::max(horizon, most(granule.base_stamp, mask));
    if (!granule.returned.empty())
      if (auto returned = granule.returned.find(read.thread.bits); returned != granule.returned.end())
        horizon = std::max(horizon, most(returned->second, mask));
    for (auto version = granule.versions.rbegin(); version != granule.versions.rend(); ++version) {
      if (version->stamp <= horizon) break;
      if (!(version->mask & mask)) continue;
      if (binds(*version, read)) {
        horizon = version->stamp;
        break;
      }
      positions_.push_back(version->stamp);
    }
  });
  if (!any || positions_.empty() || !up_to_date(read, bytes)) {
    positions_.assign(1, newest);
    return 1;
  }
  std::sort(positions_.begin(), positions_.end(), std::greater<>());
  positions_.erase(std::unique(positions_.begin(), positions_.end()), positions_.end());
  while (!positions_.empty() && positions_.back() <= horizon) positions_.pop_back();
  if (positions_.empty() || !read.atomic || !ambiguous(read, horizon)) positions_.push_back(horizon);
  positions_.front() = newest; // the same, whatever comes between
  return positions_.size();
}

void Histories::look(const HistoryAccess& read, std::size_t age, std::uint8_t* bytes) const {
  const Stamp position = positions_[age];
  if (position == newest) return;
  each_granule(read, [&](const Key& key, std::uint8_t mask, std::int64_t offset) {
    auto found = granules_.find(key);
    if (found == granules_.end()) return;
    const Granule& granule = found->second;
    std::uint8_t left = mask, written = 0;
    auto take = [&](std::uint64_t value, std::uint8_t which) {
      each_byte(which, [&](std::size_t byte) { bytes[offset + std::int64_t(byte)] = std::uint8_t(value >> 8 * byte); });
      left = std::uint8_t(left & ~which);
    };
    for (auto version = granule.versions.rbegin(); version != granule.versions.rend() && left; ++version) {
      written = std::uint8_t(written | version->mask);
      if (version->stamp <= position) take(version->value, version->mask & left);
    }
    take(granule.base, std::uint8_t(left & granule.base_mask & written));
  });
}

bool Histories::misses_only(const HistoryAccess& read, std::size_t age, std::uint64_t tag) const {
  bool only = true;
  each_granule(read, [&](const Key& key, std::uint8_t mask, std::int64_t) {
    auto found = granules_.find(key);
    if (found == granules_.end()) return;
    for (const Version& version : found->second.versions)
      only &= version.stamp <= positions_[age] || !(version.mask & mask) || version.tag == tag;
  });
  return only;
}

StrongAccess Histories::strong(const HistoryAccess& access, std::uint32_t element) const {
  StrongAccess strong;
  strong.thread = access.thread;
  strong.location = {access.location.block, access.location.address + element * access.element_bytes, 0};
  strong.ordering = access.ordering;
  strong.scope = access.scope;
  strong.bytes = access.element_bytes;
  strong.reduction = access.reduction;
  return strong;
}

// The thread returned what was there at `position`: it goes back behind that no more, and who saw a write of it first
// by a strong read is remembered.
void Histories::note_returned(const HistoryAccess& access, Stamp position) {
  each_granule(access, [&](const Key& key, std::uint8_t mask, std::int64_t) {
    auto found = granules_.find(key);
    if (found == granules_.end()) return;
    Granule& granule = found->second;
    std::uint8_t left = mask;
    for (auto version = granule.versions.rbegin(); version != granule.versions.rend() && left; ++version) {
      if (version->stamp > position || !(version->mask & left)) continue;
      const std::uint8_t these = version->mask & left;
      left = std::uint8_t(left & ~version->mask);
      if (version->writer == access.thread) continue; // its program order says so already
      if (!causality_.ordered(version->writer, version->stamp, 0, access.thread)) {
        Stamps& returned = granule.returned[access.thread.bits];
        each_byte(these, [&](std::size_t byte) { returned[byte] = std::max(returned[byte], version->stamp); });
      }
      if (access.scope == Scope::none || version->seen_by_all) continue;
      auto& observers = version->observers;
      if (std::any_of(observers.begin(), observers.end(), [&](const auto& o) { return o.first == access.thread; }))
        continue;
      if (observers.size() == most_observers) {
        version->seen_by_all = true;
        observers.clear();
      } else {
        observers.push_back({access.thread, now_});
      }
    }
  });
}

void Histories::read(const HistoryAccess& access, std::size_t age, const std::uint8_t* bytes) {
  const Stamp stamp = tick();
  const Stamp position = positions_[age] == newest ? stamp - 1 : positions_[age];
  note_returned(access, position);
  if (access.scope == Scope::none) return;
  for (std::uint32_t e = 0; e * access.element_bytes < access.location.bytes; ++e) {
    StrongAccess one = strong(access, e);
    one.reads = true;
    one.value_read = low_bytes(bytes + e * access.element_bytes, access.element_bytes);
    one.order_first = one.order_last = ticket_of_read(position);
    causality_.strong_access(one, stamp);
  }
}

void Histories::store(const HistoryAccess& access, Stamp stamp, const std::uint8_t* before, const std::uint8_t* after) {
  if (access.scope != Scope::none && access.location.bytes > access.element_bytes) { // moral strength is an element's
    HistoryAccess element = access;
    element.location.bytes = access.element_bytes;
    for (std::uint32_t at = 0; at < access.location.bytes; at += access.element_bytes) {
      element.location.address = access.location.address + at;
      store(element, stamp, before + at, after + at);
    }
    return;
  }
  each_granule(access, [&](const Key& key, std::uint8_t mask, std::int64_t offset) {
    Granule& granule = granules_[key];
    std::uint64_t was = 0, is = 0;
    each_byte(mask, [&](std::size_t byte) {
      was |= std::uint64_t(before[offset + std::int64_t(byte)]) << 8 * byte;
      is |= std::uint64_t(after[offset + std::int64_t(byte)]) << 8 * byte;
    });
    auto wide = [](std::uint8_t bytes) {
      std::uint64_t all = 0;
      each_byte(bytes, [&](std::size_t byte) { all |= std::uint64_t(0xff) << 8 * byte; });
      return all;
    };
    const std::uint8_t fresh = std::uint8_t(mask & ~granule.base_mask);
    granule.base |= was & wide(fresh);
    granule.base_mask = std::uint8_t(granule.base_mask | fresh);
    if (granule.versions.size() == longest) {
      const Version& oldest = granule.versions.front();
      granule.base = (granule.base & ~wide(oldest.mask)) | (oldest.value & wide(oldest.mask));
      each_byte(oldest.mask, [&](std::size_t byte) { granule.base_stamp[byte] = oldest.stamp; });
      granule.versions.erase(granule.versions.begin());
    }
    Version version;
    version.stamp = stamp;
    version.writer = access.thread;
    version.address = access.location.address;
    version.bytes = access.element_bytes;
    version.scope = access.scope;
    version.mask = mask;
    version.value = is;
    version.tag = access.tag;
    granule.versions.push_back(std::move(version));
  });
}

void Histories::write(const HistoryAccess& access, const std::uint8_t* before, const std::uint8_t* after) {
  const Stamp stamp = tick();
  store(access, stamp, before, after);
  if (access.scope == Scope::none) return;
  for (std::uint32_t e = 0; e * access.element_bytes < access.location.bytes; ++e) {
    StrongAccess one = strong(access, e);
    one.writes = true;
    one.value_written = low_bytes(after + e * access.element_bytes, access.element_bytes);
    one.order_first = one.order_last = ticket_of_write(stamp);
    causality_.strong_access(one, stamp);
  }
}

void Histories::modify(const HistoryAccess& access, std::size_t age, const std::uint8_t* returned,
                       const std::uint8_t* before, const std::uint8_t* after) {
  if (positions_[age] != newest) { // it is no link of what it came too late for: a read, then a write
    read(access, age, returned);
    write(access, before, after);
    return;
  }
  const Stamp stamp = tick();
  note_returned(access, stamp - 1);
  store(access, stamp, before, after);
  if (access.scope == Scope::none) return;
  for (std::uint32_t e = 0; e * access.element_bytes < access.location.bytes; ++e) {
    StrongAccess one = strong(access, e);
    one.reads = one.writes = true;
    one.value_read = low_bytes(before + e * access.element_bytes, access.element_bytes);
    one.value_written = low_bytes(after + e * access.element_bytes, access.element_bytes);
    one.order_first = one.order_last = ticket_of_write(stamp);
    causality_.strong_access(one, stamp);
  }
}

void Histories::overwritten(const Location& place) {
  HistoryAccess access;
  access.location = place;
  each_granule(access, [&](const Key& key, std::uint8_t, std::int64_t) { granules_.erase(key); });
}

} // namespace deadheat::order
