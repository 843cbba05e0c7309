// The words of reports: for the enums of race.h, the same in text and JSON (AccessKind has its own), and for numbers of
// things.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "deadheat/race.h"

namespace deadheat::report {

inline const char* word(RaceLevel level) {
  switch (level) {
    case RaceLevel::shared: return "shared";
    case RaceLevel::global: return "global";
    case RaceLevel::stream: return "stream";
  }
  return "global";
}
inline const char* word(RaceClass race_class) { return race_class == RaceClass::strong ? "strong" : "data"; }
inline const char* word(Certainty certainty) { return certainty == Certainty::possible ? "possible" : "certain"; }
inline const char* word(Verdict verdict) {
  switch (verdict) {
    case Verdict::none: return "none";
    case Verdict::harmful: return "harmful";
    case Verdict::benign: return "benign";
    case Verdict::unreached: return "unreached";
  }
  return "none";
}
inline const char* word(Rightness rightness) {
  switch (rightness) {
    case Rightness::right: return "right";
    case Rightness::wrong: return "wrong";
    case Rightness::by_schedule: return "by schedule";
  }
  return "right";
}
inline std::string counted(std::uint64_t count, const std::string& singular, const std::string& plural) {
  return std::to_string(count) + " " + (count == 1 ? singular : plural);
}
// Does it count without --strict?
inline bool is_sure(const Race& race) {
  return race.race_class == RaceClass::data && race.certainty == Certainty::certain;
}
// Of the races that are not suppressed: how many faults make them, as far as that is known.
inline std::uint64_t faults(const Analysis& analysis) {
  std::set<std::uint32_t> firsts;
  for (const Race& race : analysis.races)
    if (!race.suppressed) firsts.insert(race.same_fault_as ? race.same_fault_as : race.id);
  return firsts.size();
}
// Copies, sets and frees have no launch.
inline bool is_operation(const RaceSide& side) { return side.name.launch == 0; }

} // namespace deadheat::report
