// Whether a kernel can run region by region, and how: where threads stop, which registers are recomputed behind a stop
// instead of saved, which are guessed to be affine in tid.x. regions.h says what that means.
//
// Guesses carry no burden of proof: the machine verifies them. Recomputing does: a register is recomputed only where it
// has one definition, without a guard, from thread and block indices, parameters and constants alone.
//
// Thread-safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "replay/engine/tables.h"
#include "tracer/ptx/flow.h"

namespace deadheat::engine {

struct RegionPlan {
  struct Stop {
    std::uint32_t statement = 0; // a barrier, or the instruction before which all threads meet
    bool is_virtual = false;
    // Of virtual stops: registers that the loop writes, its branches back to the header (statements), and whether
    // control can come back after it has left the loop without meeting anywhere else.
    ptx::RegisterSet written = {};
    std::vector<std::uint32_t> back = {};
    bool reentered = false;
  };
  std::vector<Stop> stops; // ascending by statement
  std::vector<std::int32_t> recompute; // by register: the statement that defines it, or -1
  std::vector<std::optional<std::int64_t>> stride; // by register: guessed change from tid.x to tid.x + 1
  bool needs_frame = false; // has local memory
};

// The plan, or nothing when the kernel must run a thread at a time.
std::optional<RegionPlan> plan_regions(const ModuleTables& tables, const KernelTables& kernel);

} // namespace deadheat::engine
