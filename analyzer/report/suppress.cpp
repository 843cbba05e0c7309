#include "analyzer/report/suppress.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "analyzer/report/words.h"

namespace deadheat::report {

namespace {

// Linear-space matching with one restart point: the last * seen.
bool glob_matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, restart = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      restart = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++restart;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r";
  std::size_t first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

bool side_matches(const Suppressions::Pattern& pattern, const RaceSide& side) {
  using Kind = Suppressions::Pattern::Kind;
  if (pattern.kind == Kind::kernel && is_operation(side)) return false;
  if (matches(pattern.glob, side.kernel)) return true;
  if (pattern.kind == Kind::stream) return matches(pattern.glob, "stream " + std::to_string(side.stream));
  if (pattern.kind == Kind::kernel) return false;
  return std::any_of(side.source.begin(), side.source.end(), [&](const SourceFrame& frame) {
    return matches(pattern.glob, frame.function) ||
           matches(pattern.glob, frame.file + ":" + std::to_string(frame.line)) || matches(pattern.glob, frame.file);
  });
}

} // namespace

bool matches(std::string_view pattern, std::string_view name) {
  bool from_start = !pattern.empty() && pattern.front() == '^';
  if (from_start) pattern.remove_prefix(1);
  bool to_end = !pattern.empty() && pattern.back() == '$';
  if (to_end) pattern.remove_suffix(1);
  std::string glob;
  if (!from_start) glob += '*';
  glob += pattern;
  if (!to_end) glob += '*';
  return glob_matches(glob, name);
}

Expected<Suppressions> Suppressions::parse(std::string_view text, const std::string& path) {
  Suppressions suppressions;
  for (unsigned number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    std::size_t colon = line.find(':');
    std::string_view kind = line.substr(0, colon);
    Pattern pattern;
    if (kind == "race") {
      pattern.kind = Pattern::Kind::race;
    } else if (kind == "kernel") {
      pattern.kind = Pattern::Kind::kernel;
    } else if (kind == "stream") {
      pattern.kind = Pattern::Kind::stream;
    } else {
      colon = std::string_view::npos;
    }
    std::string_view glob = colon == std::string_view::npos ? std::string_view{} : trimmed(line.substr(colon + 1));
    if (glob.empty()) {
      return Error{"'" + std::string(line) + "' is not a suppression", path + ":" + std::to_string(number),
                   "race:PATTERN, kernel:PATTERN or stream:PATTERN"};
    }
    pattern.glob = glob;
    pattern.text = line;
    suppressions.patterns_.push_back(std::move(pattern));
  }
  return suppressions;
}

Expected<Suppressions> Suppressions::read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in) return Error{"cannot read the suppressions", path};
  return parse(text.str(), path);
}

void Suppressions::apply(Analysis& analysis) {
  for (Race& race : analysis.races) {
    for (Pattern& pattern : patterns_) {
      if (pattern.kind == Pattern::Kind::stream && race.level != RaceLevel::stream) continue;
      if (!side_matches(pattern, race.first) && !side_matches(pattern, race.second)) continue;
      race.suppressed = true;
      ++pattern.hits;
      break;
    }
  }
}

std::vector<std::string> Suppressions::unused() const {
  std::vector<std::string> lines;
  for (const Pattern& pattern : patterns_) {
    if (!pattern.hits) lines.push_back(pattern.text);
  }
  return lines;
}

} // namespace deadheat::report
