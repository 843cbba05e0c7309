// Of a launch in which nobody can go on: who waits for what.
#include "replay/device/machine.h"

namespace deadheat::device {

bool Machine::can_go_on(const Launch& launch) const {
  for (const auto& block : launch.resident)
    if (block->ready_warps) return true;
  return can_admit(launch);
}

bool Machine::any_parked(const Launch& launch) const {
  for (const auto& block : launch.resident)
    for (std::uint32_t w = 0; w < block->warps_count; ++w)
      if (block->warps[w].parked) return true;
  return false;
}

std::string Machine::stuck(const Launch& launch) const {
  struct Group {
    const char* what;
    std::uint32_t WarpState::* lanes;
  };
  static constexpr Group groups[] = {{"at a barrier", &WarpState::at_barrier},
                                     {"at a warp operation", &WarpState::at_warp},
                                     {"waiting for a value", &WarpState::parked},
                                     {"held by the schedule", &WarpState::held},
                                     {"waiting for a copy", &WarpState::waiting_copy},
                                     {"at a cluster barrier", &WarpState::at_cluster},
                                     {"waiting for the launch before", &WarpState::at_dependency},
                                     {"running", &WarpState::ready}};
  std::string text = "launch " + std::to_string(launch.request.launch) + " (" + launch.request.kernel + "):";
  bool first = true;
  for (const Group& group : groups) {
    std::uint64_t count = 0;
    std::string example;
    for (const auto& block : launch.resident)
      for (std::uint32_t w = 0; w < block->warps_count; ++w) {
        const std::uint32_t lanes = block->warps[w].*group.lanes;
        if (!lanes) continue;
        count += std::uint64_t(__builtin_popcount(lanes));
        if (!example.empty()) continue;
        const std::uint32_t thread = w * warp_lanes + std::uint32_t(__builtin_ctz(lanes));
        const engine::ThreadContext& t = block->threads[thread];
        example = "block " + std::to_string(block->index) + " thread " + std::to_string(thread);
        const std::vector<Site>& sites = *launch.request.sites->sites;
        if (t.pending_site < sites.size()) {
          const Site& site = sites[t.pending_site];
          example += " at " + site.opcode;
          if (!site.source.empty()) example += " " + site.source[0].file + ":" + std::to_string(site.source[0].line);
          if (site.kind == SiteKind::mbarrier) example += mbarrier_text(*block, t);
        }
      }
    if (!count) continue;
    text += (first ? " " : ", ") + std::to_string(count) + (count == 1 ? " thread " : " threads ") + group.what + " (" +
            example + ")";
    first = false;
  }
  if (launch.next_block < launch.blocks)
    text += (first ? " " : ", ") + std::to_string(launch.blocks - launch.next_block) + " blocks not resident";
  return text;
}

} // namespace deadheat::device
