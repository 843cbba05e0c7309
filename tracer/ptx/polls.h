// Which strong reads wait: their value decides whether a loop reads the same location again, so that it is
// synchronization, and no data, whatever else becomes of it.
//
// A read polls if its value flows, through registers and what the lanes of a warp exchange, into a branch on which it
// depends whether the same location is read again before the loop goes on to another: on one side of the branch there
// is a path back to the read, or to one that polls, on which the address keeps its value, on the other there is none,
// or one may leave as well. So does a loop that looks at one flag after the other and goes on only when one is set.
//
// A read takes data if its value flows into no branch at all that decides about a loop around it. One in a loop that
// another strong read ends may be a try that is repeated, as readers of sequence locks are: nothing is said of it.
// Nor is it of functions that others call in loops, of loops with several entries, or of very large loops.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <map>

#include "deadheat/ptx.h"
#include "deadheat/site.h"
#include "tracer/ptx/sites.h"

namespace deadheat::ptx {

// By site: strong ld that are no acquire. Where nothing is known there is no entry.
std::map<std::uint32_t, Polls> polls(const Module& module, const SiteTable& table);

} // namespace deadheat::ptx
