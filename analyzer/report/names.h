// Names from traces, made fit for reports.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace deadheat::report {

// `text` with every byte that is not part of a UTF-8 sequence replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

// One line that is safe to print to a terminal: valid UTF-8, tabs as blanks, other control characters as '?'.
std::string printable(std::string_view text);

} // namespace deadheat::report
