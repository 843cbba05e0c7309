// Fuzz target: suppression files. The first line is a pattern for glob_matches too. Whatever parses is applied to a
// race, and what is printed for that race must parse and match it.
#include <cstdint>
#include <string>
#include <string_view>

#include "analyzer/report/sarif.h"
#include "analyzer/report/suppress.h"

namespace {

using namespace deadheat;
using namespace deadheat::report;

void check(bool holds) {
  if (!holds) __builtin_trap();
}

Analysis one_race(std::string_view name) {
  Analysis analysis;
  Race race;
  race.id = 1;
  race.level = RaceLevel::stream;
  race.first.kernel = std::string(name);
  race.first.source = {{"", "/src/" + std::string(name.substr(0, name.find('/'))) + ".cu", 12, 1}};
  race.second.kernel = "cudaMemcpyAsync";
  analysis.races.push_back(race);
  return analysis;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string_view first = text.substr(0, text.find('\n')).substr(0, 256);
  check(glob_matches("*", first));
  (void)glob_matches(first, "softmax(float const*, float*)");
  Analysis analysis = one_race(first);
  Expected<Suppressions> given = Suppressions::parse(text, "fuzz");
  if (given) {
    given->apply(analysis);
    std::size_t hits = 0;
    for (const Suppressions::Pattern& pattern : given->patterns()) hits += pattern.hits;
    check(analysis.races[0].suppressed == (hits > 0));
    check(given->used().size() + given->unused().size() == given->patterns().size());
  } else {
    check(!given.error().what.empty() && !given.error().where.empty());
  }
  (void)to_sarif(analysis, "fuzz").dump();

  Analysis fresh = one_race(first);
  const std::string printed = suppressions_for(fresh);
  Expected<Suppressions> pasted = Suppressions::parse(printed, "printed");
  check(bool(pasted) && pasted->patterns().size() == 1);
  // Names with control characters or bad UTF-8 are printed as they are shown, and blanks at the ends of a pattern go.
  if (first.empty() || first.front() == ' ' || first.back() == ' ') return 0;
  for (char c : first) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) return 0;
  }
  pasted->apply(fresh);
  check(fresh.races[0].suppressed);
  return 0;
}
