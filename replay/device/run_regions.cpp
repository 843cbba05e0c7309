// Blocks of launches that nobody watches, region by region (engine/regions.h).
#include <algorithm>

#include "deadheat/address.h"
#include "replay/device/machine.h"
#include "replay/engine/region_run.h"

namespace deadheat::device {

namespace {

constexpr std::uint64_t chunk = std::uint64_t(1) << 20; // whole chunks are asked for once
constexpr std::uint64_t near = 8 * chunk; // from what is known: what lies between is asked for, too

// What a block may touch. What is legal is remembered until it may have changed: a launch asks for the same memory
// over and over.
class BlockMemory final : public engine::RegionMemory {
 public:
  BlockMemory(Environment& environment, LegalRanges& ranges, std::size_t count, std::uint32_t shared)
      : environment_(environment), ranges_(ranges), shared_(shared) {
    if (const std::uint64_t now = environment.changes(); ranges.changes != now || ranges.known.size() != count) {
      ranges.changes = now;
      ranges.known.assign(count, {0, 0});
    }
  }
  bool legal(std::size_t range, std::uint64_t low, std::uint64_t end) override {
    if (low >= window_bit) return low >= shared_window && end <= shared_window + shared_;
    auto& [known_low, known_end] = ranges_.known[range];
    if (low >= known_low && end <= known_end) return true;
    if (!(low & device_bit)) return false; // shared with the host: code of one thread alone can address it
    const std::uint64_t first = low / chunk * chunk, last = (end + chunk - 1) / chunk * chunk;
    // What is known grows: loops go over the same memory again for every block.
    if (known_low < known_end) {
      if (low >= known_low && end - known_end <= near) {
        for (const std::uint64_t to : {last, end})
          if (environment_.legal(known_end, to - known_end)) {
            known_end = to;
            return true;
          }
      } else if (end <= known_end && known_low - low <= near) {
        for (const std::uint64_t from : {first, low})
          if (environment_.legal(from, known_low - from)) {
            known_low = from;
            return true;
          }
      }
    }
    for (const auto& [from, to] : {std::pair{first, last}, std::pair{low, end}})
      if ((to - from <= near || from == low) && environment_.legal(from, to - from)) {
        known_low = from;
        known_end = to;
        return true;
      }
    return false;
  }

 private:
  Environment& environment_;
  LegalRanges& ranges_;
  const std::uint32_t shared_;
};

} // namespace

// Runs a block to its end. No thread in it can wait for another but at the block's barrier.
void Machine::run_regions(Block& block) {
  Launch& launch = *block.launch;
  const engine::RegionCode& code = *launch.request.regions;
  engine::RegionContext context;
  context.block = &block.context;
  for (int n = 0; n < 3; ++n) context.extent[n] = launch.context.ntid[n];
  engine::lay_out_regions(code, launch.threads, block.memory, context);
  engine::ThreadContext who;
  who.block = &block.context;
  current_ = &who;
  BlockMemory memory(*options_.environment, launch.legal, code.ranges.size(), launch.context.total_shared);
  engine::RegionRun run(code, context, who, launch.threads, &memory);
  while (run.next())
    if (run.mixed()) check_aligned(block, run, who);
  current_ = nullptr;
  if (run.faulted()) take_fault(who);
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
