// Scenes of many threads that synchronize, without a trace: for what the order's own work costs, and how that grows.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "analyzer/order/causality.h"

namespace deadheat::test {

using namespace deadheat::order;

constexpr std::uint64_t counter = 0x7000000000; // an address

// A launch of `blocks` blocks of `threads` threads, in clusters of `cluster` blocks; several in streams of their own.
class Scene {
 public:
  Scene(std::uint32_t blocks, std::uint32_t threads, std::uint32_t cluster = 1, Rules rules = {false, false})
      : causality(operations_, rules), blocks_(blocks), threads_(threads), cluster_(cluster) {
    launch();
  }
  OperationIndex launch(std::uint32_t device = 0) {
    trace::Operation operation;
    operation.stream = operation.id = ++launches_;
    operation.launch = launches_;
    trace::StreamCreate stream;
    stream.stream = operation.stream;
    stream.device = device;
    stream.kind = trace::StreamCreate::Kind::non_blocking;
    operations_.apply(stream);
    trace::Launch launch;
    launch.grid = {blocks_, 1, 1}, launch.block = {threads_, 1, 1}, launch.cluster = {cluster_, 1, 1};
    operation.what = launch;
    current_ = operations_.submitted(operation);
    causality.launch_begin(current_, launch.grid, launch.block, launch.cluster);
    return current_;
  }
  ThreadKey key(std::uint32_t thread) const { return {current_, thread / threads_, thread % threads_}; }
  std::uint32_t count() const { return blocks_ * threads_; }
  template <typename F>
  void each(F&& f) {
    for (std::uint32_t thread = 0; thread < count(); ++thread) f(key(thread));
  }
  // Backwards, so that who read first goes on last.
  template <typename F>
  void each_back(F&& f) {
    for (std::uint32_t thread = count(); thread-- > 0;) f(key(thread));
  }

  void access(ThreadKey thread, AccessKind kind, Ordering ordering, Scope scope, std::uint64_t address = counter,
              std::uint64_t block = 0) {
    StrongAccess access;
    access.thread = thread;
    access.location = {block, address, 0};
    access.ordering = ordering;
    access.scope = scope;
    access.bytes = 4;
    access.reads = kind != AccessKind::write;
    access.writes = kind != AccessKind::read;
    std::uint64_t& value = values_[address];
    access.value_read = value;
    if (access.writes) access.value_written = ++value;
    causality.strong_access(access, ++now);
  }
  void barrier(std::uint32_t block) { causality.block_barrier(current_, block, ++now); }
  void barriers() {
    for (std::uint32_t block = 0; block < blocks_; ++block) barrier(block);
  }
  void fence(ThreadKey thread, Ordering ordering, Scope scope) { causality.fence(thread, ordering, scope, ++now); }
  Location object(std::uint32_t block, std::uint64_t address) const {
    return {ThreadKey(current_, block, 0).block_bits() + 1, address, 0};
  }
  void cluster_barrier(std::uint32_t phase) {
    for (const bool wait : {false, true}) {
      for (std::uint32_t block = 0; block < blocks_; ++block) {
        for (std::uint32_t warp = 0; warp < threads_ / 32; ++warp)
          causality.cluster_barrier(current_, block, warp, ~0u, phase, wait, false, ++now);
      }
    }
  }
  void exit(std::uint32_t block) {
    for (std::uint32_t warp = 0; warp < threads_ / 32; ++warp) causality.thread_exit(current_, block, warp, ~0u);
  }

 private:
  OperationClocks operations_;

 public:
  Causality causality;
  Stamp now = 0;

 private:
  const std::uint32_t blocks_, threads_, cluster_;
  std::uint32_t launches_ = 0;
  OperationIndex current_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> values_;
};

// Every thread arrives at two mbarriers, and waits for them.
inline void mbarriers(Scene& scene, std::uint32_t phases, Scope scope) {
  for (std::uint32_t phase = 0; phase < phases; ++phase) {
    for (const std::uint64_t address : {0, 8}) {
      const Location object = scene.object(0, address);
      scene.each([&](ThreadKey thread) {
        scene.causality.mbarrier_arrive(thread, object, phase, Ordering::release, scope, ++scene.now);
      });
      scene.each(
          [&](ThreadKey thread) { scene.causality.mbarrier_test(thread, object, phase, Ordering::acquire, scope); });
    }
  }
}

// A counter that all add to and then read, again and again.
inline void counting(Scene& scene, Scope scope, std::uint32_t rounds = 1) {
  for (std::uint32_t round = 0; round < rounds; ++round) {
    scene.each([&](ThreadKey t) { scene.access(t, AccessKind::atomic, Ordering::acq_rel, scope); });
    scene.each([&](ThreadKey t) { scene.access(t, AccessKind::read, Ordering::acquire, scope); });
  }
}

// Fence, ticket, fence: the second in the order of tickets or against it.
inline void tickets(Scene& scene, Ordering ordering, Scope scope, bool back, Scope second) {
  scene.each([&](ThreadKey t) {
    scene.fence(t, ordering, scope);
    scene.access(t, AccessKind::atomic, Ordering::relaxed, Scope::gpu);
  });
  const auto behind = [&](ThreadKey t) { scene.fence(t, ordering, second); };
  back ? scene.each_back(behind) : scene.each(behind);
}

// Barriers of the whole grid by a counter of its blocks (as cooperative groups have them).
inline void grid_barriers(Scene& scene, std::uint32_t blocks, std::uint32_t threads, std::uint32_t rounds,
                          Scope scope) {
  for (std::uint32_t round = 0; round < rounds; ++round) {
    scene.barriers();
    for (std::uint32_t block = 0; block < blocks; ++block)
      scene.access(scene.key(block * threads), AccessKind::atomic, Ordering::release, scope);
    for (std::uint32_t block = 0; block < blocks; ++block)
      scene.access(scene.key(block * threads), AccessKind::read, Ordering::acquire, scope);
    scene.barriers();
  }
}

} // namespace deadheat::test
