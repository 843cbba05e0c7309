// Which line of an inlining chain a report shows.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "deadheat/race.h"

namespace deadheat::report {

// Whether the file is a header of the CUDA toolkit or of the system. Decided by its path alone: reports are also read
// on machines without the file.
bool is_system_header(const std::string& file);

// The innermost frame of the program's own source: one that has a file and is no system header; the innermost frame
// with a file where there is none; null without line information. Points into `source`.
const SourceFrame* own_frame(const std::vector<SourceFrame>& source);

} // namespace deadheat::report
