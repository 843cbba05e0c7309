// The footprint of a block: which global memory it touches, told without running it.
//
// A kernel's slice is what decides where its threads go and which addresses of global memory they name: branches,
// accesses to global memory, and whatever their guards and addresses are computed from. Where that rests on parameters,
// indices and loads of global memory alone, and on nothing that threads tell each other, a probe of the slice
// (region_probe.h) says for any block which ranges the kernel reads and writes, whatever else the kernel does in
// between: barriers, shuffles, shared memory, arithmetic.
//
// Groups of blocks (independence.h) are independent when no group writes what another touches, and nobody writes what
// the probes read to find addresses. Then every order of the groups gives the same memory, and so does running them at
// the same time: take the first access, in any such order, whose address or guard is another than the probe said. It
// rests on loads of memory that nobody writes, so it is the same. And what a block reads from global memory is what was
// there before, or what its own group wrote.
//
// Memory that several groups change by the same commuting integer operation, and nothing else, is the same in the end,
// too, if these operations are atomic on the host (LaunchContext::concurrent).
//
// Thread-safety: pure functions; the probe may run on several host threads with a RegionContext each.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "replay/engine/regions.h"
#include "replay/engine/tables.h"

namespace deadheat::engine {

struct FootprintSlice {
  std::vector<bool> kept; // by statement
  bool lasting = true; // rests on parameters and indices alone, not on what lies in memory
  std::vector<bool> steers; // by statement: a load from global memory, of what addresses or guards rest on
};
// Nothing where a block's footprint cannot be told, or where the blocks of a launch have to do with each other
// (clusters, waiting for values, allocation, clocks).
std::optional<FootprintSlice> footprint_slice(const ModuleTables& tables, const KernelTables& kernel);

// Probes for blocks whose accesses interleave; the same ranges.
struct InterleavedProbes {
  RegionProbe residues = nullptr; // numbers are of folded bases (RegionContext::folds)
  RegionProbe list = nullptr; // also fills RegionContext::listed
};
// Probes of one block; they use block, extent and ranges of the context.
struct FootprintCode {
  RegionProbe probe = nullptr;
  std::vector<RegionRange> ranges;
  bool lasting = false; // as of FootprintSlice
  std::function<const InterleavedProbes*()> interleaved; // compiled when first asked for; null: there are none
  std::size_t numbers() const { return 2 * ranges.size() + 1; } // as of ProbeNotes
};

} // namespace deadheat::engine
