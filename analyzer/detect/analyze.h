// deadheat's analysis: a trace in, an Analysis out.
//
// What cannot be read is left out and said; what is there is analysed. Reads the trace twice when there are races: once
// to find them, once to count which execution of its site each access was.
//
// Thread-safety: may be called from several threads at once.
#pragma once

#include <string>

#include "deadheat/expected.h"
#include "deadheat/race.h"

namespace deadheat::detect {

struct AnalyzeOptions {};

Expected<Analysis> analyze(const std::string& trace, const AnalyzeOptions& options);

} // namespace deadheat::detect
