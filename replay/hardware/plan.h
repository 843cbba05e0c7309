// How the order of a witness's two accesses is brought about on a GPU.
//
// Two accesses of one launch, or of a launch and its programmatic dependent one, pass turnstiles
// (tracer/ptx/turnstile.h). Where a side is a whole operation, or the sides lie in other launches, the later one's
// stream waits at a gate until the other operation has ended. Where turnstiles show nothing, runs with delays in front
// of the sites follow. What no order of the two can show is out of reach, and why is said.
//
// Thread-safety: plain values.
#pragma once

#include <string>

#include "deadheat/race.h"
#include "replay/hardware/capsule.h"

namespace deadheat::hardware {

enum class Means : std::uint8_t { turnstiles, gates, delays };
enum class Order : std::uint8_t { unknown, first_then_second, second_then_first };

struct Plan {
  Means means = Means::turnstiles;
  AccessName first, second;
  std::string out_of_reach; // why; empty: it is not
};

Plan make_plan(const Capsule& capsule);

const char* name(Means means);  // "turnstiles"

} // namespace deadheat::hardware
