// Threads that wait for a value: what they wait for, when they look again, and who lets others go first.
#include <algorithm>
#include <utility>

#include "deadheat/address.h"
#include "replay/device/machine.h"

namespace deadheat::device {

using engine::ThreadContext;

namespace {

constexpr std::size_t max_awaited = 64, max_awaited_before = 16; // before: Schedule::Prompt::at_first and no
constexpr std::uint32_t tickets_in_turn = 8; // of a block, behind which others take theirs

} // namespace

Awaited Machine::awaited(const Block& block, const ThreadContext& thread) const {
  const std::vector<Site>& sites = *block.launch->request.sites->sites;
  Awaited a{.value = thread.spin_value, .bytes = 4, .element_bytes = 4};
  if (thread.pending_site < sites.size()) {
    const Site& site = sites[thread.pending_site];
    a.by_access = site.kind == SiteKind::access;
    a.by_phase = site.kind == SiteKind::mbarrier;
    a.element_bytes = std::max<std::uint32_t>(site.element_bytes, 1);
    a.bytes = a.element_bytes * std::max<std::uint32_t>(site.elements, 1);
  }
  a.at = readable(thread, thread.pending_address, a.bytes);
  return a;
}

const std::uint8_t* Machine::readable(const ThreadContext& thread, std::uint64_t address, std::uint32_t bytes) const {
  auto inside = [&](std::uint64_t window, std::uint64_t size) {
    return address - window < size && bytes <= size - (address - window);
  };
  if (inside(shared_window, thread.block->launch->total_shared))
    return thread.block->shared + (address - shared_window);
  if (address - shared_window < window_bytes) {
    const SharedPlace at = shared_place(*static_cast<Block*>(thread.block->block), address, bytes);
    return at.block ? at.bytes() : nullptr;
  }
  if (inside(local_window, thread.stack_bytes)) return thread.stack + (address - local_window);
  if (address & window_bit || !options_.environment->legal(address, bytes)) return nullptr;
  return reinterpret_cast<const std::uint8_t*>(to_host(address));
}

bool Machine::unchanged(const Block& block, const ThreadContext& thread) const {
  const Awaited a = awaited(block, thread);
  return a.at && !a.changed();
}

bool Machine::is_prompt(const Launch& launch, Schedule::Prompt least) const {
  const engine::Mode& mode = launch.request.mode;
  return options_.prompt >= least && (mode.record || mode.control);
}

void Machine::note_awaited(const Block& block, const ThreadContext& thread) {
  std::vector<Awaited>& noted = block.launch->awaited;
  if (noted.size() >= (is_prompt(*block.launch, Schedule::Prompt::always) ? max_awaited : max_awaited_before)) return;
  const Awaited mine = awaited(block, thread);
  if (mine.at && std::none_of(noted.begin(), noted.end(),
                              [&](const Awaited& a) { return a.at == mine.at && a.value == mine.value; }))
    noted.push_back(mine);
}

// All have had their turn: what those wait for who still do.
void Machine::note_awaited_anew(Launch& launch) {
  launch.awaited.clear();
  if (!is_prompt(launch, Schedule::Prompt::always)) return;
  for (const auto& block : launch.resident)
    for (std::uint32_t w = 0; w < block->warps_count; ++w)
      for (std::uint32_t m = block->warps[w].parked; m; m &= m - 1)
        note_awaited(*block, block->threads[w * warp_lanes + std::uint32_t(__builtin_ctz(m))]);
}

// The block has had its turn. True: someone may go on who waits for a value.
bool Machine::noticed_changes(Launch& launch) {
  const bool always = is_prompt(launch, Schedule::Prompt::always);
  const auto changed = [always](const Awaited& a) { return always ? a.changed() : a.now() != a.value; };
  launch.changed |= std::any_of(launch.awaited.begin(), launch.awaited.end(), changed);
  if (!std::exchange(launch.changed, false)) return false;
  if (always)
    std::erase_if(launch.awaited, changed);
  else
    launch.awaited.clear();
  return true;
}

bool Machine::wake_if_changed(Block& block, std::uint32_t thread) {
  if (unchanged(block, block.threads[thread])) return false;
  const std::uint32_t warp = thread / warp_lanes, bit = 1u << thread % warp_lanes;
  block.warps[warp].parked &= ~bit;
  make_ready(block, warp, bit);
  ++progress_;
  return true;
}

std::uint64_t Machine::wake_changed(Block& block) {
  std::uint64_t woken = 0;
  for (std::uint32_t w = 0; w < block.warps_count; ++w)
    for (std::uint32_t m = block.warps[w].parked; m; m &= m - 1)
      woken += wake_if_changed(block, w * warp_lanes + std::uint32_t(__builtin_ctz(m)));
  return woken;
}

// Behind a strong operation of the block: others act, where the schedule wants it, before anybody else goes on. True:
// so does the block not.
bool Machine::makes_way(Block& block, std::uint32_t site) {
  Launch& launch = *block.launch;
  if (!is_prompt(launch, Schedule::Prompt::at_first)) return false;
  show_changes();
  if (detour_ || fault_) return true;
  if (!(launch.request.sites->flags_of(site) & SiteTable::ticket) || block.made_way == tickets_in_turn) return false;
  ++block.made_way;
  ++progress_;
  launch.made_way = makes_way_ = true;
  return true;
}

// Wait loops read a value as soon as it is there, each of them once, before anybody else does anything: on a device
// their blocks run beside each other. Who read it late would come after all that was done until then, and races with
// that would not show.
void Machine::show_changes() {
  for (auto& launch : launches_) {
    const auto changed = [](const Awaited& a) { return a.by_access && a.changed(); };
    if (std::none_of(launch->awaited.begin(), launch->awaited.end(), changed)) continue;
    std::erase_if(launch->awaited, changed);
    launch->changed = true;
    for (auto& block : launch->resident)
      for (std::uint32_t w = 0; w < block->warps_count; ++w) {
        if (block->warps[w].parked) look_again(*block, w);
        if (detour_ || fault_) return;
      }
  }
}

// The warp's lanes that wait for a value to change which has.
void Machine::look_again(Block& block, std::uint32_t warp) {
  WarpState& state = block.warps[warp];
  for (std::uint32_t m = state.parked; m; m &= m - 1) {
    const std::uint32_t lane = std::uint32_t(__builtin_ctz(m)), bit = 1u << lane;
    const ThreadContext& thread = block.threads[warp * warp_lanes + lane];
    if (!(state.parked & bit) || !awaited(block, thread).by_access) continue;
    const std::uint32_t site = thread.pending_site;
    if (!wake_if_changed(block, warp * warp_lanes + lane)) continue;
    choose_stops(block);
    run_to_stop(block, warp, lane);
    if (detour_ || fault_) return;
    if (!(state.visible & bit) || thread.pending_site != site) continue; // something else comes before it
    perform_visible(block, warp, site, bit);
    run_to_stop(block, warp, lane);
    if (detour_ || fault_) return;
  }
}

std::uint64_t Machine::wake_all(Launch& launch) {
  std::uint64_t woken = 0;
  for (auto& block : launch.resident)
    for (std::uint32_t w = 0; w < block->warps_count; ++w) {
      WarpState& state = block->warps[w];
      const std::uint32_t lanes = state.parked;
      if (!lanes) continue;
      state.parked = 0;
      make_ready(*block, w, lanes);
      woken += std::uint64_t(__builtin_popcount(lanes));
    }
  return woken;
}

} // namespace deadheat::device
