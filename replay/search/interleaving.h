// Two runs side by side: what the threads of a race did in each, where the runs part, which pairs of accesses changed
// places.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "deadheat/race.h"
#include "deadheat/schedule.h"
#include "replay/device/performed.h"

namespace deadheat::search {

using Log = std::vector<device::Performed>;
using SiteOf = std::function<const Site*(std::uint32_t module, std::uint32_t site)>; // null: unknown

// The steps of the two threads in either run, at most `most` each: accesses to bytes that both threads touch and one
// writes, and fences; those around the first in which the runs differ, and, however far before, the two accesses of
// the instance.
struct SideBySide {
  std::vector<WitnessStep> a, b;
};
SideBySide side_by_side(const Log& a, const Log& b, const Race::Instance& threads, const SiteOf& site,
                        std::size_t most = 16);

// The instance of a race at which two runs part: the first access of one of its sites, in the order of run `a`, that
// read something else in run `b`, and the access of the other site to the same word, by another thread, that comes last
// before it (else first after it). Empty: no such access reads differently.
std::optional<Race::Instance> parting_instance(const Log& a, const Log& b, const Race& race);

// Places where the second run goes on with another thread than the one it ran, and the first run does not.
std::uint64_t context_switches(const Log& a, const Log& b);

// Where the access was performed; the log's size where it was not.
std::size_t place_of(const Log& log, const AccessName& name);

// Pairs of conflicting accesses of different threads that come in either order in the two runs, as pairs of sites, the
// smaller first: all but the instance itself.
struct SitePair {
  SiteName first, second;
  friend auto operator<=>(const SitePair&, const SitePair&) = default;
};
std::vector<SitePair> changed_places(const Log& a, const Log& b, const Race::Instance& but);

} // namespace deadheat::search
