// When operations ran on the device, for reports.
//
// Thread-safety: pure functions.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace deadheat::tools {

// Adds to each side of each race of a report in JSON when its operation ran, where the trace says so ("device_time":
// begin and end in nanoseconds since the first operation that has a time), and to the race for how long both ran
// together ("overlap_ns"). A trace of several processes has operations of one number in each: nothing is added.
void add_times(nlohmann::json& report, const std::string& trace);

} // namespace deadheat::tools
