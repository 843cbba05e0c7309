// The detector's weak and strong accesses.
#include <emmintrin.h>

#include <algorithm>
#include <bit>

#include "analyzer/detect/detector.h"
#include "analyzer/detect/lanes_ahead.h"
#include "analyzer/detect/strong_elements.h"
#include "deadheat/address.h"
#include "deadheat/lanes.h"

namespace deadheat::detect {

namespace {

using order::OperationIndex;
using order::ThreadKey;

// Bring nearer what comes soon in a batch that another core has filled: before anything else reads it, and not so soon
// that it is gone again.
void nearer(const void* from, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<const char*>(from) + at);
}
constexpr std::size_t accesses_ahead = 16; // of the one that is looked at
void nearer(const std::vector<WeakAccess>& accesses, std::size_t number) {
  if (number + accesses_ahead < accesses.size()) nearer(&accesses[number + accesses_ahead], sizeof(WeakAccess));
}
void nearer(const Batch& batch, std::size_t common) {
  if (common >= batch.common.size()) return;
  const Batch::Common& entry = batch.common[common];
  constexpr std::size_t usual = 192; // bytes of a record
  if (entry.what == Batch::What::small) nearer(&batch.small[entry.index], usual);
}

// Of all lanes, whoever takes part, and two at once: rows are what most accesses are.
void fill_strided(std::uint64_t (&address)[32], std::uint64_t lane0, std::int64_t stride) {
  __m128i two = _mm_set_epi64x(static_cast<long long>(lane0 + std::uint64_t(stride)), static_cast<long long>(lane0));
  const __m128i step = _mm_set1_epi64x(2 * stride);
  for (unsigned lane = 0; lane < 32; lane += 2, two = _mm_add_epi64(two, step))
    _mm_storeu_si128(reinterpret_cast<__m128i*>(address + lane), two);
}

std::uint64_t lane0_address(const WeakAccess& access) { // of an affine one, whether lane 0 takes part or not
  return access.base - std::uint64_t(std::int64_t(access.stride)) * unsigned(std::countr_zero(access.mask));
}

std::uint32_t element_bytes(const Site& site) { return std::max<std::uint32_t>(site.element_bytes, 1); }
std::uint32_t lane_bytes(const Site& site) {
  return std::min<std::uint32_t>(element_bytes(site) * site.elements, most_lane_bytes);
}

// For LanesAhead.
template <typename Bytes>
struct WeakOnes {
  const std::vector<WeakAccess>& all;
  Bytes bytes_of;
  std::size_t size() const { return all.size(); }
  void near(std::size_t number) const { __builtin_prefetch(&all[number]); }
  std::uint32_t lanes(std::size_t number) const {
    return all[number].affine ? 0 : unsigned(std::popcount(all[number].mask));
  }
  std::uint32_t bytes(std::size_t number) const { return bytes_of(all[number]); }
};
template <typename Bytes>
struct StrongOnes {
  const Batch& batch;
  unsigned worker;
  Bytes bytes_of;
  const StrongPart& part(std::size_t number) const { return batch.strong_parts[number * batch.weak.size() + worker]; }
  std::size_t size() const { return batch.strong.size(); }
  void near(std::size_t number) const {
    __builtin_prefetch(&batch.strong[number]);
    __builtin_prefetch(&part(number));
  }
  std::uint32_t lanes(std::size_t number) const { return unsigned(std::popcount(part(number).lanes)); }
  std::uint32_t bytes(std::size_t number) const { return bytes_of(batch.strong[number]); }
};

} // namespace

void Detector::play(const Batch& batch) {
  const order::Stamp base = now_;
  const std::vector<WeakAccess>& weak_accesses = batch.weak[worker_];
  auto next = weak_accesses.begin();
  const bool any_lanes = pass_ == Pass::filter && batch.lanes[worker_].count() != 0,
             any_strong = pass_ == Pass::filter && batch.strong_lanes[worker_].count() != 0;
  const auto bytes_of = [&](const auto& access) -> std::uint32_t {
    return access.space == Space::global ? access_site(access.module, access.site).lane_bytes : 0;
  };
  const WeakOnes<decltype(bytes_of)> weak_ones{weak_accesses, bytes_of};
  const StrongOnes<decltype(bytes_of)> strong_ones{batch, worker_, bytes_of};
  std::optional<LanesAhead<WeakOnes<decltype(bytes_of)>>> ahead;
  std::optional<LanesAhead<StrongOnes<decltype(bytes_of)>>> strong_ahead;
  if (any_lanes) ahead.emplace(filter_, weak_ones, batch.lanes[worker_], false);
  if (any_strong) strong_ahead.emplace(filter_, strong_ones, batch.strong_lanes[worker_], true);
  trace::Record scratch;
  nearer(weak_accesses.data(), std::min(weak_accesses.size(), accesses_ahead) * sizeof(WeakAccess));
  auto weak_until = [&](std::uint64_t stamp) {
    for (; next != weak_accesses.end() && next->stamp < stamp; ++next) {
      nearer(weak_accesses, std::size_t(next - weak_accesses.begin()));
      if (any_lanes && !next->affine) ahead->before(next->lanes);
      now_ = base + next->stamp;
      weak(batch, *next);
    }
  };
  for (const Batch::Common& entry : batch.common) {
    nearer(batch, std::size_t(&entry - batch.common.data()) + 2);
    weak_until(entry.stamp);
    now_ = base + entry.stamp;
    if (entry.what == Batch::What::missing) {
      --now_;
      missing();
      filter_.ask_again();
    } else if (entry.what == Batch::What::strong) {
      if (any_strong) strong_ahead->before(strong_ones.part(entry.index).first);
      strong(StrongView(batch, entry.index, worker_));
    } else {
      owners_ = entry.owners;
      const bool filters = pass_ == Pass::filter && !full_;
      batch.take(entry, scratch, !filters || !is_anothers(owners_[0]) || !is_anothers(owners_[1]));
      filter_.ask_again();
      record(scratch);
      filter_.ask_again();
    }
  }
  weak_until(~0ull);
  now_ = base + batch.stamps;
  summary_.accesses += batch.accesses;
  if (bytes() > memory_limit_) shed();
  if (pass_ == Pass::refills && causality_.told_bytes() > memory_limit_) {
    ++stretches_;
    refills_.missing();
    causality_.forget_told(now_);
  }
  if (causality_.many_groups()) {
    std::vector<order::AsyncGroup> named;
    auto name = [&](order::AsyncGroup group) { named.push_back(group); };
    filter_.each_group(name);
    shadow_.each_group(name);
    causality_.forget_groups(std::move(named));
  }
}

// What has less to remember than all of the share, if there is such.
std::optional<std::array<Slice, 2>> Detector::halves() const {
  if (!may_halve_ || pass_ == Pass::refills) return std::nullopt;
  const Slice& now = share_.slice;
  if (pass_ == Pass::filter) {
    if (now.page_bits == Slice::most_page_bits || !filter_.goes_by_pages()) return std::nullopt;
    return now.halves(true);
  }
  const Shadow::Halves halves = shadow_.halves();
  if (halves == Shadow::Halves::neither) return std::nullopt;
  return now.halves(halves == Shadow::Halves::pages);
}

// Gives parts up until the rest has room; the last one stays where halves of it have no more room than all of it, and
// goes on unchecked.
void Detector::shed() {
  while (bytes() > memory_limit_ && share_.parts.any()) {
    const std::size_t active = share_.parts.count(), keep = active / 2;
    const auto slices = active == 1 ? halves() : std::nullopt;
    if (active == 1 && !slices) break;
    for (std::size_t part = 0, kept = 0; part < partitions; ++part) {
      if (!share_.parts.test(part) || kept++ < keep) continue;
      if (slices) halved_ = {unsigned(part), *slices};
      share_.parts.reset(part);
      all_active_ = false;
      findings_[part] = {};
    }
    filter_.forget_inactive();
    shadow_.forget_inactive();
    refills_.forget_inactive();
  }
  leave_for_later();
  full_ = bytes() > memory_limit_;
}

void Detector::look_up(std::uint32_t module, std::uint32_t site, AccessSite& to) const {
  to = {module, site};
  to.place = sides_.site(module, site);
  if (!to.place) return;
  to.site = sides_.place(to.place).site;
  to.lane_bytes = lane_bytes(*to.site);
  to.strong = is_strong(to.site->ordering);
  to.write = to.site->access != AccessKind::read;
  to.non_coherent = to.site->ordering == Ordering::nc;
}

void Detector::weak(const Batch& batch, const WeakAccess& access) {
  const bool in_shared = access.space == Space::shared;
  const OperationIndex operation = operation_of(access.launch);
  const AccessSite& known = access_site(access.module, access.site);
  const auto count_unknown = [&] { // whoever has the first lane's memory
    const std::uint64_t home = in_shared ? std::uint64_t(access.block) + 1 : 0;
    if (share_.has_page(home, access.base / page_bytes)) ++part(home, access.base).unknown;
  };
  if (!operation || !known.place) return count_unknown();
  if (!in_shared && access.space != Space::global) return;
  const std::uint64_t memory = in_shared ? shared_memory(operation, access.block, access.rank) : 0;
  if (in_shared && !memory) return count_unknown();
  if (!access.mask) return; // no lane is this worker's: it was to count
  if (pass_ != Pass::filter || full_ || known.strong) return weak_lanes(batch, access, known, operation, memory);
  std::uint64_t address[32];
  Filter::Warp as_warp;
  as_warp.memory = memory;
  as_warp.lane0 = key_of(operation, {access.launch, access.block, access.warp}, 0);
  as_warp.mask = access.mask;
  as_warp.bytes = known.lane_bytes;
  if (access.affine) {
    fill_strided(address, lane0_address(access), access.stride);
    as_warp.address = address;
  } else { // as they are packed
    as_warp.address = batch.lanes[worker_].data() + access.lanes;
    as_warp.brought = access.lanes;
  }
  as_warp.affine = access.affine;
  as_warp.stride = access.stride;
  as_warp.write = known.write;
  as_warp.non_coherent = known.non_coherent;
  as_warp.now = now_;
  filter_.weak(as_warp);
}

// What the filter is not to look at.
void Detector::weak_lanes(const Batch& batch, const WeakAccess& access, const AccessSite& known,
                          OperationIndex operation, std::uint64_t memory) {
  const Site& site = *known.site;
  const trace::Warp warp{access.launch, access.block, access.warp};
  std::uint64_t address[32];
  if (access.affine) {
    fill_strided(address, lane0_address(access), access.stride);
  } else {
    each_lane(access.mask,
              [&, at = batch.lanes[worker_].data() + access.lanes](unsigned lane) mutable { address[lane] = *at++; });
  }
  const std::uint32_t* digest = batch.digests[access.digests].data();

  if (known.strong) {
    strays_ |= !everything_to_all_;
    StrongAccesses all;
    all.warp = warp;
    all.module = access.module;
    all.site = access.site;
    all.mask = access.mask;
    all.space = access.space;
    std::uint64_t by_rank[32];
    each_lane(access.mask, [&, to = by_rank](unsigned lane) mutable {
      *to++ = address[lane] | std::uint64_t(access.rank) << cluster_shift;
    });
    return strong(StrongView(all, by_rank, digest));
  }
  if (full_) { // counted once, whichever of its lanes it is
    for (std::uint32_t rest = access.mask; rest; rest &= rest - 1) {
      if (leave_out(memory, address[std::countr_zero(rest)], known.lane_bytes)) break;
    }
    return;
  }
  if (pass_ == Pass::refills) return comes_to(warp, access.mask, access.module, access.site);
  MemoryAccess one;
  one.place = known.place;
  one.stamp = now_;
  one.kind = site.access;
  one.ordering = site.ordering;
  one.scope = site.scope;
  one.record_bytes = known.lane_bytes;
  if (site.access == AccessKind::read && access.affine && access.stride == 0 && (access.mask & (access.mask - 1))) {
    one.thread =
        key_of(operation, warp, unsigned(std::countr_zero(access.mask))); // a broadcast: one access for all lanes
    one.lanes = access.mask;
    touch(memory, one, site, access.base);
    return;
  }
  each_lane(access.mask, [&](unsigned lane) {
    one.thread = key_of(operation, warp, lane);
    one.digest = digest[lane];
    touch(memory, one, site, address[lane]);
  });
}

// One access an element.
void Detector::touch(std::uint64_t memory, MemoryAccess& access, const Site& site, std::uint64_t address) {
  access.bytes = std::min<std::uint32_t>(element_bytes(site), most_lane_bytes);
  for (unsigned i = 0; i < site.elements && std::uint64_t(i) * access.bytes < most_lane_bytes; ++i) {
    access.address = address + std::uint64_t(i) * access.bytes;
    shadow_.access(memory, access);
  }
}

Detector::StrongOfWarp Detector::strong_of(const Site& site, PlaceId place) {
  StrongOfWarp of;
  of.access.place = place;
  of.access.kind = site.access;
  of.access.ordering = of.strong.ordering = site.ordering;
  of.access.scope = of.strong.scope = site.scope;
  of.access.bytes = of.strong.bytes = strong_bytes(site);
  of.access.record_bytes = lane_bytes(site);
  of.strong.reads = site.access != AccessKind::write;
  of.strong.reduction = site.opcode.starts_with("red");
  of.strong.unused = site.outcome_unused;
  return of;
}

std::optional<order::Location> Detector::strong_lane(const StrongAccesses& all, OperationIndex operation,
                                                     const StrongView::Lane& lane, StrongOfWarp& of) {
  order::Location at{0, lane.address};
  if (all.space == Space::shared) {
    at = {shared_memory(operation, all.warp.block, lane.address >> cluster_shift), lane.address & cluster_offset_mask};
    if (!at.block) {
      ++unknown_;
      return std::nullopt;
    }
  }
  auto& [access, strong] = of;
  access.stamp = now_;
  access.thread = strong.thread = key_of(operation, all.warp, lane.lane);
  strong.writes = access.kind == AccessKind::write || (access.kind == AccessKind::atomic && lane.wrote);
  strong.order_first = lane.values.order_first;
  strong.order_last = lane.values.order_last;
  access.stored = access.kind != AccessKind::atomic || strong.writes;
  access.digest = lane.digest;
  return at;
}

// One lane after another; each is an event of its own.
void Detector::strong(const StrongView& view) {
  const StrongAccesses& all = view.all();
  const OperationIndex operation = operation_of(all.warp.launch);
  const PlaceId place = access_site(all.module, all.site).place;
  if (!operation || !place) {
    ++unknown_;
    ++hiding_;
    causality_.missing(now_); // it may have released and acquired
    filter_.ask_again();
    return;
  }
  if (all.space != Space::global && all.space != Space::shared) return;
  const Site& site = *sides_.place(place).site;
  if (pass_ == Pass::refills) return hand_over(view, operation, place);
  const bool in_shared = all.space == Space::shared;
  const LaunchInfo* info = in_shared ? launch_of(operation) : nullptr;
  const bool alone = in_shared && !site.shared_cluster && info && info->launch.cluster.count() == 1; // with its block
  const bool whole_device = !in_shared && site.scope == Scope::gpu;
  const bool covering = whole_device ? !operations_.several_devices()
                                     : order::device_wide(site.scope) || (alone && site.scope != Scope::none);
  covers_device_ |= whole_device && covering;
  const bool waits = pass_ == Pass::filter && site.access == AccessKind::read && may_poll(site);
  const std::uint32_t elements = strong_count(site), width = elements * strong_bytes(site);
  const order::Stamp begin = now_;
  // Whoever has the memory of such lanes looks at them; the others have nothing to learn from them.
  const bool orders_nothing =
      pass_ == Pass::filter && !waits && causality_.orders_nothing(site.ordering, site.access != AccessKind::read);
  const std::uint64_t home = in_shared ? std::uint64_t(all.warp.block) + 1 : 0;
  const auto crosses = [&](std::uint64_t address) { return !in_shared && address % page_bytes + width > page_bytes; };
  std::uint32_t everybodys = in_shared ? all.of_cluster : 0; // which part of memory each element lies in is asked below
  std::uint32_t of_worker = (everything_to_all_ && !in_shared ? all.mask : view.own()) | everybodys;
  if (!all_active_ || everything_to_all_ || !view.routed()) {
    each_lane(of_worker & ~everybodys, [&](unsigned lane) {
      const std::uint64_t address = view.address(lane);
      if (crosses(address)) {
        everybodys |= 1u << lane;
      } else if (!share_.has_page(home, address / page_bytes)) {
        of_worker &= ~(1u << lane);
      }
    });
  }
  const bool heard = pass_ == Pass::filter && slots_ && site.access != AccessKind::write &&
                     !site.opcode.starts_with("red") && !site.outcome_unused;
  if (heard) note_heard(view, of_worker, operation, width);
  if (orders_nothing && !in_shared && covering && !full_ && site.elements == 1 && !everybodys) {
    Filter::Strong one{0,
                       key_of(operation, all.warp, 0),
                       0,
                       strong_bytes(site),
                       covering,
                       site.access != AccessKind::read,
                       site.access != AccessKind::atomic,
                       begin};
    const std::uint32_t unordered = filter_.strong(one, of_worker, view);
    if (!sides_.place(place).float_add || !of_worker) return;
    view.each_own([&](std::uint64_t address, unsigned lane) {
      if (of_worker >> lane & 1) ++part(0, address).additions[place];
      if (unordered >> lane & 1) ++part(0, address).order_dependent[place];
    });
    return;
  }
  StrongOfWarp of_warp = strong_of(site, place);
  auto& [access, strong] = of_warp;
  std::array<StrongView::Lane, 32> lanes;
  const unsigned count = view.lanes(lanes);
  for (unsigned i = 0; i < count; ++i) {
    const StrongView::Lane& lane = lanes[i];
    if (orders_nothing && !(of_worker >> lane.lane & 1)) continue;
    now_ = begin + i;
    const std::optional<order::Location> at = strong_lane(all, operation, lane, of_warp);
    if (!at) continue;
    const std::uint64_t memory = at->block, address = at->address;
    PartFindings* const mine = share_.has_page(memory, address / page_bytes) ? &part(memory, address) : nullptr;
    strays_ |= mine && crosses(address) && !everything_to_all_;
    if (full_) leave_out(memory, address, width);
    if (pass_ == Pass::filter && mine && sides_.place(place).float_add) ++mine->additions[place];
    const bool looks =
        !full_ && (pass_ == Pass::pairs || mine || (address % page_bytes) + most_lane_bytes > page_bytes);
    // What the access reads, it has seen before it is compared with others; what it releases comes after. The elements
    // of a vector, whose order is unspecified (8.2.2), count as one: what one acquires comes before all.
    order::Stamp continues[most_lane_bytes];
    // Who observes it may read a part.
    constexpr std::uint64_t around = most_lane_bytes;
    strong.watched = pass_ == Pass::pairs && shadow_.looks_at(memory, address & ~(around - 1), around);
    each_element(site, {memory, address}, lane.values.read, lane.values.written, strong, [&](unsigned e) {
      if (waits)
        wait_loops_.read(place, site.ordering == Ordering::volatile_ && site.polls != Polls::yes, strong.thread, memory,
                         address, strong.location.address);
      continues[e] = causality_.strong_access(strong, now_);
    });
    filter_.ask_again();
    for (unsigned e = 0; e < elements && looks; ++e) {
      access.address = address + std::uint64_t(e) * strong.bytes;
      access.continues = continues[e];
      if (pass_ == Pass::pairs) {
        shadow_.access(memory, access);
        continue;
      }
      const bool unordered = filter_.strong({memory, access.thread, access.address, strong.bytes, covering,
                                             site.access != AccessKind::read, site.access != AccessKind::atomic, now_});
      if (unordered && mine && sides_.place(place).float_add) ++mine->order_dependent[place];
    }
  }
}

std::uint64_t Detector::shared_memory(OperationIndex operation, std::uint32_t block, std::uint64_t rank) {
  if (rank) {
    peers_ = true;
    const LaunchInfo* info = launch_of(operation);
    if (!info || rank > info->launch.cluster.count()) return 0;
    block = cluster_peer(block, std::uint32_t(rank - 1), info->launch.grid, info->launch.cluster);
  }
  return ThreadKey(operation, block, 0).block_bits() + 1;
}

bool Detector::leave_out(std::uint64_t memory, std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t end = std::min(address + bytes, address_limit);
  for (std::uint64_t next = 0; address < end; address = next) {
    next = std::min(end, (address / page_bytes + 1) * page_bytes);
    const bool looks = pass_ == Pass::pairs ? shadow_.looks_at(memory, address, next - address)
                                            : share_.has_page(memory, address / page_bytes);
    if (!looks) continue;
    ++part(memory, address).unchecked;
    return true;
  }
  return false;
}

} // namespace deadheat::detect
