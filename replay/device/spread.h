// Independent blocks on several cores, where nobody watches.
//
// A launch first runs for a while as always, block after block. If much is left then, the rest of its grid is cut into
// groups of blocks along one of its axes, and probes say what each group touches (engine/footprint.h). Where the groups
// are independent (engine/independence.h) they run at the same time, each block by block in the usual order, on
// machines of their own; else, and for whatever cannot go on alone, the launch goes on as always.
//
// Invariants: memory, memory errors, synchronization errors and everything the host sees are as with one core. How a
// launch is cut, and whether, depends on the clock and on the cores; no result does. The first block in the usual order
// that faults is the one that is reported; blocks behind it may have run, in a launch that ends the device.
//
// Thread-safety: run() is called on the machine's host thread, and returns when no other thread runs any of its blocks.
// active() and running() may be called on any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "replay/device/machine.h"
#include "replay/engine/independence.h"

namespace deadheat::device {

class Spread {
 public:
  explicit Spread(Machine& machine);
  ~Spread();

  // Runs as much of the launch as is worth it; the machine runs the rest.
  void run(Launch& launch);
  bool active() const { return active_.load(std::memory_order_acquire); }
  RunningCode running() const; // the code of one that runs
  std::uint64_t launches() const { return launches_; }
  std::uint64_t dependent() const { return dependent_; }
  std::uint64_t interleaved() const { return interleaved_; } // of the launches, whose groups' elements interleave

 private:
  using Clock = std::chrono::steady_clock;
  struct Group { // of blocks: a box of the grid
    Dim3 begin, end;
  };
  struct Worker; // a machine of its own, and what its blocks reported
  class Prober;
  // What probes said of a launch, which they say of every one like it where that lasts (footprint.h).
  struct Settled {
    std::vector<std::uint8_t> arguments;
    Dim3 grid, block, cluster;
    std::uint32_t dynamic_shared = 0;
    std::vector<Group> groups; // that are independent; none: there are no such
    engine::Independence independence;
    std::uint64_t changes = 0; // Environment::changes when all of that was legal
  };
  // What is known of a kernel from earlier launches.
  struct Known {
    const engine::FootprintCode* code = nullptr;
    bool asked = false;
    std::chrono::duration<double> could_gain{}; // by launches that ran on one core for want of code
    unsigned failures = 0, skip = 0; // times in a row that blocks were dependent; launches not to try
    std::chrono::duration<double> budget{}; // for probes: what launches that ran on one core could have gained
    std::vector<Settled> settled; // of the last launches that were probed
  };

  bool possible(const Launch& launch) const;
  bool worth(Launch& launch, Known& known, std::chrono::duration<double> left);
  void begin_workers();
  Settled settle(Launch& launch, const engine::FootprintCode& code);
  const Settled* settled(const Launch& launch, Known& known) const;
  // left: of the launch, on one core; 0: not known
  void spread(Launch& launch, const Settled& how, std::chrono::duration<double> left);
  std::vector<Group> cut(const Launch& launch, unsigned axis) const;
  void run_groups(Launch& launch, const std::vector<Group>& groups);
  void take_over(Launch& launch, std::vector<std::unique_ptr<Worker>>& workers);
  template <typename Work> void on_all_cores(const Work& work); // work(worker)

  Machine& machine_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::map<std::pair<std::uint32_t, std::string>, Known> kernels_; // by module and name
  std::atomic<bool> active_{false};
  std::atomic<std::uint64_t> first_fault_{0}; // of the blocks that faulted, the least index
  std::uint64_t launches_ = 0, dependent_ = 0, interleaved_ = 0;
};

} // namespace deadheat::device
