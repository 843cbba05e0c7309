// Findings that a user does not want counted: a suppressions file and its application.
//
// One pattern a line; # starts a comment:
//     race:PATTERN      a name or place of either side: kernel, inlined function, file, file:line, API call
//     kernel:PATTERN    the kernel of either side
//     stream:PATTERN    races between operations only: kernel or API call of either side, or "stream N"
// In a pattern * stands for any text and ? for one character. It may match anywhere in a name, unless it begins with ^
// or ends with $.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "deadheat/expected.h"
#include "deadheat/race.h"

namespace deadheat::report {

class Suppressions {
 public:
  // From a file. An error names the line that is none of the above.
  static Expected<Suppressions> read(const std::string& path);
  static Expected<Suppressions> parse(std::string_view text, const std::string& path);

  // Marks the races that a pattern matches, each counted as a hit of the first that does.
  void apply(Analysis& analysis);

  std::vector<std::string> unused() const; // patterns without a hit, as written
  struct Pattern {
    enum class Kind : std::uint8_t { race, kernel, stream } kind = Kind::race;
    std::string glob, text; // text: as written
    std::uint64_t hits = 0;
  };
  const std::vector<Pattern>& patterns() const { return patterns_; }

 private:
  std::vector<Pattern> patterns_;
};

// Does `name` match `pattern`, as above?
bool matches(std::string_view pattern, std::string_view name);

} // namespace deadheat::report
