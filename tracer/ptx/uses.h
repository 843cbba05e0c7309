// Where the value of a load goes, and whether anything depends on the outcome of a wait or of a strong read.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "deadheat/ptx.h"
#include "tracer/ptx/sites.h"

namespace deadheat::ptx {

// The sites of the stores (st) that the values of the loads at `sites` flow into as data, through registers of the same
// thread and pure arithmetic; no value where one may flow anywhere else: into an address, the guard of anything but
// arithmetic, a branch, a call, another lane, an atomic operation, a barrier; or where a site is no ld. Flow of control
// is not looked at: whatever some use of a register might see counts.
std::optional<std::set<std::uint32_t>> stores_fed_by(const Module& module, const SiteTable& table,
                                                     const std::set<std::uint32_t>& sites);

// The sites of mbarrier.test_wait and mbarrier.try_wait, and of strong ld and atom, whose outcome nothing depends on:
// it flows through pure arithmetic into registers of the same thread that nothing else reads. The thread goes on the
// same where the phase is not complete, or where the read returns another value. Of a vector it is that of every
// element. Flow of control is not looked at: whatever some use of a register might see counts.
std::set<std::uint32_t> unused_outcomes(const Module& module, const SiteTable& table);

} // namespace deadheat::ptx
