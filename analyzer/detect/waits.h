// Barriers that nobody completes: who waits in a launch that never ended, and who never came.
//
// The embedded device sees that nobody can go on, and writes a SyncError. On a GPU a job that hangs is killed: its
// trace has a launch without an end, in which barriers, cluster barriers and mbarriers have arrivals and no completion.
// That says something only of launches in which the recording noted that the device had gone silent (an Incident
// "stalled"): of a log that was cut anywhere else, nothing is said. Nor of mbarriers whose phase lacks nothing but
// bytes, or all of its arrivals.
//
// Thread-safety: none; pure of the source.
#pragma once

#include <vector>

#include "analyzer/detect/detector.h"
#include "analyzer/detect/faults.h"
#include "analyzer/detect/pipeline.h"

namespace deadheat::detect {

// One a launch and place where threads wait. Reads the log once more where a silent launch did not end.
std::vector<CountedSyncError> unfinished_waits(const Source& source, const Detector& detector);

} // namespace deadheat::detect
