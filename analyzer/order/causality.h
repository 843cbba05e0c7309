// Causality inside and across launches: the PTX memory model's synchronization rules (PTX ISA 9.0, section 8.9.4 and
// 8.9.5), applied to synchronization events in an order in which they can have happened.
//
// Rules: program order; bar/barrier {sync, red, arrive} → {sync, red} of the same phase; bar.warp.sync among its mask;
// a release pattern on M synchronizes with an acquire pattern on M when a write of the former precedes a read of the
// latter in observation order (through a chain of read-modify-writes, each link morally strong) and the pattern's
// first and last operation are morally strong; cluster barriers; cp.async and bulk groups; mbarrier phases; the order
// of operations (OperationClocks), griddepcontrol.wait with it.
//
// Proxies (8.6, 8.9.5 proxy-preserved base causality order): what a thread wrote through the generic proxy comes before
// an access through the asynchronous proxy only where a fence.proxy.async lies between on the path of synchronization,
// whoever executes it. One in one direction is a release or an acquire fence besides; that which acquires makes nothing
// visible by itself (one_way_fence). A bulk copy's completion implies one: whoever has observed it has its writes
// (9.7.9.25.4). A generic read comes before a later asynchronous write by synchronization alone: its value has been
// returned, and no write can take it back.
//
// An mbarrier's wait and arrivals default to .cta scope, those from other blocks of the cluster too (9.7.13.15.13), so
// that they do not synchronize. But "all memory accesses requested after" a wait that acquires "are not performed and
// not visible to memory accesses performed prior to mbarrier.arrive having release semantics, in program order, by
// other threads participating in the mbarrier" (9.7.13.15.16, item 4, of threads anywhere, where item 1, of what the
// waiting thread may see, is of threads of the CTA): what was read before such an arrival, of whatever scope, comes
// before what follows the wait. Rings in the shared memory of clusters hand free slots back so. What the arriving
// thread knows to have been read counts too: its value has been returned. So does a bulk copy that it knows to be
// complete: none of what follows the wait was performed when the copy's bytes were there.
//
// PTX has few atomic operations on 1 and 2 bytes, so that compilers make them of those on the word around (libcu++ of
// atom.cas.b32, its loads of ld.b16). By the letter a load of a part and the operation on the whole are not morally
// strong (8.7.1: complete overlap): they race, and the load observes nothing, so that whatever they should have ordered
// races too. Here the load observes what it returned; where that orders the two no better, they race. This is of loads
// of a part of what an atomic operation stored, and of nothing else of different sizes.
//
// A wait for a phase whose outcome the thread does not look at (Site::outcome_unused) acquires where it returns true,
// but the thread goes on the same where it returns false: it orders only where it cannot return false, which is where
// somebody who looked has seen that phase, or a later one, complete, and what the thread does comes after that.
//
// The same of a strong read whose value nobody looks at (StrongAccess::unused): its thread goes on the same whatever it
// returns, so that what it happened to see released orders nothing but what it would have seen in any case
// (unused_reads.cpp).
//
// Fence-SC order (8.9.3) orders any two morally strong fence.sc operations in the order that the run happened to take.
// Race detection does not use that accident: another run need not have that order. Rules::fence_sc_order applies it,
// for those who ask what one execution allows. Where a read tells the order it is none, and used (fence_order.cpp).
//
// Nobody waits for threads that have exited, and barriers do not order what they did either: "prior memory accesses
// requested by this thread" are performed by whoever executes the barrier (9.7.13.1), and its operations synchronize
// with each other (8.9.4). The CUDA programming guide (__syncthreads, 5.4.4.1) waits until the others reach the call
// "or exit", and has "memory ordering among participating threads: the call to __syncthreads*() intrinsics strongly
// happens before any participating thread is unblocked from the wait or exits": who has exited made no call. What they
// did before a barrier that they took part in is ordered by that one.
//
// Memory: what blocks that are over knew is forgotten; locations that released nothing are forgotten between launches.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/order/async_groups.h"
#include "analyzer/order/causality_state.h"
#include "analyzer/order/chain.h"
#include "analyzer/order/clock.h"
#include "analyzer/order/deferred.h"
#include "analyzer/order/operation_clocks.h"
#include "analyzer/order/own_clocks.h"
#include "analyzer/order/restriction.h"
#include "deadheat/memory_model.h"

namespace deadheat::order {

struct StrongAccess {
  ThreadKey thread;
  Location location;
  Ordering ordering = Ordering::relaxed;
  Scope scope = Scope::gpu;
  std::uint32_t bytes = 0;
  bool reads = false, writes = false;
  bool reduction = false; // red: its read forms no acquire pattern
  bool watched = true; // somebody may ask observed() about the location
  bool unused = false; // nothing depends on what it read; there must have been word of such reads (unused_reads())
  std::uint64_t value_read = 0, value_written = 0;
  // Not 0: an element of a vector ("modelled as a set of equivalent memory operations with a scalar data-type", 8.2.2):
  // which one, of how many. The values are the whole vector's, and say nothing beside those of another form.
  std::uint32_t form = 0;
  // Place in the location's order: a read reads the last write with a smaller ticket. Equal when exact; both 0: the
  // order of the calls.
  std::uint64_t order_first = 0, order_last = 0;
};

struct Rules {
  bool observers = true; // keeps what Causality::observed and the result of strong_access need
  bool fence_sc_order = false; // fence.sc operations that are morally strong order each other as they were called
  bool only_marked = false; // ordered() is asked about marked accesses alone; strong ones all acquire and release
  bool one_by_one = false; // with only_marked: no operation runs beside another one, in all of the log
};

class Causality {
 public:
  explicit Causality(const OperationClocks& operations, Rules rules = {}) : operations_(operations), rules_(rules) {}

  // From now on, how the threads of blocks for which it holds synchronize among themselves is left for later
  // (deferred.h): nobody looks at the shared memory of the block of that number. Of launches without clusters.
  void leave_for_later(std::function<bool(std::uint32_t block)> blocks) { leaves_for_later_ = std::move(blocks); }
  std::size_t deferred() const { return deferred_; } // events

  void launch_begin(OperationIndex operation, const Dim3& grid, const Dim3& block, const Dim3& cluster);
  void launch_end(OperationIndex operation);
  // Lanes that do nothing more. Returns the blocks whose shared memory nobody reaches any more: those of a cluster when
  // its last thread is gone.
  std::vector<std::uint32_t> thread_exit(OperationIndex operation, std::uint32_t block, std::uint32_t warp,
                                         std::uint32_t mask);

  // Records up to the stamp are missing or make no sense. What they ordered is not known, so that everything up to it
  // counts as ordered before everything after it.
  void missing(Stamp last) {
    missing_ = std::max(missing_, last);
    if (bulk_pending_) forget_pending(); // which of them complete later is not known either
  }

  // Synchronization, each with the record's stamp (increasing).
  void block_barrier(OperationIndex operation, std::uint32_t block, Stamp now);
  void barrier_arrive(OperationIndex operation, std::uint32_t block, std::uint32_t warp, std::uint32_t mask,
                      std::uint32_t barrier, std::uint32_t phase, bool sync, Stamp now);
  // unseen: arrivals may be missing, so that any thread of the block may be among those who waited.
  void barrier_complete(OperationIndex operation, std::uint32_t block, std::uint32_t barrier, std::uint32_t phase,
                        bool unseen = false);
  void warp_barrier(OperationIndex operation, std::uint32_t block, std::uint32_t warp, std::uint32_t mask, Stamp now);
  void fence(ThreadKey thread, Ordering ordering, Scope scope, Stamp now, Restriction of = Restriction::none);
  // Returns the stamp of the first write of the chain whose last write the access read, and whose writes come before
  // what comes after the access; 0 when there is no such chain.
  Stamp strong_access(const StrongAccess& access, Stamp now);
  // With Rules::only_marked: what these lanes of a warp did up to `now` may be asked about.
  // Behind so many read-modify-writes, what goes through one of them counts as known of all lanes of a warp.
  static constexpr std::uint64_t most_of_lanes = 1 << 14;
  void mark(ThreadKey lane0, std::uint32_t lanes, Stamp now);
  // How much memory it takes what threads know, and locations tell of that; about, and of clocks of the calling thread.
  std::uint64_t told_bytes() const {
    return locations_.size() * (sizeof(LocationState) + most_writes * sizeof(Write)) + Clock::bytes();
  }
  // Of that nothing is kept: everything up to the stamp counts as ordered before everything after it.
  void forget_told(Stamp last);
  // A sufficient condition, for any thread and location: strong_access() would remember nothing.
  bool orders_nothing(Ordering ordering, bool writes) const;
  void cluster_barrier(OperationIndex operation, std::uint32_t block, std::uint32_t warp, std::uint32_t mask,
                       std::uint32_t phase, bool wait, bool relaxed, Stamp now);

  // Groups that copies belong to which these lanes of a warp issue now, by lane. Lanes that issue a group's first copy
  // together share its name; of each its copies are complete when that one has waited for them.
  std::array<AsyncGroup, 32> async_issue(ThreadKey lane0, std::uint32_t lanes);
  void async_commit(ThreadKey lane0, std::uint32_t lanes);
  void async_wait(ThreadKey lane0, std::uint32_t lanes, std::uint32_t pending, bool all, Stamp now);
  // Of one thread.
  AsyncGroup async_issue(ThreadKey thread) {
    return async_issue(lane0_of(thread), lane_bit(thread))[thread.thread() & 31];
  }
  void async_commit(ThreadKey thread) { async_commit(lane0_of(thread), lane_bit(thread)); }
  void async_wait(ThreadKey thread, std::uint32_t pending, bool all, Stamp now) {
    async_wait(lane0_of(thread), lane_bit(thread), pending, all, now);
  }

  // Bulk copies: what one reads and what it writes are groups of their own. Without an object the copy completes with
  // the thread's open bulk group; else with bulk_complete, in the order of issue for each thread and object.
  using BulkGroups = remembered::BulkGroups;
  BulkGroups bulk_issue(ThreadKey thread, const Location* object);
  void bulk_complete(ThreadKey thread, const Location& object, std::uint32_t phase, Stamp now);
  void bulk_commit(ThreadKey thread);
  void bulk_wait(ThreadKey thread, std::uint32_t pending, bool reads_only, Stamp now);

  // Matrix multiplications of warpgroups (wgmma, PTX ISA 9.7.15): all threads of one issue, commit and await the same
  // groups. A group is one affair of them all: whoever knows of a wait for it by any of them knows that its reads are
  // over.
  AsyncGroup matrix_issue(ThreadKey thread);
  void matrix_commit(ThreadKey thread);
  // uncounted: commits may be missing, and which groups it waited for is not known: for all that there are.
  void matrix_wait(ThreadKey thread, std::uint32_t pending, bool uncounted = false);

  // Groups are remembered as long as somebody may ask about them. Is it time to say about which?
  bool many_groups() const { return async_groups_.size() >= many_groups_; }
  void forget_groups(std::vector<AsyncGroup> asked_about);
  std::size_t groups() const { return async_groups_.size(); }

  // fence.proxy.async, of shared or global memory or both.
  void proxy_fence(ThreadKey lane0, std::uint32_t lanes, bool shared, bool global, Stamp now);
  void proxy_fence(ThreadKey thread, bool shared, bool global, Stamp now) {
    proxy_fence(lane0_of(thread), lane_bit(thread), shared, global, now);
  }
  // A proxy fence of one direction, from the generic proxy to the asynchronous or the tensormap one.
  void one_way_fence(ThreadKey thread, Proxy to, Ordering ordering, Scope scope, Stamp now);
  // griddepcontrol.wait: the launch before is complete, and its memory visible.
  void dependency_wait(ThreadKey thread, Stamp now);

  // mbarrier objects: arrivals release into the phase, a successful test of a phase acquires what was released. Of
  // lanes of a warp at once.
  void mbarrier_init(const Location& object);
  void mbarrier_arrive(ThreadKey lane0, std::uint32_t lanes, const Location& object, std::uint32_t phase,
                       Ordering ordering, Scope scope, Stamp now);
  void mbarrier_async_arrive(ThreadKey lane0, std::uint32_t lanes, const Location& object, std::uint32_t phase,
                             Stamp now);
  void mbarrier_async_arrive(ThreadKey thread, const Location& object, std::uint32_t phase, Stamp now) {
    mbarrier_async_arrive(lane0_of(thread), lane_bit(thread), object, phase, now);
  }
  // `unused`: nothing depends on that it was successful; such tests must have been announced.
  void mbarrier_test(ThreadKey lane0, std::uint32_t lanes, const Location& object, std::uint32_t phase,
                     Ordering ordering, Scope scope, bool unused = false);
  // Of one thread.
  void mbarrier_arrive(ThreadKey thread, const Location& object, std::uint32_t phase, Ordering ordering, Scope scope,
                       Stamp now) {
    mbarrier_arrive(lane0_of(thread), lane_bit(thread), object, phase, ordering, scope, now);
  }
  void mbarrier_test(ThreadKey thread, const Location& object, std::uint32_t phase, Ordering ordering, Scope scope,
                     bool unused = false) {
    mbarrier_test(lane0_of(thread), lane_bit(thread), object, phase, ordering, scope, unused);
  }
  void unused_tests() { unused_tests_ = true; } // there may be some from now on
  void unused_reads() { unused_reads_ = true; } // the same of StrongAccess::unused
  void narrow_fences() { narrow_fences_ = true; } // the same of fence.sc of cta or cluster scope

  // "Completion of the asynchronous operation" orders the copy's own accesses (8.9.1.1), and says nothing of what came
  // before the copy. Does whoever knows copies of the one group to be complete know that of the other's, too, which
  // were complete when the former were issued? earlier 0: what was no copy, and came before these.
  bool complete_alike(AsyncGroup group, AsyncGroup earlier, bool of_same_thread) const;
  // Does what `second` does now come after all that the copy's thread knew of others when it issued the copy? `own`:
  // and after what it had done itself.
  bool knows_issue(ThreadKey thread, Stamp stamp, AsyncGroup group, ThreadKey second, bool own) const {
    const Stamp told = this->told(group);
    return ordered(thread, own || !told ? stamp : told, 0, second);
  }
  // For knows_issue(): what the thread itself did from there on is its own. 0: all of it.
  Stamp told(AsyncGroup group) const;
  // Of a group of cp.async: when these lanes waited for it, if they did so together; else 0. From then on their copies
  // are like what they did themselves up to there.
  Stamp completed(AsyncGroup group, std::uint32_t lanes) const {
    const AsyncState& of = group_of(group);
    return of.bulk || (lanes & ~of.complete_lanes) ? 0 : of.complete;
  }
  // Is its block a cluster of its own?
  bool alone(ThreadKey thread) const {
    const Launch* of = launch(thread.operation());
    return of && of->cluster.count() == 1;
  }

  // Does the access (thread, stamp, group) happen before what `second` does now? Program order included; for accesses
  // of asynchronous copies, their group must have been waited for. `what`: the least class of operations that the first
  // access, and with it the second, belongs to. `read`: the first access is one that writes nothing.
  bool ordered(ThreadKey first, Stamp stamp, AsyncGroup group, ThreadKey second, Restriction what = Restriction::none,
               bool read = false) const;
  // The same for a write through the generic proxy and an access through the asynchronous one, to shared memory or not.
  bool ordered_across_proxies(ThreadKey first, Stamp stamp, AsyncGroup group, ThreadKey second, bool shared) const;
  // Is the strong write (stamp) to `location`, made by an access that was watched, observed by a strong read that
  // happens before what `second` does at stamp `now` (causality order's second clause, 8.9.5)? Of reads too many to be
  // remembered the oldest are forgotten: then it may be.
  enum class Observed : std::uint8_t { no, perhaps, yes };
  Observed observed(const Location& location, Stamp write, ThreadKey second, Stamp now) const;
  // Each in the other's scope (8.7)?
  bool mutual(ThreadKey a, Scope a_scope, ThreadKey b, Scope b_scope) const;

  // A sufficient condition that costs little: does everything that the warp of `first` did up to `stamp` happen before
  // whatever any lane of the warp of `second` does now? Of program order it knows nothing.
  bool warp_ordered(ThreadKey first, Stamp stamp, ThreadKey second) const;
  // The same of what that one thread does now.
  bool warp_ordered_for(ThreadKey first, Stamp stamp, ThreadKey second) const;
  // The same across proxies, as ordered_across_proxies().
  bool warp_ordered_across_proxies(ThreadKey first, Stamp stamp, ThreadKey second, bool shared) const;
  // A sufficient condition: do all threads of its block know, as visible to the asynchronous proxy, what the warp of
  // `thread` did to shared memory up to `stamp`?
  bool block_knows_visible(ThreadKey thread, Stamp stamp) const;
  // Does the thread so know all that its block did to it up to the last full barrier?
  bool barrier_is_visible(ThreadKey thread) const;
  // Do all lanes of the thread's warp know the same of the block `other` (block_bits), but for what each did itself?
  bool alike(ThreadKey thread, std::uint64_t other) const {
    const Block* of = find_block(thread, other);
    return !of || of->own.alike(thread.warp());
  }
  // The same for all that the operation (its whole block `block`) did up to `stamp`.
  bool block_ordered(OperationIndex operation, std::uint32_t block, Stamp stamp, ThreadKey second) const;
  bool operation_ordered(OperationIndex operation, Stamp stamp, ThreadKey second) const;

  // A sufficient condition: of what the other blocks of its operation did, none is ordered before what any lane of the
  // thread's warp does now; nor all that the operation did up to any stamp.
  bool knows_no_other_block(ThreadKey thread) const;

  // There were fence.sc operations of .sys scope while there was one device: what they order is known within that
  // alone.
  bool took_device_for_all() const { return took_device_for_all_; }

  // Synchronization edges that rest on a guess: which write a read saw was not certain.
  std::uint64_t assumed_edges() const { return assumed_edges_; }
  // Stamp of the last synchronization that orders something the thread's warp did before it with what others do after;
  // missing records are one.
  Stamp last_sync(ThreadKey thread) const;
  // Of the last full barrier of its block: all that the block did up to there happens before.
  Stamp last_barrier(ThreadKey thread) const {
    const Block* of = known_block(thread);
    return of ? of->newest_barrier : 0;
  }

  // Has the thread seen anything of what that block of its launch did?
  bool knows(ThreadKey thread, std::uint32_t block) const;
  // Has the thread, of a block that is not over, exited, and those that are left come to a full barrier since?
  bool exited_before_barrier(ThreadKey thread, Stamp since) const;
  // For explanations: how many full barriers the block has passed.
  std::uint32_t barriers_passed(ThreadKey thread) const;

 private:
  using LocationHash = remembered::LocationHash;
  using ByScope = remembered::ByScope;
  using Write = remembered::Write;
  using Looked = remembered::Looked;
  using LocationState = remembered::LocationState;
  using Pending = remembered::Pending;
  using Seen = remembered::Seen;
  using Copies = remembered::Copies;
  using LaneCopies = remembered::LaneCopies;
  using Thread = remembered::Thread;
  using Phase = remembered::Phase;
  using Arrived = remembered::Arrived;
  using FenceOrder = remembered::FenceOrder;
  using Block = remembered::Block;
  using Launch = remembered::Launch;
  using MbarrierState = remembered::MbarrierState;
  static constexpr std::size_t most_writes = 8; // of a location

  static ThreadKey lane0_of(ThreadKey thread) {
    return ThreadKey(thread.operation(), thread.block(), thread.thread() & ~31u);
  }
  static std::uint32_t lane_bit(ThreadKey thread) { return 1u << (thread.thread() & 31); }
  template <typename Each>
  void each_alike(std::vector<LaneCopies>& all, std::uint32_t lanes, Each&& each);
  Stamp last_told(ThreadKey thread);
  void forget_pending();
  // As far as nothing of it is left for later. One that nobody remembers is ordered as its operation is.
  const AsyncState& group_of(AsyncGroup group) const {
    static const AsyncState unknown;
    const AsyncState* const found = async_groups_.find(group);
    return found ? *found : unknown;
  }
  bool seen_entry(ThreadKey thread, const ClockEntry& entry) const;
  bool operations_ordered(OperationIndex first, ThreadKey second, bool read = false) const;
  ClockPointer learned(OperationClocks::Place last) const;
  const ClockPointer& inherited(OperationIndex operation, bool waited) const;
  static bool has_waited(const Clock& clock, OperationIndex operation, bool read);
  bool begun_behind(const Clock& clock, OperationIndex first, OperationIndex own, bool read) const;
  Launch* launch(OperationIndex operation) { return const_cast<Launch*>(std::as_const(*this).launch(operation)); }
  const Launch* launch(OperationIndex operation) const;
  Block& block(ThreadKey thread);
  const Block* find_block(ThreadKey thread) const;
  // Where it is asked what the thread knows of the block `other` (block_bits): of its own only what lies in its block
  // tells, of others nothing does unless the block is open. Null: it knows what it knew when it began.
  const Block* find_block(ThreadKey thread, std::uint64_t other) const {
    return for_questions(known_block(thread), thread, other);
  }
  const Block* for_questions(Block* of, ThreadKey thread, std::uint64_t other) const { // `of`: the thread's
    return of && of->deferred ? settled(*of, thread, other) : of;
  }
  const Block* settled(Block& of, ThreadKey thread, std::uint64_t other) const;
  // As they are, whatever is left for later.
  Block* known_block(ThreadKey thread) const;
  Block& known_or_new_block(ThreadKey thread);
  // Leaves the event for later; false: it is to be applied now.
  bool defer(ThreadKey of_block, Block& block, const Deferred::Event& event) {
    if (!block.deferred || block.deferred->applying) return false;
    push_deferred(of_block, block, event);
    return true;
  }
  bool defer(ThreadKey lane0, const Location& object, const Deferred::Event& event) { // of an mbarrier
    return leaves_for_later_ && defer_at(lane0, object, event);
  }
  bool defer_at(ThreadKey lane0, const Location& object, Deferred::Event event);
  void push_deferred(ThreadKey of_block, Block& block, const Deferred::Event& event);
  void settle(ThreadKey of_block); // applies what is left of the block
  void apply_deferred(ThreadKey of_block, Block& block);
  void drop_deferred(Block& block);
  void apply(OperationIndex operation, std::uint32_t index, Block& block, const Deferred::Event& event);
  void apply_block_barrier(OperationIndex operation, std::uint32_t index, Block& block, Stamp now);
  void apply_warp_barrier(ThreadKey lane0, Block& block, std::uint32_t mask, Stamp now);
  void apply_barrier_arrive(ThreadKey lane0, Block& block, std::uint32_t mask, std::uint32_t barrier,
                            std::uint32_t phase, bool sync, Stamp now);
  void apply_barrier_complete(ThreadKey lane0, Block& block, std::uint32_t barrier, std::uint32_t phase, bool unseen);
  void apply_proxy_fence(ThreadKey lane0, Block& block, std::uint32_t lanes, bool shared, bool global, Stamp now);
  void apply_mbarrier_init(const Location& object);
  void apply_mbarrier_arrive(ThreadKey lane0, std::uint32_t lanes, const Location& object, std::uint32_t phase,
                             Ordering ordering, Scope scope, Stamp now);
  void apply_mbarrier_async_arrive(ThreadKey lane0, std::uint32_t lanes, const Location& object, std::uint32_t phase,
                                   Stamp now);
  void apply_mbarrier_test(ThreadKey lane0, std::uint32_t lanes, const Location& object, std::uint32_t phase,
                           Ordering ordering, Scope scope, bool unused);
  void apply_bulk_complete(const Location& object, std::uint32_t phase, Stamp now);
  void apply_bulk_told(ThreadKey thread, const BulkGroups& groups);
  void apply_matrix_wait(ThreadKey thread, Stamp groups);
  Thread& thread(ThreadKey key);
  Thread& known_thread(ThreadKey key); // whatever is left for later
  Copies& copies(ThreadKey key);
  const Thread* find_thread(ThreadKey key) const;
  // What all threads of its block know; a block that has not synchronized has no state.
  const ClockPointer& common_of(const Block* of, ThreadKey thread) const {
    return of ? of->common : inherited(thread.operation(), false);
  }
  // What its block knows, and itself, of the block `other` (block_bits); null: nothing.
  std::array<const Clock*, 2> clocks_of(ThreadKey thread, std::uint64_t other) const;
  static const ClockPointer& own_of(const Block* of, ThreadKey thread) { // null: nothing beyond what its block knows
    static const ClockPointer nothing;
    return of ? of->own.of(thread) : nothing;
  }
  ClockPointer known(ThreadKey thread); // what its block and itself have seen of others
  ReleasedPointer snapshot(ThreadKey thread, Stamp now); // what it did up to now, and what it has seen
  void synced(ThreadKey thread, Stamp now); // marks last_sync
  void acquire(ThreadKey lane0, std::uint32_t lanes, const ClockPointer& clock);
  void acquire(ThreadKey thread, const ClockPointer& clock) { acquire(lane0_of(thread), lane_bit(thread), clock); }
  ClockPointer joined(const ClockPointer& a, const ClockPointer& b);
  // What `thread` can acquire of the first `count` contributions with `scope`.
  ClockPointer acquirable(ThreadKey thread, Chain& chain, std::size_t count, Scope scope) const;
  ClockPointer across_the_device(ThreadKey thread, Chain& chain, std::size_t count, Scope scope) const;
  ClockPointer released_widely(Chain& chain, std::size_t count) const;
  ClockPointer released(Chain& chain, Selection& selection, std::size_t count) const;
  // Is all that it has from the thread's device?
  bool on_one_device(const Chain& chain, ThreadKey thread) const {
    return !operations_.several_devices() || chain.devices == device_bit(operations_.device(thread.operation()));
  }
  // The least scope with which `thread` acquires the contribution; none: with no scope.
  Scope reach(const Contribution& contribution, ThreadKey thread) const;
  void await(ThreadKey thread, const Pending& read);
  ClockPointer awaited(ThreadKey thread, Scope scope);
  void remember_looked_at(const StrongAccess& read, const Write& seen, LocationState& at, Stamp now);
  Seen certain(const StrongAccess& read, const LocationState& at, const Seen& seen);
  void synchronize(ThreadKey thread, const ClockPointer& clock);
  void learn(ThreadKey thread, const ClockPointer& clock);
  void release(ByScope& released, Scope scope, const ReleasedPointer& last);
  void restricted_fence(ThreadKey thread, Ordering ordering, Scope scope, Stamp now, Restriction of);
  void contribute(Chain& chain, ThreadKey thread, Scope scope, ReleasedPointer released, bool with_earlier = false);
  static FenceOrder& fence_order(Block& block, Reach reach);
  bool has_reach(ThreadKey thread, Scope scope, Reach reach) const;
  FenceGroup fence_group(ThreadKey thread, Reach reach) const;
  void fence_precedes(ThreadKey thread, Scope scope, const ReleasedPointer& before, Stamp now);
  void fence_precedes(ThreadKey thread, Reach reach, const ReleasedPointer& before, Stamp now);
  void fence_follows(ThreadKey thread, Scope scope, Stamp now);
  void fence_follows(ThreadKey thread, Reach reach, Stamp now);
  void fence_observed(ThreadKey reader, const ChainPointer& chain, std::size_t count, Stamp now);
  void fence_observed(ThreadKey reader, Reach reach, const ChainPointer& chain, std::size_t count, Stamp now);
  void fences_meet(OperationIndex operation, std::uint32_t index, Block& block);
  void fences_meet(OperationIndex operation, std::uint32_t index, FenceOrder& order);
  ClockPointer before_fences(ThreadKey writer, FenceOrder& order);
  template <typename LanesOf, typename IsBefore>
  ClockPointer joined(FenceOrder& order, ThreadKey of_block, LanesOf&& lanes_of, IsBefore&& is_before) const;
  static const ClockPointer& base_of(FenceOrder::Fence& fence);
  void add_entries(const FenceOrder::Fence& fence, ThreadKey of_block, std::uint32_t lanes,
                   std::vector<ClockEntry>& entries) const;
  void add_fenced(const ChainPointer& chain, ThreadKey writer);
  void add_fenced(const ChainPointer& chain, ThreadKey writer, Reach reach);
  enum class Match : std::uint8_t { no, perhaps, yes };
  template <typename Matches>
  static const Write* observed_write(const LocationState& state, const StrongAccess& access, std::uint64_t offset,
                                     Matches&& matches);
  const Write* observed_around(const StrongAccess& access) const;
  static void make_room(std::vector<Write>& writes);
  const Write* observed_by(const StrongAccess& access, const LocationState& at) const;
  bool watched(const StrongAccess& access) const { return rules_.observers && access.watched; }
  void observe(const StrongAccess& read, const Write& write, Stamp now);
  bool leaves_nothing(const StrongAccess& access) const;
  void pass_on(const StrongAccess& access, Stamp now);
  void hear(ThreadKey thread, const ClockPointer& told);
  static std::size_t location_bit(const Location& location) { // all blocks' shared memory alike
    return location.address * 0x9e3779b97f4a7c15u >> 50;
  }
  bool may_be_known(const Location& location) const {
    return !locations_.empty() && location_bits_[location_bit(location)] && locations_.count(location);
  }
  MbarrierState::Phase& mbarrier_phase(ThreadKey thread, const Location& object, std::uint32_t phase);
  void arrive(Gathered& arrived, const Block& of, ThreadKey lane0, std::uint32_t mask, Stamp now);
  void barrier_of_the_rest(OperationIndex operation, std::uint32_t index, Block& block, Stamp now);
  void forget_block(OperationIndex operation, std::uint32_t index, Block& block);
  void forget_locations();
  bool same_cluster(ThreadKey a, ThreadKey b) const;
  bool same_device(ThreadKey a, ThreadKey b) const { return operations_.same_device(a.operation(), b.operation()); }
  // Does it reach every thread there is?
  bool everywhere(Scope scope) const {
    return scope == Scope::sys || (scope == Scope::gpu && !operations_.several_devices());
  }
  std::uint32_t cluster_of(ThreadKey thread) const;
  bool in_cluster(ThreadKey thread) const;
  std::uint64_t cluster_bits(ThreadKey thread) const { // as block_bits, of the clusters of all operations
    return ThreadKey(thread.operation(), cluster_of(thread), 0).block_bits();
  }

  struct Joined {
    ClockPointer a, b, both;
  };
  std::array<Joined, 16> last_joined_; // by a and b
  struct Proxied {
    ClockPointer of, visible; // the latter: to the asynchronous proxy
  };
  std::array<Proxied, 2> last_proxied_; // of shared memory, of global memory

  struct RecentBlock {
    std::uint64_t bits = ~0ull;
    Block* block = nullptr;
  };

  const OperationClocks& operations_;
  Rules rules_;
  struct RecentLaunch {
    OperationIndex operation = 0;
    const Launch* launch = nullptr; // null: ask
  };
  mutable RecentLaunch recent_launch_;
  mutable std::array<RecentBlock, 32> recent_blocks_; // found lately, by the low bits of block_bits
  std::uint64_t assumed_edges_ = 0;
  Stamp missing_ = 0; // up to here all is ordered before what follows
  std::size_t many_locations_ = 1 << 16; // when to forget those that released nothing
  Chain fence_sc_;
  std::unordered_map<OperationIndex, Launch> launches_;
  // What threads of a launch acquired from others that ran beside it: by chain, and position of the launch there, with
  // that of those before it. What an operation has so by its start, or by its wait for the launch before it
  // (2 · operation + 1): found when it is asked for.
  std::unordered_map<std::uint32_t, std::map<std::uint32_t, ClockPointer>> learned_;
  mutable std::unordered_map<std::uint64_t, ClockPointer> inherited_;
  std::unordered_map<std::uint64_t, Thread> threads_;
  std::unordered_map<Location, LocationState, LocationHash> locations_;
  std::bitset<1 << 14> location_bits_; // by hash: clear where there is surely none
  std::unordered_map<Location, MbarrierState, LocationHash> mbarriers_;
  std::unordered_map<std::uint64_t, std::vector<LaneCopies>> lane_copies_; // by lane 0 of the warp
  AsyncGroups async_groups_;
  std::size_t many_groups_ = 1 << 16;
  std::size_t bulk_pending_ = 0; // of all blocks
  std::function<bool(std::uint32_t)> leaves_for_later_; // empty: nothing
  std::size_t deferred_ = 0; // events of all blocks
  bool unused_tests_ = false, unused_reads_ = false, narrow_fences_ = false, took_device_for_all_ = false;
  bool marked_ = false; // something was
  std::uint64_t exchanges_ = 0; // read-modify-writes since then
};

} // namespace deadheat::order
