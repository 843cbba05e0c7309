// Blocks run region by region, with nobody watching: what the code generator makes and the machine runs.
//
// A region is what a thread does from one stop to the next. Where a kernel's only stops are barriers of the whole
// block, its threads need no state machine each: all run through one region, one after another in the order of their
// numbers, then all through the next. Region code is a loop over tid.x, which LLVM vectorizes, inside loops over tid.y
// and tid.z.
//
// Besides barriers, headers of innermost loops that only touch memory at affine addresses are stops (`virtual_stop`),
// so that the loop over threads stands inside the loop of the kernel. Whoever runs threads one at a time passes them.
//
// What threads carry over a stop lies in structure-of-arrays form: register after register, thread by thread. Fast
// code takes many registers as affine in tid.x (base + stride * tid.x in each row of threads): a guess of the plan,
// which the machine verifies in memory before it calls fast code. Slow code runs one thread and guesses nothing.
//
// Any order of threads inside a region is one that the device may choose; results do not depend on it unless the
// kernel races or adds floating-point numbers atomically.
//
// Where addresses are checked, the code of one thread checks each of its accesses, fast code none: before it a probe
// (region_probe.h) says which ranges the region is about to touch, and fast code runs only where they are legal.
//
// Thread-safety: plain values; code may run on several host threads with a RegionContext each.
#pragma once

#include <cstdint>
#include <vector>

#include "deadheat/memory_model.h"
#include "replay/engine/abi.h"

namespace deadheat::engine {

// How a probe rolls up addresses around a circle of `modulus` bytes (independence.h): it keeps (base - origin) mod
// modulus. 0 <= base - origin < 2^31 for all bases, or modulus and inverse are 0, and what is kept means nothing.
struct ProbeFold {
  std::int64_t origin = 0;
  double inverse = 0; // 1 / modulus
  std::uint32_t modulus = 0, unused = 0; // at most 2^30
};
// What a probe's accesses are, one by one.
struct ProbeList {
  struct Entry {
    std::uint64_t range = 0; // of RegionCode::ranges or FootprintCode::ranges
    std::int64_t base = 0;
  };
  std::uint64_t count = 0; // of accesses; those for which there is no room share the last entry
  std::vector<Entry> entries;
};

// Read by compiled code, by offset.
struct RegionContext {
  BlockContext* block = nullptr;
  std::uint8_t* saved = nullptr;   // arrays of registers: RegionCode::saved_words * saved_stride bytes
  std::uint32_t* at = nullptr;     // by thread: where it stands, a bit: exited, or the stop
  std::uint8_t* stacks = nullptr;  // by thread: stack_bytes of local memory, zero
  std::uint64_t* bases = nullptr;  // by guess: scratch of fast code
  std::uint8_t* origin = nullptr;  // address 0, from which global memory is addressed
  ThreadContext* who = nullptr;    // where the checks of one thread's code put their faults
  std::int64_t* ranges = nullptr;  // what probes find: 2 * RegionCode::ranges + 1 numbers
  std::uint32_t stack_bytes = 0;
  std::uint32_t legal = 0;         // answer of a check
  std::uint32_t extent[3] = {1, 1, 1};  // ntid
  const ProbeFold* folds = nullptr; // by range, of probes that fold
  // Of probes that list (ProbeList): entries, and how many there are and were.
  ProbeList::Entry* listed = nullptr;
  std::uint64_t listed_room = 0, listed_count = 0;
};

inline constexpr std::uint32_t exited_bit = 1;  // in `at` and results; stop n: 2 << n
inline constexpr std::uint32_t max_region_stops = 30;
inline constexpr std::uint32_t faulted_bit = 0x80000000; // result of one thread's code: RegionContext::who has a fault
inline constexpr std::uint32_t max_guesses = 64;
inline constexpr std::uint32_t max_region_ranges = 48;
// Bytes from one 4-byte register's array to the next: room for 1 024 threads, and an odd number of cache lines, so that
// the arrays do not share cache sets.
inline constexpr std::uint32_t saved_stride = 4288;

using RegionSlow = std::uint32_t (*)(RegionContext*, std::uint32_t linear, std::uint32_t x, std::uint32_t y,
                                     std::uint32_t z, std::uint32_t resume, std::uint32_t fast);
using RegionFast = std::uint32_t (*)(RegionContext*); // returns the union of `at`
using RegionProbe = void (*)(RegionContext*); // fills RegionContext::ranges

// A saved register that fast code takes as base + stride * tid.x.
struct RegionGuess {
  std::uint32_t offset = 0; // of its array in RegionContext::saved
  std::uint32_t bytes = 4; // 4 or 8
  std::int64_t stride = 0;
};

// Accesses of a region whose addresses lie in [least base + low, greatest base + end).
struct RegionRange {
  enum class Kind : std::uint8_t {
    read,
    steers,
    written,
    combined
  } kind = Kind::read; // steers: read, and later addresses rest on it; combined: written by `operation` alone
  Space space = Space::generic; // shared: bases are offsets in the block's shared memory; else addresses
  std::uint8_t operation = 0; // of combined (footprint.h)
  std::int64_t low = 0, end = 0;
};

struct RegionStop {
  std::uint32_t site = ~std::uint32_t(0); // of a barrier; none: a virtual stop
  std::vector<std::uint16_t> needs; // guesses that must hold for the fast code behind it
  std::vector<std::uint16_t> changes; // guesses whose arrays are written by who stops here
  std::vector<std::uint16_t> changes_inside; // the same, of who comes from this very stop
};

struct RegionCode {
  RegionSlow slow = nullptr; // one thread, from `resume` (0: the start; n + 1: stop n) to its next barrier or exit
  std::vector<RegionFast> fast; // by resume
  std::vector<RegionProbe> probes; // by resume, where addresses are checked
  std::vector<RegionRange> ranges;
  std::vector<RegionStop> stops; // at most max_region_stops
  std::vector<RegionGuess> guesses;
  std::uint32_t saved_words = 0;
  std::uint32_t frame_bytes = 0; // of local memory a thread; 0: none
};

} // namespace deadheat::engine
