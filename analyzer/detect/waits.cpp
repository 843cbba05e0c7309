#include "analyzer/detect/waits.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <map>
#include <tuple>

#include "analyzer/report/words.h"
#include "deadheat/memory_model.h"
#include "tracer/ptx/demangle.h"

namespace deadheat::detect {

namespace {

using report::counted;

constexpr std::uint32_t nowhere = ~0u;
constexpr unsigned warps_per_block = 32; // 1 024 threads

using Threads = std::array<std::uint32_t, warps_per_block>; // of a block, a mask a warp

void add(Threads& threads, std::uint32_t warp, std::uint32_t mask) { threads[warp % warps_per_block] |= mask; }
void remove(Threads& threads, const Threads& others) {
  for (unsigned w = 0; w < warps_per_block; ++w) threads[w] &= ~others[w];
}
std::uint32_t count(const Threads& threads) {
  std::uint32_t sum = 0;
  for (const std::uint32_t mask : threads) sum += std::uint32_t(std::popcount(mask));
  return sum;
}
std::uint32_t first(const Threads& threads) {
  for (unsigned w = 0; w < warps_per_block; ++w)
    if (threads[w]) return 32 * w + std::uint32_t(std::countr_zero(threads[w]));
  return 0;
}
// "thread 5", "threads 0-31, 64-95".
std::string names_of(const Threads& threads) {
  constexpr unsigned most = 4;
  std::string text = count(threads) == 1 ? "thread " : "threads ";
  unsigned ranges = 0;
  auto in = [&](unsigned t) { return t < 32 * warps_per_block && (threads[t / 32] >> t % 32 & 1); };
  for (unsigned t = 0; t < 32 * warps_per_block; ++t) {
    if (!in(t)) continue;
    unsigned last = t;
    while (in(last + 1)) ++last;
    if (ranges++ == most) return text + ", …";
    text += (ranges > 1 ? ", " : "") + std::to_string(t) + (last > t ? "-" + std::to_string(last) : "");
    t = last;
  }
  return text;
}

struct Phase { // of a barrier or an mbarrier
  Threads waiting{}, arrived{}; // arrived without waiting, too
  std::uint32_t site = nowhere; // where the first of them stands
  std::uint32_t count = 0; // arrivals, as an mbarrier counts them
};
struct Object { // an mbarrier
  std::uint32_t expected = 0, phase = 0;
  std::uint32_t dropped = 0; // arrivals that later phases do not expect
  bool known = false, seen_complete = false;
  Phase current;
};
struct Block {
  Threads exited{};
  std::vector<std::uint32_t> last; // site at which each thread was seen last
  std::map<std::pair<std::uint32_t, std::uint32_t>, Phase> barriers; // by number and phase
  std::map<std::uint64_t, Object> objects; // by address
  std::map<std::uint32_t, Phase> clusters; // by phase; none that somebody left
  std::uint32_t left = 0; // phases of the cluster's barrier that somebody left: those before it

  bool gone() const { return count(exited) >= last.size(); }
  // Threads that have not exited, but for those `here`.
  Threads others(const Threads& here) const {
    Threads left{};
    for (std::size_t t = 0; t < last.size(); ++t) left[t / 32] |= 1u << t % 32;
    remove(left, exited);
    remove(left, here);
    return left;
  }
};
struct Shape { // of a launch
  std::uint32_t threads = 0; // of a block
  Dim3 grid, cluster;
  // Calls each(block) for the blocks of the block's cluster.
  template <typename Each>
  void each_peer(std::uint32_t block, Each&& each) const {
    for (std::uint32_t rank = 0; rank < cluster.count(); ++rank) each(cluster_peer(block, rank, grid, cluster));
  }
};
using Shapes = std::map<std::uint32_t, Shape>; // by launch
constexpr std::size_t most_in_cluster = 16; // of all devices; a damaged trace says more
constexpr std::size_t most_blocks = 1 << 16; // that are looked at, at once

class Collector final : public trace::RecordVisitor {
 public:
  Collector(const Shapes& launches, const Sides& sides) : launches_(launches), sides_(sides) {}
  std::map<std::pair<std::uint32_t, std::uint32_t>, Block> blocks; // by launch and linear index
  std::map<std::uint32_t, std::uint32_t> modules; // of launches

  bool access(const trace::AccessView& view) override {
    seen(view.warp, view.mask, view.module, view.site);
    return true;
  }
  bool record(trace::Record& record) override {
    std::visit([&](const auto& r) { take(r); }, record);
    return true;
  }

 private:
  template <typename T> void take(const T& r) {
    if constexpr (requires { r.warp, r.mask, r.module, r.site; }) {
      seen(r.warp, r.mask, r.module, r.site);
      if (Block* block = block_of(r.warp.launch, r.warp.block)) arrival(*block, r);
    } else if constexpr (std::is_same_v<T, trace::ThreadExit>) {
      Block* block = block_of(r.warp.launch, r.warp.block);
      if (!block) return;
      add(block->exited, r.warp.warp, r.mask);
      if (block->gone()) forget(r.warp.launch, r.warp.block);
    } else if constexpr (std::is_same_v<T, trace::BlockBarrier>) {
      if (Block* block = block_of(r.launch, r.block)) std::fill(block->last.begin(), block->last.end(), r.site);
    } else if constexpr (std::is_same_v<T, trace::BarrierComplete>) {
      if (Block* block = block_of(r.launch, r.block)) block->barriers.erase({r.barrier, r.phase});
    }
  }
  // The block's cluster, once all of it has exited.
  void forget(std::uint32_t launch, std::uint32_t number) {
    const Shape& shape = launches_.at(launch);
    bool all = true;
    shape.each_peer(number, [&](std::uint32_t peer) {
      const auto found = blocks.find({launch, peer});
      all &= found != blocks.end() && found->second.gone();
    });
    if (all) shape.each_peer(number, [&](std::uint32_t peer) { blocks.erase({launch, peer}); });
  }
  Block* block_of(std::uint32_t launch, std::uint32_t number) {
    const auto known = launches_.find(launch);
    if (known == launches_.end()) return nullptr;
    auto found = blocks.find({launch, number});
    if (found == blocks.end()) {
      if (blocks.size() >= most_blocks) return nullptr;
      found = blocks.try_emplace({launch, number}).first;
      found->second.last.assign(known->second.threads, nowhere);
    }
    return &found->second;
  }
  void seen(const trace::Warp& warp, std::uint32_t mask, std::uint32_t module, std::uint32_t site) {
    Block* block = block_of(warp.launch, warp.block);
    if (!block) return;
    modules[warp.launch] = module;
    for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
      const std::size_t thread = std::size_t(warp.warp % warps_per_block) * 32 + unsigned(std::countr_zero(rest));
      if (thread < block->last.size()) block->last[thread] = site;
    }
  }

  template <typename T> void arrival(Block&, const T&) {}
  void arrival(Block& block, const trace::BarrierArrive& r) {
    Phase& phase = block.barriers[{r.barrier, r.phase}];
    add(r.sync ? phase.waiting : phase.arrived, r.warp.warp, r.mask);
    if (r.sync && phase.site == nowhere) phase.site = r.site;
  }
  void arrival(Block& block, const trace::ClusterBarrier& r) {
    if (r.wait) {
      block.clusters.erase(block.clusters.begin(), block.clusters.upper_bound(r.phase));
      block.left = std::max(block.left, r.phase + 1);
      return;
    }
    Phase& phase = block.clusters[r.phase];
    add(phase.arrived, r.warp.warp, r.mask);
    if (phase.site == nowhere) phase.site = r.site;
  }
  void arrival(Block& block, const trace::Mbarrier& r) {
    using What = trace::Mbarrier::What;
    const bool own = r.block == r.warp.block;
    Block* const home = own ? &block : block_of(r.warp.launch, r.block);
    if (!home) return;
    for (std::uint32_t rest = r.mask; rest; rest &= rest - 1) {
      const unsigned lane = unsigned(std::countr_zero(rest));
      Object& object = home->objects[r.address[lane]];
      switch (r.what) {
        case What::init: object = {.expected = r.count[lane], .known = true, .current = {}}; break;
        case What::inval: object = {}; break;
        case What::test: // is only written of those that saw a phase complete
          if (r.phase[lane] >= object.phase) object.seen_complete = true;
          break;
        case What::async_arrive:
          // Without .noinc it is an arrival that nobody had expected, and that changes nothing (PTX ISA,
          // cp.async.mbarrier.arrive).
          if (no_increment(r)) arrive(object, r, lane, own);
          break;
        case What::arrive_drop:
        case What::arrive:
          arrive(object, r, lane, own);
          if (r.what == What::arrive_drop) object.dropped += r.count[lane];
          break;
        case What::expect_tx:
        case What::complete_tx: break;
      }
    }
  }
  static void arrive(Object& object, const trace::Mbarrier& r, unsigned lane, bool own) {
    if (object.phase != r.phase[lane] || object.seen_complete) {
      object.phase = r.phase[lane];
      object.expected -= std::min(object.expected, object.dropped);
      object.dropped = 0;
      object.current = {};
      object.seen_complete = false;
    }
    object.current.count += r.count[lane];
    if (own) add(object.current.arrived, r.warp.warp, 1u << lane);
    if (object.current.site == nowhere) object.current.site = r.site;
  }
  bool no_increment(const trace::Mbarrier& r) const {
    const PlaceId place = sides_.site(r.module, r.site);
    return place && sides_.place(place).site->opcode.find(".noinc") != std::string::npos;
  }

  const Shapes& launches_;
  const Sides& sides_;
};

// Says what stands still.
class Words {
 public:
  Words(const Detector& detector, const Shapes& launches, const Collector& found)
      : detector_(detector), launches_(launches), found_(found) {}

  std::vector<CountedSyncError> take() {
    for (const auto& [where, block] : found_.blocks) {
      if (block.gone()) continue; // others of its cluster are not
      const Detector::LaunchInfo* launch = detector_.launch_of(detector_.operation_of(where.first));
      if (!launch) continue;
      launch_ = launch;
      block_ = &block;
      number_ = where.second;
      for (const auto& [name, phase] : block.barriers)
        if (count(phase.waiting)) barrier(name.first, phase);
      for (const auto& [address, object] : block.objects) mbarrier(address, object);
      for (const auto& [name, phase] : block.clusters) cluster(name, phase);
    }
    std::vector<CountedSyncError> errors;
    for (auto& [place, said] : said_) {
      if (said.blocks > 1) said.error.text += "; likewise in " + counted(said.blocks - 1, "block", "blocks") + " more";
      errors.push_back({std::move(said.error), said.blocks});
    }
    return errors;
  }

 private:
  struct Said {
    trace::SyncError error;
    std::uint32_t blocks = 0, last = 0; // how many; the last of them
  };

  // "bar.sync a.cu:12"
  std::string at(std::uint32_t site) const {
    const auto module = found_.modules.find(launch_->number);
    const PlaceId place = module == found_.modules.end() ? PlaceId{} : detector_.sides().site(module->second, site);
    if (site == nowhere || !place) return "a place that is not known";
    const Site& found = *detector_.sides().place(place).site;
    std::string text = found.opcode;
    if (!found.source.empty()) text += " " + found.source[0].file + ":" + std::to_string(found.source[0].line);
    return text;
  }
  std::string with_place(const Threads& threads) const {
    const std::uint32_t thread = first(threads), site = thread < block_->last.size() ? block_->last[thread] : nowhere;
    return names_of(threads) + (site == nowhere ? ", of which nothing was seen" : ", last seen at " + at(site));
  }
  std::string missing(const Threads& here) const {
    const Threads left = block_->others(here);
    if (count(left)) return "; " + std::to_string(count(left)) + " never came: " + with_place(left);
    const std::uint32_t gone = count(block_->exited);
    return gone ? "; the others, " + std::to_string(gone) + ", have exited" : "; the block has no others";
  }
  void say(std::uint32_t site, const Threads& who, const std::string& text) {
    Said& said = said_[{launch_->number, site}];
    if (said.blocks && said.last == number_) return; // another phase or object
    said.last = number_;
    if (said.blocks++) return;
    const auto module = found_.modules.find(launch_->number);
    said.error = {launch_->number,
                  number_,
                  first(who),
                  module == found_.modules.end() ? 0 : module->second,
                  site,
                  "deadlock: launch " + std::to_string(launch_->number) + " (" + ptx::demangle(launch_->launch.kernel) +
                      ") did not end: " + text};
  }
  std::string waiting(const Threads& who, std::uint32_t site) const {
    return counted(count(who), "thread", "threads") + " of block " + std::to_string(number_) + " (" + names_of(who) +
           ", " + at(site) + ")";
  }

  void barrier(std::uint32_t number, const Phase& phase) {
    Threads here = phase.waiting;
    for (unsigned w = 0; w < warps_per_block; ++w) here[w] |= phase.arrived[w];
    say(phase.site, phase.waiting,
        waiting(phase.waiting, phase.site) + " wait at barrier " + std::to_string(number) + missing(here));
  }
  void cluster(std::uint32_t number, const Phase& phase) {
    bool everybody = true, complete = false;
    launches_.at(launch_->number).each_peer(number_, [&](std::uint32_t peer) {
      const auto block = found_.blocks.find({launch_->number, peer});
      if (block == found_.blocks.end()) {
        everybody = false; // nothing was seen of it
        return;
      }
      const auto same = block->second.clusters.find(number);
      everybody &=
          !count(block->second.others(same == block->second.clusters.end() ? Threads{} : same->second.arrived));
      complete |= number < block->second.left;
    });
    if (everybody || complete) return;
    const std::string here = waiting(phase.arrived, phase.site) + " have arrived at the cluster's barrier, phase " +
                             std::to_string(number) + ", and nobody left it";
    const bool others = count(block_->others(phase.arrived));
    say(phase.site, phase.arrived,
        here + (others ? missing(phase.arrived) : "; other blocks of the cluster have not arrived"));
  }
  void mbarrier(std::uint64_t address, const Object& object) {
    const Phase& now = object.current;
    if (!object.known || object.seen_complete || !now.count || now.count >= object.expected) return;
    char offset[32];
    std::snprintf(offset, sizeof offset, "0x%llx", static_cast<unsigned long long>(address));
    std::string text = "the mbarrier at " + std::string(offset) + " of the shared memory of block " +
                       std::to_string(number_) + " has " + std::to_string(now.count) + " of " +
                       std::to_string(object.expected) + " arrivals in phase " + std::to_string(object.phase);
    if (count(now.arrived)) text += " (" + names_of(now.arrived) + ", " + at(now.site) + ")";
    say(now.site, now.arrived, text + missing(now.arrived));
  }

  const Detector& detector_;
  const Shapes& launches_;
  const Collector& found_;
  const Detector::LaunchInfo* launch_ = nullptr;
  const Block* block_ = nullptr;
  std::uint32_t number_ = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Said> said_; // by launch and place
};

} // namespace

std::vector<CountedSyncError> unfinished_waits(const Source& source, const Detector& detector) {
  Shapes launches;
  for (const Detector::LaunchInfo* info : detector.silent()) {
    const trace::Launch& launch = info->launch;
    launches[info->number] = {std::uint32_t(std::min<std::uint64_t>(launch.block.count(), 32 * warps_per_block)),
                              launch.grid, launch.cluster.count() <= most_in_cluster ? launch.cluster : Dim3{1, 1, 1}};
  }
  if (launches.empty()) return {};
  Collector collector(launches, detector.sides());
  for (std::size_t chunk = 0; chunk < source.chunks(); ++chunk) source.play(chunk, collector);
  return Words(detector, launches, collector).take();
}

} // namespace deadheat::detect
