// Names that a process makes of what it knows about itself.
//
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "deadheat/expected.h"

namespace deadheat::cupti {

// A name with %p (process id), %h (host name), %q{VAR} (environment variable) and %% replaced.
Expected<std::string> expand_name(const std::string& name);

}  // namespace deadheat::cupti
