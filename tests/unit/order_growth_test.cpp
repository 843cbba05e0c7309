// The time that synchronization takes grows with the number of those who synchronize, and no faster: CPU time at one
// size and at eight times that. It would grow by 64 where each looked at what each of the others released.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "tests/unit/order_scene.h"

namespace deadheat::test {
namespace {

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

template <typename Run>
double best_of_three(Run&& run) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const double begin = cpu_seconds();
    run();
    best = std::min(best, cpu_seconds() - begin);
  }
  return best;
}

template <typename Run>
void expect_linear(std::uint32_t n, Run&& run) {
  const double once = best_of_three([&] { run(n); }), eight = best_of_three([&] { run(8 * n); });
  EXPECT_LT(eight, 24 * once) << once << " s, " << eight << " s";
}

TEST(Growth, ThreadsOfAClusterThatWaitForAnMbarrier) {
  expect_linear(64, [](std::uint32_t n) {
    Scene scene(2, n, 2);
    mbarriers(scene, 4, Scope::cluster);
  });
}

TEST(Growth, ClusterScopeCostsLittleMoreThanBlockScope) {
  const double of_block = best_of_three([] {
    Scene scene(1, 256);
    mbarriers(scene, 50, Scope::cta);
  });
  const double of_cluster = best_of_three([] {
    Scene scene(2, 128, 2);
    mbarriers(scene, 50, Scope::cluster);
  });
  EXPECT_LT(of_cluster, 4 * of_block);
}

TEST(Growth, BlocksThatReadWithNarrowScopeWhatAllAddedTo) {
  for (const Scope scope : {Scope::cta, Scope::cluster}) {
    expect_linear(8, [&](std::uint32_t n) {
      Scene scene(n, 32, 2);
      scene.each([&](ThreadKey t) { scene.access(t, AccessKind::atomic, Ordering::acq_rel, Scope::gpu); });
      scene.each([&](ThreadKey t) { scene.access(t, AccessKind::read, Ordering::acquire, scope); });
    });
  }
}

TEST(Growth, FencesOfThoseWhoReadLongAgo) {
  for (const Ordering ordering : {Ordering::acq_rel, Ordering::sc}) {
    expect_linear(16, [&](std::uint32_t n) {
      Scene scene(n, 32);
      tickets(scene, ordering, Scope::gpu, true, Scope::gpu);
    });
  }
}

TEST(Growth, BarriersOfTheGrid) {
  expect_linear(64, [](std::uint32_t n) {
    Scene scene(n, 32);
    grid_barriers(scene, n, 32, 4, Scope::gpu);
  });
}

TEST(Growth, BarriersOfAClusterOfSixteenBlocks) {
  expect_linear(2, [](std::uint32_t n) {
    Scene scene(n, 256, n);
    for (std::uint32_t phase = 0; phase < 64; ++phase) scene.cluster_barrier(phase);
  });
}

TEST(Growth, ProxyFencesOfThoseWhoKnowTheGrid) {
  expect_linear(32, [](std::uint32_t n) {
    Scene scene(n, 32);
    grid_barriers(scene, n, 32, 2, Scope::gpu);
    scene.each([&](ThreadKey t) { scene.causality.proxy_fence(t, true, true, ++scene.now); });
  });
}

} // namespace
} // namespace deadheat::test
