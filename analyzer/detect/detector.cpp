#include "analyzer/detect/detector.h"

#include <algorithm>
#include <bit>

namespace deadheat::detect {

namespace {

using order::OperationIndex;
using order::Stamp;
using order::ThreadKey;

template <typename Each>
void each_lane(std::uint32_t mask, Each&& each) {
  for (; mask; mask &= mask - 1) each(unsigned(std::countr_zero(mask)));
}

}  // namespace

Detector::Detector(Suspects& suspects, Pass pass)
    : causality_(operations_),
      pass_(pass),
      filter_(causality_, suspects),
      shadow_(causality_, sides_, suspects,
              [this](Conflict kind, const MemoryAccess& first, const MemoryAccess& second, const Overlap& overlap) {
                conflict(kind, first, second, overlap);
              }) {}

OperationIndex Detector::operation_of(std::uint32_t launch) const {
  auto found = launches_.find(launch);
  return found == launches_.end() ? 0 : found->second;
}

const Detector::LaunchInfo* Detector::launch_of(OperationIndex operation) const {
  auto found = launch_infos_.find(operation);
  return found == launch_infos_.end() ? nullptr : &found->second;
}

const trace::Allocate* Detector::allocation(std::uint32_t id) const {
  auto found = allocations_.find(id);
  return found == allocations_.end() ? nullptr : &found->second;
}

std::uint32_t Detector::allocation_at(std::uint64_t address) const {
  auto above = live_.upper_bound(address);
  if (above == live_.begin()) return 0;
  const trace::Allocate& at = allocations_.at(std::prev(above)->second);
  return address - at.address < at.bytes ? at.allocation : 0;
}

// ---- accesses ------------------------------------------------------------------------------------------------------

bool Detector::access(const trace::AccessView& view) {
  ++now_;
  OperationIndex operation = operation_of(view.warp.launch);
  PlaceId place = sides_.site(view.module, view.site);
  summary_.accesses += std::uint64_t(std::popcount(view.mask));
  if (!operation || !place) ++unknown_;
  if (!operation || !place || !view.mask || (view.space != Space::global && view.space != Space::shared)) return true;
  if (filter_.full()) {
    ++unchecked_;
    return true;
  }
  const Site& site = *sides_.place(place).site;
  const std::uint32_t element = std::max<std::uint32_t>(site.element_bytes, 1);
  const std::uint64_t memory =
      view.space == Space::shared ? ThreadKey(operation, view.warp.block, 0).block_bits() + 1 : 0;

  if (pass_ == Pass::filter && !view.strong && !is_strong(site.ordering)) {
    Filter::Warp warp;
    warp.memory = memory;
    warp.lane0 = key_of(operation, view.warp, 0);
    warp.mask = view.mask;
    warp.bytes = element * site.elements;
    warp.address = view.address;
    warp.affine = view.affine;
    warp.stride = view.stride;
    warp.write = site.access != AccessKind::read;
    warp.non_coherent = site.ordering == Ordering::nc;
    warp.now = now_;
    filter_.weak(warp);
    return true;
  }

  MemoryAccess access;
  access.place = place;
  access.stamp = now_;
  access.kind = site.access;
  access.ordering = site.ordering;
  access.scope = site.scope;
  access.record_bytes = element * site.elements;
  if (view.strong || is_strong(site.ordering)) {
    strong_accesses(view, site, access, memory);
    return true;
  }
  if (site.access == AccessKind::read && view.affine && view.stride == 0 && (view.mask & (view.mask - 1))) {
    const unsigned first = unsigned(std::countr_zero(view.mask));  // a broadcast: one access for all lanes
    access.thread = key_of(operation, view.warp, first);
    access.lanes = view.mask;
    touch(memory, access, site, view.address[first]);
    return true;
  }
  each_lane(view.mask, [&](unsigned lane) {
    access.thread = key_of(operation, view.warp, lane);
    access.digest = view.digest[lane];
    touch(memory, access, site, view.address[lane]);
  });
  return true;
}

// One access an element.
void Detector::touch(std::uint64_t memory, MemoryAccess& access, const Site& site, std::uint64_t address) {
  access.bytes = std::max<std::uint32_t>(site.element_bytes, 1);
  for (unsigned i = 0; i < site.elements; ++i) {
    access.address = address + std::uint64_t(i) * access.bytes;
    shadow_.access(memory, access);
  }
}

// One lane after another, in the order in which they reached the location; each is an event of its own.
void Detector::strong_accesses(const trace::AccessView& view, const Site& site, MemoryAccess& access,
                               std::uint64_t memory) {
  unsigned order[32], count = 0;
  each_lane(view.mask, [&](unsigned lane) { order[count++] = lane; });
  std::stable_sort(order, order + count,
                   [&](unsigned a, unsigned b) { return view.order_first[a] < view.order_first[b]; });
  const OperationIndex operation = operation_of(view.warp.launch);
  const LaunchInfo* info = launch_of(operation);
  const bool alone = memory && !site.shared_cluster && info && info->launch.cluster.count() == 1;  // with its block
  order::StrongAccess strong;
  strong.ordering = site.ordering;
  strong.scope = site.scope;
  strong.bytes = std::max<std::uint32_t>(site.element_bytes, 1);
  strong.reads = site.access != AccessKind::write;
  strong.reduction = site.opcode.rfind("red", 0) == 0;
  for (unsigned i = 0; i < count; ++i) {
    const unsigned lane = order[i];
    if (i) ++now_;
    access.stamp = now_;
    access.thread = strong.thread = key_of(operation, view.warp, lane);
    strong.location = {memory, view.address[lane], 0};
    strong.writes = site.access == AccessKind::write || (site.access == AccessKind::atomic && (view.wrote >> lane & 1));
    strong.value_read = view.value_read[lane];
    strong.value_written = view.value_written[lane];
    strong.order_first = view.order_first[lane];
    strong.order_last = view.order_last[lane];
    if (site.access == AccessKind::read && site.in_loop) {
      WaitLoop& loop = wait_loops_[access.place];
      auto [at, first] = loop.address.try_emplace(strong.thread.bits, view.address[lane]);
      if (!first && at->second != view.address[lane]) loop.varied = true;
    }
    // What the access reads, it has seen before it is compared with others; what it releases comes after.
    access.continues = causality_.strong_access(strong, now_);
    access.stored = site.access != AccessKind::atomic || strong.writes;
    access.digest = view.digest[lane];
    if (pass_ == Pass::pairs) {
      touch(memory, access, site, view.address[lane]);
      continue;
    }
    const bool covering = order::device_wide(site.scope) || (alone && site.scope != Scope::none);
    for (unsigned e = 0; e < site.elements; ++e) {
      bool unordered =
          filter_.strong({memory, access.thread, view.address[lane] + std::uint64_t(e) * strong.bytes, strong.bytes,
                          covering, site.access != AccessKind::read, site.access != AccessKind::atomic, now_});
      if (unordered && sides_.place(access.place).float_add) ++order_dependent_[access.place];
    }
  }
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
  each_lane(copy.mask, [&](unsigned lane) {
    MemoryAccess access;
    access.thread = key_of(operation, copy.warp, lane);
    access.stamp = now_;
    access.group = causality_.async_issue(access.thread, now_);
    access.place = read;
    access.address = copy.source[lane];
    access.bytes = std::min(copy.source_bytes[lane], copy.bytes);
    if (pass_ == Pass::filter) {
      filter_.copy(0, access.thread, access.group, access.address, access.bytes, false, now_);
      filter_.copy(memory, access.thread, access.group, copy.destination[lane], copy.bytes, true, now_);
      return;
    }
    shadow_.access(0, access);
    access.place = write;
    access.kind = AccessKind::write;
    access.address = copy.destination[lane];
    access.bytes = access.record_bytes = copy.bytes;
    access.digest = copy.digest[lane];
    shadow_.access(memory, access);
  });
}

void Detector::forget_shared(OperationIndex operation, const ThreadKey* block) {
  if (block) {
    filter_.forget_shared(*block);
    shadow_.forget_shared(*block);
  } else {
    filter_.forget_shared(operation);
    shadow_.forget_shared(operation);
  }
}

// ---- other records
// ---------------------------------------------------------------------------------------------------

bool Detector::record(trace::Record& record) {
  consistency_.record(record);
  ++now_;
  std::visit(
      [&](auto& r) {
        using T = std::decay_t<decltype(r)>;
        if constexpr (std::is_same_v<T, trace::Module>) {
          sides_.module(r);
        } else if constexpr (std::is_same_v<T, trace::Allocate>) {
          allocated(r);
        } else if constexpr (std::is_same_v<T, trace::Free>) {
          freed(r);
        } else if constexpr (std::is_same_v<T, trace::StreamCreate> || std::is_same_v<T, trace::StreamDestroy> ||
                             std::is_same_v<T, trace::EventRecord> || std::is_same_v<T, trace::StreamWait> ||
                             std::is_same_v<T, trace::HostWait> || std::is_same_v<T, trace::GraphLaunch> ||
                             std::is_same_v<T, trace::GraphEnd>) {
          operations_.apply(r);
        } else if constexpr (std::is_same_v<T, trace::Operation>) {
          if (operations_.count() >= order::largest_operation) return;
          OperationIndex index = operations_.submitted(r);
          if (auto* launch = std::get_if<trace::Launch>(&r.what)) {
            launches_[r.launch] = index;
            for (Dim3* extent : {&launch->grid, &launch->block, &launch->cluster}) {
              *extent = {std::max(extent->x, 1u), std::max(extent->y, 1u), std::max(extent->z, 1u)};
            }
            launch_infos_[index] = {r.launch, r.id, r.stream, *launch};
            ++summary_.launches;
            ++(launch->instrumented ? summary_.instrumented : summary_.opaque);
          }
          submitted_[r.id] = r;
        } else if constexpr (std::is_same_v<T, trace::OperationBegin>) {
          begin_operation(r.operation);
        } else if constexpr (std::is_same_v<T, trace::OperationEnd>) {
          end_operation(r.operation);
        } else if constexpr (std::is_same_v<T, trace::Fence>) {
          OperationIndex operation = operation_of(r.warp.launch);
          if (operation) {
            each_lane(r.mask, [&](unsigned lane) {
              causality_.fence(key_of(operation, r.warp, lane), r.ordering, r.scope, now_);
            });
          }
        } else if constexpr (std::is_same_v<T, trace::BlockBarrier>) {
          if (OperationIndex operation = operation_of(r.launch)) causality_.block_barrier(operation, r.block, now_);
        } else if constexpr (std::is_same_v<T, trace::BarrierArrive>) {
          if (OperationIndex operation = operation_of(r.warp.launch)) {
            causality_.barrier_arrive(operation, r.warp.block, r.warp.warp & 31, r.mask, r.barrier, r.phase, r.sync,
                                      now_);
          }
        } else if constexpr (std::is_same_v<T, trace::BarrierComplete>) {
          if (OperationIndex operation = operation_of(r.launch)) {
            causality_.barrier_complete(operation, r.block, r.barrier, r.phase);
          }
        } else if constexpr (std::is_same_v<T, trace::WarpBarrier>) {
          if (OperationIndex operation = operation_of(r.warp.launch)) {
            causality_.warp_barrier(operation, r.warp.block, r.warp.warp & 31, r.mask, now_);
          }
        } else if constexpr (std::is_same_v<T, trace::ClusterBarrier>) {
          if (OperationIndex operation = operation_of(r.warp.launch)) {
            causality_.cluster_barrier(operation, r.warp.block, r.warp.warp & 31, r.mask, r.phase, r.wait, r.relaxed,
                                       now_);
          }
        } else if constexpr (std::is_same_v<T, trace::AsyncCopy>) {
          asynchronous_copy(r);
        } else if constexpr (std::is_same_v<T, trace::AsyncCommit>) {
          if (OperationIndex operation = operation_of(r.warp.launch)) {
            each_lane(r.mask, [&](unsigned lane) { causality_.async_commit(key_of(operation, r.warp, lane)); });
          }
        } else if constexpr (std::is_same_v<T, trace::AsyncWait>) {
          if (OperationIndex operation = operation_of(r.warp.launch); operation && !r.read_only) {
            each_lane(r.mask, [&](unsigned lane) {
              causality_.async_wait(key_of(operation, r.warp, lane), r.pending, r.all, now_);
            });
          }
        } else if constexpr (std::is_same_v<T, trace::Mbarrier>) {
          OperationIndex operation = operation_of(r.warp.launch);
          if (!operation) return;
          std::uint64_t memory = ThreadKey(operation, r.block, 0).block_bits() + 1;
          each_lane(r.mask, [&](unsigned lane) {
            ThreadKey thread = key_of(operation, r.warp, lane);
            order::Location object{memory, r.address[lane]};
            using What = trace::Mbarrier::What;
            if (r.what == What::init) causality_.mbarrier_init(object);
            if (r.what == What::arrive || r.what == What::arrive_drop) {
              causality_.mbarrier_arrive(thread, object, r.phase[lane], r.ordering, r.scope, now_);
            }
            if (r.what == What::async_arrive) causality_.mbarrier_async_arrive(thread, object, r.phase[lane], now_);
            if (r.what == What::test && (r.succeeded >> lane & 1)) {
              causality_.mbarrier_test(thread, object, r.phase[lane], r.ordering, r.scope);
            }
          });
        } else if constexpr (std::is_same_v<T, trace::ThreadExit>) {
          OperationIndex operation = operation_of(r.warp.launch);
          if (operation && causality_.thread_exit(operation, r.warp.block, r.warp.warp, r.mask)) {
            const ThreadKey block(operation, r.warp.block, 0);
            forget_shared(operation, &block);
          }
        } else if constexpr (std::is_same_v<T, trace::MemoryError>) {
          memory_errors.push_back(r);
        } else if constexpr (std::is_same_v<T, trace::SyncError>) {
          sync_errors.push_back(r);
        } else if constexpr (std::is_same_v<T, trace::Incident>) {
          refused |= r.kind == "refused";
          incidents.push_back(r.text + (r.count > 1 ? " (" + std::to_string(r.count) + " times)" : ""));
        } else if constexpr (std::is_same_v<T, trace::ProgramEnd>) {
          clean_end = r.clean;
        }
      },
      record);
  return true;
}

// ---- operations
// ------------------------------------------------------------------------------------------------------

void Detector::allocated(const trace::Allocate& allocation) {
  if (!allocation.allocation) return;
  if (allocation.address >= address_limit || allocation.bytes >= address_limit) {
    ++unknown_;
    return;
  }
  std::uint64_t end = allocation.address + allocation.bytes;
  for (auto at = live_.lower_bound(allocation.address); at != live_.end() && at->first < end;) at = live_.erase(at);
  live_[allocation.address] = allocation.allocation;
  allocations_[allocation.allocation] = allocation;
  filter_.forget_range(allocation.address, allocation.bytes);
  shadow_.forget_range(allocation.address, allocation.bytes);
}

void Detector::freed(const trace::Free& free) {
  if (free.operation) return;  // in the order of its stream: an operation, which is an access
  // cudaFree waits for the device (Programming Guide, "Implicit Synchronization").
  operations_.apply(trace::HostWait{trace::HostWait::Kind::device, 0, 0, false, free.host_thread});
  auto found = allocations_.find(free.allocation);
  if (found == allocations_.end()) return;
  auto at = live_.find(found->second.address);
  if (at != live_.end() && at->second == free.allocation) live_.erase(at);
}

void Detector::range(OperationIndex index, const std::string& api, AccessKind kind, const trace::MemoryRange& range,
                     bool possible) {
  MemoryAccess access;
  access.thread = ThreadKey(index, 0, 0);
  access.place = sides_.operation(operations_.id(index), api, kind, operations_.stream(index));
  access.stamp = now_;
  access.kind = kind;
  access.possible = possible;
  constexpr std::uint64_t most_rows = 1 << 22, most_pages = 1 << 25;  // a damaged trace asks for more
  // Rows lie apart in memory.
  const bool overlap = (range.height > 1 && range.pitch < range.width) ||
                       (range.depth > 1 && range.slice / std::max<std::uint64_t>(range.pitch, 1) < range.height - 1);
  if (overlap) ++unknown_;
  std::uint64_t rows = 0, pages = 0;
  for (std::uint64_t slice = 0; slice < range.depth && range.width && !overlap; ++slice) {
    for (std::uint64_t row = 0; row < range.height; ++row) {
      if (++rows > most_rows) {
        ++unknown_;
        return;
      }
      std::uint64_t address = range.address + slice * range.slice + row * range.pitch;
      const trace::Allocate* owner = allocation(allocation_at(address));
      if (!owner) continue;
      const std::uint64_t bytes = std::min(range.width, owner->address + owner->bytes - address);
      pages += bytes / page_bytes;
      range_pages_ += bytes / page_bytes;
      if (pages > most_pages || range_pages_ > 64 * most_pages) {
        ++unknown_;
        return;
      }
      if (filter_.full()) {
        ++unchecked_;
        return;
      }
      if (pass_ == Pass::filter)
        filter_.range(index, address, bytes, access.writes(), now_);
      else
        shadow_.range(0, access, address, bytes);
    }
  }
}

void Detector::begin_operation(std::uint32_t id) {
  OperationIndex index = operations_.index(id);
  auto found = submitted_.find(id);
  if (!index || found == submitted_.end()) return;
  const trace::Operation& operation = found->second;
  if (auto* launch = std::get_if<trace::Launch>(&operation.what)) {
    causality_.launch_begin(index, launch->grid, launch->block, launch->cluster);
    if (launch->instrumented) return;
    for (std::uint64_t id : launch->footprint) {  // it may have written anything that it can reach
      const trace::Allocate* reached = id <= ~0u ? allocation(std::uint32_t(id)) : nullptr;
      if (!reached) continue;
      range(index, demangled(launch->kernel), AccessKind::write, {reached->address, 0, reached->bytes, 1, 1, 0}, true);
    }
  } else if (auto* copy = std::get_if<trace::Copy>(&operation.what)) {
    // Pageable host memory is the host's; page-locked memory is an allocation like any other.
    if (!copy->pageable_source) range(index, copy->api, AccessKind::read, copy->source);
    if (!copy->pageable_destination) range(index, copy->api, AccessKind::write, copy->destination);
  } else if (auto* set = std::get_if<trace::Set>(&operation.what)) {
    range(index, set->api, AccessKind::write, set->destination);
  } else if (auto* pool = std::get_if<trace::PoolOperation>(&operation.what)) {
    if (pool->free) {
      if (const trace::Allocate* freed = allocation(pool->allocation)) {
        range(index, "cudaFreeAsync", AccessKind::free, {freed->address, 0, freed->bytes, 1, 1, 0});
      }
    }
  }
}

void Detector::end_operation(std::uint32_t id) {
  OperationIndex index = operations_.index(id);
  auto found = submitted_.find(id);
  if (!index || found == submitted_.end()) return;
  if (std::holds_alternative<trace::Launch>(found->second.what)) {
    causality_.launch_end(index);
    forget_shared(index, nullptr);
  }
  submitted_.erase(found);
}

// ---- conflicts
// -------------------------------------------------------------------------------------------------------

bool Detector::steers_wait_loop(const MemoryAccess& access) const {
  const Site* site = sides_.place(access.place).site;
  if (access.kind != AccessKind::read || !site || !site->in_loop) return false;
  if (access.ordering != Ordering::volatile_) return true;  // written for it
  auto loop = wait_loops_.find(access.place);
  return loop == wait_loops_.end() || !loop->second.varied;
}

void Detector::conflict(Conflict kind, const MemoryAccess& first, const MemoryAccess& second, const Overlap& overlap) {
  const Place &a = sides_.place(first.place), &b = sides_.place(second.place);
  if (kind == Conflict::atomics) {
    if (a.float_add) ++order_dependent_[first.place];
    if (b.float_add && second.place != first.place) ++order_dependent_[second.place];
    return;
  }
  RaceClass race_class = RaceClass::data;
  if (kind == Conflict::strong) {
    auto plain = [](const MemoryAccess& access) {
      // Relaxed loads and stores are written by people who chose them; only volatile ones are suspected.
      return access.kind != AccessKind::atomic && access.ordering == Ordering::volatile_;
    };
    if (!plain(first) || !plain(second) || steers_wait_loop(first) || steers_wait_loop(second)) return;
    race_class = RaceClass::strong;
  }
  RaceLevel level = RaceLevel::global;
  if (first.thread.operation() != second.thread.operation()) {
    level = RaceLevel::stream;
  } else if (overlap.memory) {
    level = RaceLevel::shared;
  }
  Certainty certainty = first.possible || second.possible ? Certainty::possible : Certainty::certain;
  PairKey key{std::min(a.side, b.side), std::max(a.side, b.side), level, race_class, certainty};
  FoundRace& race = races_[key];
  Touch one{first.thread, first.stamp, first.place}, two{second.thread, second.stamp, second.place};
  if (race.occurrences++ == 0) {
    race.level = level;
    race.race_class = race_class;
    race.certainty = certainty;
    race.first = one;
    race.second = two;
    race.address = overlap.address;
    race.bytes = overlap.bytes;
    race.allocation = overlap.memory ? 0 : allocation_at(overlap.address);
    race.why = why(first, second);
  }
  if (first.writes() && second.writes()) {
    race.any_write_pair = true;
    race.same_value &= first.digest == second.digest && first.record_bytes && first.address == second.address &&
                       first.record_bytes == second.record_bytes && first.kind == AccessKind::write &&
                       second.kind == AccessKind::write;
  }
  // Half of them within a warp: where lanes wait for each other, as in ldmatrix, only other warps change places.
  bool one_warp = one.thread.block_bits() == two.thread.block_bits() && one.thread.warp() == two.thread.warp();
  if (race.instances.size() < (one_warp ? most_instances / 2 : most_instances)) {
    bool fresh = std::none_of(race.instances.begin(), race.instances.end(), [&](const auto& other) {
      return other.first.thread == one.thread || other.second.thread == two.thread;
    });
    if (fresh) race.instances.emplace_back(one, two);
  }
}

std::string Detector::why(const MemoryAccess& first, const MemoryAccess& second) const {
  ThreadKey a = first.thread, b = second.thread;
  if (first.ordering == Ordering::nc || second.ordering == Ordering::nc) {
    if (a.operation() == b.operation()) {
      return "a read through the non-coherent cache (ld.global.nc, __ldg, const __restrict__) of what the same launch "
             "writes: no synchronization orders it";
    }
  }
  if (a.operation() != b.operation()) return operations_.why_unordered(a.operation(), b.operation());
  if (first.group) {
    return "the asynchronous copy was not waited for: no cp.async.wait_group of the copying thread, followed by a "
           "barrier, comes between";
  }
  bool same_block = a.block_bits() == b.block_bits();
  std::string text;
  if (is_strong(first.ordering) && is_strong(second.ordering)) {
    if (!same_block && (first.scope == Scope::cta || second.scope == Scope::cta)) {
      return "both are strong, but one has block scope (.cta) and the other is in another block";
    }
    if (first.address != second.address || first.bytes != second.bytes) {
      return "both are strong, but they overlap only in part: operations of different sizes are not atomic to each "
             "other";
    }
  }
  if (same_block) {
    std::uint32_t passed = causality_.barriers_passed(b);
    text = "no barrier orders them: nothing separates them after " +
           (passed ? "barrier " + std::to_string(passed) + " of the block" : std::string("the start of the block"));
    if (a.warp() == b.warp()) {
      text = "no barrier orders them: they are lanes of one warp, and no __syncwarp comes between";
    }
  } else {
    text = "they are in different blocks of one launch, and no release and acquire connect them";
    if (is_strong(first.ordering) != is_strong(second.ordering)) text += "; one of them is a plain access";
  }
  return text;
}

void Detector::add_order_dependent(const std::map<PlaceId, std::uint64_t>& more) {
  for (const auto& [place, count] : more) order_dependent_[place] += count;
}

std::vector<FoundRace> Detector::races() const {
  std::vector<FoundRace> result;
  for (const auto& [key, race] : races_) {
    result.push_back(race);
    if (!race.any_write_pair) result.back().same_value = false;
  }
  // Data races first, then those most likely to matter: not the same value, then what happened first.
  std::stable_sort(result.begin(), result.end(), [](const FoundRace& a, const FoundRace& b) {
    if (a.certainty != b.certainty) return a.certainty < b.certainty;
    if (a.race_class != b.race_class) return a.race_class < b.race_class;
    if (a.same_value != b.same_value) return b.same_value;
    return a.second.stamp < b.second.stamp;
  });
  return result;
}

}  // namespace deadheat::detect
