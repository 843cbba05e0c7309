// Races that one fault makes: who is in no order with the free of a pool's memory is in none with those either that
// have the memory after it, from their allocation on. What orders the one with the free orders it with all of them.
//
// Thread-safety: none is needed.
#pragma once

#include <cstddef>
#include <vector>

#include "analyzer/detect/detector.h"
#include "analyzer/detect/findings.h"

namespace deadheat::detect {

// Of each race: the first of those that are the same fault; of most that is itself.
std::vector<std::size_t> same_faults(const Detector& detector, const std::vector<FoundRace>& races);

} // namespace deadheat::detect
