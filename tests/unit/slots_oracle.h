// An oracle for slots that are filled again too early (analyzer/detect/refills.h): what LIMITS.md and
// tracer/ptx/flagged_reads.h say of them, once more and naively, over a little execution (order_oracle.h).
//
// A thread that executed a flagged read has taken what it read, if what the thread comes to next says so. A write
// behind a read that was taken, by another thread, of data beside the flag, is to come after it in base causality order
// of an execution in which every strong access releases and acquires and is of system scope.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <map>

#include "tests/unit/order_oracle.h"
#include "tracer/ptx/flagged_reads.h"

namespace deadheat::test {

// By site, which is the number of the event that executed it first.
using Flags = std::map<std::uint32_t, ptx::FlaggedRead>;

std::uint32_t site_of(const Execution& execution, std::size_t event);

// Pairs of events: the read's and the write's first elements.
EventPairs refilled(const Execution& execution, const Flags& flags);

} // namespace deadheat::test
