// An Analysis as text for people: a screen a race, its two sides side by side (one below the other where a path is too
// long for that), the source lines quoted. The last line sums up. Warnings are left to the caller, who knows where they
// belong.
//
// Thread-safety: pure functions; source files named in the analysis are read.
#pragma once

#include <string>

#include "deadheat/race.h"

namespace deadheat::report {

struct TextOptions {
  unsigned limit = 0; // races shown, the others only counted; 0: all
  bool color = false; // ANSI colors, for terminals
  unsigned width = 110; // of a line, in characters
  unsigned context = 1; // source lines quoted before and after the access
  bool quote_source = true;
  bool show_suppressed = false;
};

std::string to_text(const Analysis& analysis, const TextOptions& options);

} // namespace deadheat::report
