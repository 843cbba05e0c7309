// Which strong reads wait for vectors that carry data beside their flag, as NCCL's LL and LL128 protocols have them:
// where the flag is what the thread waits for, it takes the data of that very read.
//
// Whether such a vector may be overwritten before somebody has read it depends on what the wait is for. Where it ends
// with one value alone, a thread that finds the next one there waits forever, or takes data that is not its own: the
// next write must come behind the read. Where it ends with any value but some, or from some on (a status that goes from
// partial to whole, a generation that is waited for with >=, a buffer that is no longer empty), either write may be
// read. So a read is one of these if on every way from it on which its elements decide anything, but for those that
// read the location again, all elements that were looked at equal values that stay as they are while the thread waits;
// what is compared are whole elements. A thread may also give up: leave the loop around the read where no element
// decides (it has looked often enough, it is told to stop). What both come to, who found the flag and who gave up,
// tells nothing then. An element is data if it is in a register of its own, is used, and decides nothing. Where there
// are too many ways, calls that may return before the flag is there, or code that was not optimized (whose values go
// through memory), there are none.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "deadheat/ptx.h"
#include "deadheat/site.h"
#include "tracer/ptx/sites.h"

namespace deadheat::ptx {

// Which elements are data, and which execution of the read was the last one of a wait. Sites are ascending.
struct FlaggedRead {
  struct Next { // what a thread comes to
    std::vector<std::uint32_t> behind; // who comes to one of these has found the flag
    std::vector<std::uint32_t> beside; // who comes to one of these may have to look at it still
    bool ends = false; // whose thread ends has found it
  };
  std::uint32_t data = 0; // bit e: element e
  std::vector<std::uint32_t> again; // who comes to one of these has not, where that reads the same vector
  bool moves_on = false; // where it reads another, he has
  Next next; // behind the read
  Next behind_others; // and behind some of next.beside
};
using FlaggedReads = std::map<std::uint32_t, FlaggedRead>; // by site

// Of those that `polls`, as ptx::polls() found it.
FlaggedReads flagged_reads(const Module& module, const SiteTable& table, const std::map<std::uint32_t, Polls>& polls);

} // namespace deadheat::ptx
