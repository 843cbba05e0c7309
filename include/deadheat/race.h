// Races as data: what the analyzer finds, what replay judges, what reports print. Field for field the JSON of
// `deadheat analyze --json`.
//
// Thread-safety: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "deadheat/memory_model.h"
#include "deadheat/site.h"

namespace deadheat {

// The name of one dynamic access, the same in schedules and reports: it finds the access again in every run that
// takes the same way there. For operations that are not launches, `operation` names the copy, set or free.
struct AccessName {
  std::uint32_t operation = 0; // operation id in the trace
  std::uint32_t launch = 0;    // launch number; 0 for a copy, set, free
  std::uint32_t block = 0;     // linear
  std::uint32_t thread = 0;    // linear within the block
  std::uint32_t module = 0, site = 0;
  std::uint64_t nth = 0;       // earlier executions of the site by this thread
  friend bool operator==(const AccessName&, const AccessName&) = default;
};

struct RaceSide {
  AccessName name;             // of the first occurrence
  AccessKind op = AccessKind::read;
  std::string kernel;          // demangled; of a copy, set or free, its API name
  std::vector<SourceFrame> source; // innermost first; empty when unknown
  std::string opcode;          // PTX opcode; empty for operations
  std::uint32_t stream = 0;
  std::string stream_maker = {}; // the library whose code created the stream, where that is known (GPU recordings)
  std::string called_at;       // where the host submitted the launch: a line, or NVTX ranges; may be empty
  Dim3 block, thread;          // coordinates
  // Of an instruction of a function that is called: the functions (demangled) on each way of calls from a kernel to it,
  // without that function and what is inlined in it. Empty in kernels, and where the ways are not known.
  std::vector<std::vector<std::string>> ways = {};
  // Of one without lines, or whose lines do not tell what was inlined: the opcodes of the memory and synchronization
  // instructions that every thread has performed in its function before, in order, and its own at the end
  // (ptx::path_to).
  std::string path = {};
};

// The two sides in one of the codes that they are: the lines of a template are code in each kernel made of it.
struct RaceCode {
  RaceSide first, second;
  bool suppressed = false;
};

enum class RaceLevel : std::uint8_t { shared, global, stream };
enum class RaceClass : std::uint8_t { data, strong };
enum class Certainty : std::uint8_t { certain, possible };
enum class Verdict : std::uint8_t { none, harmful, benign, unreached };

struct Difference { // bytes that differ between the two schedules of a witness, one entry an allocation
  std::uint32_t allocation = 0;
  std::uint64_t offset = 0; // of the first differing element
  std::string type; // "f32", "u8", from the instructions that wrote it
  std::uint64_t elements = 0; // differing elements
  double max_abs = 0;
  double max_relative = 0;
  std::uint64_t max_ulp = 0; // of floating-point types
  struct Example {
    std::uint64_t offset = 0;
    double a = 0, b = 0;
  } example;
  std::string note; // "hang", "trap", "printf output", "NaN appears"
};

// One operation of a witness's run by the thread of one of the race's sides.
struct WitnessStep {
  bool second = false; // by the thread of the second side
  std::string op; // "read", "write", "atomic", "fence"
  std::string place; // "a.cu:12"; the opcode where there is no line
  std::uint64_t address = 0; // shared memory: the offset
  std::uint32_t bytes = 0; // 0: of a fence
  bool shared = false;
  bool copy = false; // by an asynchronous copy that the thread issued
  std::uint64_t read = 0, written = 0; // the first 8 bytes
  std::uint32_t age = 0; // it read what had been there before that many writes
  bool parts = false; // the first in which this run differs from the other
};

// How small a launch still shows the difference, when the other threads leave as they begin.
struct SmallerRun {
  std::uint64_t blocks = 0, of_blocks = 0; // that have threads which stay; the launch's
  std::uint64_t threads = 0, of_threads = 0; // likewise, in all blocks together
};

struct Race {
  std::uint32_t id = 0; // from 1, in order of rank
  RaceLevel level = RaceLevel::global;
  RaceClass race_class = RaceClass::data;
  Certainty certainty = Certainty::certain;
  RaceSide first, second; // first: the one that came first in the recorded run
  std::uint64_t address = 0; // of the first occurrence; shared: offset in the block's shared memory
  std::uint32_t bytes = 0; // overlapping bytes of the first occurrence
  struct AllocationRef {
    std::uint32_t id = 0;
    std::uint64_t offset = 0, size = 0;
  };
  std::optional<AllocationRef> allocation;
  std::uint64_t occurrences =
      0; // at least: of bytes that thousands of unordered threads touch, not all pairs are counted
  bool same_value = false; // every write-write pair wrote the same bytes
  // Every pair is a read and a write in kernels, and the value read flows only into stores that the reading thread does
  // not perform, if into any: whatever it is, nothing depends on it.
  bool unused_read = false;
  // Every pair is of a cp.async that the second knows to be complete and an access through the asynchronous proxy, and
  // lacks a proxy fence alone (PTX ISA, "Async proxy").
  bool lacks_only_proxy_fence = false;
  // The id of another one: what orders that orders this. 0: none.
  std::uint32_t same_fault_as = 0;
  std::string why; // what order is missing, one or two lines
  // More dynamic instances of the pair (at most 16), for replay to try when the first changes nothing.
  struct Instance {
    AccessName first, second;
  };
  std::vector<Instance> instances;
  std::vector<Instance> sample; // of all, by chance: at most 64, those above among them or not
  std::vector<RaceCode> codes; // where there are several: all of them
  bool suppressed = false; // in all of them
  std::uint64_t explored = 0; // the first explored schedule that exposed it, from 1; 0: the recorded run did

  // Filled in by replay.
  Verdict verdict = Verdict::none;
  std::uint64_t schedules = 0; // tried
  std::string verdict_why; // of unreached, and what else a witness had to change
  std::string witness; // file
  std::vector<Difference> differences;
  // Of the witness: what the two threads did to the memory that both use, around where the runs part.
  std::vector<WitnessStep> steps_a, steps_b;
  std::optional<Instance> witnessed; // the instance that they are about, where it is not that of the sides
  std::uint64_t context_switches = 0; // that the second run has and the first has not
  std::optional<SmallerRun> smaller; // where one was looked for and found

  // "read-write", "write-write", "write-atomic" …: the two ops, in the order of AccessKind whichever came first.
  std::string kind() const;
};

// How far values are from the same computation in double (replay --precision).
//
// A value is right within sqrt(n) ulp of its type, at the sum of its terms' magnitudes; n: roundings on the longest way
// to it, of terms that are added one by one as many as there are. Roundings in one direction, as of matrix
// instructions, count an ulp each (replay/engine/shadow.h says why).
enum class Rightness : std::uint8_t {
  right, // all values, in every schedule
  wrong, // some value is wrong in every schedule
  by_schedule // in some schedules all values are right, in others not
};
struct Precision {
  Rightness rightness = Rightness::right;
  std::uint64_t values = 0; // that were looked at
  std::uint64_t wrong = 0; // of them, in some schedule
  double max_relative = 0; // distance from the double, relative to it; infinite where one of the two is no number
  double max_fp64_ulp = 0; // the same in ulp of the value's type
  std::uint64_t max_ulp = 0; // spread over the schedules
  struct Example { // the one that is furthest from its double, in tolerances
    std::uint32_t allocation = 0;
    std::uint64_t offset = 0;
    double value = 0, fp64 = 0;
    double ulp = 0, tolerance_ulp = 0; // their distance, and what would be right
    std::uint64_t roundings = 0;
  } example;
  std::optional<RaceSide> lost_at; // the instruction that lost most of what the values, of wrong ones if there are any,
                                   // differ by; none where they do not
};
struct OutputPrecision { // of what the host reads out of one allocation, by type
  std::uint32_t allocation = 0;
  std::string type; // "bf16"
  Precision precision;
};
struct PrecisionReport {
  std::uint64_t schedules = 0; // the natural order included
  std::uint64_t restarts = 0; // of the natural order: values that started again from themselves, and lost something
  std::vector<OutputPrecision> outputs; // wrong ones first
};

struct OrderDependent { // a sum whose result depends on the order; not a race
  RaceSide site;
  std::string atomic; // "add.f32"
  // "atomic", or how threads that exclude each other add: "load and store", "compare and swap" (with --precision).
  std::string how = "atomic";
  std::uint64_t occurrences = 0; // additions there, each of a thread, ordered with others or not
  std::uint64_t max_ulp = 0; // by replay
  std::uint64_t schedules = 0;
  std::optional<double> fp64_error; // relative to the same computation in double, where that was made
  std::optional<Precision> precision; // of the outputs that it went into, with --precision
  // By module and site: its own, then the others of the same line and kernel, as unrolled loops have them.
  std::vector<AccessName> instructions;
};

struct Fault { // memory_errors and sync_errors
  std::string kind, text;
  RaceSide side;
  std::uint64_t address = 0, bytes = 0;
  std::optional<Race::AllocationRef> nearest;
  std::uint64_t occurrences = 1; // that are known of: a device may report an instruction once
  bool ends_run = false; // the device ran nothing of the program after it
};

struct Summary {
  std::uint64_t launches = 0, instrumented = 0, opaque = 0, accesses = 0, races = 0, order_dependent = 0;
  std::uint64_t assumed_edges = 0;
  bool complete = true; // false: part of the trace could not be read or ordered
};

struct Analysis {
  Summary summary;
  std::vector<Race> races;
  std::vector<OrderDependent> order_dependent;
  std::optional<PrecisionReport> precision;
  std::vector<Fault> memory_errors, sync_errors;
  std::vector<std::string> warnings; // one line each: damage, incidents
  bool refused = false; // the device did not do what the program asked, and another would have done
};

} // namespace deadheat
