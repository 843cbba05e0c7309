// Programmatic dependent launch (PTX ISA 9.7.13.16, griddepcontrol; CUDA C++ Programming Guide, "Programmatic Dependent
// Launch and Synchronization"): a launch that allows it may begin when every block of the launch before it in its
// stream has executed launch_dependents or exited; its threads see what that launch did once they have waited.
#include "replay/device/machine.h"

namespace deadheat::device {

void Machine::trigger(Block& block) {
  if (block.triggered) return;
  block.triggered = true;
  if (++block.launch->triggered == block.launch->blocks) ++triggers_;
  ++progress_;
}

void Machine::settle_dependency(Block& block, std::uint32_t warp) {
  WarpState& state = block.warps[warp];
  const engine::ThreadContext* threads = block.threads + warp * warp_lanes;
  const Launch& launch = *block.launch;
  const bool met = !launch.request.primary || launch.primary_complete;
  std::uint32_t leave = 0;
  for (std::uint32_t m = state.at_dependency; m; m &= m - 1) {
    const std::uint32_t bit = m & -m;
    const engine::ThreadContext& t = threads[__builtin_ctz(m)];
    const bool waits = t.arg[0] & 1;
    if (!waits) trigger(block);
    if (waits && !met) continue;
    leave |= bit;
    if (!waits || !launch.request.primary || !recording(block)) continue;
    trace::Fence record;
    record.warp = {launch.request.launch, block.index, warp};
    record.module = launch.request.module;
    record.site = t.pending_site;
    record.mask = bit;
    record.ordering = Ordering::weak;
    record.scope = Scope::none;
    options_.sink->record(record);
  }
  state.at_dependency &= ~leave;
  if (leave) make_ready(block, warp, leave);
}

void Machine::primary_complete(std::uint32_t operation) {
  for (const auto& launch : launches_) {
    if (launch->request.primary != operation || launch->primary_complete) continue;
    launch->primary_complete = true;
    for (const auto& block : launch->resident)
      for (std::uint32_t w = 0; w < block->warps_count; ++w)
        if (block->warps[w].at_dependency) settle_dependency(*block, w);
  }
}

} // namespace deadheat::device
