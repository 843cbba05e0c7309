// Which unordered pairs are races, of which class, and why nothing orders them.
#include <algorithm>

#include "analyzer/detect/detector.h"
#include "analyzer/detect/written.h"
#include "tracer/ptx/sites.h"

namespace deadheat::detect {

using order::ThreadKey;

bool Detector::steers_wait_loop(const MemoryAccess& access) const {
  const Place& place = sides_.place(access.place);
  if (access.kind != AccessKind::read || !place.looping) return false;
  if (access.ordering != Ordering::volatile_) return true; // written for it
  return !known_wait_loops_ || !known_wait_loops_->walks(place.looping);
}

bool Detector::are_to_be_ordered(const MemoryAccess& first, const MemoryAccess& second, const Overlap& overlap) const {
  const order::OperationIndex one = first.thread.operation(), other = second.thread.operation();
  return overlap.memory || one == other ||
         !(operations_.handed_over(one, other, overlap.address) || operations_.frees_unused(one, other));
}

void Detector::conflict(Conflict kind, const MemoryAccess& first, const MemoryAccess& second, const Overlap& overlap) {
  if (!are_to_be_ordered(first, second, overlap)) return;
  if (kind == Conflict::atomics) {
    const Place &a = sides_.place(first.place), &b = sides_.place(second.place);
    PartFindings& found = part(overlap.memory, overlap.address);
    if (a.float_add) ++found.order_dependent[first.place];
    if (b.float_add && second.place != first.place) ++found.order_dependent[second.place];
    return;
  }
  RaceClass race_class = RaceClass::data;
  if (kind == Conflict::strong) {
    if (!plain_strong(first) || !plain_strong(second) || steers_wait_loop(first) || steers_wait_loop(second)) return;
    if (known_wait_loops_ && known_wait_loops_->polled(overlap.memory, overlap.address)) return;
    race_class = RaceClass::strong;
  }
  race(race_class, first, second, overlap);
}

void Detector::race(RaceClass race_class, const MemoryAccess& first, const MemoryAccess& second,
                    const Overlap& overlap) {
  const Place &a = sides_.place(first.place), &b = sides_.place(second.place);
  PartFindings& found = part(overlap.memory, overlap.address);
  operations_.keep(first.thread.operation());
  operations_.keep(second.thread.operation());
  RaceLevel level = RaceLevel::global;
  if (first.thread.operation() != second.thread.operation()) {
    level = RaceLevel::stream;
  } else if (overlap.memory) {
    level = RaceLevel::shared;
  }
  Certainty certainty = first.possible || second.possible ? Certainty::possible : Certainty::certain;
  PairKey key{std::min(a.side, b.side), std::max(a.side, b.side), level, race_class, certainty};
  FoundRace& race = found.races[key];
  const bool proxy_fence = lacks_proxy_fence(first, second);
  race.lacks_other |= !proxy_fence || !first.group;
  if (const MemoryAccess* read = plain_read(first, second))
    race.readers.insert(read->thread);
  else
    race.readers.insert_others();
  Touch one{first.thread, first.stamp, first.place}, two{second.thread, second.stamp, second.place};
  race.codes.try_emplace({code(one), code(two)}, one, two);
  const unsigned tells = telling(level, one, two, first.writes() && !second.writes());
  const bool fresh = !race.occurrences;
  race.occurrences += overlap.times;
  if (fresh || tells > race.telling) {
    race.level = level;
    race.race_class = race_class;
    race.certainty = certainty;
    race.first = one;
    race.second = two;
    race.telling = tells;
    // In the third pass' order only reads of slots have stamps.
    race.common = pass_ == Pass::refills ? ~order::Stamp(0) : last_known(first, second.thread);
    race.address = overlap.address;
    race.bytes = overlap.bytes;
    race.allocation = overlap.memory ? 0 : allocation_at(overlap.address);
    race.lacks_proxy_fence = proxy_fence;
    race.issue_unordered = issue_unordered(first, second);
    race.why = why(first, second);
    race.exited = first.thread.block_bits() == second.thread.block_bits() && !first.group && !proxy_fence &&
                  first.ordering != Ordering::nc && second.ordering != Ordering::nc &&
                  causality_.exited_before_barrier(first.thread, first.stamp);
  }
  if (first.kind == AccessKind::write && second.kind == AccessKind::write) {
    race.any_write_pair = true;
    const std::optional<bool> same = wrote_the_same(first, a, second, b, overlap.address, overlap.bytes);
    (same ? race.different_values : race.unknown_values) |= !same || !*same;
  }
  add_instance(race, one, two);
}

Code Detector::code(const Touch& touch) const {
  if (!sides_.place(touch.place).site) return {};
  const LaunchInfo* info = launch_of(touch.thread.operation());
  return {touch.place, info ? info->alike : 0};
}

// The stamp up to which what the thread of `first` did before it is ordered before what `second` does now. Order within
// a thread makes these stamps the first ones of all.
order::Stamp Detector::last_known(const MemoryAccess& first, ThreadKey second) const {
  if (first.thread.operation() != second.operation()) return 0;
  order::Stamp known = 0, unknown = first.stamp;
  while (known + 1 < unknown) {
    const order::Stamp middle = known + (unknown - known) / 2;
    (causality_.ordered(first.thread, middle, 0, second) ? known : unknown) = middle;
  }
  return known;
}

bool Detector::is_bulk_copy(const MemoryAccess& access) const {
  const Site* site = sides_.place(access.place).site;
  return site && site->kind == SiteKind::bulk_copy;
}

// Ordered, but for the second's proxy.
bool Detector::lacks_proxy_fence(const MemoryAccess& first, const MemoryAccess& second) const {
  return second.proxy == Proxy::async && first.proxy == Proxy::generic && first.writes() &&
         first.thread.operation() == second.thread.operation() &&
         causality_.ordered(first.thread, first.stamp, first.group, second.thread);
}

// A copy that was issued too early is none that was waited for too late: what is read may be what it is to replace.
bool Detector::issue_unordered(const MemoryAccess& first, const MemoryAccess& second) const {
  return first.group && first.writes() && first.thread.operation() == second.thread.operation() &&
         !causality_.ordered(first.thread, first.stamp, 0, second.thread);
}

// The one that is a weak load, where the other writes; else null.
const MemoryAccess* Detector::plain_read(const MemoryAccess& first, const MemoryAccess& second) const {
  if (first.writes() == second.writes()) return nullptr;
  const MemoryAccess& read = first.writes() ? second : first;
  const Site* site = sides_.place(read.place).site;
  return site && site->kind == SiteKind::access && !is_strong(site->ordering) ? &read : nullptr;
}

// A strong load of what a kernel writes by a plain store.
bool Detector::looks_for(const MemoryAccess& read, const MemoryAccess& write) const {
  return !read.writes() && is_strong(read.ordering) && write.writes() && !is_strong(write.ordering) &&
         sides_.place(write.place).site;
}

namespace {

std::string which(bool first, bool second) {
  return first && second ? "each has" : first ? "the first has" : "the second has";
}

} // namespace

std::string Detector::why(const MemoryAccess& first, const MemoryAccess& second) const {
  ThreadKey a = first.thread, b = second.thread;
  if (pass_ == Pass::refills)
    return "the reader waits for the flag in the vector, and takes the data beside it: the slot must not be written "
           "again before the writer knows that it has been read, and nothing that the reader does behind the read "
           "tells it so";
  if (first.ordering == Ordering::nc || second.ordering == Ordering::nc) {
    const Site* const site = sides_.place((first.writes() ? second : first).place).site;
    const std::string read =
        site && ptx::is_texel(*site)
            ? "a read through the texture cache, which is not kept coherent with what is written meanwhile, of what "
            : "a read through the non-coherent cache (ld.global.nc, __ldg, const __restrict__) of what ";
    if (a.operation() == b.operation() && !first.writes() && causality_.ordered(a, first.stamp, first.group, b)) {
      return read +
             "the same launch writes behind it: nothing before the write needs the value, so that it may be read "
             "behind the write as well";
    }
    if (a.operation() == b.operation()) return read + "the same launch writes: no synchronization orders it";
    if (causality_.ordered(a, first.stamp, first.group, b)) {
      return read +
             "is written while its launch may run: what the two tell each other does not order it, only the end "
             "of the one before the other begins";
    }
  }
  const bool both_strong = is_strong(first.ordering) && is_strong(second.ordering);
  const bool of_device = first.scope == Scope::gpu || second.scope == Scope::gpu;
  if (both_strong && of_device && !operations_.same_device(a.operation(), b.operation()))
    return "both are strong, but " + which(first.scope == Scope::gpu, second.scope == Scope::gpu) +
           " device scope (.gpu), and they are on different devices";
  if (a.operation() != b.operation()) {
    const std::string text = operations_.why_unordered(a.operation(), b.operation());
    if (looks_for(first, second)) return text + "; the first looks for what the second writes by a plain access";
    if (looks_for(second, first)) return text + "; the second looks for what the first writes by a plain access";
    return text;
  }
  if (lacks_proxy_fence(first, second)) {
    return std::string("the write comes before ") +
           (multiplies(*sides_.place(second.place).site) ? "wgmma" : "the bulk copy") +
           ", which goes through the asynchronous proxy, and that need not see it: no fence.proxy.async comes between";
  }
  if (first.group) {
    const bool early = issue_unordered(first, second);
    const bool is_bulk = first.proxy == Proxy::async, is_store = !is_bulk && is_bulk_copy(first);
    if (is_bulk && sides_.place(first.place).site && multiplies(*sides_.place(first.place).site)) {
      return early
                 ? "nothing orders the two: either wgmma is to come behind the second, or the second is to come behind "
                   "a wgmma.wait_group for its group"
                 : "wgmma reads shared memory until it has been waited for: no wgmma.wait_group for its group by its "
                   "warpgroup comes between";
    }
    if (is_bulk) {
      return early ? "nothing orders the two: either the bulk copy is to be issued behind the second, or the second is "
                     "to wait until it is complete, for its mbarrier's phase or its bulk group"
                   : "nothing has seen the bulk copy complete: no wait for its mbarrier's phase that acquires, or for "
                     "its bulk group by the thread that issued it, comes between";
    }
    if (is_store) {
      return early ? "nothing orders the two: either the asynchronous store is to be issued behind the second, or the "
                     "second is to wait for its mbarrier's phase"
                   : "nothing has seen the asynchronous store complete: no wait for its mbarrier's phase that acquires "
                     "comes between";
    }
    return early
               ? "no barrier comes between the two: either the asynchronous copy is to be issued behind the second, "
                 "or the second is to come behind the copying thread's cp.async.wait_group and a barrier"
               : "the asynchronous copy was not waited for: no cp.async.wait_group of the copying thread, followed by "
                 "a barrier, comes between";
  }
  bool same_block = a.block_bits() == b.block_bits();
  std::string text;
  if (both_strong) {
    if (!same_block && (first.scope == Scope::cta || second.scope == Scope::cta)) {
      return "both are strong, but " + which(first.scope == Scope::cta, second.scope == Scope::cta) +
             " block scope (.cta), and they are in different blocks";
    }
    const LaunchInfo* const info = launch_of(a.operation());
    if (info && (first.scope == Scope::cluster || second.scope == Scope::cluster) &&
        cluster_peer(a.block(), 0, info->launch.grid, info->launch.cluster) !=
            cluster_peer(b.block(), 0, info->launch.grid, info->launch.cluster)) {
      return "both are strong, but " + which(first.scope == Scope::cluster, second.scope == Scope::cluster) +
             " cluster scope, and they are in different clusters";
    }
    if (first.address != second.address || first.bytes != second.bytes) {
      return "both are strong, but they overlap only in part: operations of different sizes are not atomic to each "
             "other";
    }
  }
  if (same_block) {
    if (a.warp() == b.warp()) {
      text = "no barrier orders them: they are lanes of one warp, and no __syncwarp comes between";
    } else {
      text = "no barrier orders them: they are in different warps, and no __syncthreads comes between";
    }
  } else {
    text = "they are in different blocks of one launch, and no release and acquire connect them";
    if (is_strong(first.ordering) != is_strong(second.ordering))
      text += std::string("; the ") + (is_strong(first.ordering) ? "second" : "first") + " is a plain access";
  }
  return text;
}

} // namespace deadheat::detect
