// Blocks of launches that nobody watches, region by region (engine/regions.h).
#include <cstring>

#include "replay/device/machine.h"

namespace deadheat::device {

using engine::exited_bit;
using engine::RegionCode;
using engine::RegionGuess;

namespace {

constexpr std::uint64_t at_bytes = sizeof(std::uint32_t) * max_warps * warp_lanes;
constexpr std::uint64_t bases_bytes = sizeof(std::uint64_t) * engine::max_guesses;

std::uint64_t round_up(std::uint64_t n, std::uint64_t to) { return (n + to - 1) / to * to; }
std::uint64_t saved_bytes(const RegionCode& code) {
  return round_up(std::uint64_t(code.saved_words) * engine::saved_stride, 64);
}

// Whether a row is base, base + stride, … and stays inside the signed range.
template <typename T, typename Signed>
bool affine_row(const T* row, std::uint32_t n, std::int64_t stride) {
  Signed last = 0;
  if (__builtin_mul_overflow(stride, std::int64_t(n - 1), &last) || __builtin_add_overflow(Signed(row[0]), last, &last))
    return false;
  T differs = 0;
  for (std::uint32_t x = 0; x < n; ++x) differs |= row[x] ^ T(row[0] + T(stride) * T(x));
  return differs == 0;
}

bool holds(const RegionGuess& guess, const std::uint8_t* saved, std::uint32_t width, std::uint32_t rows) {
  for (std::uint32_t row = 0; row < rows; ++row) {
    const std::uint8_t* at = saved + guess.offset + std::uint64_t(row) * width * guess.bytes;
    const bool affine =
        guess.bytes == 4
            ? affine_row<std::uint32_t, std::int32_t>(reinterpret_cast<const std::uint32_t*>(at), width, guess.stride)
            : affine_row<std::uint64_t, std::int64_t>(reinterpret_cast<const std::uint64_t*>(at), width, guess.stride);
    if (!affine) return false;
  }
  return true;
}

} // namespace

std::uint64_t region_slot_bytes(const RegionCode& code, std::uint32_t threads) {
  return saved_bytes(code) + at_bytes + bases_bytes + std::uint64_t(threads) * code.frame_bytes;
}

// Where a block's threads stand: together, behind one stop, or each somewhere.
class RegionRun {
 public:
  RegionRun(const RegionCode& code, engine::RegionContext& context, engine::ThreadContext& who, std::uint32_t threads)
      : code_(code), c_(context), who_(who), threads_(threads) {}

  // To the next barrier of the block, or the end: the union of where threads stand. `resume`: 0 at the start.
  std::uint32_t together(std::uint32_t resume) {
    const std::uint32_t reached =
        ready_for_fast(resume) ? code_.fast[resume](&c_) : slow([&](std::uint32_t) { return resume; });
    forget(reached, resume);
    return reached;
  }

  // Threads that stand at one of the stops in `which` go on, a thread at a time.
  std::uint32_t apart(std::uint32_t which) {
    const std::uint32_t reached = slow([&](std::uint32_t thread) {
      const std::uint32_t bit = c_.at[thread];
      return bit & which ? std::uint32_t(__builtin_ctz(bit)) : stays;
    });
    forget(reached, stays);
    return reached;
  }

 private:
  static constexpr std::uint32_t stays = ~0u;

  template <typename From>
  std::uint32_t slow(const From& from) {
    std::uint32_t reached = 0, thread = 0;
    for (std::uint32_t z = 0; z < c_.extent[2]; ++z)
      for (std::uint32_t y = 0; y < c_.extent[1]; ++y)
        for (std::uint32_t x = 0; x < c_.extent[0]; ++x, ++thread) {
          if (const std::uint32_t resume = from(thread); resume != stays) {
            who_.tid[0] = x, who_.tid[1] = y, who_.tid[2] = z;
            who_.linear = thread;
            c_.at[thread] = code_.slow(&c_, thread, x, y, z, resume, 0);
          }
          reached |= c_.at[thread];
        }
    return reached;
  }

  bool ready_for_fast(std::uint32_t resume) {
    if (resume == 0) return true;
    const auto& needs = code_.stops[resume - 1].needs;
    for (std::uint16_t guess : needs) {
      const std::uint64_t bit = std::uint64_t(1) << guess;
      if (holding_ & bit) continue;
      if (failed_ & bit || !holds(code_.guesses[guess], c_.saved, c_.extent[0], threads_ / c_.extent[0])) {
        failed_ |= bit; // it will hardly hold the next time
        return false;
      }
      holding_ |= bit;
    }
    return true;
  }

  void forget(std::uint32_t reached, std::uint32_t resume) {
    for (std::uint32_t bits = reached & ~exited_bit; bits; bits &= bits - 1) {
      const std::uint32_t stop = std::uint32_t(__builtin_ctz(bits)) - 1;
      const engine::RegionStop& at = code_.stops[stop];
      for (std::uint16_t guess : stop + 1 == resume ? at.changes_inside : at.changes)
        holding_ &= ~(std::uint64_t(1) << guess);
    }
  }

  const RegionCode& code_;
  engine::RegionContext& c_;
  engine::ThreadContext& who_;
  const std::uint32_t threads_;
  std::uint64_t holding_ = 0, failed_ = 0; // guesses, by number
};

// Runs a block to its end. No thread in it can wait for another but at the block's barrier.
void Machine::run_regions(Block& block) {
  Launch& launch = *block.launch;
  const RegionCode& code = *launch.request.regions;
  engine::RegionContext context;
  context.block = &block.context;
  context.saved = block.memory;
  context.at = reinterpret_cast<std::uint32_t*>(context.saved + saved_bytes(code));
  context.bases = reinterpret_cast<std::uint64_t*>(context.saved + saved_bytes(code) + at_bytes);
  context.stacks = reinterpret_cast<std::uint8_t*>(context.bases) + bases_bytes;
  context.stack_bytes = code.frame_bytes;
  std::memset(context.stacks, 0, std::uint64_t(launch.threads) * code.frame_bytes);
  for (int n = 0; n < 3; ++n) context.extent[n] = launch.context.ntid[n];

  engine::ThreadContext who; // for faults
  who.block = &block.context;
  current_ = &who;
  std::uint32_t barriers = 0; // their bits
  for (std::size_t n = 0; n < code.stops.size(); ++n)
    if (code.stops[n].site != ~0u) barriers |= 2u << n;
  RegionRun run(code, context, who, launch.threads);
  std::uint32_t reached = run.together(0);
  while (reached & ~exited_bit) {
    if ((reached & (reached - 1)) == 0) {
      reached = run.together(std::uint32_t(__builtin_ctz(reached)));
      continue;
    }
    // Whoever does not stand at a barrier goes there; then the barrier is complete for all that have not exited.
    if (const std::uint32_t others = reached & ~barriers & ~exited_bit) reached = run.apart(others);
    if (const std::uint32_t arrived = reached & barriers) {
      if (arrived & (arrived - 1)) say_mixed_barrier(block, context, who);
      if (reached != arrived || arrived & (arrived - 1)) reached = run.apart(arrived);
    }
  }
  current_ = nullptr;
}

// bar and barrier.aligned: the lanes of a warp execute the same one (PTX ISA 9.7.13.1).
void Machine::say_mixed_barrier(Block& block, const engine::RegionContext& context, engine::ThreadContext& who) {
  const Launch& launch = *block.launch;
  const std::vector<Site>& sites = *launch.request.sites->sites;
  for (std::uint32_t first = 0; first < launch.threads; first += warp_lanes) {
    std::uint32_t common = 0;
    for (std::uint32_t t = first; t < std::min(first + warp_lanes, launch.threads); ++t) {
      const std::uint32_t bit = context.at[t];
      if (bit == exited_bit || bit == common) continue;
      const std::uint32_t site = launch.request.regions->stops[std::uint32_t(__builtin_ctz(bit)) - 1].site;
      if (common && site < sites.size() && sites[site].aligned) {
        const std::uint32_t* n = context.extent;
        who.linear = t;
        who.tid[0] = t % n[0], who.tid[1] = t / n[0] % n[1], who.tid[2] = t / n[0] / n[1];
        who.pending_site = site;
        sync_error(block, who, "lanes of one warp are at different barriers where all must execute the same one");
        break;
      }
      common = bit;
    }
  }
}

} // namespace deadheat::device
