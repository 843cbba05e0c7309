// From a race to a verdict: replays a trace under schedules that take the two accesses in either order and compares
// every byte that the host could have seen.
//
// For each race two runs are made in the natural order that differ in one choice: which of the two accesses comes first
// (Hold). Where they agree, and the race is alone or older values may be read, other orders follow from the seed. Runs
// are compared up to the first difference the host could see; the recorded host input is stale after it.
//
// Thread-safety: none; one embedded device exists in a process at a time (its arena has a fixed address).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "deadheat/expected.h"
#include "deadheat/race.h"
#include "deadheat/schedule.h"

namespace deadheat::search {

struct SearchOptions {
  std::vector<std::uint32_t> races; // ids; empty: all that are not suppressed
  std::uint64_t schedules = 40; // at most, a race
  double seconds = 20; // at most, a race
  // Runs, of every schedule of a small run; 0: none. Other than the default: of a run of any size.
  static constexpr std::uint64_t automatic_systematic = 1000;
  std::uint64_t systematic = automatic_systematic;
  std::uint64_t seed = 1;
  std::string output; // directory for witnesses; created when one is written
  std::function<void(const std::string&)> progress; // one line; may be empty
};

// Replays the trace and fills in verdict, schedules, verdict_why, witness and differences of each chosen race, and
// max_ulp and schedules of the order-dependent atomics.
Expected<void> judge(const std::string& trace, Analysis& analysis, const SearchOptions& options);

// Replays the trace with a double beside every floating-point value, in the natural order and in others: fills in
// Analysis::precision, and of each order-dependent sum how far the outputs that it went into are from their doubles.
// Sums by threads that exclude each other, which are no race, join Analysis::order_dependent where their order changes.
Expected<void> measure_precision(const std::string& trace, Analysis& analysis, const SearchOptions& options);

// Runs the trace under `count` schedules (schedules.h), each recorded into a trace of its own, which `each` gets with
// the schedule's number, from 1, and which is gone afterwards. Control flow that depends on the order hides races from
// a single run. No schedule begins after `seconds`; 0: no limit. Returns how many of the traces end early, where a
// condition of a graph was another than in the recorded run.
Expected<std::uint64_t> explore(const std::string& trace, std::uint64_t count, std::uint64_t seed, double seconds,
                                const std::function<Expected<void>(std::uint64_t, const std::string&)>& each);

// Runs the trace under `count` schedules with store histories on, races or not: how many outputs are there? No schedule
// begins after `seconds`; 0: no limit.
struct Variation {
  std::uint64_t schedules = 0, outputs = 0; // tried; different outputs, that of the natural order included
  std::uint64_t old_reads = 0; // reads that returned an older value than the newest
  std::uint64_t first = 0; // the first schedule with other outputs, from 1; 0: none
};
Expected<Variation> vary(const std::string& trace, std::uint64_t count, std::uint64_t seed, double seconds,
                         const std::function<void(std::uint64_t)>& progress);

// What re-running a witness showed.
struct WitnessRun {
  Race race; // as the witness tells it, with the differences of this run
  std::string digest_a, digest_b; // of the outputs of the two schedules: 32 hexadecimal digits
  bool differ = false; // the outputs differ
  bool as_recorded = false; // both digests are the ones that the witness expects
};
Expected<WitnessRun> replay_witness(const std::string& file);

} // namespace deadheat::search
