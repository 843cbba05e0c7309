#include "analyzer/report/source_lines.h"

#include <filesystem>
#include <fstream>

#include "analyzer/report/names.h"

namespace deadheat::report {

namespace {

std::vector<std::string> read(const std::string& file) {
  constexpr std::uintmax_t most_bytes = 16 << 20;
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error) || std::filesystem::file_size(file, error) > most_bytes) return {};
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(printable(line));
  }
  return lines;
}

} // namespace

std::optional<std::string> SourceLines::line(const std::string& file, std::uint32_t line) {
  if (file.empty() || line == 0) return {};
  auto [at, inserted] = files_.try_emplace(file);
  if (inserted) at->second = read(file);
  if (line > at->second.size()) return {};
  return at->second[line - 1];
}

} // namespace deadheat::report
