// An Analysis as the JSON of `deadheat analyze --json` (DESIGN.md, "The command line").
//
// What replay fills in (verdict, schedules, witness, differences) appears once a race has a verdict. Strings from
// traces that are not UTF-8 have their bad bytes replaced, so that dump() never throws.
//
// Thread-safety: pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "deadheat/race.h"

namespace deadheat::report {

nlohmann::json to_json(const Analysis& analysis);
nlohmann::json to_json(const Race& race);

// `text` with every byte that is not part of a UTF-8 sequence replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

} // namespace deadheat::report
