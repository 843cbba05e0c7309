#include "replay/engine/region_run.h"

#include <cstring>

#include "deadheat/address.h"

namespace deadheat::engine {

namespace {

constexpr std::uint64_t at_bytes = sizeof(std::uint32_t) * 1024;
constexpr std::uint64_t bases_bytes = sizeof(std::uint64_t) * max_guesses;
constexpr std::uint64_t ranges_bytes = (sizeof(std::int64_t) * (2 * max_region_ranges + 1) + 63) / 64 * 64;

std::uint64_t saved_bytes(const RegionCode& code) {
  return (std::uint64_t(code.saved_words) * saved_stride + 63) / 64 * 64;
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

constexpr std::uint32_t stays = ~std::uint32_t(0);

}  // namespace

std::uint64_t region_memory_bytes(const RegionCode& code, std::uint32_t threads) {
  return saved_bytes(code) + at_bytes + bases_bytes + ranges_bytes + std::uint64_t(threads) * code.frame_bytes;
}

void lay_out_regions(const RegionCode& code, std::uint32_t threads, std::uint8_t* memory, RegionContext& context) {
  context.saved = memory;
  context.at = reinterpret_cast<std::uint32_t*>(memory + saved_bytes(code));
  context.bases = reinterpret_cast<std::uint64_t*>(memory + saved_bytes(code) + at_bytes);
  context.ranges = reinterpret_cast<std::int64_t*>(memory + saved_bytes(code) + at_bytes + bases_bytes);
  context.stacks = memory + saved_bytes(code) + at_bytes + bases_bytes + ranges_bytes;
  context.stack_bytes = code.frame_bytes;
  std::memset(context.stacks, 0, std::uint64_t(threads) * code.frame_bytes);
}

bool RegionRun::next() {
  if (reached_ == 0) {
    reached_ = together(0);
  } else if (const std::uint32_t arrived = reached_ & barriers_; reached_ == arrived && !mixed()) {
    reached_ = together(std::uint32_t(__builtin_ctz(arrived)));
  } else {
    reached_ = apart(arrived);
  }
  if (faulted()) return false;
  // Threads at headers of loops go on: all by fast code while they stay together, else each to its barrier or exit.
  while (const std::uint32_t inside = reached_ & ~barriers_ & ~exited_bit) {
    reached_ = reached_ == inside && (inside & (inside - 1)) == 0 ? together(std::uint32_t(__builtin_ctz(inside)))
                                                                  : apart(inside);
    if (faulted()) return false;
  }
  return reached_ != exited_bit;
}

// All threads stand behind the same stop, or at the start.
std::uint32_t RegionRun::together(std::uint32_t resume) {
  std::uint32_t reached;
  if (guesses_hold(resume) && (code_.probes.empty() || in_bounds(resume))) {
    ++fast_regions_;
    reached = code_.fast[resume](&c_);
  } else {
    reached = slow([&](std::uint32_t) { return resume; });
  }
  forget(reached, resume);
  return reached;
}

// Threads that stand at one of the stops in `which` go on, a thread at a time.
std::uint32_t RegionRun::apart(std::uint32_t which) {
  const std::uint32_t reached = slow([&](std::uint32_t thread) {
    const std::uint32_t bit = c_.at[thread];
    return bit & which ? std::uint32_t(__builtin_ctz(bit)) : stays;
  });
  forget(reached, stays);
  return reached;
}

template <typename From>
std::uint32_t RegionRun::slow(const From& from) {
  std::uint32_t reached = 0, thread = 0;
  for (std::uint32_t z = 0; z < c_.extent[2]; ++z)
    for (std::uint32_t y = 0; y < c_.extent[1]; ++y)
      for (std::uint32_t x = 0; x < c_.extent[0]; ++x, ++thread) {
        if (const std::uint32_t resume = from(thread); resume != stays) {
          who_.tid[0] = x, who_.tid[1] = y, who_.tid[2] = z;
          who_.linear = thread;
          c_.at[thread] = code_.slow(&c_, thread, x, y, z, resume, 0);
          ++slow_threads_;
          if (c_.at[thread] == faulted_bit) return faulted_bit;
        }
        reached |= c_.at[thread];
      }
  return reached;
}

bool RegionRun::guesses_hold(std::uint32_t resume) {
  if (resume == 0) return true;
  for (std::uint16_t guess : code_.stops[resume - 1].needs) {
    const std::uint64_t bit = std::uint64_t(1) << guess;
    if (holding_ & bit) continue;
    if (failed_ & bit || !holds(code_.guesses[guess], c_.saved, c_.extent[0], threads_ / c_.extent[0])) {
      failed_ |= bit;  // it will hardly hold the next time
      return false;
    }
    holding_ |= bit;
  }
  return true;
}

// Whether all that the region is about to touch is legal (region_probe.h).
bool RegionRun::in_bounds(std::uint32_t resume) {
  const std::uint64_t bit = std::uint64_t(1) << resume;
  if (refused_ & bit) return false; // it will hardly be the next time
  code_.probes[resume](&c_);
  struct Touched {
    std::uint64_t low, end;
    RegionRange::Kind kind;
  } touched[max_region_ranges];
  std::size_t count = 0;
  bool good = c_.ranges[2 * code_.ranges.size()] == 0; // nothing is misaligned
  for (std::size_t n = 0; n < code_.ranges.size() && good; ++n) {
    const RegionRange& range = code_.ranges[n];
    std::int64_t low = c_.ranges[2 * n], end = c_.ranges[2 * n + 1];
    if (low > end) continue; // nobody
    const std::int64_t window = range.space == Space::shared ? std::int64_t(shared_window) : 0;
    good = !__builtin_add_overflow(low, range.low + window, &low) &&
           !__builtin_add_overflow(end, range.end + window, &end) && low >= window &&
           (range.space != Space::global || end <= std::int64_t(window_bit)) &&
           memory_->legal(n, std::uint64_t(low), std::uint64_t(end));
    touched[count++] = {std::uint64_t(low), std::uint64_t(end), range.kind};
  }
  for (std::size_t a = 0; a < count && good; ++a)
    for (std::size_t b = 0; b < count && touched[a].kind == RegionRange::Kind::steers; ++b)
      good &= touched[b].kind != RegionRange::Kind::written || touched[a].end <= touched[b].low ||
              touched[b].end <= touched[a].low;
  if (!good) refused_ |= bit;
  return good;
}

void RegionRun::forget(std::uint32_t reached, std::uint32_t resume) {
  for (std::uint32_t bits = reached & ~(exited_bit | faulted_bit); bits; bits &= bits - 1) {
    const std::uint32_t stop = std::uint32_t(__builtin_ctz(bits)) - 1;
    const RegionStop& at = code_.stops[stop];
    for (std::uint16_t guess : stop + 1 == resume ? at.changes_inside : at.changes)
      holding_ &= ~(std::uint64_t(1) << guess);
  }
}

}  // namespace deadheat::engine
