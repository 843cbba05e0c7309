// Finding races in a stream of records, wherever they come from: a log, or memory.
//
// Thread-safety: none; several findings may run at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "analyzer/detect/detector.h"

namespace deadheat::detect {

// Plays all records of one log to the visitor, in order; the same records every time.
using Feed = std::function<void(trace::RecordVisitor&)>;

struct Findings {
  std::unique_ptr<Detector> detector;  // what it learned about launches, allocations, faults
  std::vector<FoundRace> races;        // ranked
  std::uint64_t unchecked = 0;         // records that came after memory ran out
  std::uint64_t suspect_words = 0;     // words of memory that the second pass had to look at
};

Findings find_races(const Feed& feed);

}  // namespace deadheat::detect
