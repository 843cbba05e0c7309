// Lines of source files, for quoting in reports.
//
// Thread-safety: none. Files that cannot be read, or are no text of bearable size, give nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace deadheat::report {

class SourceLines {
 public:
  // Line `line` (from 1) of `file`, without its end, tabs as spaces; nothing when there is none.
  std::optional<std::string> line(const std::string& file, std::uint32_t line);

 private:
  std::map<std::string, std::vector<std::string>> files_;
};

} // namespace deadheat::report
