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

Stamp most(const HistoryTable::Stamps& stamps, std::uint8_t mask) {
  Stamp all = 0;
  for (; mask; mask = std::uint8_t(mask & (mask - 1))) all = std::max(all, stamps[std::size_t(__builtin_ctz(mask))]);
  return all;
}

// The bytes of a granule that an access has, neighbours all: from and into the access's own.
std::uint64_t gather(const std::uint8_t* access, std::int64_t offset, std::uint8_t mask) {
  const int from = __builtin_ctz(mask);
  return low_bytes(access + offset + from, std::uint32_t(__builtin_popcount(mask))) << 8 * from;
}
void scatter(std::uint64_t value, std::uint8_t* access, std::int64_t offset, std::uint8_t mask) {
  const int from = __builtin_ctz(mask);
  value >>= 8 * from;
  std::memcpy(access + offset + from, &value, std::size_t(__builtin_popcount(mask)));
}

constexpr auto wide = HistoryTable::wide;

} // namespace

template <typename F>
void Histories::each_granule(const HistoryAccess& access, F&& f) {
  const std::uint64_t begin = access.location.address, end = begin + access.location.bytes;
  for (std::uint64_t granule = begin / Granule::bytes; granule * Granule::bytes < end; ++granule) {
    const std::uint64_t at = granule * Granule::bytes;
    const std::uint64_t from = std::max(begin, at) - at, to = std::min(end, at + Granule::bytes) - at;
    const std::uint8_t mask = std::uint8_t((0xffu << from) & (0xffu >> (Granule::bytes - to)));
    f(Place{access.location.block, granule}, mask, std::int64_t(at - begin));
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

void Histories::launch_end(OperationIndex operation, bool beside_others) {
  if (!beside_others) settle();
  causality_.launch_end(operation);
}

void Histories::settle() {
  table_.clear();
  if (!returned_.empty()) returned_.clear();
  if (!observers_.empty()) observers_.clear();
  if (!groups_.empty()) groups_.clear();
  if (causality_.many_groups()) causality_.forget_groups({});
}

void Histories::forget(const Place& place) {
  if (Granule* granule = find(place)) forget_observers(place, *granule);
  table_.forget(place.block, place.granule);
}

bool Histories::morally_strong(const Version& version, const Place& place, const HistoryAccess& access) const {
  if (version.scope() == Scope::none || access.scope == Scope::none) return false;
  const std::int64_t behind = std::int64_t(place.address() - access.location.address) + version.offset;
  if (version.element_bytes != access.element_bytes || behind < 0 || behind % access.element_bytes) return false;
  return causality_.mutual(version.writer, version.scope(), access.thread, access.scope);
}

bool Histories::comes_before(ThreadKey writer, Stamp stamp, AsyncGroup group, const HistoryAccess& read) const {
  if (!read.async_proxy) {
    const Restriction what = read.location.block ? Restriction::shared : Restriction::none;
    return causality_.ordered(writer, stamp, group, read.thread, what);
  }
  return causality_.ordered_across_proxies(writer, stamp, group, read.thread, read.location.block != 0);
}

bool Histories::comes_before(const Version& version, const HistoryAccess& read) const {
  AsyncGroup group = 0;
  if (version.asynchronous) {
    const auto found = groups_.find(version.stamp);
    if (found == groups_.end()) return true;
    group = found->second;
  }
  return comes_before(version.writer, version.stamp, group, read);
}

// May the read return nothing older than the version?
bool Histories::binds(const Version& version, const Place& place, const HistoryAccess& read) {
  if (version.writer == read.thread && !version.asynchronous && !read.copy) return true;
  if (read.ordering == Ordering::nc) return false;
  if (version.seen_by_all) return true;
  if (read.atomic && morally_strong(version, place, read)) return true;
  if (comes_before(version, read)) return true;
  if (!version.observed) return false;
  const auto observers = observers_.find(mark(table_.number_of(place.block, place.granule), version));
  return observers != observers_.end() &&
         std::any_of(observers->second.begin(), observers->second.end(),
                     [&](const auto& observer) { return comes_before(observer.first, observer.second, 0, read); });
}

// Whether a read-modify-write that returned what was there at the horizon would come between morally strong ones.
bool Histories::ambiguous(const HistoryAccess& read, Stamp horizon) {
  bool any = false;
  each_granule(read, [&](const Place& place, std::uint8_t mask, std::int64_t) {
    Granule* granule = find(place);
    if (!granule || !horizon) return;
    if (const Stamps* forgotten = table_.forgotten(*granule))
      for (std::uint32_t byte = 0; byte < Granule::bytes; ++byte)
        any |= (mask >> byte & 1) && (*forgotten)[byte] == horizon;
    for (std::uint32_t n = 0; n < granule->count; ++n) {
      const Version& version = table_.newest(*granule, n);
      any |= version.stamp == horizon && version.mask & mask && morally_strong(version, place, read);
    }
  });
  return any;
}

// Does memory hold what the stores that were told left there? If not, somebody else has written: nothing older is seen.
bool Histories::up_to_date(const HistoryAccess& read, const std::uint8_t* bytes) {
  bool good = true;
  each_granule(read, [&](const Place& place, std::uint8_t mask, std::int64_t offset) {
    Granule* granule = find(place);
    if (!granule) return;
    const std::uint64_t held = gather(bytes, offset, mask);
    std::uint8_t left = mask;
    bool same = true;
    for (std::uint32_t n = 0; n < granule->count && left; ++n) {
      const Version& version = table_.newest(*granule, n);
      same &= ((held ^ version.value) & wide(version.mask & left)) == 0;
      left = std::uint8_t(left & ~version.mask);
    }
    same &= ((held ^ granule->base) & wide(granule->settled & left)) == 0;
    if (same) return;
    good = false;
    forget(place);
  });
  return good;
}

void Histories::choices_of(const HistoryAccess& read, const Place& place, std::uint8_t mask, Stamp barrier,
                           Stamp& horizon) {
  Granule* granule = find(place);
  if (!granule || !granule->count) return;
  if (const Stamp last = table_.newest(*granule, 0).stamp; last <= barrier && !granule->asynchronous && !read.atomic) {
    horizon = std::max(horizon, last); // shared memory that the block has not written since its barrier
    return;
  }
  if (const Stamps* forgotten = table_.forgotten(*granule)) horizon = std::max(horizon, most(*forgotten, mask));
  if (granule->returned && !read.copy)
    if (auto at = returned_.find({table_.number_of(place.block, place.granule), read.thread.bits});
        at != returned_.end())
      horizon = std::max(horizon, most(at->second, mask));
  for (std::uint32_t n = 0; n < granule->count; ++n) {
    const Version& version = table_.newest(*granule, n);
    if (version.stamp <= horizon) {
      bound_ = false;
      return;
    }
    if (!(version.mask & mask)) continue;
    if (binds(version, place, read)) {
      horizon = version.stamp;
      bound_ &= !(mask & ~version.mask);
      return;
    }
    positions_.push_back(version.stamp);
    bound_ = false;
  }
}

std::size_t Histories::choices(const HistoryAccess& read, const std::uint8_t* bytes) {
  positions_.clear();
  bound_ = true;
  Stamp horizon = 0;
  const Stamp barrier = barrier_before(read);
  each_granule(read, [&](const Place& place, std::uint8_t mask, std::int64_t) {
    choices_of(read, place, mask, barrier, horizon);
  });
  if (positions_.empty() || !up_to_date(read, bytes)) {
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

void Histories::look(const HistoryAccess& read, std::size_t age, std::uint8_t* bytes) {
  const Stamp position = positions_[age];
  if (position == newest) return;
  each_granule(read, [&](const Place& place, std::uint8_t mask, std::int64_t offset) {
    Granule* granule = find(place);
    if (!granule) return;
    std::uint64_t then = gather(bytes, offset, mask);
    std::uint8_t left = mask, written = 0;
    auto take = [&](std::uint64_t value, std::uint8_t which) {
      then = (then & ~wide(which)) | (value & wide(which));
      left = std::uint8_t(left & ~which);
    };
    for (std::uint32_t n = 0; n < granule->count && left; ++n) {
      const Version& version = table_.newest(*granule, n);
      written = std::uint8_t(written | version.mask);
      if (version.stamp <= position) take(version.value, version.mask & left);
    }
    take(granule->base, std::uint8_t(left & granule->base_mask & written));
    scatter(then, bytes, offset, mask);
  });
}

bool Histories::misses_only(const HistoryAccess& read, std::size_t age, std::uint32_t tag) {
  bool only = true;
  each_granule(read, [&](const Place& place, std::uint8_t mask, std::int64_t) {
    Granule* granule = find(place);
    for (std::uint32_t n = 0; granule && n < granule->count; ++n) {
      const Version& version = table_.newest(*granule, n);
      only &= version.stamp <= positions_[age] || !(version.mask & mask) || version.tag == tag;
    }
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
// by a strong read is remembered. `replaced`: the thread writes all of it in the same moment.
void Histories::note_returned(const HistoryAccess& access, Stamp position, bool replaced) {
  each_granule(access, [&](const Place& place, std::uint8_t mask, std::int64_t) {
    Granule* granule = find(place);
    if (!granule) return;
    const std::uint32_t number = table_.number_of(place.block, place.granule);
    std::uint8_t left = mask;
    for (std::uint32_t n = 0; n < granule->count && left; ++n) {
      Version& version = table_.newest(*granule, n);
      if (version.stamp > position || !(version.mask & left)) continue;
      const std::uint8_t these = version.mask & left;
      left = std::uint8_t(left & ~version.mask);
      if (version.writer == access.thread && !version.asynchronous) continue; // its program order says so already
      if (replaced && !(version.mask & ~mask)) continue; // so will that of what it writes
      if (access.ordering == Ordering::nc || !comes_before(version, access)) {
        Stamps& returned = returned_[{number, access.thread.bits}];
        granule->returned = true;
        for (std::uint32_t byte = 0; byte < Granule::bytes; ++byte)
          if (these >> byte & 1) returned[byte] = std::max(returned[byte], version.stamp);
      }
      if (access.scope == Scope::none || version.seen_by_all) continue;
      Observers& observers = observers_[mark(number, version)];
      version.observed = 1;
      if (std::any_of(observers.begin(), observers.end(), [&](const auto& o) { return o.first == access.thread; }))
        continue;
      if (observers.size() == most_observers) {
        version.seen_by_all = 1;
        observers_.erase(mark(number, version));
      } else {
        observers.push_back({access.thread, now_});
      }
    }
  });
}

void Histories::read(const HistoryAccess& access, std::size_t age, const std::uint8_t* bytes) {
  if (access.copy) return;
  const Stamp stamp = tick();
  const Stamp position = positions_[age] == newest ? stamp - 1 : positions_[age];
  if (access.scope != Scope::none || !bound_) note_returned(access, position, false);
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
  const Stamp barrier = barrier_before(access);
  each_granule(access, [&](const Place& place, std::uint8_t mask, std::int64_t offset) {
    Granule& granule = table_.make(place.block, place.granule);
    // All that the block wrote to its shared memory before its last barrier binds everybody.
    if (granule.count && !granule.strong && !granule.asynchronous && table_.newest(granule, 0).stamp <= barrier) {
      forget_observers(place, granule);
      table_.settle(granule);
    }
    if (const std::uint8_t fresh = std::uint8_t(mask & ~granule.base_mask)) {
      granule.base |= gather(before, offset, mask) & wide(fresh);
      granule.base_mask = std::uint8_t(granule.base_mask | fresh);
    }
    if (granule.count == longest) forget_observers(place, table_.newest(granule, longest - 1)); // which has no room
    Version& version = table_.push(granule);
    version.stamp = stamp;
    version.writer = access.thread;
    version.value = gather(after, offset, mask);
    version.tag = access.tag;
    version.mask = mask;
    if (access.copy) {
      granule.asynchronous = true;
      version.asynchronous = 1;
    }
    if (access.scope == Scope::none) return;
    granule.strong = true;
    version.strength = std::uint8_t(access.scope) & 7;
    version.offset = std::int8_t(access.location.address - place.address());
    version.element_bytes = std::uint8_t(access.element_bytes);
  });
}

void Histories::write(const HistoryAccess& access, const std::uint8_t* before, const std::uint8_t* after) {
  const Stamp stamp = tick();
  if (access.copy) groups_[stamp] = access.group;
  store(access, stamp, before, after);
  if (access.scope == Scope::none || access.copy) return;
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
  note_returned(access, stamp - 1, true);
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
  each_granule(access, [&](const Place& at, std::uint8_t, std::int64_t) { forget(at); });
}

} // namespace deadheat::order
