#include "analyzer/detect/explain.h"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "analyzer/report/place.h"
#include "deadheat/calls_without_stream.h"
#include "deadheat/lanes.h"
#include "tracer/ptx/demangle.h"
#include "tracer/ptx/sites.h"

namespace deadheat::detect {

namespace {

using order::ThreadKey;

constexpr std::size_t most_fences = 1024; // remembered a race

} // namespace

const char* Explainer::name(Scope scope) {
  switch (scope) {
    case Scope::cta: return "block (.cta)";
    case Scope::cluster: return "cluster";
    case Scope::gpu: return "device (.gpu)";
    case Scope::sys: return "system";
    case Scope::none: break;
  }
  return "no";
}

Explainer::Apart Explainer::apart(ThreadKey a, ThreadKey b) const {
  if (a.block_bits() == b.block_bits()) return Apart::no;
  if (!detector_.operations().same_device(a.operation(), b.operation())) return Apart::devices;
  const Detector::LaunchInfo* const info =
      a.operation() == b.operation() ? detector_.launch_of(a.operation()) : nullptr;
  if (!info) return Apart::clusters;
  const Dim3 &grid = info->launch.grid, &size = info->launch.cluster;
  return cluster_peer(a.block(), 0, grid, size) == cluster_peer(b.block(), 0, grid, size) ? Apart::blocks
                                                                                          : Apart::clusters;
}

std::string Explainer::too_narrow(Scope scope, Apart apart) {
  return std::string(" has ") + name(scope) + " scope, and they are " +
         (apart == Apart::devices   ? "on different devices"
          : scope == Scope::cluster ? "in different clusters"
                                    : "in different blocks");
}

Explainer::Explainer(const Detector& detector, const std::vector<FoundRace>& races, ModuleText text)
    : detector_(detector), text_(std::move(text)) {
  cases_.resize(races.size());
  for (std::size_t i = 0; i < races.size(); ++i) {
    cases_[i].race = &races[i];
    note_plain_flag(races[i]);
    ThreadKey a = races[i].first.thread, b = races[i].second.thread;
    if (const Place* write = write_of_line(races[i])) {
      (races[i].any_write_pair ? written_by_many_ : read_on_line_).insert(write->side);
      line_uses_.merge(instructions(races[i]));
    }
    note_operations(a.operation(), b.operation());
    if (races[i].common) by_common_.emplace(races[i].common, i);
    by_block_[a.block_bits()].push_back(i);
    if (b.block_bits() != a.block_bits()) by_block_[b.block_bits()].push_back(i);
  }
}

// Those that a line may tell of: the two, and what they may have in common.
void Explainer::note_operations(order::OperationIndex a, order::OperationIndex b) {
  if (a == b) return;
  between_operations_ = true;
  const order::OperationIndex earlier = std::min(a, b);
  for (order::OperationIndex at = earlier - std::min(earlier, furthest); at <= earlier; ++at) asked_about_.insert(at);
  asked_about_.insert(std::max(a, b));
}

bool Explainer::access(const trace::AccessView& view) {
  const order::Stamp first = now_ + 1; // stamps count exactly as in Batcher
  now_ += access_stamps;
  PlaceId place = detector_.sides().site(view.module, view.site);
  order::OperationIndex operation = detector_.operation_of(view.warp.launch);
  if (!operation || !place || !view.mask || (view.space != Space::global && view.space != Space::shared)) return true;
  const Site& site = *detector_.sides().place(place).site;
  if (line_uses_.count(place)) note_line_use(view, place);
  const bool strong = view.strong || is_strong(site.ordering);
  if (!strong && !plain_flags_.count(detector_.sides().place(place).side)) return true;
  unsigned order[32], count = 0;
  each_lane(view.mask, [&](unsigned lane) { order[count++] = lane; });
  std::stable_sort(order, order + count,
                   [&](unsigned a, unsigned b) { return view.order_first[a] < view.order_first[b]; });
  const order::Stamp last = now_;
  for (unsigned i = 0; i < count; ++i) {
    now_ = first + i;
    if (strong) note_common({view.module, view.site});
    flag(view, place, order[i]);
  }
  now_ = last;
  return true;
}

void Explainer::barrier(Case& entry, ThreadKey thread, const Arrival& arrival) {
  const FoundRace& race = *entry.race;
  const bool after_first = now_ > race.first.stamp;
  auto meet = [&] {
    Arrival &a = entry.first_before, &b = entry.second_before;
    if (!after_first || !a.mark || !b.mark || a.barrier != b.barrier || a.phase != b.phase) return;
    if (a.sync || b.sync) entry.early = a.mark;
  };
  if (thread == race.first.thread) {
    if (after_first) {
      entry.first = arrival;
      entry.first_meets();
    } else {
      entry.first_before = arrival;
      entry.first_meets_before();
      meet();
    }
  }
  if (thread == race.second.thread) {
    entry.second_before = arrival;
    meet();
    if (after_first) entry.second = arrival;
    entry.second_meets();
  }
}

void Explainer::fence(Case& entry, ThreadKey thread, const Fence& fence) {
  const FoundRace& race = *entry.race;
  entry.waiting.erase(thread); // no more
  if (now_ <= race.first.stamp) {
    if (thread.block_bits() == race.first.thread.block_bits() &&
        (entry.fences_before.size() < most_fences || entry.fences_before.count(thread)))
      entry.fences_before[thread] = fence;
    if (thread == race.first.thread) entry.just_before = fence;
    return;
  }
  if (thread == race.first.thread) entry.first_fence = fence;
  if (thread == race.second.thread) entry.second_fence = fence;
  if (thread.block_bits() == race.first.thread.block_bits() &&
      (entry.fences.size() < most_fences || entry.fences.count(thread))) {
    entry.fences[thread].keep_widest(fence);
  }
  if (!entry.relays.empty()) relay_fence(entry, thread, fence);
  for (std::optional<Message>& message : entry.messages) {
    if (message && message->barrier_after && thread == race.second.thread &&
        fence.acquires_more(message->behind_barrier))
      message->behind_barrier = fence;
    if (!message || message->read.thread != thread) continue;
    if (fence.acquires_more(message->after)) message->after = fence;
  }
  if (std::optional<Message>& early = entry.early_message; early && early->read.thread == thread) {
    if (fence.acquires_more(early->after)) early->after = fence;
  }
}

void Explainer::note_common(const Mark& mark) {
  const auto [begin, end] = by_common_.equal_range(now_);
  for (auto at = begin; at != end; ++at) cases_[at->second].common = mark;
}

void Explainer::passed_behind(order::OperationIndex operation, std::uint32_t block, std::optional<std::uint32_t> warp,
                              std::uint32_t mask) {
  if (!operation) return;
  const auto found = by_block_.find(ThreadKey(operation, block, 0).block_bits());
  if (found == by_block_.end()) return;
  for (const std::size_t index : found->second) {
    Case& entry = cases_[index];
    const ThreadKey second = entry.race->second.thread;
    if (now_ <= entry.race->second.stamp || second.block_bits() != found->first) continue;
    entry.second_passed |= !warp || (second.warp() == *warp && (mask >> (second.thread() % 32) & 1));
  }
}

bool Explainer::record(trace::Record& record) {
  ++now_;
  std::visit(
      [&](const auto& r) {
        if constexpr (requires { Mark(r.module, r.site); }) note_common({r.module, r.site});
      },
      record);
  if (auto* r = std::get_if<trace::Fence>(&record)) {
    order::OperationIndex operation = detector_.operation_of(r->warp.launch);
    const PlaceId at = detector_.sides().site(r->module, r->site);
    if (r->proxy == Proxy::async) proxy_fence(*r);
    const bool both_ways = r->proxy != Proxy::generic && r->scope == Scope::none;
    if (both_ways || (at && detector_.sides().place(at).site->kind == SiteKind::dependency)) return true;
    const bool restricted = at && order::restriction_of(*detector_.sides().place(at).site) != order::Restriction::none;
    each_case(operation, r->warp.block, [&](Case& entry) {
      each_lane(r->mask, [&](unsigned lane) {
        const ThreadKey thread = key_of(operation, r->warp, lane);
        if (!restricted) return fence(entry, thread, {{r->module, r->site}, r->ordering, r->scope, now_});
        const FoundRace& race = *entry.race;
        if (now_ > race.first.stamp && (thread == race.first.thread || thread == race.second.thread))
          entry.restricted = {r->module, r->site};
      });
    });
  } else if (auto* r = std::get_if<trace::BlockBarrier>(&record)) {
    order::OperationIndex operation = detector_.operation_of(r->launch);
    passed_behind(operation, r->block, {}, ~0u);
    each_case(operation, r->block, [&](Case& entry) {
      const FoundRace& race = *entry.race;
      std::uint64_t block = ThreadKey(operation, r->block, 0).block_bits();
      entry.third_meets(block);
      if (now_ <= race.first.stamp) {
        if (block == race.second.thread.block_bits()) entry.second_meets();
        if (block == race.first.thread.block_bits()) entry.first_meets_before();
        return;
      }
      if (block == race.first.thread.block_bits()) entry.first_meets();
      if (block == race.second.thread.block_bits()) entry.second_meets();
      if (entry.exited && block == race.second.thread.block_bits())
        entry.second = {{r->module, r->site}, r->barrier, r->phase, true};
    });
  } else if (auto* r = std::get_if<trace::ThreadExit>(&record)) {
    order::OperationIndex operation = detector_.operation_of(r->warp.launch);
    each_case(operation, r->warp.block, [&](Case& entry) {
      const FoundRace& race = *entry.race;
      const ThreadKey lane0 = key_of(operation, r->warp, 0), a = race.first.thread;
      const bool in_warp = a.block_bits() == lane0.block_bits() && a.warp() == lane0.warp();
      entry.exited |= now_ > race.first.stamp && in_warp && (r->mask >> (a.thread() % 32) & 1);
    });
  } else if (auto* r = std::get_if<trace::BarrierArrive>(&record)) {
    order::OperationIndex operation = detector_.operation_of(r->warp.launch);
    passed_behind(operation, r->warp.block, r->warp.warp, r->mask);
    each_case(operation, r->warp.block, [&](Case& entry) {
      entry.third_meets(ThreadKey(operation, r->warp.block, 0).block_bits());
      each_lane(r->mask, [&](unsigned lane) {
        barrier(entry, key_of(operation, r->warp, lane), {{r->module, r->site}, r->barrier, r->phase, r->sync});
      });
    });
  } else if (auto* r = std::get_if<trace::WarpBarrier>(&record)) {
    order::OperationIndex operation = detector_.operation_of(r->warp.launch);
    passed_behind(operation, r->warp.block, r->warp.warp, r->mask);
    each_case(operation, r->warp.block, [&](Case& entry) {
      ThreadKey a = entry.race->first.thread, b = entry.race->second.thread;
      ThreadKey lane0 = key_of(operation, r->warp, 0);
      entry.third_meets(lane0.block_bits());
      const bool has_a = r->mask >> (a.thread() % 32) & 1, has_b = r->mask >> (b.thread() % 32) & 1;
      if (now_ > entry.race->first.stamp && a.warp() == lane0.warp() && a.block_bits() == lane0.block_bits()) {
        if (has_a) entry.first_meets(r->mask);
      }
      if (has_b && b.warp() == lane0.warp() && b.block_bits() == lane0.block_bits()) entry.second_meets(r->mask);
      if (a.block_bits() != b.block_bits() || a.warp() != b.warp() || lane0.block_bits() != a.block_bits() ||
          lane0.warp() != a.warp()) {
        return;
      }
      if (now_ > entry.race->first.stamp && has_a != has_b) {
        entry.warp_barrier = {r->module, r->site};
        entry.warp_mask = r->mask;
      }
    });
  } else if (auto* r = std::get_if<trace::WarpValue>(&record)) {
    order::OperationIndex operation = detector_.operation_of(r->warp.launch);
    each_case(operation, r->warp.block, [&](Case& entry) {
      ThreadKey a = entry.race->first.thread, b = entry.race->second.thread, lane0 = key_of(operation, r->warp, 0);
      if (now_ <= entry.race->first.stamp || a.block_bits() != b.block_bits() || a.warp() != b.warp() ||
          lane0.block_bits() != a.block_bits() || lane0.warp() != a.warp()) {
        return;
      }
      // What the author can have relied on: both lanes took part, or all who did are behind the first access.
      if ((r->mask >> (a.thread() % 32) & 1) && (r->mask >> (b.thread() % 32) & 1)) {
        entry.warp_value = {r->module, r->site};
      }
    });
  } else if (auto* r = std::get_if<trace::AsyncWait>(&record)) {
    order::OperationIndex operation = detector_.operation_of(r->warp.launch);
    each_case(operation, r->warp.block, [&](Case& entry) {
      ThreadKey a = entry.race->first.thread, lane0 = key_of(operation, r->warp, 0);
      if (now_ <= entry.race->first.stamp || lane0.block_bits() != a.block_bits() || lane0.warp() != a.warp() ||
          !(r->mask >> (a.thread() % 32) & 1)) {
        return;
      }
      entry.async_wait = {r->module, r->site};
      entry.async_pending = r->all ? 0 : r->pending;
      entry.async_reads_only = r->read_only;
    });
  } else if (auto* r = std::get_if<trace::Mbarrier>(&record)) {
    asynchronous(*r);
  } else if (auto* r = std::get_if<trace::ClusterBarrier>(&record)) {
    asynchronous(*r);
  } else if (auto* r = std::get_if<trace::Module>(&record)) {
    note_unused(*r);
  } else if (auto* r = std::get_if<trace::StreamCreate>(&record)) {
    streams_[r->stream] = r->kind;
  } else if (auto* r = std::get_if<trace::EventRecord>(&record)) {
    // After each graph the embedded device records an event of its own: no call of the program's.
    const bool own = embedded_ && after_graph_;
    after_graph_ = false;
    if (between_operations_ && !own) event_records_.push_back(*r);
  } else if (auto* r = std::get_if<trace::Process>(&record)) {
    embedded_ = r->device_kind == "embedded";
  } else if (auto* r = std::get_if<trace::GraphLaunch>(&record)) {
    batch_ = !r->graph;
  } else if (std::holds_alternative<trace::GraphEnd>(record)) {
    after_graph_ = !batch_;
  } else if (auto* r = std::get_if<trace::Operation>(&record);
             r && asked_about_.contains(detector_.operations().index(r->id))) {
    OperationInfo& info = operations_[r->id];
    info.called_at = r->call_site;
    if (auto* launch = std::get_if<trace::Launch>(&r->what)) info.what = "kernel " + ptx::demangle(launch->kernel);
    if (auto* copy = std::get_if<trace::Copy>(&r->what)) info.what = copy->api;
    if (auto* set = std::get_if<trace::Set>(&r->what)) info.what = set->api;
    if (auto* callback = std::get_if<trace::HostCallback>(&r->what)) info.what = callback->api;
    if (auto* pool = std::get_if<trace::PoolOperation>(&r->what)) {
      const bool at_once = detector_.operations().waited_for_at_once(detector_.operations().index(r->id));
      info.what = !pool->free ? "cudaMallocAsync" : at_once ? "cudaFree" : "cudaFreeAsync";
    }
  }
  return true;
}

std::string Explainer::place(const Mark& mark) const {
  PlaceId id = detector_.sides().site(mark.module, mark.site);
  if (!id) return "an unknown place";
  const Site& site = *detector_.sides().place(id).site;
  if (const SourceFrame* own = report::own_frame(site.source)) {
    return own->file.substr(own->file.rfind('/') + 1) + ":" + std::to_string(own->line);
  }
  return site.opcode + " (PTX line " + std::to_string(site.ptx_line) + ")";
}

// What two threads of one block did between the accesses.
void Explainer::explain_block(const Case& entry, std::vector<std::string>& out) const {
  const FoundRace& race = *entry.race;
  ThreadKey a = race.first.thread, b = race.second.thread;
  const Site* first = detector_.sides().place(race.first.place).site;
  if (first && first->kind == SiteKind::async_copy && !race.lacks_proxy_fence) {
    if (race.issue_unordered && (!entry.async_wait || entry.async_pending)) {
      // No wait by itself would order the two.
    } else if (!entry.async_wait) {
      out.push_back("the copying thread waits for none of its groups in between");
    } else if (entry.async_pending) {
      out.push_back("the wait at " + place(entry.async_wait) + " leaves up to " + std::to_string(entry.async_pending) +
                    " of the latest groups unfinished, and this copy is in one of them");
    } else {
      out.push_back("the wait at " + place(entry.async_wait) +
                    " speaks for the copying thread alone: the others need a barrier after it");
    }
  }
  const Arrival &one = entry.first, &two = entry.second;
  if (entry.early) {
    out.push_back("the first arrived at the barrier (" + place(entry.early) +
                  ") before it made its access, so that the second does not wait for that");
  } else if (two.mark && !two.sync) {
    out.push_back("the second only arrives at barrier " + std::to_string(two.barrier) + " (" + place(two.mark) +
                  ") and does not wait there");
  } else if (one.mark && two.mark && one.barrier != two.barrier) {
    out.push_back("between them the first comes to barrier " + std::to_string(one.barrier) + " (" + place(one.mark) +
                  ") and the second to barrier " + std::to_string(two.barrier) + " (" + place(two.mark) +
                  "): these are two barriers");
  } else if (one.mark && two.mark && one.phase != two.phase && two.sync) {
    out.push_back("between them both come to barrier " + std::to_string(one.barrier) + ", the first in phase " +
                  std::to_string(one.phase) + " of it (" + place(one.mark) + ") and the second in phase " +
                  std::to_string(two.phase) + " (" + place(two.mark) + "): neither waits for the other there");
  } else if (one.mark && !two.mark) {
    out.push_back("between them only the first comes to the barrier at " + place(one.mark));
  } else if (two.mark && !one.mark) {
    out.push_back("between them only the second comes to the barrier at " + place(two.mark));
  }
  if (entry.warp_barrier) {
    char mask[16];
    std::snprintf(mask, sizeof mask, "0x%08x", entry.warp_mask);
    const bool without_first = !(entry.warp_mask >> (a.thread() % 32) & 1);
    out.push_back("the __syncwarp at " + place(entry.warp_barrier) + " has mask " + mask + ", without lane " +
                  std::to_string((without_first ? a : b).thread() % 32) + " of the " +
                  (without_first ? "first" : "second"));
  }
  if (entry.warp_value) {
    PlaceId id = detector_.sides().site(entry.warp_value.module, entry.warp_value.site);
    std::string opcode = id ? detector_.sides().place(id).site->opcode : "a warp operation";
    out.push_back(opcode + " at " + place(entry.warp_value) +
                  " comes between them, but shuffles, votes, matches and reductions of a warp order no memory");
  }
  if (!entry.has_message() && (entry.first_fence.mark || entry.second_fence.mark)) {
    const Fence& fence = entry.first_fence.mark ? entry.first_fence : entry.second_fence;
    out.push_back("the fence at " + place(fence.mark) +
                  " makes nobody wait: alone it orders nothing with another thread");
  }
}

// A free that comes too early lets the memory go to others, whose accesses race then, too.
void Explainer::explain_freed(const FoundRace& race, std::vector<std::string>& out) const {
  const order::OperationClocks& clocks = detector_.operations();
  const order::OperationIndex later = race.second.thread.operation();
  if (!detector_.sides().place(race.second.place).site) return; // of an allocation it is said
  for (const Case& entry : cases_) {
    const FoundRace& other = *entry.race;
    const Place& freed = detector_.sides().place(other.second.place);
    const order::OperationIndex free = other.second.thread.operation();
    if (freed.kind != AccessKind::free || other.level != RaceLevel::stream || free == later) continue;
    if (other.first.thread.operation() != race.first.thread.operation() || !clocks.ordered(free, later)) continue;
    const trace::Allocate* memory = detector_.allocation(other.allocation);
    if (!memory || race.address - memory->address >= memory->bytes) continue;
    out.push_back("the memory was freed in between (" + freed.api + " in stream " +
                  std::to_string(clocks.stream(free)) +
                  "), and that races with the first, too: what makes the free wait orders these");
    return;
  }
}

// What two operations have in common.
void Explainer::explain_operations(const Case& entry, std::vector<std::string>& out) const {
  using Kind = trace::StreamCreate::Kind;
  const order::OperationClocks& clocks = detector_.operations();
  order::OperationIndex a = entry.race->first.thread.operation(), b = entry.race->second.thread.operation();
  const bool swapped = a > b; // they ran in another order than they were submitted in
  if (swapped) std::swap(a, b);
  if (!a) return;
  const std::uint32_t one = clocks.stream(a), two = clocks.stream(b);
  auto kind = [&](std::uint32_t stream) {
    auto found = streams_.find(stream);
    return found == streams_.end() ? (stream == 1 ? Kind::legacy : Kind::blocking) : found->second;
  };
  for (auto [legacy, other] : {std::pair{one, two}, std::pair{two, one}}) {
    if (kind(legacy) != Kind::legacy || kind(other) != Kind::non_blocking) continue;
    out.push_back("stream " + std::to_string(other) +
                  " was created non-blocking: the default stream and it do not wait for each other");
  }
  if (one != two && (kind(one) == Kind::per_thread || kind(two) == Kind::per_thread)) {
    out.push_back("stream " + std::to_string(kind(one) == Kind::per_thread ? one : two) +
                  " is a thread's own default stream, which waits for no other thread's");
  }
  for (const trace::EventRecord& record : event_records_) {
    order::OperationIndex at = clocks.index(record.operation);
    if (record.stream != one || one == two || at <= a || at >= b || clocks.ordered(at, b)) continue;
    out.push_back("event " + std::to_string(record.event) + " is recorded in stream " + std::to_string(one) +
                  (swapped ? " after the second" : " after the first") + ", but nothing before the " +
                  (swapped ? "first" : "second") + " waits for that record");
    break;
  }
  for (order::OperationIndex at = a - 1; at > 0 && a - at < furthest; --at) {
    if (!clocks.ordered(at, a) || !clocks.ordered(at, b)) continue;
    auto found = operations_.find(clocks.id(at));
    if (found == operations_.end() || found->second.what.empty()) continue; // markers say nothing to a reader
    out.push_back("both come after " + named(at) + ", the last that they have in common");
    return;
  }
  out.push_back("they have no operation before them in common");
}

void Explainer::explain_values(const FoundRace& race, std::vector<std::string>& out) const {
  const auto discards = [&](const Touch& touch) {
    const Site* site = detector_.sides().place(touch.place).site;
    return site && ptx::is_discard(*site);
  };
  if (discards(race.first) || discards(race.second))
    out.push_back("to discard memory is to write it: whoever reads it finds anything until it is written again");
  if (!race.any_write_pair) return;
  if (race.different_values) {
    out.push_back("they did not always write the same value");
  } else if (race.same_value()) {
    out.push_back("they always wrote the same value");
  } else {
    out.push_back("whether they wrote the same values is not known");
  }
}

std::string Explainer::named(order::OperationIndex operation) const {
  const order::OperationClocks& clocks = detector_.operations();
  const std::string number =
      "operation " + std::to_string(clocks.id(operation)) + " in stream " + std::to_string(clocks.stream(operation));
  const auto found = operations_.find(clocks.id(operation));
  if (found == operations_.end() || found->second.what.empty()) return number;
  const auto& [what, called_at] = found->second;
  if (!has_no_stream(what)) return what + " (" + number + ")";
  if (what == host_itself) return "a write of the host itself";
  return called_at.empty() ? what : what + " (called at " + called_at + ")";
}

std::string Explainer::called_at(std::uint32_t operation) const {
  auto found = operations_.find(operation);
  return found == operations_.end() ? "" : found->second.called_at;
}

std::string Explainer::why(std::size_t index) const {
  const Case& entry = cases_[index];
  const FoundRace& race = *entry.race;
  ThreadKey a = race.first.thread, b = race.second.thread;
  std::vector<std::string> found;
  std::string mend; // where it is another one than the synchronization that is missing
  if (a.operation() != b.operation()) {
    explain_message(entry, found);
    explain_freed(race, found);
    explain_operations(entry, found);
  } else {
    const Place &first = detector_.sides().place(race.first.place),
                &second = detector_.sides().place(race.second.place);
    const bool same_block = a.block_bits() == b.block_bits();
    if (same_block) explain_block(entry, found);
    explain_asynchronous(entry, found);
    explain_message(entry, found);
    const bool tried = !found.empty(); // something that was to order them, and falls short
    auto is_volatile = [](const Place& place) { return place.site && place.site->ordering == Ordering::volatile_; };
    if (is_volatile(first) || is_volatile(second)) {
      found.push_back("volatile makes an access happen, it orders nothing");
    }
    if (entry.common) {
      found.push_back("the last synchronization in common is at " + place(entry.common));
    } else if (!race.common) {
      found.push_back("nothing since the launch began synchronizes them");
    }
    if (updates(entry)) {
      const char* lost =
          "the line reads it and writes it back: of two threads that do so at once, one's update is lost (an atomic "
          "operation does both in one)";
      if (tried) {
        found.push_back(lost);
      } else {
        mend = lost;
      }
    }
  }
  explain_values(race, found);
  // Who came to a barrier behind its access lacks another thing than that it has exited.
  const std::string said = race.exited && !entry.first.mark
                               ? "no barrier orders them: the thread of the first has exited, and barriers wait for "
                                 "such threads but order only what those did that come to them"
                               : race.why;
  std::string text = mend + (mend.empty() || said.empty() ? "" : "; ") + said;
  for (const std::string& more : found) text += (text.empty() ? "" : "; ") + more;
  return text;
}

} // namespace deadheat::detect
