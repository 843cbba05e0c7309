#include "analyzer/detect/waits.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <map>
#include <tuple>

namespace deadheat::detect {

namespace {

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
  bool known = false, seen_complete = false;
  Phase current;
};
struct Block {
  Threads exited{};
  std::vector<std::uint32_t> last; // site at which each thread was seen last
  std::map<std::pair<std::uint32_t, std::uint32_t>, Phase> barriers; // by number and phase
  std::map<std::uint64_t, Object> objects; // by address
  std::map<std::uint32_t, Phase> clusters; // by phase
};
constexpr std::size_t most_blocks = 1 << 16; // that are looked at, at once

class Collector final : public trace::RecordVisitor {
 public:
  explicit Collector(const std::map<std::uint32_t, std::uint32_t>& launches) : launches_(launches) {}
  std::map<std::pair<std::uint32_t, std::uint32_t>, Block> blocks; // by launch and linear index
  std::map<std::uint32_t, std::uint32_t> modules; // of launches
  bool told = false; // that nothing followed

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
      if (count(block->exited) >= block->last.size()) blocks.erase({r.warp.launch, r.warp.block});
    } else if constexpr (std::is_same_v<T, trace::BlockBarrier>) {
      if (Block* block = block_of(r.launch, r.block)) std::fill(block->last.begin(), block->last.end(), r.site);
    } else if constexpr (std::is_same_v<T, trace::BarrierComplete>) {
      if (Block* block = block_of(r.launch, r.block)) block->barriers.erase({r.barrier, r.phase});
    } else if constexpr (std::is_same_v<T, trace::Incident>) {
      told |= r.kind == "stalled";
    }
  }
  Block* block_of(std::uint32_t launch, std::uint32_t number) {
    const auto known = launches_.find(launch);
    if (known == launches_.end()) return nullptr;
    auto found = blocks.find({launch, number});
    if (found == blocks.end()) {
      if (blocks.size() >= most_blocks) return nullptr;
      found = blocks.try_emplace({launch, number}).first;
      found->second.last.assign(known->second, nowhere);
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
    Phase& phase = block.clusters[r.phase];
    if (r.wait) {
      phase.count = 1; // somebody left it
    } else {
      add(phase.arrived, r.warp.warp, r.mask);
      if (phase.site == nowhere) phase.site = r.site;
    }
  }
  void arrival(Block& block, const trace::Mbarrier& r) {
    using What = trace::Mbarrier::What;
    const bool own = r.block == r.warp.block;
    for (std::uint32_t rest = r.mask; rest; rest &= rest - 1) {
      const unsigned lane = unsigned(std::countr_zero(rest));
      Block* const home = own ? &block : block_of(r.warp.launch, r.block);
      if (!home) return;
      Object& object = home->objects[r.address[lane]];
      if (r.what == What::init) {
        object = {r.count[lane], 0, true, false, {}};
      } else if (r.what == What::inval) {
        object = {};
      } else if (r.what == What::test) {
        if (!(r.succeeded >> lane & 1)) {
          if (own) add(object.current.waiting, r.warp.warp, 1u << lane);
          if (object.current.site == nowhere) object.current.site = r.site;
        } else if (r.phase[lane] >= object.phase) {
          object.seen_complete = true;
        }
      } else if (r.what == What::arrive || r.what == What::arrive_drop) {
        if (object.phase != r.phase[lane] || object.seen_complete) {
          object.phase = r.phase[lane];
          object.current = {};
          object.seen_complete = false;
        }
        object.current.count += r.count[lane];
        if (own) add(object.current.arrived, r.warp.warp, 1u << lane);
        if (object.current.site == nowhere) object.current.site = r.site;
      }
    }
  }

  const std::map<std::uint32_t, std::uint32_t>& launches_; // threads of a block
};

// Says what stands still.
class Words {
 public:
  Words(const Detector& detector, const Collector& found) : detector_(detector), found_(found) {}

  std::vector<trace::SyncError> take() {
    for (const auto& [where, block] : found_.blocks) {
      const Detector::LaunchInfo* launch = detector_.launch_of(detector_.operation_of(where.first));
      if (!launch) continue;
      launch_ = launch;
      block_ = &block;
      alive_ = {};
      for (std::size_t t = 0; t < block.last.size(); ++t) alive_[t / 32] |= 1u << t % 32;
      remove(alive_, block.exited);
      number_ = where.second;
      for (const auto& [name, phase] : block.barriers)
        if (count(phase.waiting)) barrier(name.first, phase);
      for (const auto& [address, object] : block.objects) mbarrier(address, object);
      for (const auto& [name, phase] : block.clusters) cluster(name, phase);
    }
    std::vector<trace::SyncError> errors;
    for (auto& [place, said] : said_) {
      if (said.blocks > 1) said.error.text += "; likewise in " + std::to_string(said.blocks - 1) + " blocks more";
      errors.push_back(std::move(said.error));
    }
    return errors;
  }

 private:
  struct Said {
    trace::SyncError error;
    std::uint32_t blocks = 0;
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
  // Who is to come, of the block.
  Threads others(const Threads& here) const {
    Threads left = alive_;
    remove(left, here);
    return left;
  }
  std::string missing(const Threads& here) const {
    const Threads left = others(here);
    if (count(left)) return "; " + std::to_string(count(left)) + " never came: " + with_place(left);
    const std::uint32_t gone = count(block_->exited);
    return gone ? "; the others, " + std::to_string(gone) + ", have exited" : "; the block has no others";
  }
  void say(std::uint32_t site, const Threads& who, const std::string& text) {
    Said& said = said_[{launch_->number, site}];
    if (said.blocks++) return;
    const auto module = found_.modules.find(launch_->number);
    said.error = {launch_->number,
                  number_,
                  first(who),
                  module == found_.modules.end() ? 0 : module->second,
                  site,
                  "deadlock: launch " + std::to_string(launch_->number) + " (" + demangled(launch_->launch.kernel) +
                      ") did not end: " + text};
  }
  std::string waiting(const Threads& who, std::uint32_t site) const {
    return std::to_string(count(who)) + " threads of block " + std::to_string(number_) + " (" + names_of(who) + ", " +
           at(site) + ")";
  }

  void barrier(std::uint32_t number, const Phase& phase) {
    Threads here = phase.waiting;
    for (unsigned w = 0; w < warps_per_block; ++w) here[w] |= phase.arrived[w];
    say(phase.site, phase.waiting,
        waiting(phase.waiting, phase.site) + " wait at barrier " + std::to_string(number) + missing(here));
  }
  void cluster(std::uint32_t number, const Phase& phase) {
    if (phase.count || !count(phase.arrived)) return;
    say(phase.site, phase.arrived,
        waiting(phase.arrived, phase.site) + " have arrived at the cluster's barrier, phase " + std::to_string(number) +
            ", and nobody left it" +
            (count(others(phase.arrived)) ? missing(phase.arrived) : "; other blocks of the cluster have not arrived"));
  }
  void mbarrier(std::uint64_t address, const Object& object) {
    const Phase& now = object.current;
    const bool lacks = object.known && !object.seen_complete && now.count && now.count < object.expected;
    if (!lacks && !count(now.waiting)) return;
    Threads here = now.waiting;
    for (unsigned w = 0; w < warps_per_block; ++w) here[w] |= now.arrived[w];
    char offset[32];
    std::snprintf(offset, sizeof offset, "0x%llx", static_cast<unsigned long long>(address));
    std::string text = "the mbarrier at " + std::string(offset) + " of the shared memory of block " +
                       std::to_string(number_) + " has " + std::to_string(now.count) + " of " +
                       std::to_string(object.expected) + " arrivals in phase " + std::to_string(object.phase);
    if (count(now.arrived)) text += " (" + names_of(now.arrived) + ", " + at(now.site) + ")";
    if (count(now.waiting)) text += ", and " + with_place(now.waiting) + " wait for it";
    say(now.site, here, text + missing(here));
  }

  const Detector& detector_;
  const Collector& found_;
  const Detector::LaunchInfo* launch_ = nullptr;
  const Block* block_ = nullptr;
  std::uint32_t number_ = 0;
  Threads alive_{};
  std::map<std::pair<std::uint32_t, std::uint32_t>, Said> said_; // by launch and place
};

} // namespace

std::vector<trace::SyncError> unfinished_waits(const Source& source, const Detector& detector) {
  std::map<std::uint32_t, std::uint32_t> launches;
  for (const Detector::LaunchInfo* launch : detector.unfinished()) {
    launches[launch->number] =
        std::uint32_t(std::min<std::uint64_t>(launch->launch.block.count(), 32 * warps_per_block));
  }
  if (launches.empty()) return {};
  Collector collector(launches);
  for (std::size_t chunk = 0; chunk < source.chunks(); ++chunk) source.play(chunk, collector);
  if (!collector.told) return {};
  return Words(detector, collector).take();
}

} // namespace deadheat::detect
