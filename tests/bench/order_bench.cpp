// How the time that synchronization takes grows with the number of threads, phases and blocks: no trace, only the
// order's own work. Prints for each pattern the CPU time at four sizes, each twice the one before, and the exponent
// from the third to the fourth: 1 is linear.
//
//   order_bench [PATTERN] [--scale S]      one pattern, or those whose names begin so; sizes times S
#include <sys/resource.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/bench/order_scene.h"

namespace {

using namespace deadheat;
using namespace deadheat::test;

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return double(usage.ru_utime.tv_sec) + 1e-6 * double(usage.ru_utime.tv_usec);
}

struct Pattern {
  const char* name;
  std::uint32_t smallest;
  void (*run)(std::uint32_t n);
};

const Pattern patterns[] = {
    // n: phases
    {"mbarrier phases cta", 25,
     [](std::uint32_t n) {
       Scene scene(1, 256);
       mbarriers(scene, n, Scope::cta);
     }},
    {"mbarrier phases cluster", 25,
     [](std::uint32_t n) {
       Scene scene(2, 128, 2);
       mbarriers(scene, n, Scope::cluster);
     }},
    // n: threads of a block
    {"mbarrier threads cta", 128,
     [](std::uint32_t n) {
       Scene scene(1, n);
       mbarriers(scene, 5, Scope::cta);
     }},
    {"mbarrier threads cluster", 64,
     [](std::uint32_t n) {
       Scene scene(2, n, 2);
       mbarriers(scene, 5, Scope::cluster);
     }},
    {"mbarrier threads cluster of 8", 16,
     [](std::uint32_t n) {
       Scene scene(8, n, 8);
       mbarriers(scene, 5, Scope::cluster);
     }},
    {"mbarrier clusters", 8,
     [](std::uint32_t n) { // each cluster has its own
       Scene scene(2 * n, 64, 2);
       for (std::uint32_t phase = 0; phase < 4; ++phase) {
         for (const bool wait : {false, true}) {
           scene.each([&](ThreadKey t) {
             const Location object = scene.object(t.block() / 2 * 2, 0);
             if (wait)
               scene.causality.mbarrier_test(t, object, phase, Ordering::acquire, Scope::cluster);
             else
               scene.causality.mbarrier_arrive(t, object, phase, Ordering::release, Scope::cluster, ++scene.now);
           });
         }
       }
     }},
    // n: blocks of 32 threads
    {"counting cta", 8,
     [](std::uint32_t n) {
       Scene scene(n, 32);
       counting(scene, Scope::cta);
     }},
    {"counting cluster", 8,
     [](std::uint32_t n) {
       Scene scene(n, 32, 2);
       counting(scene, Scope::cluster);
     }},
    {"counting gpu", 8,
     [](std::uint32_t n) {
       Scene scene(n, 32);
       counting(scene, Scope::gpu);
     }},
    {"counting sys", 8,
     [](std::uint32_t n) {
       Scene scene(n, 32);
       counting(scene, Scope::sys);
     }},
    {"counting gpu, in clusters", 8,
     [](std::uint32_t n) {
       Scene scene(n, 32, 2);
       counting(scene, Scope::gpu);
     }},
    {"counting sys, two devices", 4,
     [](std::uint32_t n) {
       Scene scene(n, 32);
       counting(scene, Scope::sys);
       scene.launch(1);
       counting(scene, Scope::sys);
     }},
    {"counting gpu, read by cta", 8,
     [](std::uint32_t n) {
       Scene scene(n, 32);
       scene.each([&](ThreadKey t) { scene.access(t, AccessKind::atomic, Ordering::acq_rel, Scope::gpu); });
       scene.each([&](ThreadKey t) { scene.access(t, AccessKind::read, Ordering::acquire, Scope::cta); });
     }},
    {"counting gpu, read by cluster", 8,
     [](std::uint32_t n) {
       Scene scene(n, 32, 2);
       scene.each([&](ThreadKey t) { scene.access(t, AccessKind::atomic, Ordering::acq_rel, Scope::gpu); });
       scene.each([&](ThreadKey t) { scene.access(t, AccessKind::read, Ordering::acquire, Scope::cluster); });
     }},
    {"counting cta, a block", 128,
     [](std::uint32_t n) {
       Scene scene(1, n);
       counting(scene, Scope::cta);
     }},
    {"counting rounds", 4,
     [](std::uint32_t n) {
       Scene scene(8, 32);
       counting(scene, Scope::gpu, n);
     }},
    // n: blocks
    {"tickets in order", 64,
     [](std::uint32_t n) {
       Scene scene(n, 32);
       tickets(scene, Ordering::acq_rel, Scope::gpu, false, Scope::gpu);
     }},
    {"tickets against it", 8,
     [](std::uint32_t n) {
       Scene scene(n, 32);
       tickets(scene, Ordering::acq_rel, Scope::gpu, true, Scope::gpu);
     }},
    {"tickets sc, in order", 8,
     [](std::uint32_t n) {
       Scene scene(n, 32);
       tickets(scene, Ordering::sc, Scope::gpu, false, Scope::gpu);
     }},
    {"tickets sc, against it", 8,
     [](std::uint32_t n) {
       Scene scene(n, 32);
       tickets(scene, Ordering::sc, Scope::gpu, true, Scope::gpu);
     }},
    {"tickets behind cta fences", 8,
     [](std::uint32_t n) {
       Scene scene(n, 32);
       tickets(scene, Ordering::acq_rel, Scope::cta, false, Scope::gpu);
     }},
    {"tickets cluster, against it", 8,
     [](std::uint32_t n) {
       Scene scene(n, 32, 4);
       tickets(scene, Ordering::acq_rel, Scope::cluster, true, Scope::cluster);
     }},
    {"tickets sys, two devices, against it", 4,
     [](std::uint32_t n) {
       Scene scene(n, 32);
       tickets(scene, Ordering::acq_rel, Scope::sys, true, Scope::sys);
       scene.launch(1);
       tickets(scene, Ordering::acq_rel, Scope::sys, true, Scope::sys);
     }},
    {"grid barriers, blocks", 128,
     [](std::uint32_t n) {
       Scene scene(n, 64);
       grid_barriers(scene, n, 64, 4, Scope::gpu);
     }},
    {"grid barriers, rounds", 8,
     [](std::uint32_t n) {
       Scene scene(128, 64);
       grid_barriers(scene, 128, 64, n, Scope::gpu);
     }},
    // Many strong reads of many places before one fence.
    {"pending reads", 64,
     [](std::uint32_t n) {
       Scene scene(8, 32);
       scene.each([&](ThreadKey t) {
         scene.access(t, AccessKind::write, Ordering::release, Scope::gpu, counter + 4 * (t.thread() % 32));
       });
       scene.each([&](ThreadKey t) {
         for (std::uint32_t i = 0; i < n; ++i)
           scene.access(t, AccessKind::read, Ordering::relaxed, Scope::gpu, counter + 4 * (i % 40));
         scene.fence(t, Ordering::acquire, Scope::gpu);
       });
     }},
    {"polls", 64, // of one thread while another's block adds
     [](std::uint32_t n) {
       Scene scene(2, 32);
       for (std::uint32_t i = 0; i < n; ++i) {
         scene.each([&](ThreadKey t) {
           if (t.block()) return scene.access(t, AccessKind::atomic, Ordering::release, Scope::gpu);
           scene.access(t, AccessKind::read, Ordering::relaxed, Scope::gpu);
           scene.fence(t, Ordering::acquire, Scope::gpu);
         });
       }
     }},
    {"observations", 8,
     [](std::uint32_t n) {
       Scene scene(n, 32, 1, {true, false});
       scene.each([&](ThreadKey t) { scene.access(t, AccessKind::atomic, Ordering::acq_rel, Scope::gpu); });
       scene.each([&](ThreadKey t) { scene.access(t, AccessKind::read, Ordering::acquire, Scope::gpu); });
       const Stamp write = scene.now / 4;
       scene.each([&](ThreadKey t) { scene.causality.observed({0, counter, 0}, write, t, ++scene.now); });
     }},
    // n: barriers in turn
    {"named barriers, phases", 256,
     [](std::uint32_t n) {
       Scene scene(1, 256);
       for (std::uint32_t phase = 0; phase < n; ++phase) {
         const std::uint32_t barrier = 1 + phase % 15;
         for (std::uint32_t warp = 0; warp < 8; ++warp)
           scene.causality.barrier_arrive(1, 0, warp, ~0u, barrier, phase, warp > 3, ++scene.now);
         scene.causality.barrier_complete(1, 0, barrier, phase);
       }
     }},
    {"named barriers, blocks", 64,
     [](std::uint32_t n) {
       Scene scene(n, 256);
       for (std::uint32_t phase = 0; phase < 8; ++phase) {
         for (std::uint32_t block = 0; block < n; ++block) {
           for (std::uint32_t warp = 0; warp < 8; ++warp)
             scene.causality.barrier_arrive(1, block, warp, ~0u, 1, phase, warp > 3, ++scene.now);
           scene.causality.barrier_complete(1, block, 1, phase);
         }
       }
     }},
    {"barriers of the rest", 32,
     [](std::uint32_t n) {
       Scene scene(1, 1024);
       scene.causality.thread_exit(1, 0, 3, 5);
       for (std::uint32_t i = 0; i < n; ++i) {
         scene.each([&](ThreadKey t) {
           if (t.thread() % 32 == 7) scene.access(t, AccessKind::atomic, Ordering::acq_rel, Scope::gpu);
         });
         scene.barrier(0);
       }
     }},
    {"cluster barriers, phases", 16,
     [](std::uint32_t n) {
       Scene scene(8, 256, 8);
       for (std::uint32_t phase = 0; phase < n; ++phase) scene.cluster_barrier(phase);
     }},
    {"cluster barriers, cluster of 2 to 16", 2,
     [](std::uint32_t n) {
       Scene scene(n, 256, n);
       for (std::uint32_t phase = 0; phase < 16; ++phase) scene.cluster_barrier(phase);
     }},
    {"cluster barriers, blocks and exits", 512,
     [](std::uint32_t n) {
       Scene scene(n, 64, 8);
       for (std::uint32_t phase = 0; phase < 2; ++phase) scene.cluster_barrier(phase);
       for (std::uint32_t block = 0; block < n; ++block) scene.exit(block);
     }},
    {"exits", 4096,
     [](std::uint32_t n) {
       Scene scene(n, 64);
       scene.barriers();
       for (std::uint32_t block = 0; block < n; ++block) scene.exit(block);
     }},
    {"proxy fences, blocks", 64,
     [](std::uint32_t n) {
       Scene scene(n, 32);
       grid_barriers(scene, n, 32, 2, Scope::gpu);
       scene.each([&](ThreadKey t) { scene.causality.proxy_fence(t, true, true, ++scene.now); });
     }},
    {"proxy fences, rounds", 16,
     [](std::uint32_t n) {
       Scene scene(1, 256);
       for (std::uint32_t round = 0; round < n; ++round) {
         scene.each([&](ThreadKey t) { scene.causality.proxy_fence(t, true, true, ++scene.now); });
         scene.barrier(0);
       }
     }},
    {"bulk copies", 256,
     [](std::uint32_t n) {
       Scene scene(1, 128);
       const Location object = scene.object(0, 64);
       for (std::uint32_t phase = 0; phase < n; ++phase) {
         for (std::uint32_t copy = 0; copy < 16; ++copy) {
           scene.causality.bulk_issue(scene.key(0), &object);
           scene.causality.bulk_complete(scene.key(0), object, phase, ++scene.now);
         }
         scene.each(
             [&](ThreadKey t) { scene.causality.mbarrier_test(t, object, phase, Ordering::acquire, Scope::cta); });
       }
     }},
};

} // namespace

int main(int argc, char** argv) {
  std::string chosen;
  double scale = 1;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--scale") && i + 1 < argc)
      scale = std::strtod(argv[++i], nullptr);
    else
      chosen = argv[i];
  }
  std::printf("%-38s %9s | %9s %9s %9s %9s s | exponent\n", "", "n", "n", "2n", "4n", "8n");
  for (const Pattern& pattern : patterns) {
    if (std::string(pattern.name).rfind(chosen, 0) != 0) continue;
    std::printf("%-38s %9.0f |", pattern.name, pattern.smallest * scale);
    double last = 0, exponent = 0;
    for (unsigned doubled = 0; doubled < 4; ++doubled) {
      const double begin = cpu_seconds();
      pattern.run(std::uint32_t(pattern.smallest * scale) << doubled);
      const double took = cpu_seconds() - begin;
      std::printf(" %9.3f", took);
      std::fflush(stdout);
      exponent = last > 0 ? std::log2(took / last) : 0;
      last = took;
      if (took > 10) break;
    }
    std::printf("   | %.2f\n", exponent);
  }
}
