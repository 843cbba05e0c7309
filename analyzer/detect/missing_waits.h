// Races between operations that one missing wait makes: "Y and what comes behind it in its stream waits for X and what
// comes before it in its stream" orders all of them, at a place where X was submitted already and Y was not yet. What
// needs two such waits is two faults, in whichever streams it lies.
//
// Thread-safety: none is needed.
#pragma once

#include <cstddef>
#include <vector>

#include "analyzer/detect/detector.h"
#include "analyzer/detect/findings.h"

namespace deadheat::detect {

struct MissingWait {
  std::size_t first = 0; // of the races that it would end: the one that ranks first; of most races, themselves
  // Of that one: X and Y.
  order::OperationIndex waited_for = 0, waits = 0;
};

// Of each race, by its occurrence that stands for all. `candidate`: those whose order is a matter of waits, and that
// are not known to be another race's fault.
std::vector<MissingWait> missing_waits(const Detector& detector, const std::vector<FoundRace>& races,
                                       const std::vector<bool>& candidate);

} // namespace deadheat::detect
