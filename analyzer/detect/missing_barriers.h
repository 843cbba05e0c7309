// Races inside a launch that one missing barrier makes: those of which one place of the program's text lies between
// the two accesses of each. A function that lacks the barrier itself is one text, wherever it is inlined, also where
// what lies between its calls is its callers' doing. It does where the threads came back to it unsynchronized in more
// places than there are in which a caller synchronizes between two calls; where its callers do so as a rule, each place
// where they do not is a fault of its own.
//
// Thread-safety: none is needed.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "analyzer/detect/between.h"
#include "analyzer/detect/findings.h"

namespace deadheat::detect {

struct MissingBarrier {
  std::size_t first = 0; // of the races that it makes, the one that tells most of it; of most races, themselves
  std::string where; // of that one, where it has others: "between a.cu:12 and a.cu:15"; empty where no line is known
};

// Of each race. `alone`: those whose order is not a matter of barriers.
std::vector<MissingBarrier> missing_barriers(const Detector& detector, const std::vector<FoundRace>& races,
                                             const Between& between, const std::vector<bool>& alone);

} // namespace deadheat::detect
