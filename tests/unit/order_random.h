// Numbers → little executions (order_oracle.h), so that random numbers are random executions.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "tests/unit/order_records.h"

namespace deadheat::test {

// Takes choices out of a number, so that the numbers' shrinking shrinks the execution.
class Choices {
 public:
  explicit Choices(std::uint64_t bits) : bits_(bits) {}
  std::uint32_t below(std::uint32_t count) {
    std::uint32_t choice = std::uint32_t(bits_ % count);
    bits_ /= count;
    return choice;
  }
  template <typename T, std::size_t n>
  T of(const T (&list)[n]) {
    return list[below(n)];
  }

 private:
  std::uint64_t bits_;
};

inline constexpr std::uint32_t threads_of_block[] = {0, 1, 33};

// Of an execution, step by step.
class Builder {
 public:
  // several: more launches begin in the course of it, in several streams. devices: the third is of another one.
  Builder(std::uint32_t blocks_per_cluster, bool several, bool devices = false) : several_(several), devices_(devices) {
    execution_.blocks_per_cluster = blocks_per_cluster;
    begin_launch(0, false, 0);
  }

  void step(std::uint64_t bits) {
    Choices choose(bits);
    Event event;
    std::uint32_t what = choose.below(22);
    if (several_ && what == 20) return launches(choose);
    if (running_.empty()) return;
    event.block = some_block(choose);
    event.thread = choose.of(threads_of_block);
    const bool alone = what < 13 || what > 14; // not a barrier, which is for those who are there
    if (alone && gone(event)) return;
    if (what < 6) {
      weak(event, choose);
    } else if (what < 11) {
      strong(event, choose);
    } else if (what < 13) {
      event.kind = Event::Kind::fence;
      event.ordering = choose.of({Ordering::sc, Ordering::acq_rel, Ordering::acquire, Ordering::release});
      event.scope = choose.of({Scope::gpu, Scope::cta, Scope::cluster, Scope::sys});
      event.of_shared =
          choose.below(4) == 0 && (event.ordering == Ordering::acquire || event.ordering == Ordering::release);
      if (event.of_shared) event.scope = Scope::cluster;
      add(event);
      add_other_lane(event, choose);
    } else if (what < 15) {
      barrier(event, choose);
    } else if (what < 16) {
      copy(event, choose);
    } else if (what < 18) {
      mbarrier(event, choose);
    } else if (what < 20) {
      bulk(event, choose);
    } else if (what < 21) {
      weak(event, choose);
    } else if (choose.below(2)) {
      event.kind = Event::Kind::exit;
      add(event);
      const bool both = add_other_lane(event, choose);
      gone_.insert({event.block, event.thread});
      if (both) gone_.insert({event.block, event.thread ^ 1});
    }
  }
  // Launches begin, wait and end.
  void launches(std::uint64_t bits) {
    Choices choose(bits);
    launches(choose);
  }
  Execution take() {
    run(execution_);
    return std::move(execution_);
  }

 protected:
  std::size_t add(Event event) {
    event.line = std::uint32_t(execution_.events.size() + 1);
    if (!event.shared) event.owner = event.block;
    execution_.events.push_back(event);
    return execution_.events.size() - 1;
  }
  bool gone(const Event& event) const { return gone_.count({event.block, event.thread}); }
  // The other lane of the thread's warp may execute the same instruction: `as` says what it does there. False: it does
  // not.
  template <typename As>
  bool add_other_lane(Event event, Choices& choose, As&& as) {
    event.thread ^= 1;
    if (event.thread > 1 || gone(event) || choose.below(3)) return false;
    event.together = true;
    const bool copies = event.kind == Event::Kind::copy_issue || event.kind == Event::Kind::bulk_issue;
    if (!copies && event.instruction == Event::none) event.instruction = std::uint32_t(execution_.events.size() - 1);
    as(event);
    return true;
  }
  bool add_other_lane(const Event& event, Choices& choose) {
    return add_other_lane(event, choose, [&](Event& other) { add(other); });
  }
  // By the thread, if it is there, and perhaps by the other lane of its warp.
  void add_by_lanes(const Event& event, Choices& choose) {
    if (gone(event)) return;
    add(event);
    add_other_lane(event, choose);
  }
  void weak(Event& event, Choices& choose) {
    event.access = choose.below(2) ? AccessKind::write : AccessKind::read;
    event.bytes = choose.of({4u, 1u, 2u, 8u});
    event.shared = choose.below(3) == 0;
    const auto somewhere = [&](Event& of) {
      share(of, choose);
      of.address = (of.shared ? 0 : memory) + choose.of({0u, 8u, 64u}) + choose.below(8 / of.bytes) * of.bytes;
      add(of);
    };
    somewhere(event);
    add_other_lane(event, choose, somewhere);
  }
  void strong(Event& event, Choices& choose) {
    event.access = choose.of({AccessKind::atomic, AccessKind::write, AccessKind::read});
    event.bytes = choose.of({4u, 4u, 4u, 8u});
    event.shared = choose.below(6) == 0;
    share(event, choose);
    event.address = (event.shared ? 0 : memory) + 64 + (event.bytes == 4 ? choose.below(2) * 4 : 0);
    event.scope = choose.of({Scope::gpu, Scope::gpu, Scope::cta, Scope::cluster, Scope::sys});
    switch (event.access) {
      case AccessKind::read:
        event.ordering = choose.of({Ordering::acquire, Ordering::relaxed, Ordering::volatile_});
        break;
      case AccessKind::write:
        event.ordering = choose.of({Ordering::release, Ordering::relaxed, Ordering::volatile_});
        break;
      default:
        event.ordering = choose.of({Ordering::relaxed, Ordering::acq_rel, Ordering::release, Ordering::acquire});
        event.stored = choose.below(5) != 4;
        event.reduction = event.stored && !is_acquire(event.ordering) && choose.below(3) == 2;
    }
    if (event.ordering == Ordering::volatile_) event.scope = Scope::sys;
    const bool looked_at = event.access == AccessKind::write || event.reduction || choose.below(4) != 3;
    event.unused = !looked_at;
    add(event);
    const bool both = event.bytes == 4 && event.access != AccessKind::atomic && event.address % 8 == 0;
    if (!both || choose.below(3)) {
      add_other_lane(event, choose, [&](Event& other) {
        if (other.bytes == 4 && choose.below(2)) other.address ^= 4;
        if (other.access == AccessKind::atomic && !other.reduction) other.stored = choose.below(5) != 4;
        add(other);
      });
      return;
    }
    event.address += event.bytes;
    event.continued = true;
    add(event);
  }
  void barrier(Event& event, Choices& choose) {
    std::uint32_t what = choose.below(5), mask = choose.below(7) + 1;
    auto each = [&](std::uint32_t members, auto&& f) {
      for (std::uint32_t i = 0; i < 3; ++i) {
        if (!(members >> i & 1)) continue;
        event.thread = threads_of_block[i];
        if (!gone(event)) f();
      }
    };
    switch (what) {
      case 0:
        event.kind = Event::Kind::block_barrier;
        event.group = ++groups_;
        each(7, [&] { add(event); });
        break;
      case 1:
        event.kind = Event::Kind::warp_barrier;
        event.group = ++groups_;
        each(3, [&] { add(event); });
        break;
      case 2: // bar.arrive
        event.kind = Event::Kind::arrive;
        event.barrier = 1;
        event.phase = phases_[event.block];
        each(mask, [&] { add(event); });
        break;
      case 3: // bar.sync by the rest
        event.barrier = 1;
        event.phase = phases_[event.block]++;
        event.kind = Event::Kind::arrive;
        each(mask, [&] { add(event); });
        event.kind = Event::Kind::leave;
        each(mask, [&] { add(event); });
        break;
      case 4: { // the whole cluster arrives, then waits
        std::uint32_t block = event.block, size = execution_.blocks_per_cluster;
        bool relaxed = choose.below(4) == 3;
        for (Event::Kind kind : {Event::Kind::cluster_arrive, Event::Kind::cluster_wait}) {
          event.kind = kind;
          event.phase = cluster_phases_[block / size];
          event.relaxed = relaxed && kind == Event::Kind::cluster_arrive;
          for (event.block = block / size * size; event.block < block / size * size + size; ++event.block) {
            each(7, [&] { add(event); });
          }
        }
        ++cluster_phases_[block / size];
        break;
      }
    }
  }
  // ---- launches

  // Of several devices: more often what reaches them all.
  Scope wide(Scope scope, Choices& choose) const {
    return devices_ && scope == Scope::gpu && choose.below(3) ? Scope::sys : scope;
  }
  std::uint32_t some_block(Choices& choose) const {
    const std::uint32_t launch = running_[choose.below(std::uint32_t(running_.size()))];
    return launch * blocks_per_launch + choose.below(blocks_per_launch);
  }
  bool runs(std::uint32_t launch) const { return std::count(running_.begin(), running_.end(), launch); }
  bool over(const std::vector<std::uint32_t>& launches) const {
    return std::none_of(launches.begin(), launches.end(), [&](std::uint32_t launch) { return runs(launch); });
  }
  // Into that stream; `dependent`: it need not wait for the one before, if that is a launch; `waits_for`: see Launched.
  void begin_launch(std::uint32_t stream, bool dependent, std::uint32_t waits_for) {
    constexpr std::size_t most = 6;
    if (execution_.launches.size() >= most) return;
    Stream& into = streams_[stream];
    Launched launched;
    launched.stream = stream + 2;
    launched.device = devices_ && stream == 2;
    if (dependent && into.behind_launch && !waits_for) {
      launched.primary = into.launches.back();
      launched.after = into.entered;
    } else {
      launched.after = into.launches;
      if (waits_for) {
        Stream& other = streams_[waits_for - 1];
        launched.waits_for = waits_for + 1;
        launched.after.insert(launched.after.end(), other.launches.begin(), other.launches.end());
      }
    }
    if (!over(launched.after)) return;
    if (waits_for) streams_[waits_for - 1].behind_launch = false; // it has the event's record
    if (launched.primary == Launched::none) into.entered = launched.after;
    into.behind_launch = true;
    const std::uint32_t number = std::uint32_t(execution_.launches.size());
    into.launches.push_back(number);
    running_.push_back(number);
    execution_.launches.push_back(launched);
    add_of_launch(Event::Kind::launch_begin, number);
  }
  std::size_t add_of_launch(Event::Kind kind, std::uint32_t launch) {
    Event event;
    event.kind = kind;
    event.block = launch * blocks_per_launch;
    return add(event);
  }
  void launches(Choices& choose) {
    const std::uint32_t what = choose.below(8);
    if (what < 4) {
      const std::uint32_t stream = choose.below(3), other = choose.below(3);
      begin_launch(stream, what < 2, what == 3 && other != stream ? other + 1 : 0);
      return;
    }
    if (running_.empty()) return;
    const std::uint32_t launch = running_[choose.below(std::uint32_t(running_.size()))];
    const std::uint32_t primary = execution_.launches[launch].primary;
    if (what < 6) {
      add_of_launch(Event::Kind::launch_end, launch);
      std::erase(running_, launch);
      std::erase_if(pending_, [&](std::size_t issue) { return execution_.events[issue].launch() == launch; });
      return;
    }
    if (primary == Launched::none || runs(primary)) return;
    Event event;
    event.kind = Event::Kind::dependency_wait;
    event.block = launch * blocks_per_launch + choose.below(blocks_per_launch);
    event.thread = choose.of(threads_of_block);
    if (!gone(event)) add(event);
  }
  // Shared memory is that of the thread's block or of the other one of its cluster.
  void share(Event& event, Choices& choose) {
    event.owner = event.block;
    if (execution_.blocks_per_cluster > 1 && choose.below(3) == 2) event.owner ^= 1;
  }
  // Objects 1 and 2 lie in block 0, 3 and 4 in block 1, and so on.
  void mbarrier(Event& event, Choices& choose) {
    bool tests = choose.below(2);
    std::uint32_t block =
        execution_.blocks_per_cluster > 1 && !tests && choose.below(3) == 2 ? event.block ^ 1 : event.block;
    event.barrier = 1 + 2 * block + choose.below(2);
    std::uint32_t& phase = mbarrier_phases_[event.barrier];
    bool cluster = choose.below(2);
    event.scope = cluster ? Scope::cluster : Scope::cta;
    if (!tests) {
      event.kind = Event::Kind::mbarrier_arrive;
      event.ordering = cluster && choose.below(4) == 3 ? Ordering::relaxed : Ordering::release;
      event.phase = phase;
      add(event);
      add_other_lane(event, choose, [&](Event& other) { // at either object of that block
        other.barrier = 1 + 2 * block + choose.below(2);
        other.phase = mbarrier_phases_[other.barrier];
        add(other);
      });
      if (phase < 2 && choose.below(2)) ++phase; // it was the last
    } else if (phase) {
      event.kind = Event::Kind::mbarrier_test;
      event.ordering = cluster && choose.below(4) == 3 ? Ordering::relaxed : Ordering::acquire;
      event.phase = phase - 1;
      event.unused = choose.below(4) == 3;
      if (event.unused && choose.below(2)) { // it is certain: this thread has looked
        Event looked = event;
        looked.unused = false;
        looked.ordering = Ordering::relaxed;
        add(looked);
      }
      add(event);
      add_other_lane(event, choose);
    }
  }
  void bulk(Event& event, Choices& choose) {
    switch (choose.below(6)) {
      case 0:
      case 1: { // into or out of shared memory
        const bool store = choose.below(2), by_object = !store && choose.below(2);
        // Into the other block of the cluster, which hears of it by an object of its own.
        const bool remote = by_object && execution_.blocks_per_cluster > 1 && choose.below(3) == 2;
        const std::uint32_t into = remote ? event.block ^ 1 : event.block;
        event.kind = Event::Kind::bulk_issue;
        event.bytes = 4;
        event.owner = event.block;
        if (by_object) event.barrier = 1 + 2 * into + choose.below(2);
        const auto issue = [&](Event of) {
          const std::uint64_t global = memory + choose.below(2) * 4, shared = choose.below(2) * 4;
          const std::size_t issued = add(of);
          of.together = false;
          of.kind = Event::Kind::bulk;
          of.group = std::uint32_t(issued);
          of.access = AccessKind::read;
          of.shared = store;
          of.address = store ? shared : global;
          add(of);
          of.access = AccessKind::write;
          of.shared = !store;
          of.address = store ? global : shared;
          of.owner = store ? of.block : into;
          add(of);
          if (by_object) pending_.push_back(issued);
        };
        issue(event);
        add_other_lane(event, choose, issue);
        break;
      }
      case 2:
        if (pending_.empty()) break;
        { // the oldest: those of one thread and object complete in the order of issue here
          const std::size_t issue = pending_.front();
          pending_.erase(pending_.begin());
          Event complete = execution_.events[issue];
          complete.kind = Event::Kind::bulk_complete;
          complete.together = false;
          complete.group = std::uint32_t(issue);
          std::uint32_t& phase = mbarrier_phases_[complete.barrier];
          complete.phase = phase;
          add(complete);
          if (phase < 2 && choose.below(2)) ++phase;
        }
        break;
      case 3:
        event.kind = Event::Kind::bulk_commit;
        add(event);
        add_other_lane(event, choose);
        break;
      case 4:
        event.kind = Event::Kind::bulk_wait;
        event.phase = choose.below(2);
        event.relaxed = choose.below(3) == 2;
        add(event);
        add_other_lane(event, choose);
        break;
      default:
        event.kind = Event::Kind::proxy_fence;
        event.shared = choose.below(3) != 2;
        event.relaxed = choose.below(4) == 3;
        if (choose.below(3) == 2) one_way(event, choose);
        add(event);
        add_other_lane(event, choose);
    }
  }
  void one_way(Event& fence, Choices& choose) const {
    fence.relaxed = false;
    fence.of_shared = fence.shared = choose.below(4) != 3;
    fence.ordering = choose.of({Ordering::release, Ordering::acquire});
    fence.scope = fence.of_shared ? Scope::cluster : choose.of({Scope::gpu, Scope::cta, Scope::cluster, Scope::sys});
  }
  void copy(Event& event, Choices& choose) {
    std::uint32_t what = choose.below(5);
    if (what < 2) {
      event.kind = Event::Kind::copy_issue;
      event.bytes = 4;
      const auto issue = [&](Event of) {
        of.group = std::uint32_t(add(of));
        of.together = false;
        of.kind = Event::Kind::copy;
        of.address = memory + choose.below(2) * 4;
        add(of);
        of.access = AccessKind::write;
        of.shared = true;
        of.owner = of.block;
        of.address = choose.below(2) * 4;
        add(of);
      };
      issue(event);
      add_other_lane(event, choose, issue);
    } else if (what == 4) {
      event.kind = Event::Kind::copy_arrive;
      event.barrier = 1 + 2 * event.block + choose.below(2);
      std::uint32_t& phase = mbarrier_phases_[event.barrier];
      event.phase = phase;
      add(event);
      add_other_lane(event, choose);
      if (phase < 2 && choose.below(2)) ++phase;
    } else {
      event.kind = what == 2 ? Event::Kind::copy_commit : Event::Kind::copy_wait;
      event.phase = what == 3 ? choose.below(2) : 0;
      add(event);
      add_other_lane(event, choose);
    }
  }

  struct Stream {
    std::vector<std::uint32_t> launches, entered; // all so far; what the last waited for that is not programmatic
    bool behind_launch = false; // the last operation is a launch
  };

  Execution execution_;
  bool several_ = false, devices_ = false;
  Stream streams_[3];
  std::vector<std::uint32_t> running_; // launches
  std::uint32_t groups_ = 0;
  std::map<std::uint32_t, std::uint32_t> phases_, cluster_phases_, mbarrier_phases_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> gone_; // (block, thread) that have exited
  std::vector<std::size_t> pending_; // bulk copies that complete on an object
};

} // namespace deadheat::test
