// What the process that records says about itself.
//
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "deadheat/trace.h"

namespace deadheat::trace {

std::string host_name();
// With its host's name and its command; number and time are the writer's to fill in.
Process this_process(std::string device_kind);

} // namespace deadheat::trace
