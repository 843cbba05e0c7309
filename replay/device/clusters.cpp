// Thread block clusters (PTX ISA 5.1.7 and 9.7.13.3): blocks that are admitted together, and their barrier.
#include <algorithm>

#include "deadheat/address.h"
#include "replay/device/holds.h"
#include "replay/device/machine.h"
#include "replay/device/watch.h"

namespace deadheat::device {

namespace {

constexpr std::size_t cluster_table = window_bytes >> cluster_shift;

// Blocks are admitted cluster by cluster: the first block of the nth one.
std::uint64_t first_of_cluster(const Launch& launch, std::uint64_t number) {
  const Dim3 &grid = launch.request.grid, &cluster = launch.request.cluster;
  const Dim3 clusters{grid.x / cluster.x, grid.y / cluster.y, grid.z / cluster.z};
  const Dim3 at = coordinates(number, clusters);
  return (std::uint64_t(at.z) * cluster.z * grid.y + std::uint64_t(at.y) * cluster.y) * grid.x +
         std::uint64_t(at.x) * cluster.x;
}
std::uint64_t number_of_cluster(const Launch& launch, std::uint64_t block) {
  const Dim3 &grid = launch.request.grid, &cluster = launch.request.cluster;
  const Dim3 at = coordinates(block, grid);
  return (std::uint64_t(at.z / cluster.z) * (grid.y / cluster.y) + at.y / cluster.y) * (grid.x / cluster.x) +
         at.x / cluster.x;
}

// The block of the cluster whose shared memory addresses call by that number, from 1; null: there is none.
Block* numbered(const Block& from, std::uint64_t number) {
  return from.cluster && number && number <= from.cluster->blocks.size() ? from.cluster->blocks[number - 1] : nullptr;
}
// It has no shared memory then.
bool has_exited(const Block& from, const Block& other) { return &other != &from && other.live == 0; }

} // namespace

SharedPlace shared_place(Block& from, std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t at = address - shared_window;
  if (at >= window_bytes) return {};
  const std::uint64_t offset = at & cluster_offset_mask, number = at >> cluster_shift;
  Block* block = &from;
  if (number && from.cluster) {
    block = numbered(from, number);
    if (!block || has_exited(from, *block)) return {};
  } else if (number > 1) {
    return {};
  }
  const std::uint64_t total = block->launch->request.total_shared;
  if (offset > total || bytes > total - offset) return {};
  return {block, std::uint32_t(offset)};
}

const Block* exited_owner(const Block& from, std::uint64_t address) {
  const std::uint64_t at = address - shared_window;
  const Block* block = at < window_bytes ? numbered(from, at >> cluster_shift) : nullptr;
  return block && has_exited(from, *block) ? block : nullptr;
}

Block* Machine::admit_next(Launch& launch) {
  const std::uint64_t at = launch.next_block;
  launch.next_block += launch.cluster_blocks;
  if (auto early = std::find(launch.early.begin(), launch.early.end(), at); early != launch.early.end()) {
    launch.early.erase(early);
    return nullptr;
  }
  if (!launch.clustered) return admit(launch, at);
  const std::size_t before = launch.resident.size();
  link_cluster(launch, first_of_cluster(launch, at / launch.cluster_blocks));
  return launch.resident[before].get();
}

Block* Machine::admit_early(Launch& launch, std::uint64_t index) {
  const std::uint64_t at = launch.clustered ? number_of_cluster(launch, index) * launch.cluster_blocks : index;
  const bool begun = at < launch.next_block || std::count(launch.early.begin(), launch.early.end(), at);
  if (begun || !can_admit(launch)) return nullptr;
  launch.early.push_back(at);
  if (!launch.clustered) return admit(launch, index);
  link_cluster(launch, first_of_cluster(launch, at / launch.cluster_blocks));
  for (const auto& block : launch.resident)
    if (block->index == index) return block.get();
  return nullptr;
}

void Machine::link_cluster(Launch& launch, std::uint64_t first) {
  const LaunchRequest& request = launch.request;
  Cluster& cluster = launch.clusters[first];
  for (std::uint32_t rank = 0; rank < launch.cluster_blocks; ++rank) {
    Block* block = admit(launch, cluster_peer(first, rank, request.grid, request.cluster));
    block->cluster = &cluster;
    cluster.blocks.push_back(block);
  }
  cluster.missing = launch.cluster_blocks * launch.threads;
  for (Block* block : cluster.blocks) {
    block->cluster_shared.assign(cluster_table, block->context.shared);
    for (std::size_t rank = 0; rank < cluster.blocks.size(); ++rank)
      block->cluster_shared[rank + 1] = cluster.blocks[rank]->context.shared;
    block->context.cluster_shared = block->cluster_shared.data();
  }
}

// The lanes that have reached barrier.cluster arrive, or wait.
void Machine::settle_cluster(Block& block, std::uint32_t warp) {
  WarpState& state = block.warps[warp];
  const engine::ThreadContext* threads = block.threads + warp * warp_lanes;
  Cluster& cluster = *block.cluster;
  std::uint32_t arrive = 0, leave = 0;
  for (std::uint32_t m = state.at_cluster; m; m &= m - 1) {
    const std::uint32_t bit = m & -m;
    const engine::ThreadContext& t = threads[__builtin_ctz(m)];
    if (t.arg[0] == 0) {
      arrive |= bit;
    } else if (state.cluster_complete & bit) {
      leave |= bit;
    } else if (!(state.cluster_arrived & bit)) {
      sync_error(block, t, "barrier.cluster.wait of a thread that has not arrived");
      leave |= bit;
    }
  }
  if (arrive) {
    ++exec_.changes;
    for (std::uint32_t m = arrive & (state.cluster_arrived | state.cluster_complete); m; m &= m - 1)
      sync_error(block, threads[__builtin_ctz(m)], "barrier.cluster.arrive twice without barrier.cluster.wait between");
    say_cluster(block, warp, arrive, false, cluster.phase);
    const std::uint32_t fresh = arrive & ~state.cluster_arrived;
    state.cluster_complete &= ~arrive;
    state.cluster_arrived |= fresh;
    cluster.missing -= std::uint32_t(__builtin_popcount(fresh));
    cluster.arrived += std::uint32_t(__builtin_popcount(fresh));
  }
  if (leave) {
    say_cluster(block, warp, leave, true, cluster.phase - 1);
    state.cluster_complete &= ~leave;
  }
  state.at_cluster &= ~(arrive | leave);
  make_ready(block, warp, arrive | leave);
  if (arrive && cluster.missing == 0) complete_cluster(cluster);
}

void Machine::complete_cluster(Cluster& cluster) {
  if (holds_) holds_->met(cluster);
  cluster.missing = cluster.arrived = 0;
  for (Block* block : cluster.blocks) {
    cluster.missing += block->live;
    for (std::uint32_t w = 0; w < block->warps_count; ++w) {
      WarpState& state = block->warps[w];
      const std::uint32_t leave = state.at_cluster & state.cluster_arrived;
      if (leave) say_cluster(*block, w, leave, true, cluster.phase);
      state.cluster_complete |= state.cluster_arrived & ~leave;
      state.cluster_arrived = 0;
      state.at_cluster &= ~leave;
      if (leave) make_ready(*block, w, leave);
    }
  }
  ++cluster.phase;
  ++progress_;
}

// Threads that have exited are not waited for.
void Machine::cluster_exited(Block& block, std::uint32_t warp, std::uint32_t lanes) {
  Cluster& cluster = *block.cluster;
  WarpState& state = block.warps[warp];
  cluster.missing -= std::uint32_t(__builtin_popcount(lanes & ~state.cluster_arrived));
  state.cluster_arrived &= ~lanes;
  state.cluster_complete &= ~lanes;
  if (cluster.arrived && cluster.missing == 0) complete_cluster(cluster);
}

void Machine::say_cluster(const Block& block, std::uint32_t warp, std::uint32_t lanes, bool wait, std::uint32_t phase) {
  if (!recording(block) && !watch_) return;
  const engine::ThreadContext* threads = block.threads + warp * warp_lanes;
  while (lanes) {
    const engine::ThreadContext& first = threads[__builtin_ctz(lanes)];
    std::uint32_t same = 0;
    for (std::uint32_t m = lanes; m; m &= m - 1)
      if (threads[__builtin_ctz(m)].pending_site == first.pending_site) same |= m & -m;
    lanes &= ~same;
    if (watch_) watch_->cluster_barrier(block, warp, same, phase, wait, first.arg[1] & 1);
    if (!recording(block)) continue;
    trace::ClusterBarrier record;
    record.warp = {block.launch->request.launch, block.index, warp};
    record.module = block.launch->request.module;
    record.site = first.pending_site;
    record.mask = same;
    record.phase = phase;
    record.wait = wait;
    record.relaxed = first.arg[1] & 1;
    options_.sink->record(record);
  }
}

} // namespace deadheat::device
