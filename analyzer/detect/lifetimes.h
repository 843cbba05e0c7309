// Shared memory of other blocks of a cluster, used when it need not be there: before its block has begun, or after it
// has exited. "Accessing distributed shared memory requires all the thread blocks to exist" (CUDA Programming Guide,
// Distributed Shared Memory); a run in which they happened to exist shows nothing of it.
//
// What must come before what is no question of memory here, but of execution: a relaxed arrival at the cluster's
// barrier makes the others wait all the same. So each access must have happened, whatever synchronization says so and
// however weak, behind something that its owner did, and before some thread of the owner exits.
//
// Thread-safety: none; pure of the source.
#pragma once

#include <vector>

#include "analyzer/detect/detector.h"
#include "analyzer/detect/faults.h"
#include "analyzer/detect/pipeline.h"

namespace deadheat::detect {

// One a launch, place and mistake. Reads the log once more where blocks use each other's shared memory.
std::vector<CountedSyncError> lifetime_errors(const Source& source, const Detector& detector);

} // namespace deadheat::detect
