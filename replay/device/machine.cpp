#include "replay/device/machine.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "deadheat/proxy_fence.h"
#include "replay/device/control.h"
#include "replay/device/default_floats.h"
#include "replay/device/device.h"
#include "replay/device/holds.h"
#include "replay/device/products.h"
#include "replay/device/record.h"
#include "replay/device/services.h"
#include "replay/device/signals.h"
#include "replay/device/spread.h"
#include "replay/device/watch.h"
#include "replay/engine/region_run.h"
#include "replay/engine/shadow.h"
#include "replay/engine/written.h"
#include "tracer/ptx/sites.h"

namespace deadheat::device {

namespace {

constexpr std::uint64_t context_bytes = sizeof(engine::ThreadContext);
constexpr unsigned rounds_beside_fault = 4096; // a thread of the block may end each by a fault of its own
constexpr std::uint64_t host_memory_limit = std::uint64_t(8) << 30; // of the blocks resident at a time

constexpr std::size_t blocks_that_share = 64; // of those resident, that take tickets in turn

std::uint64_t round_up(std::uint64_t n, std::uint64_t to) { return (n + to - 1) / to * to; }

// Takes it a ticket, as blocks do that share a queue of work? (PTX ISA 9.7.13.14: red returns nothing.)
bool is_ticket(const Site& site) {
  if (site.kind != SiteKind::access || site.access != AccessKind::atomic || !site.in_loop) return false;
  if (site.space == Space::shared || !site.opcode.starts_with("atom")) return false;
  const auto has = [&](const char* word) { return site.opcode.find(word) != std::string::npos; };
  return has(".add.u") || has(".add.s") || has(".inc.") || has(".dec.");
}

} // namespace

SiteTable::SiteTable(const std::vector<Site>& module_sites)
    : sites(&module_sites), flags(module_sites.size(), 0), stop(module_sites.size(), 0) {
  for (std::size_t i = 0; i < module_sites.size(); ++i) {
    const Site& site = module_sites[i];
    std::uint8_t f = 0;
    if (site.kind == SiteKind::fence || one_way(site) ||
        (site.kind == SiteKind::proxy_fence && site.proxy == Proxy::async))
      f |= fence | stops;
    if (site.kind == SiteKind::mbarrier || site.kind == SiteKind::async_mbarrier_arrive ||
        site.kind == SiteKind::bulk_copy)
      f |= stops;
    if (site.kind == SiteKind::access && (is_strong(site.ordering) || site.access == AccessKind::atomic)) f |= stops;
    if (is_ticket(site)) f |= ticket;
    if (site.arrive_only) f |= arrive_only;
    if (site.kind == SiteKind::barrier && site.opcode.find(".red") != std::string::npos) {
      if (site.opcode.find(".popc") != std::string::npos)
        f |= red_popc;
      else if (site.opcode.find(".and") != std::string::npos)
        f |= red_and;
      else
        f |= red_or;
    }
    frees |= site.kind == SiteKind::heap && site.access == AccessKind::free;
    opaque |= site.kind == SiteKind::opaque && !ptx::is_texture(site);
    asynchronous |= site.kind == SiteKind::async_mbarrier_arrive || site.kind == SiteKind::bulk_copy ||
                    site.kind == SiteKind::dependency;
    if (site.kind == SiteKind::mbarrier && site.access != AccessKind::write) {
      auto has = [&](const char* word) { return site.opcode.find(word) != std::string::npos; };
      const bool arrives = site.arrive_only && !has("arrive_drop") && !has("expect_tx") && !has("noComplete");
      counted |= !arrives && !(site.wait_only && has("try_wait") && site.in_loop);
    }
    flags[i] = f;
    stop[i] = f & stops ? 1 : 0;
  }
}

Machine::Machine(MachineOptions options) : options_(std::move(options)), recorder_(new Recorder) {
  exec_.services = machine_services();
  exec_.shadow = options_.shadow;
  exec_.machine = this;
  if (options_.cores > 1) spread_ = std::make_unique<Spread>(*this);
  exec_.shadows = options_.shadows;
  exec_.discarded = options_.discarded;
}

Machine::~Machine() {
  while (!launches_.empty()) end(launches_.back().get());
  for (auto& [bytes, slots] : pool_)
    for (std::uint8_t* slot : slots) munmap(slot, bytes);
}

std::uint32_t Machine::residency(std::uint32_t threads, std::uint32_t shared_bytes) const {
  return std::uint32_t(options_.profile->blocks_at_once(threads, shared_bytes) * options_.profile->multiprocessors);
}

Launch* Machine::begin(LaunchRequest request) {
  auto launch = std::make_unique<Launch>();
  Launch& l = *launch;
  l.request = std::move(request);
  const LaunchRequest& r = l.request;
  l.blocks = r.grid.count();
  l.threads = std::uint32_t(r.block.count());
  DEADHEAT_CHECK(l.threads >= 1 && l.threads <= max_warps * warp_lanes);
  // An odd number of cache lines, so that the frames of neighbours do not share cache sets.
  const std::uint64_t shared = round_up(r.total_shared, 64);
  if (r.regions) {
    l.private_bytes = round_up(engine::region_memory_bytes(*r.regions, l.threads), 64);
  } else {
    l.stack_bytes = std::uint32_t(round_up(std::max(r.code->frame_bytes, 16u) + r.call_stack, 128) + 64);
    // A stack has its shadow of written bytes behind it, too.
    l.stack_stride = r.mode.written ? std::uint64_t(l.stack_bytes) * 2 + 64 : l.stack_bytes;
    l.private_bytes = round_up(l.threads * (context_bytes + l.stack_stride), 64);
  }
  // Shared memory has its shadow of written bytes behind it (engine/written.h).
  l.slot_bytes = round_up(l.private_bytes + shared * (r.mode.written ? 2 : 1) + 192, 65536);
  l.max_resident = std::max(1u, residency(l.threads, r.total_shared));
  if (!r.cooperative)
    l.max_resident = std::uint32_t(std::clamp<std::uint64_t>(host_memory_limit / l.slot_bytes, 1, l.max_resident));

  l.primary_complete = r.primary_complete;
  l.cluster_blocks = std::uint32_t(r.cluster.count());
  l.clustered = r.reaches_cluster || l.cluster_blocks > 1;
  l.max_resident = std::max(l.max_resident, l.cluster_blocks);
  engine::LaunchContext& c = l.context;
  c.exec = &exec_;
  c.params = r.params.data();
  c.site_stop = r.sites->stop.data();
  const Dim3 clusters{(r.grid.x + r.cluster.x - 1) / r.cluster.x, (r.grid.y + r.cluster.y - 1) / r.cluster.y,
                      (r.grid.z + r.cluster.z - 1) / r.cluster.z};
  auto copy = [](std::uint32_t* to, const Dim3& from) { to[0] = from.x, to[1] = from.y, to[2] = from.z; };
  copy(c.nctaid, r.grid);
  copy(c.ntid, r.block);
  copy(c.nclusterid, clusters);
  copy(c.cluster_nctaid, r.cluster);
  c.dynamic_shared = r.dynamic_shared;
  c.total_shared = r.total_shared;
  c.gridid = r.launch;
  c.grid_workspace = r.grid_workspace;
  c.launch = &l;
  c.module = r.module;
  if (holds_) holds_->begin(l);
  if (watch_) watch_->begin(l);
  launches_.push_back(std::move(launch));
  if (control_) control_->begun(*this, l);
  return &l;
}

void Machine::end(Launch* launch) {
  if (control_) control_->ended(*launch);
  // A dependent launch may come to wait for it.
  const bool none_waits =
      std::none_of(launches_.begin(), launches_.end(), [](const auto& l) { return l->request.primary; });
  if (watch_) watch_->ended(*launch, launches_.size() > 1 && none_waits);
  auto give_back = [&](std::vector<std::unique_ptr<Block>>& blocks) {
    for (auto& block : blocks) pool_[block->memory_bytes].push_back(block->memory);
    blocks.clear();
  };
  give_back(launch->resident);
  for (auto& [first, cluster] : launch->clusters) give_back(cluster.departed);
  give_back(launch->spare);
  // Keep what a few launches need; give larger amounts back to the host.
  for (auto& [bytes, slots] : pool_)
    while (!slots.empty() && bytes * slots.size() > (std::uint64_t(256) << 20)) {
      munmap(slots.back(), bytes);
      slots.pop_back();
    }
  if (holds_) holds_->ended(*launch);
  std::erase_if(launches_, [&](const std::unique_ptr<Launch>& l) { return l.get() == launch; });
}

void Machine::make_threads(const Launch& launch, Block& block) {
  block.threads = reinterpret_cast<engine::ThreadContext*>(block.memory);
  std::uint8_t* stacks = block.memory + round_up(launch.threads * context_bytes, 64);
  const Dim3& extent = launch.request.block;
  Dim3 tid{0, 0, 0};
  for (std::uint32_t i = 0; i < launch.threads; ++i) {
    engine::ThreadContext& t = *new (&block.threads[i]) engine::ThreadContext;
    t.block = &block.context;
    t.stack = stacks + i * launch.stack_stride;
    t.stack_bytes = launch.stack_bytes;
    t.tid[0] = tid.x, t.tid[1] = tid.y, t.tid[2] = tid.z;
    t.linear = i;
    t.lane = i % warp_lanes;
    t.warp = i / warp_lanes;
    if (++tid.x == extent.x) {
      tid.x = 0;
      if (++tid.y == extent.y) tid.y = 0, ++tid.z;
    }
  }
}

void Machine::prepare(Launch& launch, Block& block, std::uint64_t index) {
  const LaunchRequest& r = launch.request;
  const Dim3 at = coordinates(index, r.grid);
  engine::BlockContext& c = block.context;
  if (!block.memory) {
    auto& pooled = pool_[launch.slot_bytes];
    if (!pooled.empty()) {
      block.memory = pooled.back();
      pooled.pop_back();
    } else {
      void* memory =
          mmap(nullptr, launch.slot_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      DEADHEAT_CHECK(memory != MAP_FAILED);
      block.memory = static_cast<std::uint8_t*>(memory);
    }
    block.memory_bytes = launch.slot_bytes;
    block.launch = &launch;
    block.threads_count = launch.threads;
    block.warps_count = (launch.threads + warp_lanes - 1) / warp_lanes;
    c.launch = &launch.context;
    c.shared = block.memory + launch.private_bytes;
    c.nsmid = options_.profile->multiprocessors;
    c.block = &block;
    if (!r.regions) make_threads(launch, block);
  }
  c.ctaid[0] = at.x, c.ctaid[1] = at.y, c.ctaid[2] = at.z;
  c.linear = std::uint32_t(index);
  c.smid = std::uint32_t(index % c.nsmid);
  block.index = std::uint32_t(index);
  block.live = launch.threads;
  block.async.clear();
  block.products.clear();
  block.mbarriers.clear();
  block.cluster = nullptr;
  block.triggered = false;
  block.made_way = block.turns = block.used_up = 0;
  block.watched.clear();
  block.named = holds_ && launch.named && holds_->names(launch.request.launch, block.index);
  for (std::uint32_t w = 0; w < block.warps_count; ++w) {
    const std::uint32_t lanes = std::min(warp_lanes, launch.threads - w * warp_lanes);
    block.warps[w] = {};
    block.warps[w].live = lanes == warp_lanes ? ~0u : (1u << lanes) - 1;
  }
  block.ready_warps = 0;
  if (r.total_shared) {
    const std::uint8_t* garbage = options_.garbage(index * 0x10001 + r.launch);
    std::memcpy(c.shared, garbage, r.total_shared);
    if (r.mode.precision) options_.shadows->forget(std::uint64_t(c.shared), r.total_shared);
    if (r.mode.written) {
      std::memset(c.shared + engine::shared_shadow(r.total_shared), 0, r.total_shared);
    }
  }
  block.undefined.clear();
  block.undefined_local.clear();
  if (r.regions) return;
  for (std::uint32_t b = 0; block.used_barriers; ++b, block.used_barriers >>= 1)
    if (block.used_barriers & 1) block.barriers[b] = {};
  const std::uint32_t frame = r.code->frame_bytes;
  for (std::uint32_t i = 0; i < launch.threads; ++i) {
    engine::ThreadContext& t = block.threads[i];
    t.stack_used = frame;
    t.spin_site = ~0u;
    std::memset(t.stack, 0, r.code->cleared_bytes);
    if (r.mode.written) std::memset(t.stack + t.stack_bytes, 0, frame);
  }
  for (std::uint32_t w = 0; w < block.warps_count; ++w) make_ready(block, w, block.warps[w].live);
}

Block* Machine::admit(Launch& launch, std::uint64_t index) {
  std::unique_ptr<Block> block;
  if (!launch.spare.empty()) {
    block = std::move(launch.spare.back());
    launch.spare.pop_back();
  } else {
    block = std::make_unique<Block>();
  }
  prepare(launch, *block, index);
  launch.resident.push_back(std::move(block));
  return launch.resident.back().get();
}

void Machine::retire(Launch& launch, Block* block) {
  auto at = std::find_if(launch.resident.begin(), launch.resident.end(),
                         [&](const std::unique_ptr<Block>& b) { return b.get() == block; });
  DEADHEAT_CHECK(at != launch.resident.end());
  ++launch.finished;
  trigger(*block);
  Cluster* cluster = block->cluster;
  (cluster ? cluster->departed : launch.spare).push_back(std::move(*at));
  launch.resident.erase(at);
  if (!cluster || cluster->departed.size() < cluster->blocks.size()) return;
  // Other blocks may have reached its memory until now.
  std::uint64_t first = ~std::uint64_t(0);
  for (auto& member : cluster->departed) {
    first = std::min<std::uint64_t>(first, member->index);
    launch.spare.push_back(std::move(member));
  }
  launch.clusters.erase(first);
}

bool Machine::guarded(const std::function<void()>& body) {
  if (!guard_) {
    SignalGuard guard(*this);
    return guarded(body);
  }
  const DefaultFloats floats;
  // Nothing between here and compiled code owns anything that a jump out of it would lose.
  if (sigsetjmp(escape_, 0) != 0) {
    guard_->caught();
    return false;
  }
  body();
  return true;
}

Machine::Outcome Machine::run(Launch& launch, std::uint64_t turns) {
  if (fault_) return Outcome::fault;
  launch.request.kernel.copy(running_kernel_, sizeof running_kernel_ - 1);
  running_kernel_[std::min(launch.request.kernel.size(), sizeof running_kernel_ - 1)] = 0;
  Outcome outcome = Outcome::fault;
  if (spread_ && turns == 0) spread_->run(launch);
  guarded([&] { outcome = run_guarded(launch, turns); });
  return fault_ ? Outcome::fault : outcome;
}

RunningCode Machine::running() const {
  return spread_ && spread_->active() ? spread_->running() : RunningCode{current_, turns_, running_kernel_};
}
std::uint64_t Machine::spread() const { return spread_ ? spread_->launches() : 0; }
std::uint64_t Machine::interleaved() const { return spread_ ? spread_->interleaved() : 0; }
std::uint64_t Machine::dependent() const { return spread_ ? spread_->dependent() : 0; }

Machine::Outcome Machine::run_guarded(Launch& launch, std::uint64_t turns) {
  std::uint64_t before = progress_;
  launch.cursor = 0;
  for (;;) {
    if (detour_ || (holds_ && holds_->waiting())) {
      detour_ = false;
      if (holds_) holds_->detour(*this);
    }
    if (fault_) return Outcome::fault;
    if (launch.finished == launch.blocks) return Outcome::finished;
    if (over_budget()) return Outcome::blocked;
    Block* block = nullptr;
    const bool sharing = launch.made_way && launch.resident.size() >= blocks_that_share;
    if (launch.cursor < launch.resident.size()) {
      block = launch.resident[launch.cursor].get();
    } else if (can_admit(launch) && !sharing) {
      block = admit_next(launch);
      if (!block) continue;
    } else {
      if (progress_ == before) return Outcome::blocked;
      before = progress_;
      launch.cursor = 0;
      launch.made_way = false;
      note_awaited_anew(launch);
      continue;
    }
    ++turns_;
    if (run_block(*block)) {
      retire(launch, block);
      ++progress_;
    } else if (!detour_) {
      ++launch.cursor;
    }
    if (turns && --turns == 0 && launch.finished != launch.blocks) return fault_ ? Outcome::fault : Outcome::paused;
    if (noticed_changes(launch)) launch.cursor = 0; // look from the start
  }
}

// Only blocks that a hold names stop at its sites.
void Machine::choose_stops(Block& block) {
  Launch& launch = *block.launch;
  if (launch.named) launch.context.site_stop = block.named ? launch.marked.data() : launch.request.sites->stop.data();
}

void Machine::run_beside_fault() {
  if (!fault_ || !faulted_block_ || control_ || holds_) return;
  const trace::MemoryError fault = *fault_;
  guarded([&] {
    for (unsigned left = rounds_beside_fault; left > 0 && !over_budget(); --left) {
      fault_.reset();
      const std::uint64_t before = progress_;
      run_block(*faulted_block_);
      if (!fault_ && progress_ == before) break;
    }
  });
  fault_ = fault;
}

bool Machine::run_block(Block& block) {
  if (block.launch->request.regions) {
    run_regions(block);
    return true;
  }
  choose_stops(block);
  for (;;) {
    std::uint64_t before = progress_;
    for (std::uint32_t todo = block.ready_warps; todo; todo &= todo - 1) {
      const std::uint32_t warp = std::uint32_t(__builtin_ctz(todo));
      run_warp(block, warp);
      if (detour_ || fault_ || std::exchange(makes_way_, false)) [[unlikely]]
        return false;
      if (block.ready_warps >> warp & 1 || block.warps[warp].yielded) {
        used_up_its_turns(block);
        if (detour_ || fault_) return false;
      }
    }
    if (block.live == 0) return over(block); // copies may be held back
    for (std::uint32_t w = 0; w < block.warps_count; ++w) {
      WarpState& state = block.warps[w];
      if (!state.yielded) continue;
      const std::uint32_t lanes = state.yielded;
      state.yielded = 0;
      make_ready(block, w, lanes);
    }
    // Lanes that only used up their turns make way; lanes that a barrier let go do not.
    if (block.ready_warps && progress_ != before) continue;
    if (!wake_changed(block)) return false;
  }
}

bool Machine::over(const Block& block) const {
  return block.live == 0 &&
         std::all_of(block.async.begin(), block.async.end(),
                     [](const AsyncQueue& queue) { return queue.copies.empty(); }) &&
         std::all_of(block.products.begin(), block.products.end(),
                     [](const auto& of_warp) { return of_warp.second->products.empty(); });
}

void Machine::make_ready(Block& block, std::uint32_t warp, std::uint32_t lanes) {
  block.warps[warp].ready |= lanes;
  block.ready_warps |= 1u << warp;
  if (control_) [[unlikely]]
    control_->ready(block, warp, lanes);
}

} // namespace deadheat::device
