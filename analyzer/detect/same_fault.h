// Races that one fault makes. Of memory: who is in no order with the free of a pool's memory is in none with those
// either that have the memory after it, from their allocation on; what orders the one with the free orders it with all
// of them. Between operations: those that one missing wait makes (missing_waits.h). Inside a launch: one missing
// barrier (missing_barriers.h), one message (Explainer::broken_message), or one line whose updates are not atomic.
//
// Thread-safety: none is needed.
#pragma once

#include <cstddef>
#include <vector>

#include "analyzer/detect/between.h"
#include "analyzer/detect/detector.h"
#include "analyzer/detect/explain.h"
#include "analyzer/detect/findings.h"
#include "deadheat/race.h"

namespace deadheat::detect {

// races: those that were found, described, from `from` on. Each that is not the first of its fault names that, and
// ranks behind all that are, of its certainty and class; its number is its rank. The first says what orders all.
void join_faults(const Detector& detector, const std::vector<FoundRace>& found, const Explainer& explainer,
                 const Between& between, std::size_t from, std::vector<Race>& races);

} // namespace deadheat::detect
