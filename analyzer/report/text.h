// An Analysis as text for people: a screen a race, its two sides side by side, the source lines quoted.
//
// Thread-safety: pure functions; source files named in the analysis are read.
#pragma once

#include <string>

#include "deadheat/race.h"

namespace deadheat::report {

struct TextOptions {
  unsigned width = 110;       // of a line, in characters
  unsigned context = 1;       // source lines quoted before and after the access
  bool quote_source = true;
  bool show_suppressed = false;
};

std::string to_text(const Analysis& analysis, const TextOptions& options);

} // namespace deadheat::report
