// Blocks of launches that nobody watches, region by region (engine/regions.h).
#include <algorithm>

#include "replay/device/machine.h"
#include "replay/engine/region_run.h"

namespace deadheat::device {

// Runs a block to its end. No thread in it can wait for another but at the block's barrier.
void Machine::run_regions(Block& block) {
  const Launch& launch = *block.launch;
  const engine::RegionCode& code = *launch.request.regions;
  engine::RegionContext context;
  context.block = &block.context;
  for (int n = 0; n < 3; ++n) context.extent[n] = launch.context.ntid[n];
  engine::lay_out_regions(code, launch.threads, block.memory, context);
  engine::ThreadContext who;
  who.block = &block.context;
  current_ = &who;
  engine::RegionRun run(code, context, who, launch.threads);
  while (run.next())
    if (run.mixed()) check_aligned(block, run, who);
  current_ = nullptr;
}

// As for threads that run one at a time: one report a warp.
void Machine::check_aligned(Block& block, const engine::RegionRun& run, engine::ThreadContext& who) {
  const Launch& launch = *block.launch;
  const std::vector<Site>& sites = *launch.request.sites->sites;
  for (std::uint32_t first = 0; first < launch.threads; first += warp_lanes) {
    std::uint32_t common = ~0u;
    for (std::uint32_t t = first; t < std::min(first + warp_lanes, launch.threads); ++t) {
      const std::uint32_t site = run.barrier_of(t);
      if (site == ~0u || site == common) continue;
      if (common == ~0u) common = site;
      if (site == common || site >= sites.size() || !sites[site].aligned) continue;
      who.linear = t;
      who.pending_site = site;
      sync_error(block, who, not_aligned);
      break;
    }
  }
}

} // namespace deadheat::device
