// A run that somebody else drives, one visible operation after another: systematic exploration.
//
// Before each decision every thread that can go on has been brought before its next visible operation, and those that
// wait for a value to change have been woken where it has. What a thread does between two visible operations nobody
// else sees, so the order in which threads are brought there is no choice: arrivals at barriers, rendezvous of warps,
// exits. Neither is when a launch begins: it does as soon as it can, and its threads may wait. Copies, sets and groups
// of cp.async that could be performed are agents beside the threads. The departures of such a run (Device::switches)
// and its old reads repeat it.
//
// Thread-safety: called by the thread that runs the device, and by it only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "deadheat/memory_model.h"
#include "deadheat/schedule.h"

namespace deadheat::device {

// Memory that a copy or set reads or writes.
struct Touched {
  std::uint64_t memory = 0, address = 0, bytes = 0; // memory: as of NextAccess
  bool writes = false;
  std::int16_t fill = -1; // writes this byte everywhere; -1: other or several bytes
};

// The visible operation that a thread performs next, or a copy or set, at once.
struct NextAccess {
  Agent agent;
  std::uint32_t module = 0, site = 0;
  AccessKind access = AccessKind::read;
  bool fence = false, fence_sc = false;
  std::uint64_t commutes = 0; // nonzero: a reduction that commutes with those of the same number; nobody sees its order
  std::uint64_t memory = 0; // 0: global memory; else whose shared memory
  std::uint64_t address = 0;
  std::uint32_t bytes = 0; // 0: nothing that others see
  std::vector<Touched> touched = {}; // of a copy or set, in place of the above
  bool issues = false; // a thread's: a copy that is performed by an agent of its own
  std::vector<std::uint32_t> issued_by = {}; // of that agent: which of those instructions of its thread
  std::optional<std::uint64_t> value = {}; // of a store of up to 8 bytes that has been performed: what it wrote
};

class Chooser {
 public:
  virtual ~Chooser() = default;
  // Which of `able` (not empty; by operation, block, thread) goes on. `waiting`: the reads of threads that wait for a
  // value to change.
  virtual std::size_t choose(const std::vector<NextAccess>& able, const std::vector<NextAccess>& waiting) = 0;
  // Nobody can go on: the run ends here.
  virtual void stuck(const std::vector<NextAccess>& waiting) = 0;
  // The read that goes on may return the newest of `count` values, 0, or an older one.
  virtual std::size_t age(std::size_t count) = 0;
  // These threads of a block have met: what each does from here on comes after what all did before.
  virtual void met(std::uint32_t operation, std::uint32_t block, const std::vector<std::uint32_t>& threads) = 0;
  // The thread has waited for its groups of cp.async below this one, which were performed.
  virtual void copies_waited(std::uint32_t operation, std::uint32_t block, std::uint32_t thread, std::uint32_t groups) {
    (void)operation, (void)block, (void)thread, (void)groups;
  }
  // Barriers whose arrivals and waits lie apart: of an mbarrier in that shared memory (as of NextAccess), or of a
  // cluster. A thread has arrived at a phase of it (and may have completed that), or goes on since it is complete.
  struct Object {
    std::uint64_t memory = 0, address = 0;
    friend auto operator<=>(const Object&, const Object&) = default;
  };
  virtual void arrived(const Agent& who, const Object& at, std::uint32_t phase, bool completes) {
    (void)who, (void)at, (void)phase, (void)completes;
  }
  virtual void waited(const Agent& who, const Object& at, std::uint32_t phase) { (void)who, (void)at, (void)phase; }
  // The store that went on last wrote this; stores of up to 8 bytes say so when they have been performed.
  virtual void wrote(std::uint64_t value) { (void)value; }
  // ---- operations of streams: what comes after what
  // Submitted now, to come after these.
  virtual void submitted(std::uint32_t operation, const std::vector<std::uint32_t>& after) {
    (void)operation, (void)after;
  }
  virtual void completed(std::uint32_t operation) { (void)operation; }
  virtual void host_waited(const std::vector<std::uint32_t>& operations) { (void)operations; }
  // The run has choices that choose() is not asked about: one phrase.
  virtual void beyond(const char* what) = 0;
};

} // namespace deadheat::device
