// Runs that somebody drives operation by operation (chooser.h): what those who could go on would do next.
#include <algorithm>
#include <functional>
#include <iterator>
#include <string>

#include "deadheat/address.h"
#include "replay/device/control.h"
#include "replay/device/machine.h"

namespace deadheat::device {

using engine::ThreadContext;

// The operation that a thread has stopped before, or that it waits to repeat.
NextAccess Control::next_access(const Thread& t) {
  const ThreadContext& thread = t.block->threads[t.thread];
  const LaunchRequest& request = t.block->launch->request;
  NextAccess next;
  next.agent = {
      .kind = Agent::Kind::thread, .operation = request.operation, .block = t.block->index, .thread = t.thread};
  next.module = request.module;
  next.site = thread.pending_site;
  const std::vector<Site>& sites = *request.sites->sites;
  if (next.site >= sites.size()) return next;
  const Site& site = sites[next.site];
  next.fence = site.kind == SiteKind::fence || site.kind == SiteKind::proxy_fence;
  next.fence_sc = next.fence && site.ordering == Ordering::sc;
  if (next.fence || thread.pending_address - local_window < window_bytes) return next;
  next.access = site.access;
  next.bytes = std::uint32_t(site.element_bytes) * site.elements;
  next.address = thread.pending_address;
  next.issues = site.kind == SiteKind::async_copy || site.kind == SiteKind::bulk_copy;
  if (site.kind == SiteKind::mbarrier && next.access == AccessKind::atomic)
    next.access = AccessKind::read; // of the object as it was initialised: what it counts is told when it happens
  if (const SharedPlace at = shared_place(*t.block, next.address, next.bytes); at.block) { // else it faults
    next.memory = (std::uint64_t(request.operation) << 32 | at.block->index) + 1;
    next.address = at.offset;
  }
  // Reductions return nothing, and those of integers give the same in any order.
  const std::string& opcode = site.opcode;
  if (opcode.rfind("red.", 0) == 0 && opcode.find(".f") == std::string::npos && opcode.find(".bf") == std::string::npos)
    for (const char* op : {".add.", ".min.", ".max.", ".and.", ".or.", ".xor."})
      if (opcode.find(op) != std::string::npos) next.commutes = std::hash<std::string>()(opcode) | 1;
  return next;
}

// A group of cp.async: all its copies at once.
NextAccess Control::next_access(const Copy& c) {
  NextAccess next;
  next.agent = agent_of_copy(c);
  next.module = c.block->launch->request.module;
  const std::uint64_t shared = (std::uint64_t(next.agent.operation) << 32 | c.block->index) + 1;
  for (const AsyncCopy& copy : c.block->async[c.thread].copies) {
    if (copy.group != c.group) continue;
    if (copy.kind != AsyncCopy::Kind::arrival) next.issued_by.push_back(copy.instruction);
    if (copy.kind != AsyncCopy::Kind::copy) chooser_->beyond("bulk copies and arrivals of copies");
    if (copy.source_bytes) next.touched.push_back({0, copy.source, copy.source_bytes, false});
    next.touched.push_back({shared, copy.destination, copy.bytes, true});
  }
  return next;
}

// The next step of a run that somebody drives: threads are brought before their visible operations, then one goes on.
bool Control::choose_driven(Machine& machine, const std::vector<std::uint32_t>& operations, Choice& choice,
                            std::int64_t& quantum) {
  auto name_of = [](const Thread& t) { return Name{t.block->launch->request.operation, t.block->index, t.thread}; };
  auto before_visible = [](const Thread& t) {
    return t.block->warps[t.thread / warp_lanes].before_visible >> t.thread % warp_lanes & 1;
  };
  std::vector<NextAccess> outside;
  quantum = endless;
  for (const std::uint32_t operation : operations) {
    NextAccess next;
    next.agent = {.kind = Agent::Kind::operation, .operation = operation};
    if (!describe_(operation, next)) {
      choice.kind = Agent::Kind::operation;
      choice.operation = operation;
      return true;
    }
    outside.push_back(std::move(next));
  }
  auto in_order = [&](const Thread& a, const Thread& b) { return name_of(a) < name_of(b); };
  if (!std::is_sorted(runnable_.begin(), runnable_.end(), in_order)) {
    std::sort(runnable_.begin(), runnable_.end(), in_order);
    for (std::size_t n = 0; n < runnable_.size(); ++n)
      runnable_[n].block->position[runnable_[n].thread] = std::uint32_t(n);
  }
  choice.kind = Agent::Kind::thread;
  for (const Thread& t : runnable_)
    if (!before_visible(t)) {
      choice.thread = t;
      quantum = 0;
      return true;
    }
  waiting_.clear();
  for (const Thread& t : parked_) waiting_.push_back(next_access(t));
  able_.clear();
  for (const Thread& t : runnable_) able_.push_back(next_access(t));
  for (const Copy& c : copies_) able_.push_back(next_access(c));
  std::move(outside.begin(), outside.end(), std::back_inserter(able_));
  if (able_.empty()) {
    chooser_->stuck(waiting_);
    return false;
  }
  if (schedule_.weak && able_.size() > runnable_.size() && !machine.launches().empty())
    chooser_->beyond("old values beside copies");
  const std::size_t chosen = chooser_->choose(able_, waiting_);
  const std::size_t copy = chosen - std::min(chosen, runnable_.size());
  if (chosen < runnable_.size()) {
    choice.thread = runnable_[chosen];
    quantum = 1;
  } else if (copy < copies_.size()) {
    choice.kind = Agent::Kind::async_copy;
    choice.copy = copy;
  } else {
    choice.kind = Agent::Kind::operation;
    choice.operation = able_[chosen].agent.operation;
  }
  return true;
}

} // namespace deadheat::device
