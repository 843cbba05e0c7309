#include "analyzer/report/suppress.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <utility>

#include "analyzer/report/names.h"
#include "analyzer/report/place.h"
#include "analyzer/report/words.h"
#include "tracer/ptx/demangle.h"

namespace deadheat::report {

namespace {

constexpr std::string_view blank = " \t\r";

using Kind = Suppressions::Pattern::Kind;
constexpr std::pair<std::string_view, Kind> kinds[] = {
    {"race", Kind::race},     {"kernel", Kind::kernel}, {"stream", Kind::stream}, {"function", Kind::function},
    {"repeat", Kind::repeat}, {"unused", Kind::unused}, {"proxy", Kind::proxy},   {"unwritten", Kind::unwritten},
    {"within", Kind::within}, {"code", Kind::code}};

std::string_view trimmed(std::string_view text) {
  std::size_t first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

// By an end of the path that follows a '/', or all of it.
bool is_file(std::string_view glob, std::string_view path) {
  while (!glob_matches(glob, path)) {
    const std::size_t slash = path.find('/');
    if (slash == std::string_view::npos) return false;
    path.remove_prefix(slash + 1);
  }
  return true;
}

bool on_line(std::string_view glob, const SourceFrame& frame) {
  return !frame.file.empty() && is_file(glob, frame.file + ":" + std::to_string(frame.line));
}

// Copies and sets have no line, kernels may have none: these go by their name.
bool on_line(std::string_view glob, const RaceSide& side) {
  if (!own_frame(side.source)) return glob_matches(glob, ptx::demangle(side.kernel));
  return std::any_of(side.source.begin(), side.source.end(),
                     [&](const SourceFrame& frame) { return on_line(glob, frame); });
}

bool on_lines(std::string_view glob, const RaceSide& first, const RaceSide& second) {
  if (on_line(glob, first) || on_line(glob, second)) return true;
  // A pair of lines. Paths may hold blanks too, so that each may be the one between the two.
  for (std::size_t at = 0; (at = glob.find_first_of(blank, at)) != std::string_view::npos; ++at) {
    std::string_view one = trimmed(glob.substr(0, at)), two = trimmed(glob.substr(at));
    if (on_line(one, first) && on_line(two, second)) return true;
    if (on_line(one, second) && on_line(two, first)) return true;
  }
  return false;
}

bool named(std::string_view glob, const RaceSide& side) { return glob_matches(glob, ptx::demangle(side.kernel)); }

bool inside(std::string_view glob, const RaceSide& side) {
  auto matches = [&](const std::string& function) { return glob_matches(glob, function); };
  if (std::any_of(side.source.begin(), side.source.end(),
                  [&](const SourceFrame& frame) { return matches(ptx::demangle(frame.function)); }))
    return true;
  return !side.source.empty() && !side.ways.empty() &&
         std::all_of(side.ways.begin(), side.ways.end(),
                     [&](const auto& way) { return std::any_of(way.begin(), way.end(), matches); });
}

// Where lines do not tell which code it is (Suppressions, code:).
bool on_path(std::string_view glob, const RaceSide& side, const Race& race) {
  if (side.path.empty()) return false;
  const std::string where = side.source.empty() ? ptx::demangle(side.kernel) : side.source.front().file;
  return glob_matches(glob, side.path + (race.same_value ? "[same]" : "") + " in " + where);
}

// "GLOB" of both sides, or "GLOB with GLOB" of the one and the other.
template <typename Matches>
bool both_sides(std::string_view globs, const RaceSide& first, const RaceSide& second, const Matches& matches) {
  constexpr std::string_view between = " with ";
  const std::size_t at = globs.find(between);
  const std::string_view one = trimmed(globs.substr(0, at));
  const std::string_view two = at == std::string_view::npos ? one : trimmed(globs.substr(at + between.size()));
  return (matches(one, first) && matches(two, second)) || (matches(one, second) && matches(two, first));
}

// The race, by two sides that it has.
bool matches(const Suppressions::Pattern& pattern, const Race& race, const RaceSide& first, const RaceSide& second) {
  switch (pattern.kind) {
    case Kind::race: return on_lines(pattern.glob, first, second);
    case Kind::kernel: return named(pattern.glob, first) || named(pattern.glob, second);
    case Kind::stream:
      return race.level == RaceLevel::stream && (named(pattern.glob, first) || named(pattern.glob, second));
    case Kind::function: return both_sides(pattern.glob, first, second, inside);
    case Kind::code:
      return both_sides(pattern.glob, first, second,
                        [&](std::string_view glob, const RaceSide& side) { return on_path(glob, side, race); });
    case Kind::repeat:
      return race.same_value && first.op == AccessKind::write && second.op == AccessKind::write &&
             first.source == second.source && on_line(pattern.glob, first);
    case Kind::unused: return race.unused_read && on_line(pattern.glob, first.op == AccessKind::read ? first : second);
    case Kind::proxy: return race.lacks_only_proxy_fence && on_line(pattern.glob, first);
    case Kind::unwritten: return false; // no race
    case Kind::within: {
      auto made = [&](const RaceSide& side) {
        return !side.stream_maker.empty() && is_file(pattern.glob, side.stream_maker);
      };
      return race.level == RaceLevel::stream && race.certainty == Certainty::possible && made(first) && made(second) &&
             first.stream_maker == second.stream_maker;
    }
  }
  return false;
}

// Whether it matches in one of the race's codes at least; all of them suppress it, by one pattern or by several.
bool suppress(const Suppressions::Pattern& pattern, Race& race) {
  if (race.codes.empty()) {
    const bool matched = matches(pattern, race, race.first, race.second);
    race.suppressed |= matched;
    return matched;
  }
  bool matched = false;
  for (RaceCode& code : race.codes) {
    const bool here = matches(pattern, race, code.first, code.second);
    code.suppressed |= here;
    matched |= here;
  }
  race.suppressed =
      std::all_of(race.codes.begin(), race.codes.end(), [](const RaceCode& code) { return code.suppressed; });
  return matched;
}

} // namespace

std::vector<std::string> suppressed_in(const Race& race) {
  std::set<std::string> kernels;
  for (const RaceCode& code : race.codes) {
    if (!code.suppressed || race.suppressed) continue;
    const std::string first = ptx::demangle(code.first.kernel), second = ptx::demangle(code.second.kernel);
    kernels.insert(first == second ? first : first + " with " + second);
  }
  return {kernels.begin(), kernels.end()};
}

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

Expected<Suppressions> Suppressions::parse(std::string_view text, const std::string& path) {
  Suppressions suppressions;
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF"; // some editors begin a file so
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  for (unsigned number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    line = trimmed(line);
    if (line.empty() || line.front() == '#') continue; // not further on: {lambda()#1}
    std::size_t colon = line.find(':');
    std::string_view kind = line.substr(0, colon);
    const auto known = std::find_if(std::begin(kinds), std::end(kinds), [&](const auto& k) { return k.first == kind; });
    std::string_view glob;
    if (colon != std::string_view::npos && known != std::end(kinds)) glob = trimmed(line.substr(colon + 1));
    if (glob.empty()) {
      std::string names;
      for (const auto& k : kinds) {
        const char* between = &k == std::begin(kinds) ? "" : &k == std::end(kinds) - 1 ? " or " : ", ";
        names += between + std::string(k.first) + ":GLOB";
      }
      return Error{"'" + printable(line) + "' is not a suppression", path + ":" + std::to_string(number), names};
    }
    Pattern pattern;
    pattern.kind = known->second;
    pattern.glob = glob;
    pattern.text = line;
    pattern.where = path + ":" + std::to_string(number);
    suppressions.patterns_.push_back(std::move(pattern));
  }
  return suppressions;
}

Expected<Suppressions> Suppressions::read(const std::string& path) {
  std::error_code none;
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in || std::filesystem::is_directory(path, none)) return Error{"cannot read the suppressions", path};
  return parse(text.str(), path);
}

void Suppressions::apply(Analysis& analysis) {
  analysis.summary.races = 0;
  for (Race& race : analysis.races) {
    for (Pattern& pattern : patterns_) pattern.hits += suppress(pattern, race);
    analysis.summary.races += !race.suppressed;
  }
  std::erase_if(analysis.memory_errors, [&](const Fault& fault) {
    bool matched = false;
    if (fault.kind != "uninitialized") return matched;
    for (Pattern& pattern : patterns_) {
      const bool here = inside(pattern.glob, fault.side) ||
                        (fault.side.source.empty() && named(pattern.glob, fault.side)); // no lines: the kernel holds it
      if (pattern.kind != Pattern::Kind::unwritten || !here) continue;
      matched = true;
      ++pattern.hits;
    }
    return matched;
  });
}

std::vector<std::string> Suppressions::used() const {
  std::vector<std::string> lines;
  for (const Pattern& pattern : patterns_) {
    if (!pattern.hits) continue;
    lines.push_back(printable(pattern.text) + " (" + pattern.where + ") matched " + std::to_string(pattern.hits) +
                    (pattern.kind == Pattern::Kind::unwritten ? " memory error" : " race") +
                    (pattern.hits == 1 ? "" : "s"));
  }
  return lines;
}

std::vector<std::string> Suppressions::unused() const {
  std::vector<std::string> lines;
  for (const Pattern& pattern : patterns_) {
    if (!pattern.hits) lines.push_back(printable(pattern.text) + " (" + pattern.where + ")");
  }
  return lines;
}

namespace {

// A side as a race: pattern names it: the end of its path and the line, or its kernel or API call.
std::string side_pattern(const RaceSide& side) {
  const SourceFrame* own = own_frame(side.source);
  if (!own) return printable(ptx::demangle(side.kernel));
  return printable(own->file.substr(own->file.rfind('/') + 1)) + ":" + std::to_string(own->line);
}

} // namespace

std::string suppressions_for(const Analysis& analysis) {
  std::string text;
  for (const Race& race : analysis.races) {
    if (race.suppressed) continue;
    std::string one = side_pattern(race.first), two = side_pattern(race.second);
    if (two < one) std::swap(one, two);
    text += "# race " + std::to_string(race.id) + ": " + race.kind() + ", level " + word(race.level) + "\n";
    text += "race:" + one + " " + two + "\n";
  }
  return text;
}

} // namespace deadheat::report
