// Of a launch in which nobody can go on: who waits for what.
#include <algorithm>
#include <cstdio>

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

// "thread 3 of block 0 at bar.sync a.cu:12": where it waits.
std::string Machine::standing(const Launch& launch, const Block& block, std::uint32_t thread) const {
  const engine::ThreadContext& t = block.threads[thread];
  std::string text = "block " + std::to_string(block.index) + " thread " + std::to_string(thread);
  const std::vector<Site>& sites = *launch.request.sites->sites;
  if (t.pending_site >= sites.size()) return text;
  const Site& site = sites[t.pending_site];
  text += " at " + site.opcode;
  if (!site.source.empty()) text += " " + site.source[0].file + ":" + std::to_string(site.source[0].line);
  if (site.kind == SiteKind::mbarrier) text += mbarrier_text(t, site.opcode.find(".parity") != std::string::npos);
  return text;
}

// Of the first barrier that nobody can complete: how many have arrived, and one that has not.
std::string Machine::missing(const Launch& launch) const {
  for (const auto& block : launch.resident)
    for (std::uint32_t used = block->used_barriers; used; used &= used - 1) {
      const std::uint32_t number = std::uint32_t(__builtin_ctz(used));
      const Barrier& barrier = block->barriers[number];
      if (!barrier.arrived) continue;
      const std::uint32_t expected = barrier.expected ? barrier.expected : block->live;
      std::string text = "barrier " + std::to_string(number) + " of block " + std::to_string(block->index) + " has " +
                         std::to_string(barrier.arrived) + " of " + std::to_string(expected) + " threads";
      std::uint32_t gone = 0;
      for (std::uint32_t w = 0; w < block->warps_count; ++w) {
        const WarpState& state = block->warps[w];
        gone +=
            std::min(warp_lanes, block->threads_count - w * warp_lanes) - std::uint32_t(__builtin_popcount(state.live));
      }
      for (std::uint32_t w = 0; w < block->warps_count; ++w)
        if (const std::uint32_t others = block->warps[w].live & ~(barrier.waiting[w] | barrier.partial[w]))
          return text + " and waits for " +
                 standing(launch, *block, w * warp_lanes + std::uint32_t(__builtin_ctz(others)));
      return text + (gone ? "; " + std::to_string(gone) + " of the block have exited" : "; the block has no others");
    }
  return {};
}

// Of a thread that looks at a value again and again: the value, of a vector its elements, and where.
std::string Machine::awaiting(const Block& block, const engine::ThreadContext& t) const {
  const Awaited a = t.pending_address ? awaited(block, t) : Awaited{};
  if (!a.at) return {};
  const auto hex = [](std::uint64_t value) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
    return std::string(text);
  };
  const std::uint32_t step = std::min(a.element_bytes, engine::spin_word_bytes);
  std::string values;
  for (std::uint32_t at = 0; at < a.bytes; at += step)
    values += (at ? ", " : "") + hex(engine::spin_value(a.at + at, step, step));
  return ", which still reads " + (a.bytes > step ? "{" + values + "}" : values) + " at " + hex(t.pending_address);
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
        example = standing(launch, *block, thread);
        if (group.lanes == &WarpState::parked) example += awaiting(*block, block->threads[thread]);
      }
    if (!count) continue;
    text += (first ? " " : ", ") + std::to_string(count) + (count == 1 ? " thread " : " threads ") + group.what + " (" +
            example + ")";
    first = false;
  }
  if (const auto waiting = launch.blocks - launch.next_block; launch.next_block < launch.blocks)
    text += (first ? " " : ", ") + std::to_string(waiting) + (waiting == 1 ? " block" : " blocks") + " not resident";
  if (const std::string barrier = missing(launch); !barrier.empty()) text += "; " + barrier;
  return text;
}

void Machine::report_hang() {
  if (!options_.sink) return;
  static constexpr std::uint32_t WarpState::* waits[] = {
      &WarpState::at_barrier, &WarpState::at_warp, &WarpState::parked, &WarpState::waiting_copy, &WarpState::ready};
  for (const auto& launch : launches_) {
    const engine::ThreadContext* who = nullptr;
    const Block* where = nullptr;
    for (auto lanes : waits)
      for (const auto& block : launch->resident)
        for (std::uint32_t w = 0; w < block->warps_count && !who; ++w)
          if (const std::uint32_t mask = block->warps[w].*lanes) {
            who = &block->threads[w * warp_lanes + std::uint32_t(__builtin_ctz(mask))];
            where = block.get();
          }
    if (!who) continue;
    options_.sink->record(trace::SyncError{launch->request.launch, where->index, who->linear, launch->request.module,
                                           who->pending_site, "deadlock: " + stuck(*launch)});
  }
}

} // namespace deadheat::device
