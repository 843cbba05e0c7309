// What it costs to look for slots that are filled again too early, beside the pass that looks for races: blocks hand
// each other vectors of data beside a flag, step by step, and do atomic operations between.
//
//   slots_bench [--atomics N] [--blocks B] [--steps S] [--jobs J] [--pattern NAME]
//       N: lanes' atomic operations of a run, 1e6 unless told; B: of 256 threads, 16; S: in which these hand each other
//       slots, 8; NAME: one of
//           counts   every lane adds to one of 1024 counters, and does not look at what it had
//           ranks    the same, and looks at it
//           spread   the same, one of a million counters
//           barriers one lane of a block adds to a counter, and waits until the others have
//           behind   as ranks, in a second launch, which does nothing else
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/detect/find.h"
#include "tests/bench/launch_record.h"
#include "tests/bench/measured_run.h"
#include "tracer/recorder/access_view.h"

namespace deadheat::bench {
namespace {

enum class Pattern { counts, ranks, spread, barriers, behind };
constexpr const char* names[] = {"counts", "ranks", "spread", "barriers", "behind"};
constexpr std::uint32_t warps = 8, lanes = 32;

// Records of the whole run, in chunks.
class Exchange final : public detect::Source {
 public:
  Exchange(Pattern pattern, std::uint64_t atomics, std::uint32_t blocks, std::uint32_t steps)
      : pattern_(pattern), blocks_(blocks) {
    begin();
    for (std::uint32_t step = 0; step < steps; ++step) {
      exchange(step);
      if (pattern != Pattern::behind) count(atomics * (step + 1) / steps);
    }
    end(1);
    if (pattern != Pattern::behind) return;
    launch(2);
    count(atomics);
    end(2);
  }
  std::uint64_t atomics() const { return atomics_; }
  std::size_t chunks() const override { return chunks_.size(); }
  void play(std::size_t chunk, trace::RecordVisitor& visitor) const override {
    for (trace::Record record : chunks_[chunk]) {
      if (auto* access = std::get_if<trace::Access>(&record)) {
        trace::AccessView view = view_of(*access);
        visitor.access(view);
      } else {
        visitor.record(record);
      }
    }
  }
  ptx::FlaggedReads flagged() const {
    ptx::FlaggedRead read;
    read.data = 5;
    read.again = {look};
    read.next.behind = {use};
    return {{look, read}};
  }

 private:
  enum Site : std::uint32_t { look, fill, use, tell, hear, add, drop };
  static constexpr std::uint64_t memory = 0xA000'0000'0000, heads = memory + (1 << 24), used = heads + (1 << 24),
                                 counters = used + (1 << 24);
  static constexpr std::uint64_t fold(std::uint32_t step) { return step * 0x9e3779b97f4a7c15u; }

  void say(trace::Record record) {
    if (chunks_.empty() || chunks_.back().size() == 512) chunks_.emplace_back();
    chunks_.back().push_back(std::move(record));
  }
  void begin() {
    trace::Module module;
    module.id = 1;
    const auto site = [&](AccessKind kind, Ordering ordering, unsigned elements, const char* opcode) {
      deadheat::Site at;
      at.id = std::uint32_t(module.sites.size());
      at.kind = SiteKind::access;
      at.access = kind;
      at.space = Space::global;
      at.element_bytes = 4;
      at.elements = std::uint8_t(elements);
      at.ordering = ordering;
      at.scope = ordering == Ordering::weak ? Scope::none : ordering == Ordering::volatile_ ? Scope::sys : Scope::gpu;
      at.opcode = opcode;
      at.source.push_back({"", "bench.cu", at.id + 1, 1});
      module.sites.push_back(at);
    };
    site(AccessKind::read, Ordering::volatile_, 4, "ld.volatile.global.v4.u32");
    site(AccessKind::write, Ordering::volatile_, 4, "st.volatile.global.v4.u32");
    site(AccessKind::write, Ordering::weak, 1, "st.global.u32");
    site(AccessKind::write, Ordering::volatile_, 1, "st.volatile.global.u32");
    site(AccessKind::read, Ordering::volatile_, 1, "ld.volatile.global.u32");
    site(AccessKind::atomic, Ordering::relaxed, 1, "atom.global.add.u32");
    site(AccessKind::atomic, Ordering::relaxed, 1, "red.global.add.u32");
    module.sites[look].polls = module.sites[hear].polls = Polls::yes;
    say(module);
    trace::Allocate allocation;
    allocation.allocation = 1;
    allocation.address = memory;
    allocation.bytes = std::uint64_t(1) << 32;
    say(allocation);
    launch(1);
  }
  void launch(std::uint32_t number) {
    launch_ = number;
    say(launch_record(number, blocks_, warps * lanes));
    say(trace::OperationBegin{number});
  }
  void end(std::uint32_t number) { say(trace::OperationEnd{number}); }

  trace::Access access(std::uint32_t block, std::uint32_t warp, Site site) const {
    trace::Access access;
    access.warp = {launch_, block, warp};
    access.module = 1;
    access.site = site;
    access.mask = ~0u;
    access.space = Space::global;
    return access;
  }
  std::uint64_t thread(std::uint32_t block, std::uint32_t warp, std::uint32_t lane) const {
    return (std::uint64_t(block) * warps + warp) * lanes + lane;
  }
  // By all lanes of a warp; `value` of each, of writes.
  template <typename Address>
  void strong(std::uint32_t block, std::uint32_t warp, Site site, std::uint64_t value, Address&& address) {
    trace::Access one = access(block, warp, site);
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      one.address[lane] = address(lane);
      State& at = memory_[one.address[lane]];
      one.value_read[lane] = at.value;
      if (site == fill || site == tell) at.value = value;
      if (site == add || site == drop) ++at.value, ++atomics_;
      one.value_written[lane] = at.value;
      one.order_first[lane] = one.order_last[lane] = ++at.ticket;
      one.wrote[lane] = site != look && site != hear;
    }
    say(one);
  }
  template <typename F>
  void each_warp(F&& f) {
    for (std::uint32_t block = 0; block < blocks_; ++block)
      for (std::uint32_t warp = 0; warp < warps; ++warp) f(block, warp);
  }
  void exchange(std::uint32_t step) {
    const auto slot = [&](std::uint32_t block, std::uint32_t warp) {
      return [this, block, warp](std::uint32_t lane) { return memory + 16 * thread(block, warp, lane); };
    };
    const auto head = [&](std::uint32_t block, std::uint32_t warp) {
      return [this, block, warp](std::uint32_t lane) { return heads + 4 * thread(block, warp, lane); };
    };
    each_warp([&](std::uint32_t b, std::uint32_t w) {
      if (step) strong(b, w, hear, 0, head(b ^ 1, w));
      strong(b, w, fill, fold(step + 1), slot(b ^ 1, w));
    });
    each_warp([&](std::uint32_t b, std::uint32_t w) {
      strong(b, w, look, 0, slot(b, w));
      trace::Access uses = access(b, w, use);
      for (std::uint32_t lane = 0; lane < lanes; ++lane) uses.address[lane] = used + 4 * thread(b, w, lane);
      say(uses);
      strong(b, w, tell, step + 1, head(b, w));
    });
  }
  void count(std::uint64_t until) {
    while (atomics_ < until) {
      if (pattern_ == Pattern::barriers) {
        grid_barrier();
        continue;
      }
      const std::uint64_t bins = pattern_ == Pattern::spread ? 1 << 20 : 1024;
      each_warp([&](std::uint32_t b, std::uint32_t w) {
        strong(b, w, pattern_ == Pattern::counts ? drop : add, 0, [&](std::uint32_t) {
          state_ = state_ * 6364136223846793005u + 1442695040888963407u;
          return counters + 4 * ((state_ >> 33) % bins);
        });
      });
    }
  }
  void grid_barrier() {
    ++phase_;
    for (std::uint32_t block = 0; block < blocks_; ++block) {
      say(trace::BlockBarrier{launch_, block, 0, 2 * phase_, 1, 0});
      one_lane(block, add);
    }
    for (std::uint32_t block = 0; block < blocks_; ++block) {
      one_lane(block, hear);
      say(trace::BlockBarrier{launch_, block, 0, 2 * phase_ + 1, 1, 0});
    }
  }
  void one_lane(std::uint32_t block, Site site) {
    trace::Access one = access(block, 0, site);
    one.mask = 1;
    one.address[0] = counters;
    State& at = memory_[counters];
    one.value_read[0] = at.value;
    if (site == add) ++at.value, ++atomics_;
    one.value_written[0] = at.value;
    one.order_first[0] = one.order_last[0] = ++at.ticket;
    one.wrote[0] = site == add;
    say(one);
  }

  struct State {
    std::uint64_t value = 0, ticket = 0;
  };
  const Pattern pattern_;
  const std::uint32_t blocks_;
  std::uint32_t launch_ = 0, phase_ = 0;
  std::uint64_t atomics_ = 0, state_ = 1;
  std::unordered_map<std::uint64_t, State> memory_;
  std::vector<std::vector<trace::Record>> chunks_;
};

struct Times {
  std::uint64_t atomics = 0, races = 0;
  double first = 0, third = 0, peak = 0; // seconds, bytes
};

Times run(Pattern pattern, std::uint64_t atomics, std::uint32_t blocks, std::uint32_t steps, unsigned jobs) {
  Times times;
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  const Cost cost = measure([&] {
    const Exchange source(pattern, atomics, blocks, steps);
    rusage before{};
    getrusage(RUSAGE_SELF, &before);
    using Clock = std::chrono::steady_clock;
    std::map<std::string, Clock::time_point> over;
    const Clock::time_point begin = Clock::now();
    detect::FindOptions options;
    options.jobs = jobs;
    options.flagged = [&](const trace::Module&) { return source.flagged(); };
    options.progress = [&](const std::string& what, double) { over[what] = Clock::now(); };
    const detect::Findings findings = detect::find_races(source, options);
    const auto since = [&](const char* what, Clock::time_point from) {
      return std::chrono::duration<double>(over[what] - from).count();
    };
    const bool named = over.count("naming races");
    Times of;
    of.atomics = source.atomics();
    of.first = since("looking for races", begin);
    of.third = since("looking for slots written too early", over[named ? "naming races" : "looking for races"]);
    of.peak = double(before.ru_maxrss) * 1024;
    for (const detect::FoundRace& race : findings.races) of.races += race.race_class == RaceClass::strong;
    if (write(ends[1], &of, sizeof of) != sizeof of) std::abort();
    return Cost{};
  });
  if (read(ends[0], &times, sizeof times) != sizeof times) std::abort();
  times.peak = cost.peak_bytes - times.peak;
  close(ends[0]);
  close(ends[1]);
  return times;
}

} // namespace
} // namespace deadheat::bench

int main(int argc, char** argv) {
  using namespace deadheat::bench;
  double atomics = 1e6;
  unsigned blocks = 16, steps = 8, jobs = 1;
  std::string only;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--atomics")) atomics = std::strtod(argv[i + 1], nullptr);
    if (!std::strcmp(argv[i], "--blocks")) blocks = unsigned(std::strtoul(argv[i + 1], nullptr, 10));
    if (!std::strcmp(argv[i], "--steps")) steps = unsigned(std::strtoul(argv[i + 1], nullptr, 10));
    if (!std::strcmp(argv[i], "--jobs")) jobs = unsigned(std::strtoul(argv[i + 1], nullptr, 10));
    if (!std::strcmp(argv[i], "--pattern")) only = argv[i + 1];
  }
  for (std::size_t pattern = 0; pattern < std::size(names); ++pattern) {
    if (!only.empty() && only != names[pattern]) continue;
    const Times times = run(Pattern(pattern), std::uint64_t(atomics), blocks, steps, jobs);
    std::printf("%-8s %9llu atomic operations: first pass %7.2f s, slots %7.2f s, %6.2f times as long; %6.0f MB%s\n",
                names[pattern], static_cast<unsigned long long>(times.atomics), times.first, times.third,
                times.third / times.first, times.peak / 1e6, times.races ? "  RACES FOUND" : "");
    std::fflush(stdout);
  }
}
