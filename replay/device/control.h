// Chosen schedules: at every visible operation somebody else may go on. Random ones draw the next agent and for how
// long it runs; priorities let the highest go on (priorities.h); lists of switches repeat what another run chose.
//
// A decision has a number: visible operations performed so far, plus stops so far that no quantum caused (barriers,
// rendezvous, exits, spinning, waits for copies). So numbers do not depend on how the run was cut into turns, and a run
// that departs from the default at the same numbers repeats another exactly. The default: the agent goes on as long as
// it can; then the lowest lane of its warp, the next warp of its block, the next block, the next launch; when no thread
// can go on the oldest operation, and when there is none a copy.
//
// A selectively uniform random walk (Zhao, Wolff, Mathur, Roychoudhury: Selectively Uniform Concurrency Testing, ASPLOS
// 2025): of all interleavings of the operations at the interesting sites, each is as likely as any other. One thread is
// meant to perform the next of them, drawn by how many each has left; the others stop before theirs. Everything else is
// drawn at random.
//
// Threads that spin look again when their value has changed, which is found out at stops that no quantum caused. Loops
// that wait for what lies in several places are not known as such: whatever the schedule, when a quarter of the run's
// budget is used up (of a list of switches, since its last one) agents are drawn at random, so that the budget's end
// means a loop that goes on for ever though everybody gets their turn.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "deadheat/schedule.h"
#include "replay/device/block.h"
#include "replay/device/chooser.h"
#include "replay/device/departures.h"
#include "replay/device/priorities.h"
#include "replay/engine/abi.h"

namespace deadheat::device {

class Machine;

class Control {
 public:
  static constexpr std::uint32_t resident_threads = 4096; // at a time, in launches that are not cooperative

  explicit Control(const Schedule& schedule);
  // Who drives; null: nobody. `describe` says what an operation touches; false: its place is no choice, it begins.
  using Describe = std::function<bool(std::uint32_t, NextAccess&)>;
  void drive(Chooser* chooser, Describe describe) {
    chooser_ = chooser;
    describe_ = std::move(describe);
  }
  bool driven() const { return chooser_ || schedule_.driven; } // or repeats a run that was

  // ---- from the machine
  void ready(Block& block, std::uint32_t warp, std::uint32_t lanes);
  void not_ready(Block& block, std::uint32_t thread);
  void parked(Block& block, std::uint32_t thread);
  void copies_committed(Block& block, std::uint32_t thread, std::uint32_t group);
  void copies_performed(Block& block, std::uint32_t thread, std::uint32_t keep_groups, bool all);
  void copy_performed(Block& block, std::uint32_t thread, std::uint32_t group); // a bulk copy or arrival
  void begun(Machine& machine, Launch& launch); // admits its first blocks
  void ended(const Launch& launch);

  // Lets one agent act: a thread or copy here, or an operation (its id is returned, and the caller begins it).
  // `operations`: those that could begin, oldest first. 0: a thread or copy acted. ~0: nobody can.
  static constexpr std::uint32_t nobody = ~0u;
  std::uint32_t step(Machine& machine, const std::vector<std::uint32_t>& operations);

  std::vector<Switch> departures() const { return departures_.list(); }
  std::uint64_t switches() const { return switched_; }

 private:
  static constexpr std::uint32_t nowhere = ~0u; // Block::position of a thread that cannot go on
  static constexpr std::int64_t endless = std::int64_t(1) << 60; // a quantum
  struct Thread {
    Block* block = nullptr;
    std::uint32_t thread = 0;
  };
  struct Copy {
    Block* block;
    std::uint32_t thread, group;
  };
  struct Choice {
    Agent::Kind kind = Agent::Kind::thread;
    Thread thread;
    std::size_t copy = 0;
    std::uint32_t operation = 0;
  };
  std::uint64_t random();
  std::int64_t draw_quantum();
  std::uint64_t fair_from(const Machine& machine) const;
  bool find_default(Machine& machine, const std::vector<std::uint32_t>& operations, Choice& choice) const;
  bool find(const Machine& machine, const std::vector<std::uint32_t>& operations, const Agent& agent,
            Choice& choice) const;
  bool draw(const std::vector<std::uint32_t>& operations, Choice& choice);
  bool highest(const std::vector<std::uint32_t>& operations, Choice& choice);
  Agent agent_of_copy(const Copy& copy) const;
  Agent agent_of(const Choice& choice) const;
  void run(Machine& machine, const Choice& choice, std::int64_t quantum);
  void look_again(Machine& machine, bool all);
  std::uint64_t below(
      std::uint64_t count) { // Lemire 2019: multiply-shift instead of a division; the bias is immaterial
    return std::uint64_t((unsigned __int128)(random())*count >> 64);
  }
  std::uint64_t nth_block(const Launch& launch, std::uint64_t n) const;
  void admit_blocks(Machine& machine, Launch& launch);
  void leave_at_once(Machine& machine, Launch& launch, Block& block);
  bool at_interesting(const Thread& thread) const;
  bool walk(const std::vector<std::uint32_t>& operations, Choice& choice, std::int64_t& quantum);
  void mean_another();
  bool choose_driven(Machine& machine, const std::vector<std::uint32_t>& operations, Choice& choice,
                     std::int64_t& quantum);
  static NextAccess next_access(const Thread& thread);
  NextAccess next_access(const Copy& copy);

  Schedule schedule_;
  Chooser* chooser_ = nullptr;
  Describe describe_;
  std::vector<NextAccess> able_, waiting_; // for it
  std::size_t next_switch_ = 0;
  std::uint64_t state_; // of the random numbers
  std::vector<Thread> runnable_, parked_;
  std::vector<Copy> copies_;
  Thread current_;
  Launch* current_launch_ = nullptr;
  bool forced_stop_ = true; // the last stop was not the quantum's
  bool gave_way_ = false; // it was a thread's own wish that others go on
  std::uint64_t forced_ = 0, switched_ = 0;
  std::size_t look_ = 0;
  Departures departures_;
  std::optional<Priorities> priorities_;
  // Of uniform: what each thread has left, by operation, block, thread; who is meant to perform the next.
  using Name = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;
  std::map<Name, std::uint64_t> left_;
  std::uint64_t all_left_ = 0;
  std::optional<Name> meant_;
};

} // namespace deadheat::device
