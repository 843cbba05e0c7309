// Litmus tests said in a line: an execution, event by event, and the races that it has.
//
// Thread-safety: none.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "tests/unit/order_records.h"

namespace deadheat::test {

enum Where : std::uint64_t { x = memory, y = memory + 64, z = memory + 128, d = memory + 192 };

// Which thread: block and index in the block. 0 and 1 are lanes of one warp, 33 is in another warp.
struct At {
  std::uint32_t block, thread;
};
inline constexpr At t0{0, 0}, t1{1, 0}, t2{1, 33}, same_block{0, 33}, same_warp{0, 1};

// Events of an execution in the order in which they happen; every access gets the next line, from 1.
class Litmus {
 public:
  explicit Litmus(std::uint32_t blocks_per_cluster = 1) { execution_.blocks_per_cluster = blocks_per_cluster; }

  Litmus& write(At at, std::uint64_t where, Ordering ordering = Ordering::weak, Scope scope = Scope::none,
                std::uint32_t bytes = 4) {
    return access(at, AccessKind::write, where, ordering, scope, bytes);
  }
  Litmus& read(At at, std::uint64_t where, Ordering ordering = Ordering::weak, Scope scope = Scope::none,
               std::uint32_t bytes = 4) {
    return access(at, AccessKind::read, where, ordering, scope, bytes);
  }
  Litmus& atomic(At at, std::uint64_t where, Ordering ordering = Ordering::relaxed, Scope scope = Scope::gpu,
                 std::uint32_t bytes = 4) {
    return access(at, AccessKind::atomic, where, ordering, scope, bytes);
  }
  Litmus& reduction(At at, std::uint64_t where, Ordering ordering = Ordering::relaxed, Scope scope = Scope::gpu) {
    atomic(at, where, ordering, scope);
    execution_.events.back().reduction = true;
    return *this;
  }
  Litmus& failed_cas(At at, std::uint64_t where, Ordering ordering, Scope scope = Scope::gpu) {
    atomic(at, where, ordering, scope);
    execution_.events.back().stored = false;
    return *this;
  }
  Litmus& unused() { // nobody looks at what the last read returned
    execution_.events.back().unused = true;
    return *this;
  }
  Litmus& with_other_lane() { // of its warp, for which it is one instruction
    Event event = execution_.events.back();
    event.thread ^= 1;
    event.together = true;
    event.instruction = std::uint32_t(execution_.events.size() - 1);
    return add(event);
  }
  Litmus& read_pair(At at, std::uint64_t where, Ordering ordering, Scope scope) { // a vector of two: one line
    read(at, where, ordering, scope);
    Event second = execution_.events.back();
    second.address += second.bytes;
    second.continued = true;
    return add(second);
  }
  // `of_shared`: of what is done to shared memory only (.sync_restrict).
  Litmus& fence(At at, Scope scope = Scope::gpu, Ordering ordering = Ordering::acq_rel, bool of_shared = false) {
    Event event = of(at, Event::Kind::fence);
    event.of_shared = of_shared;
    event.ordering = ordering;
    event.scope = scope;
    return add(event);
  }
  Litmus& block_barrier(std::uint32_t block) {
    ++group_;
    for (std::uint32_t thread : {0u, 1u, 33u})
      if (!gone({block, thread})) grouped({block, thread}, Event::Kind::block_barrier);
    return *this;
  }
  Litmus& warp_barrier(std::uint32_t block) { // of lanes 0 and 1
    group_ += 1 + group_ % 2; // order_records.h: these groups are masks of two lanes
    for (std::uint32_t thread : {0u, 1u}) grouped({block, thread}, Event::Kind::warp_barrier);
    return *this;
  }
  Litmus& exit(At at) { return add(of(at, Event::Kind::exit)); }
  Litmus& arrive(At at, std::uint32_t phase = 0) { return barrier(at, Event::Kind::arrive, phase); }
  Litmus& sync(At at, std::uint32_t phase = 0) { // arrives as the last, and leaves
    arrive(at, phase);
    return barrier(at, Event::Kind::leave, phase);
  }
  Litmus& cluster_arrive(At at, bool relaxed = false) {
    Event event = of(at, Event::Kind::cluster_arrive);
    event.relaxed = relaxed;
    return add(event);
  }
  Litmus& cluster_wait(At at) { return add(of(at, Event::Kind::cluster_wait)); }
  // cp.async of 4 bytes from `source` to offset 0 of the block's shared memory: its read and write are one line.
  Litmus& copy(At at, std::uint64_t source) {
    Event event = of(at, Event::Kind::copy_issue);
    event.line = 0;
    add(event);
    event.kind = Event::Kind::copy;
    event.group = std::uint32_t(execution_.events.size() - 1);
    event.address = source;
    event.line = ++line_;
    add(event);
    event.access = AccessKind::write;
    event.shared = true;
    event.address = 0;
    return add(event);
  }
  Litmus& commit(At at) { return add(of(at, Event::Kind::copy_commit)); }
  Litmus& wait(At at, std::uint32_t pending = 0) {
    Event event = of(at, Event::Kind::copy_wait);
    event.phase = pending;
    return add(event);
  }
  // cp.async.mbarrier.arrive, performed at once. Objects 1 and 2 lie in block 0, 3 and 4 in block 1, and so on.
  Litmus& copy_arrive(At at, std::uint32_t object, std::uint32_t phase = 0) {
    Event event = of(at, Event::Kind::copy_arrive);
    event.barrier = object;
    event.phase = phase;
    return add(event);
  }
  Litmus& mbarrier_arrive(At at, std::uint32_t object, std::uint32_t phase = 0, Scope scope = Scope::cta,
                          Ordering ordering = Ordering::release) {
    return mbarrier(at, Event::Kind::mbarrier_arrive, object, phase, scope, ordering);
  }
  Litmus& mbarrier_test(At at, std::uint32_t object, std::uint32_t phase = 0, Scope scope = Scope::cta,
                        Ordering ordering = Ordering::acquire) {
    return mbarrier(at, Event::Kind::mbarrier_test, object, phase, scope, ordering);
  }
  // One whose outcome nobody looks at.
  Litmus& unused_test(At at, std::uint32_t object, std::uint32_t phase = 0, Scope scope = Scope::cta,
                      Ordering ordering = Ordering::acquire) {
    mbarrier_test(at, object, phase, scope, ordering);
    execution_.events.back().unused = true;
    return *this;
  }
  // cp.async.bulk of 4 bytes from `source` to offset 0 of the shared memory of the block that has `object`: its read
  // and write are one line.
  Litmus& bulk_load(At at, std::uint64_t source, std::uint32_t object) { return bulk(at, source, object, false); }
  Litmus& bulk_store(At at, std::uint64_t destination) { return bulk(at, destination, 0, true); }
  // st.async to offset 0 of the shared memory of the block that has `object`.
  Litmus& async_store(At at, std::uint32_t object) { return bulk(at, 0, object, false, true); }
  Litmus& complete(std::uint32_t phase = 0) { // of the last bulk copy
    Event event = execution_.events[bulk_issue_];
    event.kind = Event::Kind::bulk_complete;
    event.line = 0;
    event.group = std::uint32_t(bulk_issue_);
    event.phase = phase;
    return add(event);
  }
  Litmus& bulk_commit(At at) { return add(of(at, Event::Kind::bulk_commit)); }
  Litmus& bulk_wait(At at, std::uint32_t pending = 0, bool reads_only = false) {
    Event event = of(at, Event::Kind::bulk_wait);
    event.phase = pending;
    event.relaxed = reads_only;
    return add(event);
  }
  Litmus& proxy_fence(At at, bool of_shared = true) {
    Event event = of(at, Event::Kind::proxy_fence);
    event.shared = of_shared;
    return add(event);
  }
  // fence.proxy.async::generic.{release,acquire}.sync_restrict of cluster scope, fence.proxy.tensormap::generic.
  Litmus& async_fence(At at, Ordering ordering) { return one_way(at, ordering, Scope::cluster, true); }
  Litmus& tensormap_fence(At at, Ordering ordering, Scope scope = Scope::gpu) {
    return one_way(at, ordering, scope, false);
  }
  Litmus& dependency_wait(At at) {
    if (execution_.launches.size() == 1) dependent_launch(2);
    ended(execution_.launches[at.block / blocks_per_launch].primary);
    return add(of(at, Event::Kind::dependency_wait));
  }
  // The next launch begins, behind all of its stream, and of another stream that it waits for; or beside the last of
  // its stream, which is over when a thread waits. Without a word, one begins at first, and a second beside it with the
  // first event of its blocks.
  Litmus& launch(std::uint32_t stream, std::uint32_t waits_for = 0, std::uint32_t device = 0) {
    Launched launched;
    launched.stream = stream;
    launched.device = device;
    launched.waits_for = waits_for;
    for (std::uint32_t i = 0; i < execution_.launches.size(); ++i) {
      const std::uint32_t other = execution_.launches[i].stream;
      if (other == stream || other == waits_for) launched.after.push_back(i);
    }
    return begin(launched);
  }
  Litmus& dependent_launch(std::uint32_t stream) {
    Launched launched;
    launched.stream = stream;
    for (std::uint32_t i = 0; i < execution_.launches.size(); ++i) {
      if (execution_.launches[i].stream != stream) continue;
      launched.after = execution_.launches[i].after;
      launched.primary = i;
    }
    return begin(launched);
  }
  // Two launches beside each other, the second on another device.
  Litmus& two_devices() { return launch(2).launch(3, 0, 1); }
  Litmus& end(std::uint32_t launch) {
    ended(launch);
    return *this;
  }
  // `owner`: the block whose shared memory it is.
  Litmus& shared_read(At at, std::uint32_t owner = ~0u, Ordering ordering = Ordering::weak, Scope scope = Scope::none) {
    return shared(at, AccessKind::read, owner, ordering, scope);
  }
  Litmus& shared_write(At at, std::uint32_t owner = ~0u, Ordering ordering = Ordering::weak,
                       Scope scope = Scope::none) {
    return shared(at, AccessKind::write, owner, ordering, scope);
  }

  // The races, as lines; the expectation is said twice, to the oracle and to the detector.
  void races(const Races& expected) {
    run(execution_);
    Records records(execution_, false);
    EXPECT_EQ(records.expected(), expected) << "the oracle";
    EXPECT_EQ(records.found(), expected) << "the detector";
  }
  void none() { races({}); }
  // What a report says of the first race.
  std::string why() {
    run(execution_);
    return Records(execution_, false).why();
  }

 private:
  static Event of(At at, Event::Kind kind) {
    Event event;
    event.kind = kind;
    event.block = at.block;
    event.thread = at.thread;
    return event;
  }
  Litmus& add(const Event& event) {
    if (execution_.launches.empty()) launch(2);
    if (event.launch() == 1 && execution_.launches.size() == 1) dependent_launch(2);
    execution_.events.push_back(event);
    return *this;
  }
  Litmus& one_way(At at, Ordering ordering, Scope scope, bool async) {
    Event event = of(at, Event::Kind::proxy_fence);
    event.ordering = ordering;
    event.scope = scope;
    event.of_shared = event.shared = async;
    return add(event);
  }
  Litmus& begin(const Launched& launched) {
    const std::uint32_t number = std::uint32_t(execution_.launches.size());
    execution_.launches.push_back(launched);
    return add(of({number * blocks_per_launch, 0}, Event::Kind::launch_begin));
  }
  void ended(std::uint32_t launch) {
    if (ended_.insert(launch).second) add(of({launch * blocks_per_launch, 0}, Event::Kind::launch_end));
  }
  bool gone(At at) const {
    return std::any_of(execution_.events.begin(), execution_.events.end(), [&](const Event& event) {
      return event.kind == Event::Kind::exit && event.block == at.block && event.thread == at.thread;
    });
  }
  Litmus& access(At at, AccessKind kind, std::uint64_t where, Ordering ordering, Scope scope, std::uint32_t bytes) {
    Event event = of(at, Event::Kind::access);
    event.access = kind;
    event.address = where;
    event.bytes = bytes;
    event.ordering = ordering;
    event.scope = scope;
    event.line = ++line_;
    return add(event);
  }
  Litmus& shared(At at, AccessKind kind, std::uint32_t owner, Ordering ordering, Scope scope) {
    access(at, kind, 0, ordering, scope, 4);
    execution_.events.back().shared = true;
    execution_.events.back().owner = owner;
    return *this;
  }
  Litmus& mbarrier(At at, Event::Kind kind, std::uint32_t object, std::uint32_t phase, Scope scope, Ordering ordering) {
    Event event = of(at, kind);
    event.barrier = object;
    event.phase = phase;
    event.scope = scope;
    event.ordering = ordering;
    return add(event);
  }
  Litmus& bulk(At at, std::uint64_t global, std::uint32_t object, bool store, bool generic = false) {
    Event event = of(at, Event::Kind::bulk_issue);
    event.barrier = object;
    event.generic = generic;
    add(event);
    bulk_issue_ = execution_.events.size() - 1;
    event.kind = Event::Kind::bulk;
    event.group = std::uint32_t(bulk_issue_);
    event.line = ++line_;
    for (bool writes : {false, true}) {
      if (generic && !writes) continue;
      event.access = writes ? AccessKind::write : AccessKind::read;
      event.shared = writes != store;
      event.address = event.shared ? 0 : global;
      event.owner = event.shared && object ? (object - 1) / 2 : at.block;
      add(event);
    }
    return *this;
  }
  void grouped(At at, Event::Kind kind) {
    Event event = of(at, kind);
    event.group = group_;
    add(event);
  }
  Litmus& barrier(At at, Event::Kind kind, std::uint32_t phase) {
    Event event = of(at, kind);
    event.barrier = 1;
    event.phase = phase;
    return add(event);
  }

  Execution execution_;
  std::uint32_t line_ = 0, group_ = 0;
  std::size_t bulk_issue_ = 0; // the last one's
  std::set<std::uint32_t> ended_; // launches
};

inline constexpr Ordering weak = Ordering::weak, relaxed = Ordering::relaxed, acquire = Ordering::acquire,
                          release = Ordering::release, acq_rel = Ordering::acq_rel, vol = Ordering::volatile_;
inline constexpr Scope cta = Scope::cta, cluster = Scope::cluster, gpu = Scope::gpu, sys = Scope::sys, no = Scope::none;

} // namespace deadheat::test
