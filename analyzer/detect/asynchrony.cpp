// The detector's asynchronous side: copies by agents of their own, what completes them, and fences between proxies.
#include <algorithm>
#include <bit>

#include "analyzer/detect/detector.h"
#include "deadheat/address.h"
#include "deadheat/lanes.h"

namespace deadheat::detect {

namespace {

using order::OperationIndex;
using order::ThreadKey;

constexpr std::uint32_t mbarrier_bytes = 8;

// The lanes of the mask that have the value of its lowest lane.
template <typename Value>
std::uint32_t alike_lanes(std::uint32_t mask, const std::array<Value, 32>& values) {
  const Value first = values[unsigned(std::countr_zero(mask))];
  if (mask == ~0u) { // usually all of them: without a branch for each lane
    Value other = 0;
    for (const Value value : values) other |= value ^ first;
    if (!other) return mask;
  }
  std::uint32_t alike = 0;
  each_lane(mask, [&](unsigned lane) { alike |= std::uint32_t(values[lane] == first) << lane; });
  return alike;
}

} // namespace

const Site* Detector::site_of(std::uint32_t module, std::uint32_t site) const {
  const PlaceId place = sides_.site(module, site);
  return place ? sides_.place(place).site : nullptr;
}

void Detector::asynchronous_copy(const trace::AsyncCopy& copy) {
  const OperationIndex operation = operation_of(copy.warp.launch);
  const PlaceId read = sides_.site(copy.module, copy.site), write = sides_.async_write(copy.module, copy.site);
  if (!operation || !read || !write || copy.bytes > 16) {
    ++unknown_;
    return;
  }
  const std::uint64_t memory = ThreadKey(operation, copy.warp.block, 0).block_bits() + 1;
  summary_.accesses += 2 * unsigned(std::popcount(copy.mask));
  const ThreadKey lane0 = key_of(operation, copy.warp, 0);
  const bool filters = pass_ == Pass::filter && !full_;
  if (filters && is_anothers(owners_[0]) && is_anothers(owners_[1])) return; // nobody asks here when it is complete
  const std::array<order::AsyncGroup, 32> groups = causality_.async_issue(lane0, copy.mask);
  if (filters) return filter_copy(copy, memory, lane0, groups);
  each_lane(copy.mask, [&](unsigned lane) {
    const std::uint32_t read_bytes = std::min(copy.source_bytes[lane], copy.bytes);
    if (full_) {
      leave_out(0, copy.source[lane], read_bytes);
      leave_out(memory, copy.destination[lane], copy.bytes);
      return;
    }
    MemoryAccess access;
    access.thread = key_of(operation, copy.warp, lane);
    access.stamp = now_;
    access.group = groups[lane];
    access.place = read;
    access.address = copy.source[lane];
    access.bytes = read_bytes;
    shadow_.access(0, access);
    access.place = write;
    access.kind = AccessKind::write;
    access.address = copy.destination[lane];
    access.bytes = access.record_bytes = copy.bytes;
    access.digest = copy.digest[lane];
    shadow_.access(memory, access);
  });
}

// As many lanes at once as are of one group, and read as many bytes.
void Detector::filter_copy(const trace::AsyncCopy& copy, std::uint64_t memory, ThreadKey lane0,
                           const std::array<order::AsyncGroup, 32>& groups) {
  const bool reads = !is_anothers(owners_[0]), writes = !is_anothers(owners_[1]);
  for (std::uint32_t rest = copy.mask, alike = 0; rest; rest &= ~alike) {
    const unsigned first = unsigned(std::countr_zero(rest));
    alike = alike_lanes(rest, copy.source_bytes) & alike_lanes(rest, groups);
    const std::uint32_t read_bytes = std::min(copy.source_bytes[first], copy.bytes);
    Filter::Copy half{0, lane0, alike, groups[first], copy.source.data(), read_bytes, false, false, now_};
    if (reads) filter_.copy(half);
    half.memory = memory;
    half.address = copy.destination.data();
    half.bytes = copy.bytes;
    half.write = true;
    if (writes) filter_.copy(half);
  }
}

// Both sides of bulk copies, each by an agent of its own, through the asynchronous proxy (9.7.9.25.4). st.async and
// red.async have no source, and go through the generic proxy, where 8.6 does not name them; boxes of tensors have none
// where they lie outside. wgmma has no destination.
void Detector::bulk_copy(const trace::BulkCopy& copy) {
  const OperationIndex operation = operation_of(copy.warp.launch);
  const PlaceId read = sides_.site(copy.module, copy.site), write = sides_.async_write(copy.module, copy.site);
  if (!operation || !read || !write) {
    ++unknown_;
    return;
  }
  const Site& site = *sides_.place(read).site;
  const bool reduces = site.access == AccessKind::atomic;
  const std::uint32_t element = std::clamp<std::uint32_t>(site.element_bytes, 1, 16);
  constexpr std::uint32_t most_bytes = 1 << 20; // more than an mbarrier's phase can wait for, or shared memory holds
  struct Place {
    std::uint64_t memory = 0, address = 0;
    bool known = true;
  };
  // Of a generic address.
  auto place_of = [&](std::uint64_t address) -> Place {
    if (address - shared_window >= window_bytes) return {0, address, true};
    const std::uint64_t offset = address - shared_window;
    const std::uint64_t memory = shared_memory(operation, copy.warp.block, offset >> cluster_shift);
    return {memory, offset & cluster_offset_mask, memory != 0};
  };
  const bool async_proxy = site.proxy == Proxy::async, matrix = multiplies(site);
  each_lane(copy.mask, [&](unsigned lane) {
    const ThreadKey thread = key_of(operation, copy.warp, lane);
    const bool reads = copy.source[lane] != 0, writes = copy.destination[lane] != 0;
    summary_.accesses += unsigned(reads) + unsigned(writes);
    const std::uint32_t bytes = copy.bytes[lane];
    const Place from = place_of(copy.source[lane]), to = place_of(copy.destination[lane]),
                object_at = place_of(copy.mbarrier[lane]);
    const bool by_mbarrier = copy.mbarrier[lane] != 0;
    if (!from.known || !to.known || (by_mbarrier && (!object_at.known || !object_at.memory)) || bytes > most_bytes) {
      ++unknown_;
      return;
    }
    const order::Location object{object_at.memory, object_at.address};
    order::Causality::BulkGroups groups;
    if (matrix) {
      groups.read = causality_.matrix_issue(thread);
    } else {
      groups = causality_.bulk_issue(thread, by_mbarrier ? &object : nullptr);
    }
    if (full_) {
      if (reads) leave_out(from.memory, from.address, bytes);
      if (writes) leave_out(to.memory, to.address, bytes);
      return;
    }
    if (pass_ == Pass::filter) {
      const auto half = [&](const Place& at, order::AsyncGroup group, bool write) {
        std::uint64_t address[32];
        address[lane] = at.address;
        filter_.copy(
            {at.memory, key_of(operation, copy.warp, 0), 1u << lane, group, address, bytes, write, async_proxy, now_});
      };
      if (reads) half(from, groups.read, false);
      if (writes) half(to, groups.write, true);
      return;
    }
    MemoryAccess access;
    access.thread = thread;
    access.stamp = now_;
    access.proxy = site.proxy;
    const auto add = [&](const Place& at, bool strong) {
      if (!strong) return shadow_.range(at.memory, access, at.address, bytes);
      MemoryAccess part = access;
      part.ordering = site.ordering;
      part.scope = site.scope;
      part.bytes = element;
      if (reduces) part.record_bytes = element;
      for (std::uint32_t offset = 0; offset + element <= bytes; offset += element) {
        part.address = at.address + offset;
        shadow_.access(at.memory, part);
      }
    };
    const bool strong = is_strong(site.ordering);
    access.group = groups.read;
    access.place = read;
    if (reads) add(from, strong && !reduces);
    if (!writes) return;
    access.group = groups.write;
    access.place = write;
    access.kind = reduces ? AccessKind::atomic : AccessKind::write;
    access.digest = copy.digest[lane];
    access.record_bytes = bytes;  // where copies overlap that begin at different places, a piece tells it
    add(to, strong || reduces);
  });
}

// What an operation on an mbarrier orders, and that it touches the object: whoever initialises it must come first.
void Detector::mbarrier(const trace::Mbarrier& record) {
  const OperationIndex operation = operation_of(record.warp.launch);
  const PlaceId place = sides_.site(record.module, record.site);
  if (!operation || !place) {
    ++unknown_;
    ++hiding_;
    causality_.missing(now_); // it may have arrived and waited
    return;
  }
  using What = trace::Mbarrier::What;
  const Site& site = *sides_.place(place).site;
  const bool touches = site.kind == SiteKind::mbarrier || site.kind == SiteKind::async_mbarrier_arrive;
  const std::uint64_t memory = ThreadKey(operation, record.block, 0).block_bits() + 1;
  const ThreadKey lane0 = key_of(operation, record.warp, 0);
  peers_ |= record.block != record.warp.block;
  for (std::uint32_t rest = record.mask, lanes = 0; rest; rest &= ~lanes) { // as many at once as do the same
    const unsigned first = unsigned(std::countr_zero(rest));
    const order::Location object{memory, record.address[first]};
    const std::uint32_t phase = record.phase[first];
    lanes = alike_lanes(rest, record.address) & alike_lanes(rest, record.phase);
    if (touches && !is_anothers(owners_[0])) touch_object(record, place, lane0, lanes, object);
    switch (record.what) {
      case What::init:
      case What::inval: each_lane(lanes, [&](unsigned) { causality_.mbarrier_init(object); }); break;
      case What::arrive:
      case What::arrive_drop:
        causality_.mbarrier_arrive(lane0, lanes, object, phase, record.ordering, record.scope, now_);
        break;
      case What::complete_tx:
        if (site.kind == SiteKind::bulk_copy)
          each_lane(lanes, [&](unsigned lane) {
            causality_.bulk_complete(key_of(operation, record.warp, lane), object, phase, now_);
          });
        break;
      case What::async_arrive: causality_.mbarrier_async_arrive(lane0, lanes, object, phase, now_); break;
      case What::test:
        if (const std::uint32_t complete = lanes & record.succeeded)
          causality_.mbarrier_test(lane0, complete, object, phase, record.ordering, record.scope, site.outcome_unused);
        break;
      case What::expect_tx: break;
    }
  }
}

void Detector::touch_object(const trace::Mbarrier& record, PlaceId place, ThreadKey lane0, std::uint32_t lanes,
                            const order::Location& object) {
  const Site& site = *sides_.place(place).site;
  const std::uint64_t memory = object.block;
  const bool whole = record.what == trace::Mbarrier::What::init || record.what == trace::Mbarrier::What::inval;
  if (full_) {
    each_lane(lanes, [&](unsigned) { leave_out(memory, object.address, mbarrier_bytes); });
  } else if (pass_ == Pass::pairs) {
    MemoryAccess access;
    access.stamp = now_;
    access.place = place;
    access.kind = site.access;
    access.bytes = access.record_bytes = mbarrier_bytes;
    access.initializes = order::initializes(site);
    access.address = object.address;
    if (!whole) { // atomic to each other, wherever their threads are
      access.ordering = Ordering::relaxed;
      access.scope = Scope::sys;
    }
    each_lane(lanes, [&](unsigned lane) {
      access.thread.bits = lane0.bits + lane;
      shadow_.access(memory, access);
    });
  } else if (whole) {
    each_lane(lanes, [&](unsigned lane) {
      Filter::Warp warp;
      warp.memory = memory;
      warp.lane0 = lane0;
      warp.mask = 1u << lane;
      warp.bytes = mbarrier_bytes;
      warp.address = record.address.data();
      warp.write = true;
      warp.now = now_;
      filter_.weak(warp);
    });
  } else {
    Filter::Strong access{memory, lane0, object.address, mbarrier_bytes, true, site.access != AccessKind::read,
                          false,  now_};
    filter_.strong(access, lanes);
  }
}

void Detector::fence(const trace::Fence& fence) {
  const OperationIndex operation = operation_of(fence.warp.launch);
  if (!operation) return; // what it would have fenced is counted where it comes
  const Site* site = site_of(fence.module, fence.site);
  const bool dependency = site && site->kind == SiteKind::dependency;
  const order::Restriction restriction = site ? order::restriction_of(*site) : order::Restriction::none;
  const bool one_way = fence.proxy != Proxy::generic && fence.scope != Scope::none;
  if (fence.proxy == Proxy::async && !one_way && !dependency) {
    const bool both = !site || site->space == Space::generic;
    causality_.proxy_fence(key_of(operation, fence.warp, 0), fence.mask, both || site->space == Space::shared,
                           both || site->space == Space::global, now_);
    return;
  }
  each_lane(fence.mask, [&](unsigned lane) {
    const ThreadKey thread = key_of(operation, fence.warp, lane);
    if (dependency) {
      causality_.dependency_wait(thread, now_);
    } else if (one_way) {
      causality_.one_way_fence(thread, fence.proxy, fence.ordering, fence.scope, now_);
    } else {
      causality_.fence(thread, fence.ordering, fence.scope, now_, restriction);
    }
  });
  if (dependency) operations_.waited(operation);
}

} // namespace deadheat::detect
