// How fast accesses are checked, on one core, without reading them from disk. An item is one access of one thread.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "analyzer/detect/find.h"
#include "tracer/recorder/access_view.h"

namespace {

using namespace deadheat;

constexpr std::uint64_t memory = 0xA000'0000'0000;
constexpr std::uint32_t blocks = 64, warps = 8;

// A launch whose warps do what `body` says, block after block, with `turns` barriers.
class Kernel {
 public:
  explicit Kernel(std::uint32_t launches) : launches_(launches) {
    module_.id = 1;
    allocation_.allocation = 1;
    allocation_.address = memory;
    allocation_.bytes = std::uint64_t(1) << 30;
  }
  std::uint32_t site(AccessKind kind, Space space, unsigned bytes = 4, Ordering ordering = Ordering::weak,
                     Scope scope = Scope::none) {
    Site site;
    site.id = std::uint32_t(module_.sites.size());
    site.kind = SiteKind::access;
    site.access = kind;
    site.space = space;
    site.element_bytes = std::uint8_t(bytes);
    site.ordering = ordering;
    site.scope = scope;
    site.opcode = kind == AccessKind::atomic ? "atom.global.add.u32" : "ld.global.u32";
    site.source.push_back({"", "bench.cu", site.id + 1, 1});
    module_.sites.push_back(site);
    return site.id;
  }

  template <typename Body>
  detect::Findings run(Body&& body, std::uint32_t turns) {
    return detect::find_races([&](trace::RecordVisitor& visitor) {
      auto say = [&](trace::Record record) { visitor.record(record); };
      say(module_);
      say(allocation_);
      for (std::uint32_t number = 1; number <= launches_; ++number) {
        trace::Launch launch;
        launch.module = 1;
        launch.kernel = "kernel";
        launch.grid = {blocks, 1, 1};
        launch.block = {warps * 32, 1, 1};
        launch.instrumented = true;
        trace::Operation operation;
        operation.id = operation.launch = number;
        operation.stream = 1;
        operation.what = launch;
        say(operation);
        say(trace::OperationBegin{number});
        for (std::uint32_t block = 0; block < blocks; ++block) {
          for (std::uint32_t turn = 0; turn < turns; ++turn) {
            for (std::uint32_t half = 0; half < 2; ++half) {
              for (std::uint32_t warp = 0; warp < warps; ++warp) body(visitor, number, block, warp, turn, half);
              say(trace::BlockBarrier{number, block, 0, 2 * turn + half, 1, 0});
            }
          }
          for (std::uint32_t warp = 0; warp < warps; ++warp) {
            trace::ThreadExit exit;
            exit.warp = {number, block, warp};
            exit.mask = ~0u;
            say(exit);
          }
        }
        say(trace::OperationEnd{number});
      }
    });
  }

 private:
  std::uint32_t launches_;
  trace::Module module_;
  trace::Allocate allocation_;
};

// An access of all lanes, as the reader gives it.
class Access {
 public:
  Access() { digest_.fill(0); }
  void operator()(trace::RecordVisitor& visitor, std::uint32_t launch, std::uint32_t block, std::uint32_t warp,
                  std::uint32_t site, Space space, std::uint64_t first, std::int64_t stride) {
    for (unsigned lane = 0; lane < 32; ++lane) address_[lane] = first + std::uint64_t(stride) * lane;
    view_.affine = true;
    view_.stride = stride;
    view_.strong = false;
    give(visitor, launch, block, warp, site, space);
  }
  void give(trace::RecordVisitor& visitor, std::uint32_t launch, std::uint32_t block, std::uint32_t warp,
            std::uint32_t site, Space space) {
    view_.warp = {launch, block, warp};
    view_.module = 1;
    view_.site = site;
    view_.mask = ~0u;
    view_.space = space;
    view_.address = address_.data();
    view_.digest = digest_.data();
    view_.value_read = value_read_.data();
    view_.value_written = value_written_.data();
    view_.order_first = view_.order_last = order_.data();
    view_.wrote = ~0u;
    visitor.access(view_);
  }
  trace::AccessView view_;
  std::array<std::uint64_t, 32> address_{}, value_read_{}, value_written_{}, order_{};
  std::array<std::uint32_t, 32> digest_{};
};

void finish(benchmark::State& state, const detect::Findings& findings) {
  state.SetItemsProcessed(std::int64_t(findings.detector->summary().accesses) * std::int64_t(state.iterations()));
  state.counters["races"] = double(findings.races.size());
  state.counters["suspects"] = double(findings.suspect_words);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_MB"] = double(usage.ru_maxrss) / 1024;
}

// A tiled loop: coalesced loads, stores to shared memory, a barrier, shared loads (rows and broadcasts), a barrier.
void tiled(benchmark::State& state) {
  const bool racy = state.range(0) != 0;
  Kernel kernel(1);
  const std::uint32_t load = kernel.site(AccessKind::read, Space::global),
                      put = kernel.site(AccessKind::write, Space::shared);
  const std::uint32_t row = kernel.site(AccessKind::read, Space::shared),
                      one = kernel.site(AccessKind::read, Space::shared);
  const std::uint32_t store = kernel.site(AccessKind::write, Space::global);
  Access access;
  detect::Findings findings;
  for (auto _ : state) {
    findings = kernel.run(
        [&](trace::RecordVisitor& v, std::uint32_t l, std::uint32_t b, std::uint32_t w, std::uint32_t t,
            std::uint32_t half) {
          if (half == 0) {
            for (unsigned i = 0; i < 4; ++i) {
              access(v, l, b, w, load, Space::global, memory + 4096 * (t % 64) + 4 * (w * 128 + i * 32), 4);
              access(v, l, b, w, put, Space::shared, 4 * (w * 128 + i * 32), 4);
            }
          } else {
            for (unsigned i = 0; i < 8; ++i) {
              access(v, l, b, w, row, Space::shared, 128 * i, 4);
              access(v, l, b, w, one, Space::shared, 128 * w + 4 * i, 0);
            }
            const std::uint64_t place = racy && t == 3 ? 0 : b * warps + w;
            access(v, l, b, w, store, Space::global, memory + (1 << 24) + 128 * place, 4);
          }
        },
        32);
  }
  finish(state, findings);
}
BENCHMARK(tiled)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

// Every lane somewhere: a gather from a table, a scatter to a place of its own.
void gather(benchmark::State& state) {
  Kernel kernel(2);
  const std::uint32_t load = kernel.site(AccessKind::read, Space::global),
                      store = kernel.site(AccessKind::write, Space::global);
  std::mt19937 random(1);
  std::vector<std::uint32_t> where(1 << 16);
  for (auto& at : where) at = random() % (1 << 20);
  Access access;
  detect::Findings findings;
  for (auto _ : state) {
    findings = kernel.run(
        [&](trace::RecordVisitor& v, std::uint32_t l, std::uint32_t b, std::uint32_t w, std::uint32_t t,
            std::uint32_t half) {
          const std::uint32_t item = ((b * warps + w) * 16 + t) * 2 + half;
          for (unsigned lane = 0; lane < 32; ++lane)
            access.address_[lane] = memory + 4ull * where[(item * 32 + lane) & 0xFFFF];
          access.view_.affine = false;
          access.give(v, l, b, w, load, Space::global);
          access(v, l, b, w, store, Space::global, memory + (1 << 24) + 128ull * item, 4);
        },
        16);
  }
  finish(state, findings);
}
BENCHMARK(gather)->Unit(benchmark::kMillisecond);

// A histogram in global memory: atomics on 4096 counters.
void histogram(benchmark::State& state) {
  Kernel kernel(1);
  const std::uint32_t add = kernel.site(AccessKind::atomic, Space::global, 4, Ordering::relaxed, Scope::gpu);
  Access access;
  detect::Findings findings;
  for (auto _ : state) {
    std::mt19937 random(1);
    std::vector<std::uint64_t> counters(4096);
    std::uint64_t ticket = 0;
    findings = kernel.run(
        [&](trace::RecordVisitor& v, std::uint32_t l, std::uint32_t b, std::uint32_t w, std::uint32_t, std::uint32_t) {
          for (unsigned lane = 0; lane < 32; ++lane) {
            const std::uint32_t bin = random() % 4096;
            access.address_[lane] = memory + 4ull * bin;
            access.value_read_[lane] = counters[bin]++;
            access.value_written_[lane] = counters[bin];
            access.order_[lane] = ++ticket;
          }
          access.view_.affine = false;
          access.view_.strong = true;
          access.give(v, l, b, w, add, Space::global);
        },
        16);
  }
  finish(state, findings);
}
BENCHMARK(histogram)->Unit(benchmark::kMillisecond);

// Halves: two bytes a lane.
void halves(benchmark::State& state) {
  Kernel kernel(1);
  const std::uint32_t load = kernel.site(AccessKind::read, Space::global, 2),
                      store = kernel.site(AccessKind::write, Space::global, 2);
  Access access;
  detect::Findings findings;
  for (auto _ : state) {
    findings = kernel.run(
        [&](trace::RecordVisitor& v, std::uint32_t l, std::uint32_t b, std::uint32_t w, std::uint32_t t,
            std::uint32_t half) {
          const std::uint64_t item = ((b * warps + w) * 32 + t) * 2 + half;
          access(v, l, b, w, load, Space::global, memory + 64 * item, 2);
          access(v, l, b, w, store, Space::global, memory + (1 << 24) + 64 * item, 2);
        },
        32);
  }
  finish(state, findings);
}
BENCHMARK(halves)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
