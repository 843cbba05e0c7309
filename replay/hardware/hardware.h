// Replaying a witness on a GPU: both orders of its two accesses, several times each, and what came out.
//
// A worker process plays the runs (player.h), one witness a worker: a kernel that hangs is ended with its process, and
// one that faults costs its context. The worker writes what came out to a directory, a line a run; whoever started it
// compares that with the two schedules of the witness on the embedded device.
//
// Thread-safety: plain functions; replay_on_gpu() runs the embedded device, of which a process has one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "deadheat/expected.h"
#include "deadheat/race.h"
#include "replay/hardware/plan.h"

namespace deadheat::hardware {

struct HardwareOptions {
  std::string driver = "libcuda.so.1"; // the driver's library
  std::uint32_t runs = 10;             // of each order
  double seconds = 20;                 // for one run, at most: then it counts as hanging
};

// Equal outputs, and how many runs had them.
struct SeenOutputs {
  std::string digest;      // up to where the witness's schedules part
  std::uint64_t runs = 0;
  char like = 0;           // 'a' or 'b': the bits of that schedule on the embedded device
  std::string ending;      // of a fault or hang: one line
};

enum class Kind : std::uint8_t { free, first_then_second, second_then_first, delayed };
const char* name(Kind kind);

struct OrderRuns {
  Kind kind = Kind::free;
  std::uint64_t runs = 0, had_first = 0, had_second = 0; // runs in which first, second came first for certain
  std::uint64_t gave_up = 0, unreached = 0; // a wait reached its bound; an access was not executed
  std::vector<SeenOutputs> outputs;         // the most frequent first
};

struct HardwareReport {
  std::string witness, device, driver;
  Race race;                            // as the witness tells it, with the differences on the embedded device
  Means means = Means::turnstiles;
  std::string out_of_reach;             // why no order was tried; empty: it was
  std::vector<std::string> notes;       // what limited the replay, a line each
  std::string digest_a, digest_b;       // the witness's schedules on the embedded device
  std::vector<OrderRuns> orders;
  bool shown = false;                   // the two orders gave different outputs on the hardware
  std::string why_not;                  // of a witness that was tried and not shown
  std::vector<Difference> differences;  // between the most frequent outputs of either order
};

Expected<HardwareReport> replay_on_gpu(const std::string& witness, const HardwareOptions& options);

// The worker's part, for the process that replay_on_gpu() starts: `work` as it was given. Returns the exit status.
int work_on_gpu(const std::string& witness, const std::string& work);

} // namespace deadheat::hardware
