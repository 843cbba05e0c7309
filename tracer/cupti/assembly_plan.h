// What assembling instrumented kernels costs, told before it is begun: ptxas takes minutes over some kernels of
// libraries whose loops are unrolled into thousands of accesses, and the program waits for it.
//
// Thread-safety: pure functions.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tracer/ptx/instrument.h"

namespace deadheat::cupti {

struct AssemblyPlan {
  std::set<std::string> kernels; // that are to gain clones
  std::vector<std::string> left_out; // that would take too long, the costliest first
  double seconds = 0; // that those in `kernels` take together
  double seconds_left_out = 0; // that the others would take beside them
};

// Of one clone, on one processor.
double assembly_seconds(const ptx::KernelSites& kernel);

// Which kernels to instrument, so that assembling them takes no longer than that where so many processors share it
// (ptxas takes several kernels of a module at the same time). The costliest are left out first. No limit: 0.
AssemblyPlan plan_assembly(std::vector<ptx::KernelSites> kernels, unsigned processors, double most_seconds);

} // namespace deadheat::cupti
