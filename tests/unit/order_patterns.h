// What threads do to hand something on, said by numbers (order_random.h): steps alone seldom make one.
//
// Thread-safety: none.
#pragma once

#include "tests/unit/order_random.h"

namespace deadheat::test {

class PatternBuilder : public Builder {
 public:
  using Builder::Builder;

  // Data handed from one block to another by a flag between fences, with barriers among them; parts are left out.
  void hand_over(std::uint64_t bits) {
    Choices choose(bits);
    if (running_.empty()) return;
    const std::uint32_t from = some_block(choose), to = running_.size() > 1 ? some_block(choose) : from ^ 1;
    for (const std::uint32_t block : {from, to}) {
      const auto access = [&](AccessKind kind, std::uint64_t address, Ordering ordering, Scope scope,
                              bool unused = false) {
        Event event;
        event.block = block;
        event.thread = choose.of(threads_of_block);
        event.access = kind;
        event.address = address;
        event.ordering = ordering;
        event.scope = scope;
        event.unused = unused;
        event.reduction = kind == AccessKind::atomic && !unused && choose.below(8) == 0;
        add_by_lanes(event, choose);
      };
      const auto data = [&] {
        access(choose.below(3) ? AccessKind::write : AccessKind::read, memory, Ordering::weak, Scope::none);
      };
      const auto fence = [&] {
        Event event;
        event.block = block;
        event.thread = choose.of(threads_of_block);
        event.kind = Event::Kind::fence;
        event.ordering = choose.below(8) ? Ordering::sc : Ordering::acq_rel;
        event.scope = devices_ ? choose.of({Scope::sys, Scope::sys, Scope::sys, Scope::gpu, Scope::cta})
                               : choose.of({Scope::gpu, Scope::gpu, Scope::gpu, Scope::sys, Scope::cta});
        add_by_lanes(event, choose);
      };
      const auto meet = [&] {
        if (choose.below(8) == 0) return;
        Event event;
        event.block = block;
        Choices which(choose.below(3)); // of all, or of the first two
        barrier(event, which);
      };
      const auto flag = [&](AccessKind kind) {
        const bool unused = choose.below(6) == 5;
        const Scope scope = wide(choose.below(8) ? Scope::gpu : Scope::cta, choose);
        if (unused && kind == AccessKind::read && choose.below(2)) { // somebody has looked
          access(kind, memory + 64, Ordering::relaxed, scope);
          meet();
        }
        if (choose.below(2)) kind = AccessKind::atomic;
        access(kind, memory + 64, unused && choose.below(2) ? Ordering::acquire : Ordering::relaxed, scope,
               unused && kind != AccessKind::write);
      };
      if (block == from) {
        data();
        fence();
        meet();
        flag(AccessKind::write);
      } else {
        flag(AccessKind::read);
        meet();
        fence();
        data();
      }
    }
  }
  // A flag from a thread of one block to one of another, often of another launch, and what they do before and after it.
  void message(std::uint64_t bits) {
    Choices choose(bits);
    if (running_.empty()) return;
    const std::uint32_t from = some_block(choose), to = some_block(choose);
    const std::uint64_t flag = memory + 64 + 4 * choose.below(2);
    for (const std::uint32_t block : {from, to}) {
      Event event;
      event.block = block;
      event.thread = choose.of(threads_of_block);
      if (gone(event)) continue;
      const auto data = [&] {
        Event access = event;
        access.access = choose.below(2) ? AccessKind::write : AccessKind::read;
        access.address = memory + 4 * choose.below(2);
        add_by_lanes(access, choose);
      };
      if (block == from && choose.below(2)) data();
      event.address = flag;
      event.access = block == from ? AccessKind::write : AccessKind::read;
      event.ordering = choose.below(8) == 0 ? Ordering::relaxed : block == from ? Ordering::release : Ordering::acquire;
      event.scope = wide(Scope::gpu, choose);
      event.unused = block == to && choose.below(8) == 7;
      if (event.unused && choose.below(2)) { // somebody has looked
        Event looked = event;
        looked.unused = false;
        looked.ordering = Ordering::relaxed;
        looked.thread = choose.of(threads_of_block);
        if (!gone(looked)) add(looked);
        Choices all(0);
        barrier(looked, all);
      }
      add(event);
      event.unused = false;
      event.ordering = Ordering::weak;
      event.scope = Scope::none;
      if (block == to && choose.below(2)) data();
    }
  }
  // A place handed back to another block of the cluster: used, an arrival at the mbarrier of that block, a wait there,
  // used again. By one thread each, or by others of its block behind a barrier.
  void hand_back(std::uint64_t bits) {
    Choices choose(bits);
    if (running_.empty() || execution_.blocks_per_cluster == 1) return;
    const std::uint32_t from = some_block(choose), to = from ^ 1;
    const std::uint32_t object = 1 + 2 * to + choose.below(2), of_shared = choose.below(2);
    std::uint32_t& phase = mbarrier_phases_[object];
    for (const std::uint32_t block : {from, to}) {
      Event event;
      event.block = block;
      event.thread = choose.of(threads_of_block);
      const auto use = [&] {
        Event access = event;
        access.access = (block == to) != (choose.below(4) == 0) ? AccessKind::write : AccessKind::read;
        access.shared = of_shared;
        access.owner = from;
        access.address = access.shared ? 0 : memory;
        add_by_lanes(access, choose);
      };
      const auto meet = [&] { // and another goes on
        if (choose.below(3)) return;
        Choices all(0);
        barrier(event, all);
        event.kind = Event::Kind::access;
        event.group = 0;
        event.thread = choose.of(threads_of_block);
      };
      const auto at_object = [&](Event::Kind kind, Ordering ordering, std::uint32_t of_phase) {
        Event synchronizes = event;
        synchronizes.kind = kind;
        synchronizes.barrier = object;
        synchronizes.phase = of_phase;
        synchronizes.ordering = ordering;
        synchronizes.scope = choose.below(3) ? Scope::cta : Scope::cluster;
        const bool relaxed = block == from && synchronizes.scope == Scope::cluster && choose.below(4) == 0;
        if (relaxed) synchronizes.ordering = Ordering::relaxed;
        synchronizes.unused = kind == Event::Kind::mbarrier_test && choose.below(6) == 5;
        add_by_lanes(synchronizes, choose);
      };
      if (block == from) {
        use();
        meet();
        at_object(Event::Kind::mbarrier_arrive, Ordering::release, phase);
        if (phase < 2) ++phase;
      } else {
        at_object(Event::Kind::mbarrier_test, Ordering::acquire, phase - 1);
        meet();
        use();
      }
    }
  }
  // A word used by threads, filled by a bulk copy whose thread has heard of that, and used by others who hear of its
  // completion, or of more; parts are left out.
  void refill(std::uint64_t bits) {
    Choices choose(bits);
    if (running_.empty()) return;
    const std::uint32_t block = some_block(choose), there = choose.below(4) ? block : block ^ 1;
    const bool of_shared = choose.below(4), by_flag = !of_shared;
    const std::uint32_t into = of_shared && execution_.blocks_per_cluster > 1 ? there : block;
    const auto by = [&](std::uint32_t of) {
      Event event;
      event.block = of;
      event.thread = choose.of(threads_of_block);
      event.owner = into;
      event.address = of_shared ? 0 : memory;
      event.shared = of_shared;
      return event;
    };
    const auto use = [&](Event event) {
      event.access = choose.below(2) ? AccessKind::write : AccessKind::read;
      add_by_lanes(event, choose);
    };
    const auto fence = [&](Event event) {
      event.kind = Event::Kind::proxy_fence;
      event.shared = of_shared;
      if (of_shared && choose.below(2)) one_way(event, choose);
      add_by_lanes(event, choose);
    };
    // From the one to the other: what they know, or part of it.
    const auto tell = [&](const Event& from, const Event& to) {
      const std::uint32_t how = choose.below(6), object = 1 + 2 * to.block + choose.below(2);
      Event arrives = from, waits = to;
      if (how == 0 || (how == 1 && execution_.blocks_per_cluster == 1)) {
        Choices all(0);
        barrier(arrives, all);
      } else if (how == 1) {
        Choices cluster(4 + 5 * 7 * (choose.below(2) ? 3 : 0));
        barrier(arrives, cluster);
      } else if (how < 5) {
        if (from.block != to.block && execution_.blocks_per_cluster == 1) return;
        std::uint32_t& phase = mbarrier_phases_[object];
        arrives.kind = Event::Kind::mbarrier_arrive;
        waits.kind = Event::Kind::mbarrier_test;
        arrives.barrier = waits.barrier = object;
        arrives.phase = phase;
        arrives.ordering = Ordering::release;
        waits.ordering = Ordering::acquire;
        arrives.scope = waits.scope = from.block == to.block ? Scope::cta : Scope::cluster;
        add_by_lanes(arrives, choose);
        if (phase < 2) ++phase;
        waits.phase = phase - 1;
        add_by_lanes(waits, choose);
      }
    };
    const Event user = by(choose.below(2) ? into : block), issuer = by(block), later = by(into);
    use(user);
    if (choose.below(2)) fence(user);
    tell(user, issuer);
    if (choose.below(3)) fence(issuer);
    if (choose.below(3) == 0) tell(issuer, later);
    if (choose.below(4) == 0) use(issuer);
    if (gone(issuer)) return;
    Event event = issuer;
    event.kind = Event::Kind::bulk_issue;
    event.bytes = 4;
    event.owner = block;
    event.barrier = by_flag ? 0 : 1 + 2 * into + choose.below(2);
    const std::uint32_t object = event.barrier;
    const std::size_t issue = add(event);
    event.kind = Event::Kind::bulk;
    event.group = std::uint32_t(issue);
    event.line = 0;
    event.access = AccessKind::read;
    event.shared = !of_shared;
    event.address = of_shared ? memory + 4 : 4;
    add(event);
    event.access = AccessKind::write;
    event.shared = of_shared;
    event.owner = into;
    event.address = of_shared ? 0 : memory;
    add(event);
    Event known = later;
    if (object) {
      // Those of one thread and object complete in the order of issue here.
      pending_.push_back(issue);
      const auto oldest = std::find_if(pending_.begin(), pending_.end(), [&](std::size_t other) {
        const Event& at = execution_.events[other];
        return at.block == issuer.block && at.thread == issuer.thread && at.barrier == object;
      });
      Event complete = execution_.events[*oldest];
      complete.kind = Event::Kind::bulk_complete;
      complete.together = false;
      complete.group = std::uint32_t(*oldest);
      pending_.erase(oldest);
      complete.phase = mbarrier_phases_[object];
      add(complete);
      if (mbarrier_phases_[object] < 2) ++mbarrier_phases_[object];
      known.kind = Event::Kind::mbarrier_test;
      known.barrier = object;
      known.phase = mbarrier_phases_[object] - 1;
      known.ordering = Ordering::acquire;
      known.scope = choose.below(2) ? Scope::cta : Scope::cluster;
      if (choose.below(4) && !gone(known)) add(known);
    } else {
      Event wait = issuer;
      wait.kind = Event::Kind::bulk_commit;
      add(wait);
      wait.kind = Event::Kind::bulk_wait;
      add(wait);
      tell(issuer, later);
    }
    if (choose.below(3) == 0) {
      const Event last = by(into);
      tell(later, last);
      use(last);
    } else {
      use(later);
    }
  }
};

} // namespace deadheat::test
