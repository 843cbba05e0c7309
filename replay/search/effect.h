// Does it show in what the accesses of a race themselves read and leave, which of them comes first? Where it does not,
// outputs that differ are others' doing: of atomics that nothing orders, and that race with nobody.
//
// Thread-safety: pure functions.
#pragma once

#include <functional>

#include "replay/search/interleaving.h"

namespace deadheat::search {

// Of two runs. `of_race`: is it an access of the race's instructions? False only where that is certain: in both, these
// threads perform the same of them, which read the same, and write the same into each word, one after the other.
bool has_effect(const Log& a, const Log& b, const std::function<bool(const device::Performed&)>& of_race);

} // namespace deadheat::search
