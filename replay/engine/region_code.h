// Builds the region code of a kernel into an LLVM module: the function of one thread, under the kernel's name, and the
// fast functions, under fast_name.
//
// Thread-safety: as builder.h.
#pragma once

#include <optional>
#include <string>

#include "replay/engine/builder.h"
#include "replay/engine/footprint.h"
#include "replay/engine/region_probe.h"
#include "replay/engine/regions.h"

namespace deadheat::engine {

std::string fast_name(std::size_t resume);

// Everything but the addresses of the code; nothing where the kernel does what regions cannot.
std::optional<RegionCode> build_regions(Unit& unit, const RegionPlan& plan);

// Probes of a whole kernel, under probe_name(n) for the n-th kind; their ranges.
std::optional<std::vector<RegionRange>> build_footprint(Unit& unit, const FootprintSlice& slice,
                                                        const std::vector<ProbeKind>& kinds);

}  // namespace deadheat::engine
