// Runs one block region by region: all its threads through one stop after another, by fast code where its guesses hold
// and a thread at a time where not, or where threads part.
//
//   RegionRun run(code, context, who, threads);
//   while (run.next()) { /* every thread that has not exited has arrived at the block's barrier */ }
//
// Thread-safety: none; one block, one host thread.
#pragma once

#include "replay/engine/regions.h"

namespace deadheat::engine {

// Which memory a block may touch. Generic addresses (deadheat/address.h).
class RegionMemory {
 public:
  virtual ~RegionMemory() = default;
  // All of [low, end) is legal. `range`: which of the code's ranges asks.
  virtual bool legal(std::size_t range, std::uint64_t low, std::uint64_t end) = 0;
};

class RegionRun {
 public:
  // `who` says whose code runs, for faults: exact when threads run one at a time, else the first thread.
  // `memory`: where addresses are checked.
  RegionRun(const RegionCode& code, RegionContext& context, ThreadContext& who, std::uint32_t threads,
            RegionMemory* memory = nullptr)
      : code_(code), c_(context), who_(who), memory_(memory), threads_(threads) {
    c_.who = &who;
    for (std::size_t n = 0; n < code.stops.size(); ++n)
      if (code.stops[n].site != ~std::uint32_t(0)) barriers_ |= 2u << n;
  }

  // To the block's next barrier; false: all threads have exited, or one faulted.
  bool next();
  bool faulted() const { return reached_ & faulted_bit; } // `who` has the fault
  // Threads have arrived at different barrier instructions.
  bool mixed() const {
    const std::uint32_t arrived = reached_ & barriers_;
    return (arrived & (arrived - 1)) != 0;
  }
  // The site of the barrier at which a thread stands; none: it has exited.
  std::uint32_t barrier_of(std::uint32_t thread) const {
    const std::uint32_t bit = c_.at[thread];
    return bit == exited_bit ? ~std::uint32_t(0) : code_.stops[std::uint32_t(__builtin_ctz(bit)) - 1].site;
  }
  // Regions that fast code ran, and threads that went through one alone.
  std::uint64_t fast_regions() const { return fast_regions_; }
  std::uint64_t slow_threads() const { return slow_threads_; }

 private:
  std::uint32_t together(std::uint32_t resume);
  std::uint32_t apart(std::uint32_t which);
  template <typename From>
  std::uint32_t slow(const From& from);
  bool guesses_hold(std::uint32_t resume);
  bool in_bounds(std::uint32_t resume);
  void forget(std::uint32_t reached, std::uint32_t resume);

  const RegionCode& code_;
  RegionContext& c_;
  ThreadContext& who_;
  RegionMemory* const memory_;
  const std::uint32_t threads_;
  std::uint32_t barriers_ = 0;              // their bits
  std::uint32_t reached_ = 0;               // union of where threads stand; 0: not begun
  std::uint64_t holding_ = 0, failed_ = 0;  // guesses, by number
  std::uint64_t refused_ = 0;               // resumes whose probe found what is not legal as a whole
  std::uint64_t fast_regions_ = 0, slow_threads_ = 0;
};

// The memory of a block: saved registers, positions, scratch and, `threads` times frame_bytes, stacks.
std::uint64_t region_memory_bytes(const RegionCode& code, std::uint32_t threads);
// Points a context into such memory (64-byte aligned), and zeroes the stacks.
void lay_out_regions(const RegionCode& code, std::uint32_t threads, std::uint8_t* memory, RegionContext& context);

}  // namespace deadheat::engine
