// Which registers a stop must save: those that are live and whose frame slot does not hold their value already.
//
// A slot holds a register's value from a stop that saved it until the register is written. A stop that happens only
// under a condition saves on that path alone, so it leaves what is known as it was.
//
// Thread-safety: pure function.
#pragma once

#include <cstdint>
#include <vector>

#include "deadheat/ptx.h"
#include "tracer/ptx/flow.h"

namespace deadheat::engine {

struct StopPoint {
  std::uint32_t statement = 0;
  bool before = false;                // stops before the statement has done anything; what it saves is given
  bool always = false;                // whoever executes the statement stops at it, before it writes anything
  std::vector<ptx::RegisterId> live;  // to be in the registers when it goes on
  std::vector<ptx::RegisterId> save;  // filled in: a subset of live
  std::vector<ptx::RegisterId> recompute;  // live too, but made anew instead of kept
};

// `points` ascending by statement.
void find_saves(const ptx::Function& function, const ptx::Flow& flow, std::vector<StopPoint>& points);

}  // namespace deadheat::engine
