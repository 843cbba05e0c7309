// Systematic exploration of small runs: every order of their visible operations that can matter, once each.
//
// Two runs that differ only in the order of operations that commute do the same (one Mazurkiewicz trace). The algorithm
// is source-DPOR with sleep sets (Abdulla, Aronis, Jonsson, Sagonas: Optimal Dynamic Partial Order Reduction, POPL
// 2014): after each run every pair of operations that conflict and that nothing orders becomes a place to come back to,
// where a thread that leads to the other order goes first. Barriers and rendezvous order what comes before and after
// them. Each trace is run once; runs that turn out to repeat one are cut short, and not counted.
//
// Operations conflict when they touch a byte in common and one writes; integer reductions (red.add …) do not conflict
// with their like. A loop that waits for a value is left out of the choice until the value has changed, so it is one
// wait however often it would look. With old values (Schedule::weak) the value that a read returns is a choice, too,
// and fence.sc operations conflict with each other.
//
// Copies and sets of streams are operations like those of threads, performed at once, and so are groups of cp.async.
// Launches begin as soon as they can; their threads may wait. What streams, events and waits of the host order comes
// one after another.
//
// Arrivals at an mbarrier or a barrier of a cluster commute, and who waits for a phase comes after all arrivals at it:
// there is no choice between them, as long as every arrival at a phase comes after those at the phase before, and the
// phase is not over before everybody has waited for the one before; else beyond() is told.
//
// With newest values, stores of the same bytes commute, too; and a copy whose destination nobody reads is no reader.
//
// Threads that share no memory but what none of them writes fall into groups, and what one group does is the same
// whatever order the others take. So with `by_groups` each group's orders are run while the others keep theirs: the sum
// of the groups' traces in place of the product. That holds as long as no run shows two groups to touch each other's
// memory, nor that the order of streams leads from one group to another and back; then it starts again without groups.
//
// Not chosen, and told by beyond(): host callbacks, allocations and large copies beside other operations, bulk copies,
// arrivals of copies and dependent launches, mbarriers that are polled or count bytes, opaque instructions, phases that
// do not wait for each other, blocks that find no room, what activemask answers, polling hosts.
// Lanes converge as the engine has them.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "replay/device/chooser.h"

namespace deadheat::search {

class Exploration final : public device::Chooser {
 public:
  struct Unread {
    std::uint32_t operation = 0;
    std::uint64_t address = 0, bytes = 0; // that it writes
  };
  struct Limits {
    std::size_t operations = 4096, threads = 256; // of a run; beyond, nothing is explored
    bool old_values = false; // runs are weak
    bool by_groups = false;
    std::vector<Unread> unread = {}; // copies to memory that nobody reads, as far as is known
  };
  explicit Exploration(Limits limits) : limits_(limits) {}

  void begin(); // before each run
  // After it. False: there is no other run to make.
  bool end();
  // The last run repeated one that was made before: its outputs say nothing new.
  bool redundant() const { return redundant_; }
  std::uint64_t traces() const { return traces_; } // runs so far that were not
  std::size_t groups() const { return groups_; } // of threads, that were explored one by one; 1: all together
  bool was_read() const { return was_read_; } // memory of Limits::unread was; runs so far do not count
  // Why what has been run is not everything, even when end() is false: one phrase; empty: it is.
  const std::string& beyond() const { return beyond_; }

  // ---- device::Chooser
  std::size_t choose(const std::vector<device::NextAccess>& able,
                     const std::vector<device::NextAccess>& waiting) override;
  void stuck(const std::vector<device::NextAccess>& waiting) override;
  std::size_t age(std::size_t count) override;
  void met(std::uint32_t operation, std::uint32_t block, const std::vector<std::uint32_t>& threads) override;
  void copies_waited(std::uint32_t operation, std::uint32_t block, std::uint32_t thread, std::uint32_t groups) override;
  void arrived(const Agent& who, const Object& at, std::uint32_t phase, bool completes) override;
  void waited(const Agent& who, const Object& at, std::uint32_t phase) override;
  void wrote(std::uint64_t value) override;
  void submitted(std::uint32_t operation, const std::vector<std::uint32_t>& after) override;
  void completed(std::uint32_t operation) override;
  void host_waited(const std::vector<std::uint32_t>& operations) override;
  void beyond(const char* what) override;

 private:
  using ThreadId = std::uint32_t;
  using Clock = std::vector<std::uint32_t>; // of each thread, how many operations come before
  struct Next {
    ThreadId thread = 0;
    device::NextAccess access;
  };
  struct Node { // the state before an operation
    std::vector<Next> able;
    std::vector<ThreadId> asleep; // whose next operation has been explored, here or before
    std::vector<ThreadId> backtrack; // who shall go first here in some run
    ThreadId chosen = 0;
    std::size_t age = 0, ages = 1;
  };
  struct Event {
    Next what;
    std::uint32_t number = 0; // of its thread, from 1
    Clock clock; // what comes before it, itself included
  };
  // The operations at a byte that came last and that commute with each other, and those before them.
  struct Byte {
    std::vector<std::uint32_t> last, before;
  };
  using Place = std::tuple<std::uint64_t, std::uint64_t>; // memory, address

  struct Operation { // of a stream
    Clock submitted; // what the host knew of then
    std::vector<std::uint32_t> after;
    Clock done;
    std::set<std::uint32_t> before; // all operations that come before it
  };
  struct Phase {
    Clock arrivals;
    std::vector<std::pair<ThreadId, std::uint32_t>> waits; // the thread, and how many operations it had performed
  };
  ThreadId id_of(const Agent& agent);
  Clock& clock_of(ThreadId thread); // starts with what comes before the thread's operation, or copy
  void join_begin(Clock& into, std::uint32_t operation);
  bool independent(const device::NextAccess& a, const device::NextAccess& b) const;
  static bool commute(const device::NextAccess& a, const device::NextAccess& b, std::uint64_t byte, bool old_values);
  template <typename F> void each_place(const device::NextAccess& access, F&& f) const;
  std::vector<std::uint32_t> predecessors(const Next& next) const;
  void find_races(const Next& next, const std::vector<std::uint32_t>& conflicting);
  void come_back(std::uint32_t event, const Next& next, const Clock& before);
  void come_back_earlier(std::uint32_t event, const Next& next, const Clock& before);
  void perform(const Next& next, bool fresh);
  void flush(); // the event that was performed last, now that it is known what it wrote
  // ---- groups
  ThreadId root(ThreadId thread);
  void join_groups(ThreadId a, ThreadId b);
  void note_groups(const Next& next);
  void note_operations(const Next& next, const std::vector<std::uint32_t>& conflicting);
  bool operations_in_turn() const;
  bool of_others(ThreadId thread); // whose orders are not run now
  bool next_group();
  device::NextAccess as_seen(const device::NextAccess& access) const;
  void cut(bool redundant);
  static void join(Clock& into, const Clock& other);
  static std::uint32_t at(const Clock& clock, ThreadId thread) { return thread < clock.size() ? clock[thread] : 0; }

  const Limits limits_;
  std::map<Agent, ThreadId> threads_;
  std::vector<Agent> agents_; // by id
  std::vector<Node> nodes_;
  std::size_t fresh_ = 0; // the first node whose operation this run is the first to perform in its place
  // Groups: threads by union, the group whose orders are run, by its smallest thread; those to come.
  std::vector<ThreadId> parents_;
  bool grouped_ = false, whole_ = false; // groups are known; they turned out to be one
  ThreadId group_ = 0;
  std::vector<ThreadId> to_come_;
  // Who used a byte in any run so far: some of the readers, and writers with what they wrote (-1: not known).
  struct Users {
    std::vector<ThreadId> readers;
    std::vector<std::pair<ThreadId, int>> writers;
  };
  std::map<Place, Users> users_;
  std::set<ThreadId> raced_; // that have an operation with another order
  std::set<std::pair<std::uint32_t, std::uint32_t>> raced_operations_; // of streams, that conflict in either order
  bool repeats_ = false; // the next run is one that was made before
  std::size_t groups_ = 1;
  bool was_read_ = false;
  std::string beyond_;
  std::uint64_t traces_ = 0;

  // ---- this run
  std::optional<std::pair<Next, bool>> performed_; // not yet among the events; and is it fresh?
  std::size_t depth_ = 0;
  bool cut_ = false, redundant_ = false, asked_ = false, over_ = false;
  std::vector<Event> events_;
  std::vector<Clock> clocks_; // of each thread, now
  std::vector<bool> begun_; // has such a clock
  std::map<std::uint32_t, Operation> operations_;
  Clock host_;
  std::set<std::uint32_t> host_before_; // operations that it waited for, and what comes before them
  std::vector<std::uint32_t> wide_; // events of copies and sets
  std::map<Place, Byte> bytes_;
  std::map<Object, std::map<std::uint32_t, Phase>> phases_;
  std::map<Object, ThreadId> users_of_objects_; // one of each, of all runs
};

} // namespace deadheat::search
