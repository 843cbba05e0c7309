// What is collected of a race to say why its two accesses are unordered (explain.h): what either thread, and the blocks
// that they are in, did to synchronize between the two, a bounded amount. "The first" and "the second" are the race's
// sides.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "analyzer/detect/detector.h"

namespace deadheat::detect::why {

inline constexpr std::size_t most_flags = 64; // remembered a race, of each kind and, behind the first access, each site

struct Mark { // a site that was executed
  std::uint32_t module = 0, site = 0;
  bool executed = false;
  Mark() = default;
  Mark(std::uint32_t in, std::uint32_t number) : module(in), site(number), executed(true) {}
  friend bool operator==(const Mark&, const Mark&) = default;
  explicit operator bool() const { return executed; }
};
struct Arrival {
  Mark mark;
  std::uint32_t barrier = 0, phase = 0;
  bool sync = true;
};
struct Phase { // of an mbarrier
  Mark mark;
  std::uint32_t block = 0;
  std::uint64_t address = 0;
  std::uint32_t phase = 0;
  Scope scope = Scope::cta;
  Ordering ordering = Ordering::weak; // of an arrival or a wait
};
using Object = std::pair<std::uint32_t, std::uint64_t>; // an mbarrier: block and address
using Flag = std::pair<std::uint64_t, std::uint64_t>; // 0, or of shared memory one more than the block's bits; address
struct Fence {
  Mark mark;
  Ordering ordering = Ordering::sc;
  Scope scope = Scope::none;
  order::Stamp stamp = 0;

  bool releases() const { return mark && is_release(ordering); }
  bool acquires() const { return mark && is_acquire(ordering); }
  // Is it the wider of two that release (acquire), or the only one that does?
  bool releases_more(const Fence& than) const {
    return !than.mark || std::pair(is_release(ordering), scope) > std::pair(is_release(than.ordering), than.scope);
  }
  bool acquires_more(const Fence& than) const {
    return !than.mark || std::pair(is_acquire(ordering), scope) > std::pair(is_acquire(than.ordering), than.scope);
  }
  void keep_widest(const Fence& later) { // the last of those that release
    if (!mark || !releases_more(later)) *this = later;
  }
};
// An access to what one thread tells another by: a strong one, or a plain one that races with strong ones.
struct FlagUse {
  Mark mark;
  order::ThreadKey thread;
  Ordering ordering = Ordering::relaxed;
  Scope scope = Scope::none;
  bool reads = false, writes = false;
  bool unused = false; // nobody looks at what it returned
  bool waits = false; // it is a wait loop's, or acquires
  bool in_shared = false; // the flag is in shared memory
  order::Stamp stamp = 0;

  // Does the value say whether something has happened? Strong loads that neither wait nor draw a number fetch data.
  bool looks() const { return waits || (writes && !unused); }
  bool in_first_block(const FoundRace& race) const { return thread.block_bits() == race.first.thread.block_bits(); }
  bool in_second_block(const FoundRace& race) const { return thread.block_bits() == race.second.thread.block_bits(); }
};
struct FlagWrite {
  FlagUse use;
  Fence before; // the writer's fence since the first access: of those that release the last of the widest scope
  bool barrier_before = false;
  bool handed_on = false; // the first's thread wrote the flag before, as who passes a lock on
  bool lent = false; // `before` is the first's, and a barrier stands between
  Fence released = {}; // as a release of the flag by this thread, ahead of it: strong writes behind it are part of that
  Mark over = {}; // a store: what it overwrites, by which the first's thread released
  std::optional<FlagUse> lost_to = {}; // a store behind it, or an atomic operation that is none to the two

  bool releases() const {
    return is_strong(use.ordering) && (is_release(use.ordering) || released.mark || before.releases());
  }
};
struct FlagWrites { // the last by the first's thread, and by others of its block
  std::optional<FlagWrite> own, other;
  bool ever_own = false;
};
// Places that a thread read on the line of a race, the first few, and whether it wrote them there afterwards.
using LineReads = std::map<std::uint64_t, bool>;
// How the author passes a message.
struct Message {
  FlagWrite write;
  FlagUse read;
  Fence after; // the reader's first fence of enough scope since, else the last
  bool barrier_after = false;
  Fence behind_barrier = {}; // by the second's thread, behind that barrier

  // Threads that draw numbers from one counter mean no message by it, unless something says so.
  bool deliberate() const {
    return write.before.mark || is_release(write.use.ordering) || write.released.mark ||
           !is_strong(write.use.ordering) || after.mark || read.waits;
  }
};
// A third block that hears from the first's, and tells the second's.
struct Relay {
  Message in; // its barriers and fences since
  std::map<Flag, FlagWrite> writes;
  std::optional<Message> out;
};
struct Case {
  const FoundRace* race = nullptr;
  Mark common; // FoundRace::common
  Arrival first, second; // the last barrier that the one side alone came to between them
  Arrival first_before, second_before;
  bool exited = false; // the first's thread, since its access
  Mark early; // the first's arrival, before its access, at the barrier that the second then waits at
  Mark warp_barrier; // bar.warp.sync between them, with only one of the lanes in its mask
  std::uint32_t warp_mask = 0;
  Mark warp_value; // shfl, vote, match, redux between them
  Fence first_fence, second_fence;
  Fence just_before; // the first's last before its access, behind its barriers
  Mark restricted; // such a fence (order::Restriction) of either thread since the first access
  Mark async_wait;
  std::uint32_t async_pending = 0;
  bool async_reads_only = false;
  // Of mbarriers: where the first's thread first arrived after its access, or its bulk copy completed; what the
  // second's thread last saw complete, and what it last tested without looking at the outcome.
  Phase arrived, completed, tested, unlooked;
  std::map<Object, Phase> arrived_before; // the first's last
  std::map<Object, Phase> tested_of; // the last that the second's thread saw complete of each
  std::map<Object, Phase> relaxed_of; // that others of its block did by a .relaxed wait
  bool unlooked_succeeded = false;
  Mark proxy_fence, proxy_fence_before; // of either thread, since the first access and before it
  Mark cluster_arrive, cluster_arrive_before, cluster_wait;
  bool cluster_relaxed = false;
  // Of the first side's block; `fences` since the first access, of other threads since the barrier behind it.
  std::map<order::ThreadKey, Fence> fences, fences_before;
  bool barrier = false; // of the first thread, since the first access
  std::uint32_t met = 0; // lanes of its warp that bar.warp.sync had it wait for since
  LineReads first_reads, second_reads;
  std::map<Flag, FlagWrites> writes; // since the first access
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> flags_of; // of `writes`, by module and site
  std::array<std::optional<Message>, 4> messages; // the last; 2 more: the first's thread wrote, 1: the second's read
  std::map<Flag, FlagWrite> writes_before; // by others of the first's block, since its last barrier before
  std::map<Flag, FlagWrite> writes_behind; // by the second's
  std::optional<Message> early_message, late_message;
  // What other threads of the first's block look at in loops that wait, while its thread comes to no barrier; and
  // where one of them still does, behind both.
  std::map<order::ThreadKey, std::pair<Flag, Mark>> waiting;
  Mark still_waiting;
  // The last wait of the second's block, in between, for what the first's has not written since its access.
  std::optional<std::pair<Flag, Mark>> waited_elsewhere;
  // What the first's block wrote, and the second's reads behind its access only.
  std::optional<Message> heard_late;
  bool second_passed = false; // a barrier, behind its access
  std::set<Flag> answered; // flags that the second's block writes there
  std::map<std::uint64_t, Relay> relays; // by the third block's bits
  std::map<order::ThreadKey, Fence> relay_fences; // of their threads

  bool has_message() const {
    return std::any_of(messages.begin(), messages.end(), [](const auto& message) { return message.has_value(); });
  }
  // A barrier that one side's thread comes to, before the first's access, between the two, or on the second's way to
  // its own; `lanes`: bar.warp.sync, of those of its warp.
  void first_meets_before();
  void first_meets();
  void first_meets(std::uint32_t lanes);
  void second_meets();
  void second_meets(std::uint32_t lanes);
  void third_meets(std::uint64_t block); // any thread of a third block
  // Another thread of the first's block looks at a flag, while the first comes to no barrier.
  void note_waiting(const Flag& flag, const FlagUse& use);
};

// Is the other one of those lanes, and of the thread's warp?
bool meets(std::uint32_t lanes, order::ThreadKey thread, order::ThreadKey other);

} // namespace deadheat::detect::why
