#include "analyzer/detect/detector.h"

#include <algorithm>
#include <bit>

#include "analyzer/detect/written.h"
#include "deadheat/footprint.h"
#include "deadheat/lanes.h"
#include "tracer/ptx/demangle.h"

namespace deadheat::detect {

namespace {

using order::OperationIndex;
using order::Stamp;
using order::ThreadKey;

// A damaged trace asks for more.
constexpr std::uint64_t most_pages = std::uint64_t(1) << 28; // of a range

// Of launches of more blocks (whose accesses no log holds) nothing is looked at; their records count as unknown.
bool blocks_have_names(const Dim3& grid) {
  const std::uint64_t x = grid.x, slice = x * grid.y;
  return slice < ThreadKey::last_block && slice * grid.z < ThreadKey::last_block;
}

}  // namespace

Detector::Detector(Suspects& suspects, const Setup& setup)
    : pass_(setup.pass),
      worker_(setup.worker),
      memory_limit_(setup.memory_limit),
      most_operations_(setup.most_operations),
      everything_to_all_(setup.everything_to_all),
      known_wait_loops_(setup.wait_loops),
      may_halve_(setup.may_halve),
      share_(setup.share),
      all_active_(share_.parts.count() == (partitions - worker_ + setup.workers - 1) / setup.workers &&
                  share_.slice.is_all()),
      known_heard_(setup.heard),
      causality_(operations_, {.observers = setup.pass == Pass::pairs,
                               .only_marked = setup.pass == Pass::refills,
                               .one_by_one = setup.one_by_one}),
      filter_(causality_, suspects, share_),
      shadow_(
          causality_, sides_, suspects, share_,
          [this](Conflict kind, const MemoryAccess& first, const MemoryAccess& second, const Overlap& overlap) {
            conflict(kind, first, second, overlap);
          },
          setup.taken, setup.bounds),
      flagged_reads_of_(setup.flagged),
      refills_(causality_, share_,
               [this](const MemoryAccess& first, const MemoryAccess& second, const Overlap& overlap) {
                 if (are_to_be_ordered(first, second, overlap)) race(RaceClass::strong, first, second, overlap);
               }) {
  if (setup.several_devices) operations_.expect_several_devices();
  leave_for_later();
}

// How threads of blocks synchronize whose shared memory is not looked at here.
void Detector::leave_for_later() {
  if (pass_ != Pass::filter || share_.parts.all()) return;
  causality_.leave_for_later(
      [this](std::uint32_t block) { return !share_.parts.test(partition_of(std::uint64_t(block) + 1, 0)); });
}

OperationIndex Detector::operation_of(std::uint32_t launch) const {
  if (launch == recent_launch_.first && launch) return recent_launch_.second;
  const OperationIndex found = launches_[launch];
  if (found) recent_launch_ = {launch, found};
  return found;
}

const Detector::LaunchInfo* Detector::launch_of(OperationIndex operation) const {
  auto found = launch_infos_.find(operation);
  return found == launch_infos_.end() ? nullptr : &found->second;
}

std::vector<const Detector::LaunchInfo*> Detector::silent() const {
  std::vector<const LaunchInfo*> found;
  for (const auto& [id, operation] : submitted_) {
    const auto* launch = std::get_if<trace::Launch>(&operation.what);
    const LaunchInfo* info = launch && launch->instrumented ? launch_of(operations_.index(id)) : nullptr;
    if (info && info->silent && !info->torn) found.push_back(info);
  }
  return found;
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

void Detector::forget_shared(OperationIndex operation, const ThreadKey* block) {
  if (block) {
    filter_.forget_shared(*block);
    shadow_.forget_shared(*block);
    refills_.forget(*block);
  } else {
    filter_.forget_shared(operation);
    shadow_.forget_shared(operation);
    refills_.forget(operation);
  }
}

// ---- other records

// What the records between said of order is lost. Whatever they may have ordered counts as ordered: all that was done
// before what is done from here on (Causality::missing), all that was submitted before what is submitted from here on.
// Launches that were submitted may have begun in between, and threads of theirs may have come to a barrier.
void Detector::missing() {
  causality_.missing(++gaps_ > most_gaps ? ~Stamp(0) : now_);
  refills_.missing();
  if (gaps_ > most_gaps) return;
  operations_.missing();
  seen_since_.clear();
  for (const auto& [id, operation] : submitted_) {
    const auto* launch = std::get_if<trace::Launch>(&operation.what);
    const OperationIndex index = launch ? operations_.index(id) : 0;
    const auto info = launch_infos_.find(index);
    if (info == launch_infos_.end()) continue;
    causality_.launch_begin(index, launch->grid, launch->block, launch->cluster);
    info->second.begun = info->second.torn = true;
  }
}

void Detector::record(trace::Record& record) {
  const std::uint64_t contradictions = consistency_.hiding();
  consistency_.record(record);
  if (consistency_.hiding() != contradictions) missing();
  if (pass_ == Pass::refills) follow(record);
  std::visit(
      [&](auto& r) {
        using T = std::decay_t<decltype(r)>;
        if constexpr (std::is_same_v<T, trace::Module>) {
          sides_.module(r);
          access_sites_.fill({});
          if (flagged_reads_of_) slots_ |= !flagged_.try_emplace(r.id, flagged_reads_of_(r)).first->second.empty();
          for (const Site& site : r.sites) {
            if (site.kind == SiteKind::fence && site.ordering == Ordering::sc && site.scope < Scope::gpu)
              causality_.narrow_fences();
            if (!site.outcome_unused) continue;
            site.kind == SiteKind::access ? causality_.unused_reads() : causality_.unused_tests();
          }
        } else if constexpr (std::is_same_v<T, trace::Allocate>) {
          operations_.apply(r);
          allocated(r);
        } else if constexpr (std::is_same_v<T, trace::Free>) {
          freed(r);
        } else if constexpr (std::is_same_v<T, trace::StreamCreate> || std::is_same_v<T, trace::StreamDestroy> ||
                             std::is_same_v<T, trace::StreamMaker> || std::is_same_v<T, trace::EventRecord> ||
                             std::is_same_v<T, trace::StreamWait> || std::is_same_v<T, trace::HostWait> ||
                             std::is_same_v<T, trace::HostWaitBegin> || std::is_same_v<T, trace::GraphLaunch> ||
                             std::is_same_v<T, trace::GraphEnd>) {
          operations_.apply(r);
        } else if constexpr (std::is_same_v<T, trace::Operation>) {
          if (operations_.count() >= most_operations_) {
            ++operations_left_out_;
            return;
          }
          OperationIndex index = operations_.submitted(r);
          if (auto* launch = std::get_if<trace::Launch>(&r.what)) {
            if (blocks_have_names(launch->grid)) launches_.at(r.launch) = index;
            recent_launch_ = {};
            for (Dim3* extent : {&launch->grid, &launch->block, &launch->cluster}) {
              *extent = {std::max(extent->x, 1u), std::max(extent->y, 1u), std::max(extent->z, 1u)};
            }
            const OperationIndex alike =
                first_launches_.try_emplace({launch->kernel, operations_.maker(r.stream)}, index).first->second;
            launch_infos_.insert({index, LaunchInfo{r.launch, r.id, r.stream, *call_sites_.insert(r.call_site).first,
                                                    kind_of(*launch), alike}});
            ++summary_.launches;
            ++(launch->instrumented ? summary_.instrumented : summary_.opaque);
          }
          submitted_[r.id] = r;
        } else if constexpr (std::is_same_v<T, trace::OperationBegin>) {
          begin_operation(r.operation);
        } else if constexpr (std::is_same_v<T, trace::OperationEnd>) {
          end_operation(r.operation);
        } else if constexpr (std::is_same_v<T, trace::Effects>) {
          std::vector<trace::Span> changed;
          for (const trace::Effects::Change& change : r.changes) changed.push_back({change.address, change.data.size});
          if (host_functions_.count(r.operation))
            host_function_wrote(r.operation, changed);
          else
            effects_[r.operation] = std::move(changed);
        } else if constexpr (std::is_same_v<T, trace::Fence>) {
          fence(r);
        } else if constexpr (std::is_same_v<T, trace::BlockBarrier>) {
          if (OperationIndex operation = operation_of(r.launch)) causality_.block_barrier(operation, r.block, now_);
        } else if constexpr (std::is_same_v<T, trace::BarrierArrive>) {
          if (OperationIndex operation = operation_of(r.warp.launch)) {
            causality_.barrier_arrive(operation, r.warp.block, r.warp.warp & 31, r.mask, r.barrier, r.phase, r.sync,
                                      now_);
          }
        } else if constexpr (std::is_same_v<T, trace::BarrierComplete>) {
          if (OperationIndex operation = operation_of(r.launch)) {
            // Who waits for the first completion behind a gap may have come unseen; the next is of arrivals behind it.
            const bool unseen = torn(operation) && seen_since_.insert({operation, r.block, r.barrier}).second;
            causality_.barrier_complete(operation, r.block, r.barrier, r.phase, unseen);
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
            const Site* site = site_of(r.module, r.site);
            const bool bulk = site && site->proxy == Proxy::async, matrix = bulk && multiplies(*site);
            if (!bulk) causality_.async_commit(key_of(operation, r.warp, 0), r.mask);
            each_lane(bulk ? r.mask : 0, [&](unsigned lane) {
              const ThreadKey thread = key_of(operation, r.warp, lane);
              matrix ? causality_.matrix_commit(thread) : causality_.bulk_commit(thread);
            });
          }
        } else if constexpr (std::is_same_v<T, trace::AsyncWait>) {
          if (OperationIndex operation = operation_of(r.warp.launch)) {
            const Site* site = site_of(r.module, r.site);
            const bool bulk = site && site->proxy == Proxy::async, matrix = bulk && multiplies(*site);
            if (!bulk && !r.read_only)
              causality_.async_wait(key_of(operation, r.warp, 0), r.mask, r.pending, r.all, now_);
            each_lane(bulk ? r.mask : 0, [&](unsigned lane) {
              const ThreadKey thread = key_of(operation, r.warp, lane);
              if (matrix) {
                causality_.matrix_wait(thread, r.pending, torn(operation)); // the warpgroup's threads count differently
              } else {
                causality_.bulk_wait(thread, r.pending, r.read_only, now_);
              }
            });
          }
        } else if constexpr (std::is_same_v<T, trace::BulkCopy>) {
          bulk_copy(r);
        } else if constexpr (std::is_same_v<T, trace::Mbarrier>) {
          mbarrier(r);
        } else if constexpr (std::is_same_v<T, trace::ThreadExit>) {
          OperationIndex operation = operation_of(r.warp.launch);
          if (!operation) return;
          for (std::uint32_t over : causality_.thread_exit(operation, r.warp.block, r.warp.warp, r.mask)) {
            const ThreadKey block(operation, over, 0);
            forget_shared(operation, &block);
          }
        } else if constexpr (std::is_same_v<T, trace::HeapBlock>) {
          heap_block(r);
        } else if constexpr (std::is_same_v<T, trace::HeapFree>) {
          heap_free(r);
        } else if constexpr (std::is_same_v<T, trace::MemoryError>) {
          memory_errors.push_back(r);
        } else if constexpr (std::is_same_v<T, trace::SyncError>) {
          sync_errors.push_back(r);
        } else if constexpr (std::is_same_v<T, trace::Incident>) {
          refused |= r.kind == "refused";
          lossy |= r.kind == "lost" || r.kind == "budget" || r.kind == "stalled";
          if (r.kind == "stalled") {
            for (const auto& [id, operation] : submitted_) {
              const auto info = launch_infos_.find(operations_.index(id));
              if (info != launch_infos_.end()) info->second.silent |= info->second.begun;
            }
          }
          if (r.kind == "note") return; // of how it was recorded: nothing is missing
          incidents.push_back(r.text + (r.count > 1 ? " (" + std::to_string(r.count) + " times)" : ""));
        } else if constexpr (std::is_same_v<T, trace::ProgramEnd>) {
          clean_end = r.clean;
        }
      },
      record);
}

// ---- operations

// One of all launches that differ in arguments and footprints only: of long runs few are of their own kind.
bool Detector::LaunchOrder::operator()(const trace::Launch& a, const trace::Launch& b) const {
  const auto what = [](const trace::Launch& launch) {
    const Dim3 &grid = launch.grid, &block = launch.block, &cluster = launch.cluster;
    return std::tie(launch.kernel, launch.module, grid.x, grid.y, grid.z, block.x, block.y, block.z, cluster.x,
                    cluster.y, cluster.z, launch.dynamic_shared, launch.static_shared, launch.cooperative,
                    launch.programmatic, launch.instrumented);
  };
  return what(a) < what(b);
}

const trace::Launch& Detector::kind_of(const trace::Launch& launch) {
  const auto known = kinds_.lower_bound(launch);
  if (known != kinds_.end() && !kinds_.key_comp()(launch, *known)) return *known;
  trace::Launch kind = launch;
  kind.arguments = {};
  kind.footprint = {};
  return *kinds_.insert(known, std::move(kind));
}

const std::string& Detector::demangled(const std::string& kernel) {
  std::string& name = demangled_[kernel];
  if (name.empty()) name = ptx::demangle(kernel);
  return name;
}

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
  // What a pool hands out in a stream's order has a new owner when that operation's turn comes. Whoever still uses it
  // then, at whatever time that was recorded, races with that.
  if (!allocation.operation) new_owner(allocation.address, allocation.bytes);
}

void Detector::new_owner(std::uint64_t address, std::uint64_t bytes) {
  if (address >= address_limit || bytes >= address_limit) {
    ++unknown_;
    return;
  }
  filter_.forget_range(address, bytes);
  shadow_.forget_range(address, bytes);
  refills_.forget_range(address, bytes);
}

void Detector::heap_block(const trace::HeapBlock& block) {
  new_owner(block.address, block.bytes);
  const std::uint64_t end = block.address + block.bytes;
  auto at = heap_blocks_.lower_bound(block.address);
  if (at != heap_blocks_.begin() && std::prev(at)->first + std::prev(at)->second > block.address) --at;
  while (at != heap_blocks_.end() && at->first < end) at = heap_blocks_.erase(at);
  heap_blocks_[block.address] = block.bytes;
}

// It touches each byte: what is in no order with it is found by that.
void Detector::heap_free(const trace::HeapFree& free) {
  std::uint64_t bytes = free.bytes;
  if (const auto known = heap_blocks_.find(free.address); !bytes && known != heap_blocks_.end()) bytes = known->second;
  const OperationIndex operation = operation_of(free.launch);
  if (!operation || free.address >= address_limit || bytes / page_bytes > most_pages || free.thread >= 1024) {
    ++unknown_;
    return;
  }
  MemoryAccess access;
  access.thread = ThreadKey(operation, free.block, free.thread);
  access.place = sides_.site(free.module, free.site);
  access.stamp = now_;
  access.kind = AccessKind::free;
  if (!access.place) {
    ++unknown_;
  } else if (full_) {
    leave_out(0, free.address, bytes);
  } else if (pass_ == Pass::filter) {
    filter_.range(access.thread, free.address, bytes, true, now_);
  } else {
    shadow_.range(0, access, free.address, bytes);
  }
}

void Detector::freed(const trace::Free& free) {
  if (free.operation) return; // in the order of its stream: an operation, which is an access
  auto found = allocations_.find(free.allocation);
  // cudaFree may wait for the device, and does, but never where the memory is a pool's (Runtime API, cudaFree); of
  // cuModuleUnload nothing says so.
  using Kind = trace::Allocate::Kind;
  if (found == allocations_.end() || (found->second.kind != Kind::symbol && found->second.kind != Kind::pool))
    operations_.apply(trace::HostWait{trace::HostWait::Kind::device, 0, 0, false, free.host_thread});
  if (found == allocations_.end()) return;
  auto at = live_.find(found->second.address);
  if (at != live_.end() && at->second == free.allocation) live_.erase(at);
}

void Detector::range(OperationIndex index, PlaceId place, const trace::MemoryRange& range, bool possible) {
  MemoryAccess access;
  access.thread = ThreadKey(index, 0, 0);
  access.place = place;
  access.stamp = now_;
  access.kind = sides_.place(place).kind;
  access.possible = possible;
  constexpr std::uint64_t most_rows = 1 << 22; // a damaged trace asks for more
  // Rows lie apart in memory.
  const bool overlap = (range.height > 1 && range.pitch < range.width) ||
                       (range.depth > 1 && range.slice / std::max<std::uint64_t>(range.pitch, 1) < range.height - 1);
  if (overlap) ++unknown_;
  std::uint64_t rows = 0, pages = 0;
  bool left_out = false;
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
      if (pages > most_pages) {
        ++unknown_;
        return;
      }
      if (full_) {
        left_out = left_out || leave_out(0, address, bytes); // counted once, whichever of its rows it is
        continue;
      }
      if (pass_ == Pass::filter)
        filter_.range(access.thread, address, bytes, access.writes(), now_);
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
  operations_.begins(index);
  if (auto* launch = std::get_if<trace::Launch>(&operation.what)) {
    causality_.launch_begin(index, launch->grid, launch->block, launch->cluster);
    if (const auto info = launch_infos_.find(index); info != launch_infos_.end()) info->second.begun = true;
    if (launch->instrumented) return;
    PlaceId place = 0;
    auto reached = [&](std::uint64_t address, std::uint64_t bytes) { // it may have written anything that it can reach
      if (!place) place = this->place(index, demangled(launch->kernel), AccessKind::write);
      range(index, place, {address, 0, bytes, 1, 1, 0}, true);
    };
    auto whole = [&](std::uint32_t id) {
      if (const trace::Allocate* memory = allocation(id)) reached(memory->address, memory->bytes);
    };
    trace::each_reached(launch->footprint, whole, reached);
  } else if (auto* copy = std::get_if<trace::Copy>(&operation.what)) {
    // Pageable host memory is the host's; page-locked memory is an allocation like any other.
    if (!copy->pageable_source) range(index, place(index, copy->api, AccessKind::read), copy->source);
    if (!copy->pageable_destination) range(index, place(index, copy->api, AccessKind::write), copy->destination);
  } else if (auto* set = std::get_if<trace::Set>(&operation.what)) {
    range(index, sides_.operation(set->api, AccessKind::write, operations_.stream(index), word_of(*set)),
          set->destination);
  } else if (std::holds_alternative<trace::HostCallback>(operation.what)) {
    operations_.begins_on_host(index);
    host_functions_.insert(id);
    if (const auto wrote = effects_.find(id); wrote != effects_.end()) host_function_wrote(id, wrote->second);
  } else if (auto* pool = std::get_if<trace::PoolOperation>(&operation.what)) {
    // What is there is undefined from either on: an allocation is a write, of whatever.
    if (const trace::Allocate* memory = allocation(pool->allocation)) {
      // What is in no order with the free, or with this, is found by these: they touch each byte.
      if (!pool->free && pass_ == Pass::filter) filter_.forget_range(memory->address, memory->bytes);
      if (!pool->free && pass_ == Pass::refills) refills_.forget_range(memory->address, memory->bytes);
      const char* const free = operations_.waited_for_at_once(index) ? "cudaFree" : "cudaFreeAsync";
      range(index,
            pool->free ? place(index, free, AccessKind::free) : place(index, "cudaMallocAsync", AccessKind::write),
            {memory->address, 0, memory->bytes, 1, 1, 0});
    }
  }
}

// Effects of opaque kernels are not looked at: these may have written what they did not change.
void Detector::host_function_wrote(std::uint32_t id, const std::vector<trace::Span>& changed) {
  const auto found = submitted_.find(id);
  const auto* function = found == submitted_.end() ? nullptr : std::get_if<trace::HostCallback>(&found->second.what);
  if (!function) return; // in a damaged trace another operation has its number
  const OperationIndex index = operations_.index(id);
  const PlaceId place = this->place(index, function->api, AccessKind::write);
  for (const auto& [address, bytes] : changed) range(index, place, {address, 0, bytes, 1, 1, 0});
}

void Detector::end_operation(std::uint32_t id) {
  OperationIndex index = operations_.index(id);
  auto found = submitted_.find(id);
  if (!index || found == submitted_.end()) return;
  if (std::holds_alternative<trace::Launch>(found->second.what)) {
    causality_.launch_end(index);
    std::erase_if(seen_since_, [&](const auto& barrier) { return std::get<0>(barrier) == index; });
  }
  forget_shared(index, nullptr);
  host_functions_.erase(id);
  effects_.erase(id);
  operations_.ended(index);
  submitted_.erase(found);
}

} // namespace deadheat::detect
