// An Analysis as the JSON of `deadheat analyze --json` (DESIGN.md, "The command line").
//
// What replay fills in (verdict, schedules, witness, differences) appears once a race has a verdict. `file` and `line`
// of a side are those of own_frame() (place.h), null where unknown; `inlined` is the whole chain, innermost first. A
// side outside a launch (copy, set, free) has null for launch, block, thread and nth. summary.races and
// summary.order_dependent count the entries, suppressed ones not.
//
// Strings from traces that are not UTF-8 have their bad bytes replaced, so that dump() never throws; NaN and infinities
// are the strings "nan", "inf" and "-inf".
//
// Thread-safety: pure functions.
#pragma once

#include <nlohmann/json.hpp>

#include "deadheat/race.h"

namespace deadheat::report {

nlohmann::json to_json(const Analysis& analysis);
nlohmann::json to_json(const Race& race);

} // namespace deadheat::report
