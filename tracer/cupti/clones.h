// Launches as their kernels see them, and the instrumented clones that take their place.
//
// Thread-safety: pure functions of what they are given, and of the driver.
#pragma once

#include <cstdint>
#include <vector>

#include "tracer/cupti/journal.h"
#include "tracer/cupti/modules.h"
#include "tracer/cupti/session.h"
#include "tracer/device_log/launch_log.h"

namespace deadheat::cupti {

// The argument block: as the kernel sees it.
void arguments_of(const Kernel& kernel, void** parameters, void** extra, std::vector<std::uint8_t>& block);

// The blocks of a cluster where the launch does not say: as the kernel was compiled (.reqnctapercluster).
inline Dim3 compiled_cluster(const Kernel& kernel) {
  return kernel.instrumented && kernel.instrumented->cluster ? *kernel.instrumented->cluster : Dim3{};
}

// Likewise, or as the program asks of the kernel (CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH), of which the clone is told
// too. `handle`: of the launch, before it is the clone's.
Dim3 own_cluster(const Kernel& kernel, CUfunction handle);
void attribute_set(int attribute); // by the program, of any kernel: the driver is asked from the first such one on

// Whether the clone can take the launch; makes it ready for it. Says why not.
bool fits(Session& session, const Kernel& kernel, const Journal::LaunchFacts& launch);

// What the launch's log must know. `launch`: Journal::LaunchFacts or trace::Launch; `number`: its own. Under the
// session's lock.
template <typename Launch>
device_log::Shape shape_of(Session& session, CUcontext context, const Kernel& kernel, const Launch& launch,
                           std::uint32_t number) {
  device_log::Shape shape;
  shape.tensor_maps = &session.tensor_maps;
  shape.uses_textures = kernel.instrumented->textures;
  if (shape.uses_textures) shape.textures = session.textures.now(context);
  shape.launch = number;
  shape.module = kernel.code->module;
  shape.blocks = std::uint32_t(launch.grid.count());
  shape.threads = std::uint32_t(launch.block.count());
  shape.grid = launch.grid;
  shape.cluster = launch.cluster;
  shape.unseen_arrivals = kernel.instrumented->unseen_arrivals;
  shape.programmatic = launch.programmatic;
  shape.strong = kernel.instrumented->strong;
  shape.segments = &kernel.code->instrumentation.segments;
  shape.sites = &kernel.code->sites;
  return shape;
}

} // namespace deadheat::cupti
