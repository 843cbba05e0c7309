// Holds: whoever reaches `held` waits there until `until` has been performed (deadheat/schedule.h).
//
// The rest of the run follows the natural order, with the smallest detour that brings `until` about: its thread runs,
// and what that thread waits for, and then the held access itself; everything else goes on as if nothing had happened.
// When nothing else can go on the hold is released, unless the held access is a write and memory can still look to
// `until` as if it had not happened: a read or atomic then sees the bytes from before the write, a write is overtaken
// by the held one. Races allow that (nothing orders the two, so the read may see either write, PTX ISA 8.10; weak
// memory needs no delay that others could notice). It is not done where a barrier, or a release of the one thread and
// an acquire of the other in scopes that include each other, come between the two.
//
// A hold in place delays nobody: the write is performed where it comes, and `until` reads the bytes from before it.
// Under the natural order that is a run in which the recorded one's order of events holds up to the read, so what the
// analyzer found unordered there is unordered here. It is not done when others have written the bytes since, or the
// thread of `until` has executed its site on them after the write already (PTX ISA 8.10.5).
//
// In place a read that is held may see what `until` writes later: nothing orders it before that (PTX ISA 8.10: a read
// may see any write that it does not come before, and that no other hides). What that is a run without tells
// (Hold::foreseen), and where the write then writes something else, the two were no execution: no value comes from
// itself (8.10.4, "No Thin Air").
//
// A patient hold makes no detour: who is run ahead of the others need not come to `until`, as where the last of several
// blocks does what the others leave to it.
//
// The sides of a hold are accesses of threads, cp.async copies, or whole operations (AccessName::launch == 0).
//
// Thread-safety: none.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "deadheat/schedule.h"
#include "replay/device/block.h"

namespace deadheat::device {

class Machine;

class Holds {
 public:
  enum class Action : std::uint8_t { go, hold };

  explicit Holds(const std::vector<Hold>& holds);

  // ---- launches
  void begin(Launch& launch); // marks the sites at which its named blocks must stop
  void ended(const Launch& launch);
  bool names(std::uint32_t launch, std::uint32_t block) const;

  // ---- threads of named blocks
  Action reached(Block& block, const engine::ThreadContext& thread); // stopped before pending_site
  // The thread was resumed and stopped again. True: a held thread may go on now.
  bool resumed(Block& block, const engine::ThreadContext& thread);
  // About to be resumed: for how many visible operations. Shows the thread the memory that it shall see.
  std::int64_t quantum(const Block& block, const engine::ThreadContext& thread, std::int64_t otherwise);
  // These lanes (by warp) have met at a barrier.
  void met(const Block& block, const std::array<std::uint32_t, max_warps>& lanes);
  bool exited(Block& block, std::uint32_t warp, std::uint32_t lanes);
  void met(const Cluster& cluster); // all of its threads have
  // ---- copies: sets `hold` and `until` of a copy just issued
  void copy_issued(Block& block, const engine::ThreadContext& thread, AsyncCopy& copy);
  bool delays(std::int32_t hold) const;
  // A copy is about to be performed: shows it the memory that it shall see.
  void show(const AsyncCopy& copy);
  bool copied(const AsyncCopy& copy); // was performed. True: somebody may go on now

  // ---- operations
  bool may_begin(std::uint32_t operation);
  void operation_done(std::uint32_t operation);
  // What waits now, and for what.
  std::vector<Hold> unmet() const;

  bool waiting() const { return waiting_ != 0; } // somebody is held, or was and has not gone on yet
  std::uint64_t seen() const; // executions of named sites so far that may come to matter
  // Runs what brings the awaited accesses about, as far as it can go.
  void detour(Machine& machine);
  bool release_one(Machine& machine); // nothing else can go on; false: nobody is held
  std::vector<std::uint8_t> states() const; // ChoiceSummary::hold_state
  bool apart() const; // ChoiceSummary::held_apart
  Written until_wrote() const { return states_.empty() ? Written() : states_.front().until_wrote; }
  bool old_shown() const { return old_shown_; } // ChoiceSummary::old_shown

 private:
  struct Bytes {
    const std::uint8_t *begin = nullptr, *end = nullptr; // none: not known
  };
  struct State {
    Hold hold;
    Bytes held_bytes, until_bytes; // of accesses of threads, once they have been reached
    std::uint64_t held_seen = 0, until_seen = 0; // executions of the site by the thread so far
    bool waits = false; // the held side is there and waits
    bool reached = false; // the held side has been reached, waiting or not
    bool until_done = false, until_gone = false, released = false;
    bool performs_until = false; // the next resumption of the thread performs it
    bool performs_held = false; // in place: the next resumption performs the write
    bool before_held = false; // until was performed before held was reached, or while it waited
    bool urgent = false; // the held thread shall perform its access now
    Block* block = nullptr; // of the held thread or copy
    // A held write that was performed, and that `until` shall not see:
    bool unseen = false, shown = false, released_by_held = false, acquired_by_until = false, met = false;
    // `until` is a bulk copy and the held write an ordinary one: only a fence.proxy.async between makes it see that.
    bool across = false, proxy_fenced = false;
    std::uint8_t* at = nullptr;
    std::vector<std::uint8_t> before, after; // bytes at `at`
    bool foresees = false; // the held read, which has been reached, is one that may see what `until` writes
    std::uint64_t until_address = 0;
    Written until_wrote;
    bool free() const { return until_done || until_gone || released; }
  };
  static Bytes bytes_before(const Block& block, const engine::ThreadContext& thread); // of the access to be performed
  bool let_go(State& state); // the wait is over
  bool drive(Machine& machine, State& state);
  void settle_held(Machine& machine, State& state);
  bool can_be_unseen(Machine& machine, State& state);
  static void foresee(State& state, const Block& block, const engine::ThreadContext& thread);
  void reached_in_place(State& state, Block& block, const engine::ThreadContext& thread);
  void watch(State& state, const Block& block, const engine::ThreadContext& thread);
  void count_waiting();

  std::vector<State> states_;
  std::uint32_t waiting_ = 0;
  bool old_shown_ = false;
};

} // namespace deadheat::device
