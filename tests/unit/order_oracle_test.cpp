// Random little executions: the races that the detector finds are those that the axioms name, no more and no fewer.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "tests/unit/order_records.h"

namespace deadheat::test {
namespace {

// ---- numbers → events

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

constexpr std::uint32_t threads_of_block[] = {0, 1, 33};

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
      gone_.insert({event.block, event.thread});
    }
  }
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
        if (!gone(event)) add(event);
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
        if (!gone(event)) add(event);
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
        add(access);
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
        if (!gone(access)) add(access);
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
        if (!gone(synchronizes)) add(synchronizes);
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
  // Launches begin, wait and end.
  void launches(std::uint64_t bits) {
    Choices choose(bits);
    launches(choose);
  }
  Execution take() {
    run(execution_);
    return std::move(execution_);
  }

 private:
  std::size_t add(Event event) {
    event.line = std::uint32_t(execution_.events.size() + 1);
    if (!event.shared) event.owner = event.block;
    execution_.events.push_back(event);
    return execution_.events.size() - 1;
  }
  bool gone(const Event& event) const { return gone_.count({event.block, event.thread}); }
  void weak(Event& event, Choices& choose) {
    event.access = choose.below(2) ? AccessKind::write : AccessKind::read;
    event.bytes = choose.of({4u, 1u, 2u, 8u});
    event.shared = choose.below(3) == 0;
    share(event, choose);
    event.address =
        (event.shared ? 0 : memory) + choose.of({0u, 8u, 64u}) + choose.below(8 / event.bytes) * event.bytes;
    add(event);
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
    if (!both || choose.below(3)) return;
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
        const std::uint64_t global = memory + choose.below(2) * 4, shared = choose.below(2) * 4;
        const std::size_t issue = add(event);
        event.kind = Event::Kind::bulk;
        event.group = std::uint32_t(issue);
        event.line = 0;
        event.access = AccessKind::read;
        event.shared = store;
        event.address = store ? shared : global;
        add(event);
        event.access = AccessKind::write;
        event.shared = !store;
        event.address = store ? global : shared;
        event.owner = store ? event.block : into;
        add(event);
        if (by_object) pending_.push_back(issue);
        break;
      }
      case 2:
        if (pending_.empty()) break;
        { // the oldest: those of one thread and object complete in the order of issue here
          const std::size_t issue = pending_.front();
          pending_.erase(pending_.begin());
          Event complete = execution_.events[issue];
          complete.kind = Event::Kind::bulk_complete;
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
        break;
      case 4:
        event.kind = Event::Kind::bulk_wait;
        event.phase = choose.below(2);
        event.relaxed = choose.below(3) == 2;
        add(event);
        break;
      default:
        event.kind = Event::Kind::proxy_fence;
        event.shared = choose.below(3) != 2;
        event.relaxed = choose.below(4) == 3;
        add(event);
    }
  }
  void copy(Event& event, Choices& choose) {
    std::uint32_t what = choose.below(5);
    if (what < 2) {
      event.kind = Event::Kind::copy_issue;
      event.bytes = 4;
      std::size_t issue = add(event);
      event.kind = Event::Kind::copy;
      event.group = std::uint32_t(issue);
      event.line = 0;
      event.address = memory + choose.below(2) * 4;
      add(event);
      event.access = AccessKind::write;
      event.shared = true;
      event.owner = event.block;
      event.address = choose.below(2) * 4;
      add(event);
    } else if (what == 4) {
      event.kind = Event::Kind::copy_arrive;
      event.barrier = 1 + 2 * event.block + choose.below(2);
      std::uint32_t& phase = mbarrier_phases_[event.barrier];
      event.phase = phase;
      add(event);
      if (phase < 2 && choose.below(2)) ++phase;
    } else {
      event.kind = what == 2 ? Event::Kind::copy_commit : Event::Kind::copy_wait;
      event.phase = what == 3 ? choose.below(2) : 0;
      add(event);
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

std::string text(const Execution& execution) {
  static const char* kinds[] = {"access",        "fence",           "arrive",        "leave",
                                "block_barrier", "warp_barrier",    "copy_issue",    "copy",
                                "copy_commit",   "copy_arrive",     "copy_wait",     "cluster_arrive",
                                "cluster_wait",  "mbarrier_arrive", "mbarrier_test", "bulk_issue",
                                "bulk",          "bulk_complete",   "bulk_commit",   "bulk_wait",
                                "proxy_fence",   "dependency_wait", "launch_begin",  "launch_end",
                                "exit"};
  static const char* accesses[] = {"read", "write", "atomic", "free"};
  static const char* orderings[] = {"weak", "relaxed", "acquire", "release", "acq_rel", "sc", "volatile", "mmio", "nc"};
  static const char* scopes[] = {"", "cta", "cluster", "gpu", "sys"};
  std::string out = std::to_string(execution.blocks_per_cluster) + " blocks a cluster\n";
  for (const Event& e : execution.events) {
    out += std::to_string(e.line) + ": block " + std::to_string(e.block) + " thread " + std::to_string(e.thread) + " " +
           kinds[int(e.kind)];
    if (e.memory()) {
      out += std::string(" ") + accesses[int(e.access)] + (e.reduction ? "(red)" : "") + (e.stored ? "" : "(failed)") +
             (e.shared ? " shared " : " global ") + (e.memory_of() != e.block ? "of the other " : "") +
             std::to_string(e.address & 4095) + "+" + std::to_string(e.bytes);
    }
    if (e.kind == Event::Kind::launch_begin) {
      const Launched& launched = execution.launches[e.launch()];
      out += " device " + std::to_string(launched.device) + " stream " + std::to_string(launched.stream) +
             " waits for " + std::to_string(launched.waits_for);
      if (launched.primary != Launched::none) out += " programmatic";
    }
    if (e.memory() || e.kind == Event::Kind::fence) {
      out += std::string(" ") + orderings[int(e.ordering)] + " " + scopes[int(e.scope)];
    }
    if (e.barrier) out += " barrier " + std::to_string(e.barrier) + " scope " + std::to_string(int(e.scope));
    if (e.relaxed) out += " relaxed";
    if (e.kind == Event::Kind::mbarrier_test) out += std::string(" ") + orderings[int(e.ordering)];
    if (e.unused) out += " unused";
    if (e.kind == Event::Kind::proxy_fence) out += e.shared ? " shared" : " global";
    if (!e.memory()) out += " phase " + std::to_string(e.phase) + " group " + std::to_string(e.group);
    out += "\n";
  }
  return out;
}
std::string text(const Races& races) {
  std::string out;
  for (auto [a, b] : races) out += std::to_string(a) + "-" + std::to_string(b) + " ";
  return out;
}

// Every race that is found is one, and all are found that anybody can tell.
bool agree(const Races& found, const Records& records) {
  const Races expected = records.at_most(), visible = records.visible();
  return std::includes(expected.begin(), expected.end(), found.begin(), found.end()) &&
         std::includes(found.begin(), found.end(), visible.begin(), visible.end());
}

void compare(const std::vector<std::uint64_t>& steps, bool clusters, bool several, bool pooled) {
  Builder builder(clusters ? 2 : 1, several, several && steps.size() % 3 == 0);
  for (std::size_t i = 0; i < steps.size() && i < 60; ++i) builder.step(steps[i]);
  Execution execution = builder.take();
  if (execution.events.size() > 250) return; // values of writes are bytes
  Records records(execution, pooled);
  Races found = records.found(), expected = records.expected();
  if (!agree(found, records)) {
    RC_FAIL(text(execution) + "found:    " + text(found) + "\nexpected: " + text(expected));
  }
}

RC_GTEST_PROP(Oracle, EveryEventItsOwnLine, (const std::vector<std::uint64_t>& steps, bool clusters, bool several)) {
  compare(steps, clusters, several, false);
}
RC_GTEST_PROP(Oracle, LikeEventsOfOneLine, (const std::vector<std::uint64_t>& steps, bool clusters, bool several)) {
  compare(steps, clusters, several, true);
}

// Without shrinking, thousands at once; DEADHEAT_ORACLE_ROUNDS and DEADHEAT_ORACLE_SEED ask for more and for others.
TEST(Oracle, ManyExecutions) {
  auto setting = [](const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text ? std::strtoull(text, nullptr, 10) : otherwise;
  };
  const std::uint64_t rounds = setting("DEADHEAT_ORACLE_ROUNDS", 10000);
  std::uint64_t state = setting("DEADHEAT_ORACLE_SEED", 1) * 88172645463325252ull | 1;
  auto next = [&] {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  };
  std::size_t racy = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const bool several = round / 4 % 4 >= 2;
    Builder builder(round % 2 + 1, several, several && round / 16 % 2);
    std::size_t length = 2 + next() % (round / 4 % 4 == 2 ? 40 : 28);
    const bool flags = round % 4 == 1, rings = round % 4 == 3, messages = round / 4 % 4 == 2;
    for (std::size_t i = 0; i < (flags ? length / 4 + 1 : length); ++i) {
      if (messages && i % 2 == 0)
        i % 4 ? builder.message(next()) : builder.launches(next());
      else if (flags && i % 3 == 0)
        builder.hand_over(next());
      else if (rings && i % 4 == 0)
        builder.hand_back(next());
      else if (rings && several && i % 4 == 2)
        builder.launches(next());
      else
        builder.step(next());
    }
    Execution execution = builder.take();
    Records records(execution, round % 4 >= 2);
    Races found = records.found(), expected = records.expected();
    ASSERT_TRUE(agree(found, records)) << text(execution) << "found:    " << text(found)
                                       << "\nexpected: " << text(expected);
    racy += !found.empty();
  }
  EXPECT_GT(racy, rounds / 10);
}

} // namespace
} // namespace deadheat::test
