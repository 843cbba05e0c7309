// Random executions in which whole warps of several blocks and launches use one word, or a few beside each other, again
// and again: from few sites, of every kind and several widths, with every way to order them in between.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <bit>
#include <random>
#include <utility>
#include <vector>

#include "tests/unit/order_random.h"

namespace deadheat::test {

class WordsOfWarps : Builder {
 public:
  explicit WordsOfWarps(std::uint64_t seed) : Builder(1 + seed / 2 % 2, true), random_(seed) {
    execution_.named_lanes = true;
    threads_ = execution_.threads_per_block = of({4u, 8u, 32u, 36u, 40u, 64u});
    words_ = of({1u, 1u, 2u, 4u});
    of_shared_ = below(3) == 0;
    eights_ = below(6) == 0;
    orders_ = of({0u, 50u, 80u, 95u});
    most_ = of({60u, 120u, 250u, 400u, 600u});
    const std::uint32_t sites = 2 + below(9);
    for (std::uint32_t site = 0; site < sites; ++site) add_site();
    if (below(2)) begin_launch(1, false, 0); // beside the first
  }

  Execution take() {
    for (std::size_t steps = 0; steps < most_ && execution_.events.size() < most_ && !running_.empty(); ++steps) step();
    run(execution_);
    return std::move(execution_);
  }

 private:
  struct Actors { // lanes of a warp
    std::uint32_t block = 0, warp = 0, lanes = 0;
  };
  struct SiteOf {
    Event like;
    std::uint32_t first = Event::none; // event
  };

  std::uint32_t below(std::uint32_t count) { return std::uint32_t(random_() % count); }
  template <typename T, std::size_t n>
  T of(const T (&list)[n]) {
    return list[below(n)];
  }
  bool percent(std::uint32_t share) { return below(100) < share; }

  // ---- sites

  void add_site() {
    Event like;
    const std::uint32_t kind = below(10);
    like.access = below(2) ? AccessKind::read : AccessKind::write;
    like.bytes = of({4u, 4u, 4u, 4u, 8u, 2u, 1u});
    like.shared = below(8) ? of_shared_ : !of_shared_;
    if (kind >= 6) {
      like.bytes = eights_ ? 8 : 4;
      like.scope = of({Scope::gpu, Scope::gpu, Scope::cta, Scope::cluster, Scope::sys});
      if (kind >= 8) like.access = AccessKind::atomic;
      // What reads a part of an atomic operation observes it only as long as few writes come between (observed_around).
      if (like.access != AccessKind::atomic && below(6) == 0) like.bytes = 8;
      switch (like.access) {
        case AccessKind::read: like.ordering = of({Ordering::relaxed, Ordering::acquire, Ordering::volatile_}); break;
        case AccessKind::write: like.ordering = of({Ordering::relaxed, Ordering::release, Ordering::volatile_}); break;
        default:
          like.ordering = of({Ordering::relaxed, Ordering::relaxed, Ordering::acq_rel, Ordering::release});
          like.reduction = !is_acquire(like.ordering) && below(3) == 0;
      }
      if (like.ordering == Ordering::volatile_) like.scope = Scope::sys;
    }
    sites_.push_back({like});
  }
  std::uint32_t flag_site(AccessKind access, Ordering ordering, Scope scope) {
    for (std::uint32_t site = 0; site < sites_.size(); ++site) {
      const Event& like = sites_[site].like;
      if (like.address && like.access == access && like.ordering == ordering && like.scope == scope) return site;
    }
    Event like;
    like.access = access;
    like.ordering = ordering;
    like.scope = scope;
    like.address = memory + 512;
    sites_.push_back({like});
    return std::uint32_t(sites_.size() - 1);
  }

  // ---- what warps do

  std::uint32_t warps() const { return (threads_ + 31) / 32; }
  std::uint32_t lanes_of(std::uint32_t block, std::uint32_t warp) const { // that are there
    std::uint32_t lanes = 0;
    for (std::uint32_t lane = 0; lane < 32 && warp * 32 + lane < threads_; ++lane) {
      if (!gone_.count({block, warp * 32 + lane})) lanes |= 1u << lane;
    }
    return lanes;
  }
  Actors some_warp() {
    Actors actors;
    actors.block = running_[below(std::uint32_t(running_.size()))] * blocks_per_launch + below(blocks_per_launch);
    actors.warp = below(warps());
    actors.lanes = lanes_of(actors.block, actors.warp);
    return actors;
  }
  std::uint32_t one_of(std::uint32_t lanes) {
    for (std::uint32_t skip = below(std::uint32_t(std::popcount(lanes))); skip; --skip) lanes &= lanes - 1;
    return lanes & -lanes;
  }
  std::uint32_t some_of(std::uint32_t lanes) {
    const std::uint32_t some = lanes & std::uint32_t(random_());
    return some ? some : lanes;
  }
  // Calls as(event) for each lane's event before it is added.
  template <typename As>
  void by_lanes(const Actors& actors, Event event, As&& as) {
    event.block = actors.block;
    event.together = false;
    for (std::uint32_t rest = actors.lanes; rest; rest &= rest - 1) {
      event.thread = actors.warp * 32 + std::uint32_t(std::countr_zero(rest));
      Event lane = event;
      as(lane);
      add(lane);
      event.together = true;
    }
  }
  void by_lanes(const Actors& actors, const Event& event) {
    by_lanes(actors, event, [](Event&) {});
  }

  void access(const Actors& actors, std::uint32_t number) {
    constexpr std::uint32_t lines = 100'000; // behind those of other instructions
    SiteOf& site = sites_[number];
    const Event& like = site.like;
    const bool spread = below(4) == 0;
    const std::uint32_t places = std::max(words_ * 4 / like.bytes, 1u), place = below(places);
    const bool peers = like.shared && execution_.blocks_per_cluster > 1 && below(4) == 0;
    by_lanes(actors, like, [&](Event& event) {
      event.owner = peers ? event.block ^ 1 : event.block;
      if (!event.address) {
        const std::uint32_t at = spread ? (place + event.thread) % places : place;
        event.address = (event.shared ? 0 : memory) + 64 + std::uint64_t(at) * event.bytes;
      }
      if (event.access == AccessKind::atomic && !event.reduction) event.stored = below(6) != 0;
      event.instruction = site.first;
      if (site.first == Event::none) site.first = std::uint32_t(execution_.events.size());
    });
    for (std::size_t i = execution_.events.size() - std::size_t(std::popcount(actors.lanes));
         i < execution_.events.size(); ++i)
      execution_.events[i].line = lines + number;
  }
  void fence(const Actors& actors, Ordering ordering, Scope scope) {
    Event event;
    event.kind = Event::Kind::fence;
    event.ordering = ordering;
    event.scope = scope;
    by_lanes(actors, event);
  }

  // ---- what orders them

  void all_of_block(std::uint32_t block, const Event& event) {
    for (std::uint32_t warp = 0; warp < warps(); ++warp) {
      Event of_warp = event;
      by_lanes({block, warp, lanes_of(block, warp)}, of_warp);
    }
  }
  void block_barrier(std::uint32_t block) {
    Event event;
    event.kind = Event::Kind::block_barrier;
    event.group = ++groups_;
    all_of_block(block, event);
  }
  void warp_barrier(const Actors& actors) { // or a vote, or values that lanes exchange
    if (std::popcount(actors.lanes) < 2) return;
    Event event;
    event.kind = Event::Kind::warp_barrier;
    event.group = ++groups_;
    event.relaxed = below(4) == 0;
    by_lanes(actors, event);
  }
  // Warps that arrive, and others that wait for these.
  void named_barrier(const Actors& from, const Actors& to) {
    if (from.warp == to.warp) return;
    Event event;
    event.kind = Event::Kind::arrive;
    event.barrier = 1;
    event.phase = phases_[from.block]++;
    by_lanes(from, event);
    by_lanes(to, event);
    event.kind = Event::Kind::leave;
    by_lanes(to, event);
  }
  void cluster_barrier(std::uint32_t block) {
    const std::uint32_t size = execution_.blocks_per_cluster, first = block / size * size;
    for (const Event::Kind kind : {Event::Kind::cluster_arrive, Event::Kind::cluster_wait}) {
      Event event;
      event.kind = kind;
      event.phase = cluster_phases_[block / size];
      for (std::uint32_t of = first; of < first + size; ++of) all_of_block(of, event);
    }
    ++cluster_phases_[block / size];
  }
  // From a lane of the one to a lane of the other, and from there to its warp; parts are left out now and then.
  void message(const Actors& from, const Actors& to) {
    const Scope scope = of({Scope::gpu, Scope::gpu, Scope::gpu, Scope::sys, Scope::cluster, Scope::cta});
    const bool fences = below(2);
    const Actors sender{from.block, from.warp, one_of(from.lanes)}, receiver{to.block, to.warp, one_of(to.lanes)};
    if (percent(90)) warp_barrier(from);
    if (fences) fence(sender, below(6) ? Ordering::acq_rel : Ordering::sc, scope);
    access(sender, below(2) ? flag_site(AccessKind::write, fences ? Ordering::relaxed : Ordering::release, scope)
                            : flag_site(AccessKind::atomic, fences ? Ordering::relaxed : Ordering::acq_rel, scope));
    access(receiver, below(3) ? flag_site(AccessKind::read, fences ? Ordering::relaxed : Ordering::acquire, scope)
                              : flag_site(AccessKind::atomic, fences ? Ordering::relaxed : Ordering::acq_rel, scope));
    if (fences) fence(receiver, below(6) ? Ordering::acq_rel : Ordering::sc, scope);
    if (percent(90)) warp_barrier(to);
  }
  // The launch is over, and another one begins.
  void next_launch(std::uint32_t launch) {
    add_of_launch(Event::Kind::launch_end, launch);
    std::erase(running_, launch);
    begin_launch(execution_.launches[launch].stream - 2, below(3) == 0, 0);
    if (running_.empty()) return;
    const Launched& last = execution_.launches.back();
    const std::uint32_t number = std::uint32_t(execution_.launches.size() - 1);
    if (last.primary == Launched::none || !over({last.primary})) return;
    Event event;
    event.kind = Event::Kind::dependency_wait;
    for (std::uint32_t warp = 0; warp < warps(); ++warp) {
      const std::uint32_t block = number * blocks_per_launch + below(blocks_per_launch);
      by_lanes({block, warp, lanes_of(block, warp)}, event);
    }
  }
  void order(const Actors& from, const Actors& to) {
    const bool runs = std::count(running_.begin(), running_.end(), from.block / blocks_per_launch);
    if (!runs || !from.lanes || !to.lanes) return;
    const bool same_block = from.block == to.block;
    if (same_block && from.warp == to.warp && below(2)) return warp_barrier({to.block, to.warp, from.lanes | to.lanes});
    if (same_block && below(4) == 0) return named_barrier(from, to);
    if (same_block && below(2)) return block_barrier(to.block);
    const bool same_cluster = from.block / execution_.blocks_per_cluster == to.block / execution_.blocks_per_cluster;
    if (same_cluster && execution_.blocks_per_cluster > 1 && below(4) == 0) return cluster_barrier(to.block);
    if (from.block != to.block || from.warp != to.warp) message(from, to);
  }

  void step() {
    if (below(40) == 0 && execution_.launches.size() < 5) next_launch(running_[below(std::uint32_t(running_.size()))]);
    if (running_.empty()) return;
    if (below(150) == 0) {
      Actors leaving = some_warp();
      if (!leaving.lanes) return;
      if (below(2)) leaving.lanes = some_of(leaving.lanes);
      Event event;
      event.kind = Event::Kind::exit;
      by_lanes(leaving, event, [&](Event& lane) { gone_.insert({lane.block, lane.thread}); });
      return;
    }
    Actors next = some_warp();
    if (!next.lanes) return;
    const std::uint32_t number = below(std::uint32_t(sites_.size()));
    const Event& like = sites_[number].like;
    // Where the order is kept, lanes do not write beside each other.
    const bool alone = like.access != AccessKind::read && !is_strong(like.ordering) && percent(orders_ + 4);
    if (alone || below(4) == 0)
      next.lanes = one_of(next.lanes);
    else if (below(3) == 0)
      next.lanes = some_of(next.lanes);
    if (last_.lanes && percent(orders_)) {
      last_.lanes &= lanes_of(last_.block, last_.warp);
      order(last_, next);
    }
    access(next, number);
    last_ = next;
  }

  std::mt19937_64 random_;
  std::uint32_t threads_ = 0, words_ = 1, orders_ = 0; // orders_: per cent of what comes behind each other
  std::size_t most_ = 0; // events, about: a step has no more than 400
  bool of_shared_ = false, eights_ = false; // eights_: strong accesses are of 8 bytes
  std::vector<SiteOf> sites_;
  Actors last_;
};

} // namespace deadheat::test
