// An Analysis as SARIF 2.1.0 (OASIS Static Analysis Results Interchange Format), for the tools that show findings
// beside the code.
//
// One run with one result an entry: races, order-dependent atomics, memory and synchronization errors. A result's
// location is its first side, the second is a related location; a side without source is a logical location, the
// kernel or the API call. Suppressed races carry a suppression of kind "external". A race's fingerprint is made of
// its level, kind, kernels and source lines, so that the same race is recognised in the next run.
//
// Thread-safety: pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "deadheat/race.h"

namespace deadheat::report {

nlohmann::json to_sarif(const Analysis& analysis, const std::string& version);

} // namespace deadheat::report
