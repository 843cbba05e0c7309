// Lines to standard error from a library in somebody else's process.
//
// Thread-safety: all of it.
#pragma once

#include <string>

namespace deadheat::trace {

// "deadheat: <line>". To a pipe whose reader has gone, or does not read, the job itself may never write: it is neither
// ended by a signal nor held up. Too long lines are cut.
void say(const std::string& line);

} // namespace deadheat::trace
