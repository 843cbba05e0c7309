// Names that a process makes of what it knows about itself.
//
// Thread-safety: pure functions, but for choose_output(), which changes the environment.
#pragma once

#include <string>

#include "deadheat/expected.h"

namespace deadheat::cupti {

// A name with %p (process id), %h (host name), %q{VAR} (environment variable) and %% replaced.
Expected<std::string> expand_name(const std::string& name);

// The name that expand_name() makes this of.
std::string literal_name(const std::string& expanded);

// Where the processes of a job record to whose DEADHEAT_OPTIONS name no output: the first one's choice, which the
// others inherit as DEADHEAT_TRACE.
std::string chosen_output();

// May be called before main: keeps that choice for the processes that this one starts.
void choose_output();

}  // namespace deadheat::cupti
