// Copies that belong to no thread's program order between their issue and what completes them: cp.async (PTX ISA
// 9.7.9.25.3), bulk copies (bulk_copies.cpp), and the arrivals of cp.async.mbarrier.arrive. In the natural order
// cp.async is performed when its group is committed or an arrival comes after it, a bulk copy when it is issued; a
// schedule may delay them, at most to the wait.
#include <algorithm>
#include <cstring>
#include <utility>

#include "deadheat/address.h"
#include "deadheat/digest.h"
#include "replay/device/control.h"
#include "replay/device/holds.h"
#include "replay/device/machine.h"
#include "replay/device/record.h"
#include "replay/device/watch.h"
#include "replay/engine/shadow.h"

namespace deadheat::device {

using engine::ThreadContext;
using Kind = AsyncCopy::Kind;

AsyncQueue& Machine::async_queue(ThreadContext& thread) {
  Block& block = *static_cast<Block*>(thread.block->block);
  if (block.async.empty()) block.async.resize(block.threads_count);
  return block.async[thread.linear];
}

void Machine::perform(Block& block, std::uint32_t thread, const AsyncCopy& copy) {
  ++progress_;
  if (copy.kind == Kind::bulk) return perform_bulk(block, thread, copy);
  if (copy.kind == Kind::arrival) {
    ThreadContext& t = block.threads[thread];
    const std::uint32_t site = std::exchange(t.pending_site, copy.site);
    const SharedPlace at = shared_place(block, copy.mbarrier, 8);
    if (at.block && mbarrier_object(block, t, at, "cp.async.mbarrier.arrive"))
      mbarrier_change(block, t, at, std::uint32_t(engine::MbarrierOp::async_arrive), 1, 0);
    t.pending_site = site;
    return;
  }
  // Issue checked both ends; the source may have been freed since.
  std::uint8_t* to = block.context.shared + copy.destination;
  const std::uint8_t* from = nullptr;
  if (copy.source_bytes && options_.environment->legal(copy.source, copy.source_bytes))
    from = reinterpret_cast<const std::uint8_t*>(to_host(copy.source));
  if (watch_) from = watch_copy(block, thread, copy, from, to);
  if (from)
    std::memcpy(to, from, copy.source_bytes);
  else
    std::memset(to, 0, copy.source_bytes);
  std::memset(to + copy.source_bytes, 0, copy.bytes - copy.source_bytes);
  if (block.launch->request.mode.precision) {
    options_.shadows->forget(std::uint64_t(to), copy.bytes);
    if (copy.source_bytes) options_.shadows->copy(std::uint64_t(to), to_host(copy.source), copy.source_bytes);
  }
  shared_written(block, copy.destination, copy.bytes);
  if (copy.source_bytes) shared_written(block, copy.destination, copy.source_bytes, to_host(copy.source));
  if (watch_) {
    watch_->copy_ended(to);
    note_copy(block, thread, copy, true, to);
  }
}

// A copy is about to be performed under somebody's eyes: what it reads is returned.
const std::uint8_t* Machine::watch_copy(Block& block, std::uint32_t thread, const AsyncCopy& copy,
                                        const std::uint8_t* from, const std::uint8_t* to) {
  const auto place = [&](std::uint64_t address, std::uint64_t bytes) -> Watch::Place {
    if (address - shared_window >= window_bytes) return {nullptr, address};
    const SharedPlace at = shared_place(block, address, bytes);
    return {at.block, at.offset};
  };
  const Watch::Place destination =
      copy.kind == Kind::copy ? Watch::Place{&block, copy.destination} : place(copy.destination, copy.bytes);
  const Watch::Place object = copy.mbarrier ? place(copy.mbarrier, 8) : Watch::Place{};
  from = watch_->copy_begins(block, thread, copy, place(copy.source, copy.source_bytes), destination, object, from, to);
  if (from && copy.source) note_copy(block, thread, copy, false, from);
  return from;
}

void Machine::note_copy(Block& block, std::uint32_t thread, const AsyncCopy& copy, bool writes,
                        const std::uint8_t* bytes) {
  if (!watch_->logs()) return;
  const LaunchRequest& request = block.launch->request;
  Performed end;
  end.copy = writes ? Performed::Copy::writes : Performed::Copy::reads;
  end.operation = request.operation;
  end.launch = request.launch;
  end.block = block.index;
  end.thread = thread;
  end.module = request.module;
  end.site = copy.site;
  end.nth = copy.number;
  end.instruction = copy.instruction;
  end.access = !writes ? AccessKind::read : copy.reduction ? AccessKind::atomic : AccessKind::write;
  end.wrote = writes;
  end.age = writes || copy.kind == Kind::product ? 0 : watch_->copy_age();
  end.bytes = writes ? copy.bytes : copy.source_bytes;
  end.address = writes ? copy.destination : copy.source;
  if (writes && copy.kind == Kind::copy) end.address += shared_window;
  if (end.address - shared_window < window_bytes) {
    const SharedPlace place = shared_place(block, end.address, end.bytes);
    end.space = Space::shared;
    end.owner = place.block->index;
    end.address = place.offset;
  }
  std::memcpy(writes ? &end.written : &end.read, bytes, std::min<std::size_t>(end.bytes, 8));
  end.digest = deadheat::digest(bytes, end.bytes);
  watch_->copied(end);
}

// Performs the thread's copies for which chosen(copy), in the order of their issue, but for those that a hold delays
// and arrivals that come after such a cp.async. Returns false when one of them was delayed.
template <typename Chosen>
bool Machine::perform_where(Block& block, std::uint32_t thread, Chosen&& chosen) {
  if (block.async.empty()) return true;
  bool done = true, copy_left = false;
  std::vector<AsyncCopy> left, all = std::exchange(block.async[thread].copies, {});
  for (AsyncCopy& copy : all) {
    const bool wanted = chosen(copy);
    const bool delayed = (copy.hold >= 0 && holds_->delays(copy.hold)) || (copy.kind == Kind::arrival && copy_left);
    if (!wanted || delayed) {
      copy_left |= copy.kind == Kind::copy;
      done &= !wanted;
      left.push_back(std::move(copy));
      continue;
    }
    if (block.named) holds_->show(copy);
    perform(block, thread, copy);
    ++exec_.changes;
    if (block.named) detour_ |= holds_->copied(copy);
    if (control_ && copy.kind != Kind::copy) control_->copy_performed(block, thread, copy.group);
  }
  block.async[thread].copies = std::move(left);
  return done;
}

// Performs the thread's cp.async but for its last `keep_groups` committed groups; `all`: those not committed too.
// Returns false when a held one is among them.
bool Machine::perform_copies(Block& block, std::uint32_t thread, std::uint32_t keep_groups, bool all) {
  if (block.async.empty()) return true;
  const std::uint32_t groups = block.async[thread].groups;
  const std::uint32_t below = all ? ~0u : groups - std::min(groups, keep_groups);
  return perform_where(block, thread, [&](const AsyncCopy& c) { return c.kind == Kind::copy && c.group < below; });
}

bool Machine::perform_ready(Block& block, std::uint32_t thread) {
  if (block.async.empty()) return true;
  if (!block.products.empty()) perform_products(block, thread / warp_lanes, ~0u);
  const AsyncQueue& queue = block.async[thread];
  std::size_t arrivals = 0;
  for (const AsyncCopy& copy : queue.copies) arrivals += copy.kind == Kind::arrival;
  return perform_where(block, thread, [&](const AsyncCopy& copy) {
    if (copy.kind == Kind::arrival) --arrivals;
    return copy.kind != Kind::copy || arrivals != 0 || copy.group < queue.groups;
  });
}

// All that is left when the thread has exited.
bool Machine::perform_rest(Block& block, std::uint32_t thread) {
  if (!block.products.empty()) perform_products(block, thread / warp_lanes, ~0u);
  return perform_where(block, thread, [](const AsyncCopy&) { return true; });
}

bool Machine::perform_copy_group(Block& block, std::uint32_t thread, std::uint32_t group) {
  if (block.async.empty()) return false;
  bool any = false, arrival = false;
  for (const AsyncCopy& copy : block.async[thread].copies) {
    any |= copy.group == group;
    arrival |= copy.group == group && copy.kind == Kind::arrival;
  }
  bool behind = false;
  if (any) {
    perform_where(block, thread, [&](const AsyncCopy& copy) {
      const bool before =
          arrival && !behind && copy.kind == Kind::copy; // an arrival comes after the cp.async before it
      behind |= copy.group == group;
      return before || copy.group == group;
    });
  }
  return any;
}

// A bulk copy or arrival was issued: performed now, or an agent of its own.
void Machine::issued(Block& block, std::uint32_t thread, std::uint32_t group) {
  if (control_)
    control_->copies_committed(block, thread, group);
  else
    perform_ready(block, thread);
}

// Of a run that somebody drives: copies are performed by decisions, not by the wait. `all`: a group of what is in none.
bool Machine::copies_were_performed(Block& block, std::uint32_t thread, std::uint32_t keep_groups, bool all) {
  if (block.async.empty()) return true;
  AsyncQueue& queue = block.async[thread];
  auto in_group = [&](const AsyncCopy& c) { return c.kind == Kind::copy && c.group == queue.groups; };
  if (all && std::any_of(queue.copies.begin(), queue.copies.end(), in_group))
    control_->copies_committed(block, thread, queue.groups++);
  const std::uint32_t below = all ? queue.groups : queue.groups - std::min(queue.groups, keep_groups);
  auto left = [&](const AsyncCopy& c) { return c.kind == Kind::copy && c.group < below; };
  if (std::any_of(queue.copies.begin(), queue.copies.end(), left)) return false;
  if (watch_) watch_->copies_waited(block, thread, below);
  return true;
}

// Lanes at a wait go on when what they wait for has been performed.
void Machine::copy_waits(Block& block, std::uint32_t warp) {
  WarpState& state = block.warps[warp];
  std::uint32_t done = 0;
  for (std::uint32_t m = state.waiting_copy; m; m &= m - 1) {
    const std::uint32_t lane = std::uint32_t(__builtin_ctz(m));
    const ThreadContext& t = block.threads[warp * warp_lanes + lane];
    const std::uint32_t keep = std::uint32_t(t.arg[0]);
    if (t.arg[1] & 8) {
      if (warpgroup_wait(block, t.linear, keep)) done |= 1u << lane;
      continue;
    }
    if (t.arg[1] & 2) {
      if (bulk_wait(block, t.linear, keep, t.arg[1] & 4)) done |= 1u << lane;
      continue;
    }
    if (control_ && control_->driven()) {
      if (copies_were_performed(block, t.linear, keep, t.arg[1] & 1)) done |= 1u << lane;
      continue;
    }
    if (perform_copies(block, t.linear, keep, t.arg[1] & 1)) done |= 1u << lane;
    if (control_) control_->copies_performed(block, t.linear, keep, t.arg[1] & 1);
  }
  if (!done) return;
  state.waiting_copy &= ~done;
  for (std::uint32_t m = watch_ ? done : 0; m; m &= m - 1) {
    const ThreadContext& t = block.threads[warp * warp_lanes + std::uint32_t(__builtin_ctz(m))];
    if (!(t.arg[1] & 8))
      watch_->copies_completed(block, t.linear, std::uint32_t(t.arg[0]), t.arg[1] & 2, t.arg[1] & 1, t.arg[1] & 4);
  }
  if (recording(block)) say_copy_wait(block, warp, done);
  make_ready(block, warp, done);
}

// cp.async.bulk.wait_group: all but the last `keep_groups` committed groups; of what a hold delays, the source is read.
bool Machine::bulk_wait(Block& block, std::uint32_t thread, std::uint32_t keep_groups, bool reads_only) {
  if (block.async.empty()) return true;
  const std::uint32_t groups = block.async[thread].bulk_groups, below = groups - std::min(groups, keep_groups);
  const bool done = perform_where(
      block, thread, [&](const AsyncCopy& c) { return c.kind == Kind::bulk && !c.mbarrier && c.bulk_group < below; });
  if (done || !reads_only) return done;
  for (AsyncCopy& copy : block.async[thread].copies) {
    if (copy.kind != Kind::bulk || copy.mbarrier || copy.bulk_group >= below || !copy.data.empty()) continue;
    if (const std::uint8_t* from = bulk_bytes_at(block, copy.source, copy.bytes))
      copy.data.assign(from, from + copy.bytes);
  }
  return true;
}

} // namespace deadheat::device
