// deadheat's analysis: a trace in, an Analysis out.
//
// What cannot be read is left out and said; what is there is analysed. Reads the trace once, and twice more
// when there are races: to find where, to name them, and to count which execution of its site each access was.
//
// Thread-safety: may be called from several threads at once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "deadheat/expected.h"
#include "deadheat/race.h"

namespace deadheat::detect {

struct AnalyzeOptions {
  unsigned jobs = 0;              // threads; 0: as many as the machine has cores. The result does not depend on it
  // Bytes, of all that the analysis keeps; what the process has before it begins comes on top. Less than 64 MiB is
  // taken for what it remembers of memory alone. 0: half of what the machine has.
  std::uint64_t memory_limit = 0;
  // What is being done, and how far it is, from 0 to 1. Called from any thread, one call at a time.
  std::function<void(const std::string& what, double share)> progress;
};

Expected<Analysis> analyze(const std::string& trace, const AnalyzeOptions& options);

} // namespace deadheat::detect
