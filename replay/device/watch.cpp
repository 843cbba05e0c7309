#include "replay/device/watch.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "deadheat/address.h"
#include "deadheat/proxy_fence.h"
#include "replay/device/machine.h"
#include "replay/device/services.h"
#include "tracer/ptx/sites.h"

namespace deadheat::device {

using engine::Step;
using engine::ThreadContext;

namespace {

std::uint64_t first_bytes(const std::uint8_t* bytes, std::uint32_t count) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes, std::min<std::uint32_t>(count, 8));
  return value;
}

} // namespace

Watch::Watch(const Schedule& schedule, std::vector<Performed>* log, std::size_t limit)
    : weak_(schedule.weak && schedule.kind != Schedule::Kind::holds),
      old_rate_(schedule.old_rate),
      state_(schedule.seed * 2 + 0x5DEECE66Du),
      sites_(schedule.kind == Schedule::Kind::uniform ? std::vector<SiteName>() : schedule.sites),
      log_(log),
      limit_(limit) {
  std::sort(sites_.begin(), sites_.end());
  for (const OldRead& read : schedule.old_reads)
    listed_[{read.operation, read.block, read.thread, read.nth}] = read.age;
  if (weak_) histories_.emplace();
}

const std::vector<Watch::Traits>& Watch::traits_of(const LaunchRequest& request) {
  if (request.sites.get() == recent_) return *recent_traits_;
  Module& module = modules_[request.module];
  if (module.sites != request.sites) {
    module.sites = request.sites;
    module.first_tag = tags_;
    module.traits.clear();
    for (const Site& site : *request.sites->sites) {
      Traits traits;
      traits.site = &site;
      traits.tag = tags_++;
      const std::uint32_t bytes = std::uint32_t(site.element_bytes) * site.elements;
      if (site.kind == SiteKind::access && bytes <= most_bytes) traits.bytes = std::uint8_t(bytes);
      traits.value_bytes = ptx::value_bytes(site);
      traits.reduction = site.opcode.starts_with("red");
      traits.compare_and_swap = site.opcode.find(".cas") != std::string::npos;
      if (is_strong(site.ordering)) traits.scope = site.scope;
      traits.agents = site.kind == SiteKind::proxy_fence || site.kind == SiteKind::mbarrier ||
                      site.kind == SiteKind::async_mbarrier_arrive || site.kind == SiteKind::bulk_copy ||
                      site.kind == SiteKind::async_copy;
      module.traits.push_back(traits);
    }
  }
  recent_ = request.sites.get();
  recent_traits_ = &module.traits;
  return module.traits;
}

std::uint32_t Watch::tag_of(const SiteName& name) const {
  const auto module = modules_.find(name.module);
  return module == modules_.end() ? ~0u : module->second.first_tag + name.site;
}

std::uint64_t Watch::random() { // splitmix64 (Steele, Lea, Flood 2014)
  std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

bool Watch::interesting(std::uint32_t module, std::uint32_t site) const {
  return sites_.empty() || std::binary_search(sites_.begin(), sites_.end(), SiteName{module, site});
}

void Watch::begin(Launch& launch) {
  if (!histories_) return;
  const LaunchRequest& request = launch.request;
  launch.history = histories_->launch_begin(request.grid, request.block, request.cluster);
  opaque_ += request.sites->opaque;
}

void Watch::ended(const Launch& launch, bool beside_others) {
  if (!histories_) return;
  histories_->launch_end(launch.history, beside_others);
  opaque_ -= launch.request.sites->opaque;
}

void Watch::settle() {
  if (histories_) histories_->settle();
}

// The age that the schedule lists for a read; 0: it lists none.
std::size_t Watch::listed(const Block& block, std::uint32_t thread, std::uint64_t nth, std::size_t choices) const {
  if (listed_.empty()) return 0;
  const auto found = listed_.find({block.launch->request.operation, block.index, thread, nth});
  return found == listed_.end() ? 0 : std::min<std::size_t>(found->second, choices - 1);
}

// The age that chance wants.
std::size_t Watch::draw(const order::HistoryAccess& access, const Block& block, std::uint32_t site,
                        std::size_t choices) {
  if (!old_rate_ || !interesting(block.launch->request.module, site) || random() % 256 >= old_rate_) return 0;
  std::size_t age = 1 + random() % (choices - 1);
  auto foreign = [&](std::size_t a) {
    return !sites_.empty() && std::none_of(sites_.begin(), sites_.end(), [&](const SiteName& s) {
      return histories_->misses_only(access, a, tag_of(s));
    });
  };
  while (age && foreign(age)) --age;
  return age;
}

// How old a value the read about to be performed returns.
std::size_t Watch::choose(const Block& block, const ThreadContext& thread, WatchedThread& watched) {
  const LaunchRequest& request = block.launch->request;
  std::size_t age = 0;
  auto old = std::find_if(watched.old.begin(), watched.old.end(), [&](const WatchedThread::Old& place) {
    return place.count && place.address == thread.pending_address;
  });
  if (const std::size_t choices = histories_->choices(now_.access, now_.held.data()); choices > 1) {
    const bool again = old != watched.old.end() && old->count >= patience;
    age = listed(block, thread.linear, watched.performed, choices);
    if (chooser_) {
      if (!again) age = std::min(chooser_->age(choices), choices - 1);
    } else if (!age && !again) {
      age = draw(now_.access, block, thread.pending_site, choices);
    }
  }
  if (!age) {
    if (old != watched.old.end()) old->count = 0;
    return 0;
  }
  if (old == watched.old.end()) { // in place of the one of longest ago
    std::rotate(watched.old.begin(), --old, watched.old.end());
    old = watched.old.begin();
    *old = {thread.pending_address, 0};
  }
  if (old->count < patience) ++old->count;
  old_reads_.push_back({request.operation, block.index, thread.linear, std::uint32_t(age), watched.performed});
  return age;
}

void Watch::before(Machine& machine, Block& block, const ThreadContext& thread, std::uint64_t step) {
  now_.traits = nullptr;
  if (block.watched.size() != block.threads_count) block.watched.resize(block.threads_count);
  WatchedThread& watched = block.watched[thread.linear];
  if (!watched.stopped_before) return;
  watched.stopped_before = false;
  const std::vector<Traits>& sites = traits_of(block.launch->request);
  if (thread.pending_site >= sites.size()) return;
  const Traits& traits = sites[thread.pending_site];
  const Site& site = *traits.site;
  now_.traits = &traits;
  now_.step = step;
  now_.age = 0;
  now_.at = nullptr;
  if (site.kind == SiteKind::fence || traits.agents) return;
  now_.bytes = traits.bytes;
  if (site.kind == SiteKind::heap) { // a free; bytes that are shown of it, no more than anybody looks at
    now_.place = {nullptr, thread.pending_address};
    now_.bytes = std::uint32_t(std::min<std::uint64_t>(heap_bytes_at(machine, thread.pending_address), 1 << 20));
    settle();
    return;
  }
  if (now_.bytes == 0) {
    settle();
    return;
  }
  now_.at = machine.bytes_at(thread, thread.pending_address, now_.bytes);
  if (!now_.at) return; // it will fault
  const SharedPlace shared = shared_place(block, thread.pending_address, now_.bytes);
  now_.place = shared.block ? Place{shared.block, shared.offset} : Place{nullptr, thread.pending_address};
  std::memcpy(now_.held.data(), now_.at, now_.bytes);
  std::memcpy(now_.shown.data(), now_.at, now_.bytes);
  if (!histories_) return;
  order::HistoryAccess& access = now_.access;
  access.thread = key(block, thread.linear);
  access.location = location(now_.place, now_.bytes);
  access.clustered = block.cluster != nullptr;
  access.element_bytes = traits.value_bytes;
  access.ordering = site.ordering;
  access.scope = traits.scope;
  access.atomic = site.access == AccessKind::atomic;
  access.reduction = traits.reduction;
  access.tag = traits.tag;
  if (site.access == AccessKind::write) return;
  if (opaque_) {
    histories_->settle();
    histories_->choices(access, now_.held.data());
    return;
  }
  now_.age = choose(block, thread, watched);
  if (!now_.age) return;
  machine.note_change();
  histories_->look(access, now_.age, now_.shown.data());
  std::memcpy(now_.at, now_.shown.data(), now_.bytes);
}

void Watch::after(Machine& machine, Block& block, const ThreadContext& thread, Step step) {
  WatchedThread& watched = block.watched[thread.linear];
  watched.stopped_before = step == Step::visible;
  if (!now_.traits || step == Step::fault || machine.faulted()) return;
  const Site& site = *now_.traits->site;
  if (site.kind == SiteKind::fence) {
    if (histories_)
      histories_->causality().fence(key(block, thread.linear), site.ordering, site.scope, histories_->tick(),
                                    order::restriction_of(site));
    note(block, thread, false);
    ++watched.performed;
    return;
  }
  if (now_.traits->agents) {
    if (histories_ && one_way(site))
      histories_->causality().one_way_fence(key(block, thread.linear), site.proxy, site.ordering, site.scope,
                                            histories_->tick());
    else if (histories_ && site.kind == SiteKind::proxy_fence && site.proxy == Proxy::async)
      histories_->causality().proxy_fence(key(block, thread.linear), site.space != Space::global,
                                          site.space != Space::shared, histories_->tick());
    note(block, thread, site.access == AccessKind::write);
    ++watched.performed;
    return;
  }
  bool wrote = site.access == AccessKind::write;
  if (now_.at) {
    std::memcpy(now_.now.data(), now_.at, now_.bytes);
    // A compare-and-swap that leaves what it saw is one that failed.
    if (site.access == AccessKind::atomic)
      wrote = !now_.traits->compare_and_swap || std::memcmp(now_.now.data(), now_.shown.data(), now_.bytes) != 0;
    if (!wrote && now_.age) std::memcpy(now_.at, now_.held.data(), now_.bytes);
    if (histories_) {
      if (site.access == AccessKind::write)
        histories_->write(now_.access, now_.held.data(), now_.now.data());
      else if (wrote)
        histories_->modify(now_.access, now_.age, now_.shown.data(), now_.held.data(), now_.now.data());
      else
        histories_->read(now_.access, now_.age, now_.shown.data());
    }
    if (chooser_ && site.access == AccessKind::write && now_.bytes <= 8)
      chooser_->wrote(first_bytes(now_.now.data(), now_.bytes));
  } else {
    settle(); // it may have written anywhere
  }
  note(block, thread, wrote);
  ++watched.performed;
}

void Watch::note(const Block& block, const ThreadContext& thread, bool wrote) {
  if (!log_ || log_->size() >= limit_) return;
  const LaunchRequest& request = block.launch->request;
  Performed p;
  p.step = now_.step;
  p.operation = request.operation;
  p.launch = request.launch;
  p.block = block.index;
  p.thread = thread.linear;
  p.module = request.module;
  p.site = now_.traits->site->id;
  p.nth = block.watched[thread.linear].performed;
  p.access = now_.traits->site->access;
  p.fence = now_.traits->site->kind == SiteKind::fence;
  p.wrote = wrote;
  p.age = std::uint32_t(now_.age);
  if (now_.traits->site->kind == SiteKind::heap) {
    p.address = now_.place.address;
    p.bytes = now_.bytes;
  }
  if (now_.at) {
    p.address = to_device(std::uint64_t(now_.at));
    if (const Block* owner = now_.place.block) {
      p.space = Space::shared;
      p.owner = owner->index;
      p.address = now_.place.address;
    }
    p.bytes = now_.bytes;
    p.read = first_bytes(now_.shown.data(), now_.bytes);
    p.written = first_bytes(now_.now.data(), now_.bytes);
  }
  log_->push_back(p);
}

// ---- synchronization

void Watch::met(const Block& block, std::uint32_t warp, std::uint32_t lanes, bool all_of_them) {
  if (!chooser_) return;
  if (!all_of_them) chooser_->beyond("activemask, whose answer is the scheduler's choice");
  std::vector<std::uint32_t> threads;
  lanes |= ~block.warps[warp].live; // nobody waits for those who have exited
  for (std::uint32_t lane = 0; lane < warp_lanes && warp * warp_lanes + lane < block.threads_count; ++lane)
    if (lanes >> lane & 1) threads.push_back(warp * warp_lanes + lane);
  chooser_->met(block.launch->request.operation, block.index, threads);
}

void Watch::barrier_complete(const Block& block, std::uint32_t number, const Barrier& barrier) {
  if (chooser_) {
    if (barrier.mixed || barrier.expected) chooser_->beyond("barriers with a count of threads");
    std::vector<std::uint32_t> threads(block.threads_count); // those who have exited, too: it waited for that
    std::iota(threads.begin(), threads.end(), 0u);
    chooser_->met(block.launch->request.operation, block.index, threads);
  }
  if (!histories_) return;
  order::Causality& causality = histories_->causality();
  const std::uint32_t operation = block.launch->history;
  if (whole_block_met(block, barrier)) return causality.block_barrier(operation, block.index, histories_->tick());
  for (std::uint32_t w = 0; w < block.warps_count; ++w)
    if (barrier.waiting[w])
      causality.barrier_arrive(operation, block.index, w, barrier.waiting[w], number, barrier.phase, true,
                               histories_->tick());
  causality.barrier_complete(operation, block.index, number, barrier.phase);
}

void Watch::arrived(const Block& block, std::uint32_t warp, std::uint32_t lanes, std::uint32_t number,
                    std::uint32_t phase) {
  if (histories_)
    histories_->causality().barrier_arrive(block.launch->history, block.index, warp, lanes, number, phase, false,
                                           histories_->tick());
}

void Watch::warp_barrier(const Block& block, std::uint32_t warp, std::uint32_t lanes) {
  if (histories_)
    histories_->causality().warp_barrier(block.launch->history, block.index, warp, lanes, histories_->tick());
}

void Watch::exited(const Block& block, std::uint32_t warp, std::uint32_t lanes) {
  if (histories_) histories_->causality().thread_exit(block.launch->history, block.index, warp, lanes);
}

void Watch::copies_waited(const Block& block, std::uint32_t thread, std::uint32_t groups) {
  if (chooser_) chooser_->copies_waited(block.launch->request.operation, block.index, thread, groups);
}

} // namespace deadheat::device
