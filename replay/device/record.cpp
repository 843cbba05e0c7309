// What a machine writes to its sink.
#include "replay/device/record.h"

#include <algorithm>

#include "deadheat/address.h"
#include "replay/device/machine.h"
#include "replay/device/watch.h"

namespace deadheat::device {

using engine::ThreadContext;

namespace {

template <typename F>
void each(std::uint32_t lanes, F&& f) {
  for (; lanes; lanes &= lanes - 1) f(std::uint32_t(__builtin_ctz(lanes)));
}

} // namespace

template <typename T>
T Machine::warp_record(const Block& block, std::uint32_t warp, std::uint32_t site, std::uint32_t lanes) const {
  T record;
  record.warp = {block.launch->request.launch, block.index, warp};
  record.module = block.launch->request.module;
  record.site = site;
  record.mask = lanes;
  return record;
}

// Writes what the warp's lanes did since they were resumed: first the operation that the group performed, then weak
// accesses and copies, each lane's in its program order.
void Machine::flush(Block& block, std::uint32_t warp) {
  Recorder& r = *recorder_;
  const std::uint32_t touched = r.touched;
  r.touched = 0;
  if (!options_.sink) {
    each(touched, [&](std::uint32_t l) { r.lanes[l].used = 0, r.lanes[l].events.clear(), r.lanes[l].strong = {}; });
    r.effects.clear();
    r.performing = 0;
    return;
  }
  const std::uint32_t module = block.launch->request.module;
  const std::vector<Site>& sites = *block.launch->request.sites->sites;
  if (r.performing && r.fence) {
    auto record = warp_record<trace::Fence>(block, warp, r.site, r.performing);
    const Site& site = sites[r.site];
    record.ordering = site.ordering;
    record.scope = site.scope;
    record.proxy = site.proxy;
    options_.sink->record(record);
  }
  r.performing = 0;
  for (std::uint32_t left = touched; left;) { // strong operations: a record a site
    const std::uint32_t first = std::uint32_t(__builtin_ctz(left));
    left &= left - 1;
    if (!r.lanes[first].strong.done) continue;
    const std::uint32_t at_site = r.lanes[first].strong.site;
    auto record = warp_record<trace::Access>(block, warp, at_site, 0);
    const Site& site = sites[at_site];
    record.space = site.space;
    for (std::uint32_t l = first; l < warp_lanes; ++l) {
      Recorder::Strong& s = r.lanes[l].strong;
      if (!s.done || s.site != at_site) continue;
      std::uint64_t address = s.address;
      const bool shared = address - shared_window < window_bytes;
      const Space space = shared ? Space::shared : Space::global;
      if (record.mask && space != record.space) continue; // generic, and of both kinds: two records
      record.space = space;
      record.mask |= 1u << l;
      record.address[l] = shared ? address - shared_window : address;
      record.value_read[l] = s.read;
      record.value_written[l] = s.written;
      record.wrote[l] = s.wrote;
      if (s.wrote) record.digest[l] = s.digest;
      record.order_first[l] = record.order_last[l] = s.ticket;
      s.done = false;
    }
    options_.sink->record(record);
  }
  for (const trace::Record& effect : r.effects) options_.sink->record(effect);
  r.effects.clear();
  // Weak accesses, up to each lane's nth event, then these events.
  std::size_t begun[warp_lanes] = {};
  for (std::size_t n = 0;; ++n) {
    LaneLogs logs{};
    bool any = false;
    std::uint32_t with_event = 0;
    each(touched, [&](std::uint32_t l) {
      Recorder::Lane& lane = r.lanes[l];
      const std::size_t end = n < lane.events.size() ? lane.events[n].at : lane.used;
      if (n < lane.events.size()) with_event |= 1u << l;
      logs.begin[l] = lane.log.data() + begun[l];
      logs.end[l] = lane.log.data() + end;
      any |= end > begun[l];
      begun[l] = end;
    });
    if (any) options_.sink->weak_accesses({block.launch->request.launch, block.index, warp}, module, logs);
    if (!with_event) break;
    while (with_event) {
      const Recorder::Event& first = r.lanes[__builtin_ctz(with_event)].events[n];
      std::uint32_t same = 0;
      each(with_event, [&](std::uint32_t l) {
        const Recorder::Event& e = r.lanes[l].events[n];
        if (e.site == first.site && e.kind == first.kind && e.bytes == first.bytes) same |= 1u << l;
      });
      with_event &= ~same;
      if (first.kind == Recorder::Event::Kind::commit) {
        options_.sink->record(warp_record<trace::AsyncCommit>(block, warp, first.site, same));
        continue;
      }
      if (first.kind == Recorder::Event::Kind::free) {
        each(same, [&](std::uint32_t l) {
          const Recorder::Event& e = r.lanes[l].events[n];
          options_.sink->record(trace::HeapFree{block.launch->request.launch, block.index, warp * warp_lanes + l,
                                                module, e.site, e.destination, e.source});
        });
        continue;
      }
      auto record = warp_record<trace::AsyncCopy>(block, warp, first.site, same);
      record.bytes = first.bytes;
      each(same, [&](std::uint32_t l) {
        const Recorder::Event& e = r.lanes[l].events[n];
        record.destination[l] = e.destination;
        record.source[l] = e.source;
        record.source_bytes[l] = e.source_bytes;
        record.digest[l] = e.digest;
      });
      options_.sink->record(record);
    }
  }
  each(touched, [&](std::uint32_t l) {
    r.lanes[l].used = 0;
    r.lanes[l].events.clear();
  });
}

void Machine::say_exits(Block& block) {
  for (std::uint32_t w = 0; w < block.warps_count; ++w) {
    const std::uint32_t lanes = block.warps[w].exited_unsaid;
    if (!lanes) continue;
    block.warps[w].exited_unsaid = 0;
    trace::ThreadExit record;
    record.warp = {block.launch->request.launch, block.index, w};
    record.mask = lanes;
    options_.sink->record(record);
  }
}

// bar.arrive is written when it happens; lanes that wait are written when they leave (say_barrier).
void Machine::say_arrive(Block& block, std::uint32_t warp, std::uint32_t lanes) {
  const ThreadContext* threads = block.threads + warp * warp_lanes;
  while (lanes) {
    const ThreadContext& first = threads[__builtin_ctz(lanes)];
    std::uint32_t same = 0;
    each(lanes, [&](std::uint32_t l) {
      if (threads[l].pending_site == first.pending_site && threads[l].arg[0] == first.arg[0]) same |= 1u << l;
    });
    lanes &= ~same;
    if (!(block.launch->request.sites->flags_of(first.pending_site) & SiteTable::arrive_only)) continue;
    auto record = warp_record<trace::BarrierArrive>(block, warp, first.pending_site, same);
    record.barrier = std::uint32_t(first.arg[0]) % max_barriers;
    record.phase = block.barriers[record.barrier].phase;
    record.sync = false;
    options_.sink->record(record);
  }
}

void Machine::say_barrier(Block& block, std::uint32_t number, const Barrier& barrier, bool whole) {
  const LaunchRequest& request = block.launch->request;
  if (whole) {
    options_.sink->record(
        trace::BlockBarrier{request.launch, block.index, number, barrier.phase, request.module, barrier.site});
    return;
  }
  for (std::uint32_t w = 0; w < block.warps_count; ++w) {
    const ThreadContext* threads = block.threads + w * warp_lanes;
    for (std::uint32_t left = barrier.waiting[w]; left;) {
      const std::uint32_t site = threads[__builtin_ctz(left)].pending_site;
      std::uint32_t same = 0;
      each(left, [&](std::uint32_t l) {
        if (threads[l].pending_site == site) same |= 1u << l;
      });
      left &= ~same;
      auto record = warp_record<trace::BarrierArrive>(block, w, site, same);
      record.barrier = number;
      record.phase = barrier.phase;
      options_.sink->record(record);
    }
  }
  options_.sink->record(trace::BarrierComplete{request.launch, block.index, number, barrier.phase});
}

void Machine::say_copy_wait(Block& block, std::uint32_t warp, std::uint32_t lanes) {
  const ThreadContext* threads = block.threads + warp * warp_lanes;
  while (lanes) {
    const ThreadContext& first = threads[__builtin_ctz(lanes)];
    std::uint32_t same = 0;
    each(lanes, [&](std::uint32_t l) {
      if (threads[l].pending_site == first.pending_site && threads[l].arg[0] == first.arg[0] &&
          threads[l].arg[1] == first.arg[1])
        same |= 1u << l;
    });
    lanes &= ~same;
    auto record = warp_record<trace::AsyncWait>(block, warp, first.pending_site, same);
    record.pending = std::uint32_t(first.arg[0]);
    record.all = first.arg[1] & 1;
    record.read_only = first.arg[1] & 4;
    options_.sink->record(record);
  }
}

void Machine::say_rendezvous(Block& block, std::uint32_t warp, std::uint32_t members, bool barrier) {
  const ThreadContext* threads = block.threads + warp * warp_lanes;
  const std::uint32_t site = threads[__builtin_ctz(members)].pending_site;
  if (barrier)
    options_.sink->record(warp_record<trace::WarpBarrier>(block, warp, site, members));
  else
    options_.sink->record(warp_record<trace::WarpValue>(block, warp, site, members));
}

// While code runs, what it did is written with the rest that the warp did (flush).
void Machine::say_effect(trace::Record record) {
  if (current_)
    recorder_->effects.push_back(std::move(record));
  else
    options_.sink->record(record);
}

void Machine::say_mbarrier(const Block& block, const ThreadContext& thread, const SharedPlace& at, std::uint32_t site,
                           trace::Mbarrier::What what, std::uint32_t count, std::uint32_t phase) {
  const Site& named = (*block.launch->request.sites->sites)[site];
  if (watch_) watch_->mbarrier(block, thread.linear, {at.block, at.offset}, named, what, phase);
  if (!recording(block)) return;
  auto record = warp_record<trace::Mbarrier>(block, thread.warp, site, 0);
  record.what = what;
  record.block = at.block->index;
  record.ordering = named.ordering;
  record.scope = named.scope;
  if (named.kind == SiteKind::bulk_copy) { // "release semantics at cluster scope" (9.7.9.25.4.1, completion mechanisms)
    record.ordering = Ordering::release;
    record.scope = Scope::cluster;
  }
  trace::Mbarrier* to = &record;
  // Lanes that did the same one after another are one record.
  if (current_ && !recorder_->effects.empty()) {
    auto* last = std::get_if<trace::Mbarrier>(&recorder_->effects.back());
    if (last && last->what == what && last->site == site && last->block == record.block &&
        last->warp.block == record.warp.block && last->warp.warp == record.warp.warp &&
        last->warp.launch == record.warp.launch && !(last->mask >> thread.lane & 1) && last->mask < 1u << thread.lane)
      to = last;
  }
  to->mask |= 1u << thread.lane;
  to->address[thread.lane] = at.offset;
  to->count[thread.lane] = count;
  to->phase[thread.lane] = phase;
  if (what == trace::Mbarrier::What::test) to->succeeded |= 1u << thread.lane;
  if (to == &record) say_effect(std::move(record));
}

void Machine::sync_error(Block& block, const ThreadContext& thread, std::string text) {
  const LaunchRequest& request = block.launch->request;
  say_sync_error({request.launch, block.index, thread.linear, request.module, thread.pending_site, std::move(text)});
}

void Machine::say_sync_error(trace::SyncError error) {
  if (sync_errors_[{error.module, error.site}]++ || !options_.sink) return; // once a site
  options_.sink->record(std::move(error));
}

} // namespace deadheat::device
