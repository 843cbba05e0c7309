// What a thread may do before the value of a load of its own is there.
//
// A read through the non-coherent cache is outside of the memory model: whoever assembles the code takes its memory for
// read-only, and may let it happen later than the text says. Not later than what needs its value, though: what others
// see of the thread.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <set>

#include "deadheat/ptx.h"
#include "tracer/ptx/sites.h"

namespace deadheat::ptx {

struct Ahead {
  bool synchronization = false; // some that may order other threads' accesses behind the load's thread
  std::set<std::uint32_t> stores; // sites of plain stores
  bool anything = false; // where the way leads into or out of a function that is called, or the site is no load
};

// What stands on a way from the load at `site` on which nothing before it has taken the value: no store has stored it,
// or what was computed from it, or stored anything where it says, and no shuffle or vote handed it on. Which registers
// depend on it is told without regard to the flow of control.
Ahead ahead_of(const Module& module, const SiteTable& table, std::uint32_t site);

} // namespace deadheat::ptx
