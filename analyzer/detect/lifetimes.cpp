#include "analyzer/detect/lifetimes.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>
#include <unordered_map>

#include "analyzer/detect/strong_elements.h"
#include "deadheat/address.h"
#include "deadheat/lanes.h"

namespace deadheat::detect {

namespace {

using order::OperationIndex;
using order::ThreadKey;

class Lifetimes final : public trace::RecordVisitor {
 public:
  explicit Lifetimes(const Detector& detector) : detector_(detector), causality_(no_operations_, {.observers = false}) {
    causality_.unused_tests();
    causality_.unused_reads();
    causality_.narrow_fences();
  }

  bool access(const trace::AccessView& view) override {
    ++now_;
    const OperationIndex operation = in_cluster(view.warp.launch);
    const Site* site = operation ? site_of(view.module, view.site) : nullptr;
    if (!site) return true;
    each_lane(view.mask, [&](unsigned lane) {
      const ThreadKey thread = key_of(operation, view.warp, lane);
      const std::uint64_t rank = view.space == Space::shared ? view.address[lane] >> cluster_shift : 0;
      const std::uint32_t owner = owner_of(operation, view.warp.block, rank);
      if (view.strong) strong(view, lane, *site, thread, owner);
      if (owner != view.warp.block) touch(thread, owner, {view.module, view.site});
      ++now_;
    });
    return true;
  }
  bool record(trace::Record& record) override {
    ++now_;
    std::visit([&](auto& r) { take(r); }, record);
    return true;
  }
  void missing() override { // who waited for whom is not known
    causality_.missing(now_);
    owners_.clear();
  }

  std::vector<CountedSyncError> errors() {
    std::vector<CountedSyncError> all;
    for (auto& [place, said] : said_) all.push_back(std::move(said));
    return all;
  }

 private:
  struct Where {
    std::uint32_t module = 0, site = 0;
  };
  struct Touch { // the last one of its thread, site and mbarrier
    ThreadKey thread;
    order::Stamp stamp = 0;
    order::AsyncGroup group = 0;
    Where where;
  };
  struct Owner { // of shared memory that others use
    std::map<std::tuple<std::uint64_t, std::uint32_t, std::uint64_t>, Touch> touches; // nobody is known to wait for
    std::uint32_t exited = 0;
  };
  using Block = std::uint64_t; // ThreadKey::block_bits

  // 0: not known, records are missing, or its blocks have no shared memory but their own.
  OperationIndex in_cluster(std::uint32_t launch) const {
    const OperationIndex operation = detector_.operation_of(launch);
    const Detector::LaunchInfo* info = operation ? detector_.launch_of(operation) : nullptr;
    return info && info->launch.cluster.count() > 1 && !info->torn ? operation : 0;
  }
  const Site* site_of(std::uint32_t module, std::uint32_t site) const {
    const PlaceId place = detector_.sides().site(module, site);
    return place ? detector_.sides().place(place).site : nullptr;
  }
  // `rank` as addresses have it: plus one, 0 for the block's own memory.
  std::uint32_t owner_of(OperationIndex operation, std::uint32_t block, std::uint64_t rank) const {
    const trace::Launch& launch = detector_.launch_of(operation)->launch;
    if (!rank || rank > launch.cluster.count()) return block;
    return cluster_peer(block, std::uint32_t(rank - 1), launch.grid, launch.cluster);
  }

  void touch(ThreadKey thread, std::uint32_t block, const Where& where, order::AsyncGroup group = 0,
             std::uint64_t object = 0) {
    const ThreadKey there(thread.operation(), block, 0);
    if (!causality_.knows(thread, block))
      say(thread, where, block, "need not have begun: no barrier of the cluster comes before");
    Owner& owner = owners_[there.block_bits()];
    if (owner.exited == threads_of(thread.operation())) {
      exits_early(thread, where, block);
    } else {
      owner.touches[{thread.bits, where.site, object}] = {thread, now_, group, where};
    }
  }
  void exits_early(ThreadKey thread, const Where& where, std::uint32_t block) {
    say(thread, where, block,
        "need not be there any more: no thread of that block waits for this access before it exits (a barrier of the "
        "cluster behind it would see to that)");
  }
  void say(ThreadKey thread, const Where& where, std::uint32_t block, const char* what) {
    const Detector::LaunchInfo& launch = *detector_.launch_of(thread.operation());
    const auto [at, fresh] = said_.try_emplace({launch.number, where.module, where.site, what});
    if (!fresh) {
      ++at->second.count;
      return;
    }
    at->second.error = {
        launch.number,
        thread.block(),
        thread.thread(),
        where.module,
        where.site,
        "an access to the shared memory of block " + std::to_string(block) + " of its cluster, which " + what};
  }
  std::uint64_t threads_of(OperationIndex operation) const {
    return detector_.launch_of(operation)->launch.block.count();
  }

  // Whatever it is, and for whomever: whoever read it knows that what came before it has happened.
  void strong(const trace::AccessView& view, unsigned lane, const Site& site, ThreadKey thread, std::uint32_t owner) {
    order::StrongAccess access;
    access.thread = thread;
    access.ordering = Ordering::acq_rel;
    access.scope = Scope::sys;
    access.reads = site.access != AccessKind::write;
    access.unused = site.outcome_unused;
    access.writes = site.access == AccessKind::write || (site.access == AccessKind::atomic && view.wrote >> lane & 1);
    access.order_first = view.order_first[lane];
    access.order_last = view.order_last[lane];
    const std::uint64_t memory =
        view.space == Space::shared ? ThreadKey(thread.operation(), owner, 0).block_bits() + 1 : 0;
    const std::uint64_t address =
        view.space == Space::shared ? view.address[lane] & cluster_offset_mask : view.address[lane];
    each_element(site, {memory, address}, view.value_read[lane], view.value_written[lane], access,
                 [&](unsigned) { causality_.strong_access(access, now_); });
  }

  template <typename T>
  void take(const T&) {}
  void take(const trace::OperationBegin& r) {
    const OperationIndex operation = detector_.operations().index(r.operation);
    const Detector::LaunchInfo* info = operation ? detector_.launch_of(operation) : nullptr;
    if (!info || !in_cluster(info->number)) return;
    causality_.launch_begin(operation, info->launch.grid, info->launch.block, info->launch.cluster);
  }
  void take(const trace::OperationEnd& r) {
    const OperationIndex operation = detector_.operations().index(r.operation);
    if (!operation) return;
    causality_.launch_end(operation);
    std::erase_if(owners_, [&](const auto& of) { return order::operation_of_block(of.first) == operation; });
  }
  void take(const trace::BlockBarrier& r) {
    if (const OperationIndex operation = in_cluster(r.launch)) causality_.block_barrier(operation, r.block, now_);
  }
  void take(const trace::BarrierArrive& r) {
    if (const OperationIndex operation = in_cluster(r.warp.launch))
      causality_.barrier_arrive(operation, r.warp.block, r.warp.warp & 31, r.mask, r.barrier, r.phase, r.sync, now_);
  }
  void take(const trace::BarrierComplete& r) {
    if (const OperationIndex operation = in_cluster(r.launch))
      causality_.barrier_complete(operation, r.block, r.barrier, r.phase);
  }
  void take(const trace::WarpBarrier& r) {
    if (const OperationIndex operation = in_cluster(r.warp.launch))
      causality_.warp_barrier(operation, r.warp.block, r.warp.warp & 31, r.mask, now_);
  }
  void take(const trace::WarpValue& r) { // it orders no memory, but who has got the value knows that all were there
    if (const OperationIndex operation = in_cluster(r.warp.launch))
      causality_.warp_barrier(operation, r.warp.block, r.warp.warp & 31, r.mask, now_);
  }
  void take(const trace::ClusterBarrier& r) {
    if (const OperationIndex operation = in_cluster(r.warp.launch))
      causality_.cluster_barrier(operation, r.warp.block, r.warp.warp & 31, r.mask, r.phase, r.wait, false, now_);
  }
  void take(const trace::BulkCopy& r) {
    const OperationIndex operation = in_cluster(r.warp.launch);
    if (!operation) return;
    each_lane(r.mask, [&](unsigned lane) {
      if (!r.mbarrier[lane]) return; // within its block
      const std::uint64_t object = r.mbarrier[lane] - shared_window, to = r.destination[lane] - shared_window;
      if (object >= window_bytes) return;
      const ThreadKey thread = key_of(operation, r.warp, lane);
      const std::uint32_t there = owner_of(operation, r.warp.block, object >> cluster_shift);
      const order::Location location{ThreadKey(operation, there, 0).block_bits() + 1, object & cluster_offset_mask};
      const auto groups = causality_.bulk_issue(thread, &location);
      if (r.destination[lane] < shared_window || to >= window_bytes) return;
      const std::uint32_t owner = owner_of(operation, r.warp.block, to >> cluster_shift);
      if (owner != r.warp.block) touch(thread, owner, {r.module, r.site}, groups.write, location.address);
    });
  }
  void take(const trace::Mbarrier& r) {
    const OperationIndex operation = in_cluster(r.warp.launch);
    const Site* site = operation ? site_of(r.module, r.site) : nullptr;
    if (!site) return;
    using What = trace::Mbarrier::What;
    each_lane(r.mask, [&](unsigned lane) {
      const ThreadKey thread = key_of(operation, r.warp, lane);
      const order::Location object{ThreadKey(operation, r.block, 0).block_bits() + 1, r.address[lane]};
      if (r.block != r.warp.block && site->kind == SiteKind::mbarrier) touch(thread, r.block, {r.module, r.site});
      switch (r.what) {
        case What::init:
        case What::inval: causality_.mbarrier_init(object); break;
        case What::arrive:
        case What::arrive_drop:
          causality_.mbarrier_arrive(thread, object, r.phase[lane], Ordering::release, Scope::sys, now_);
          break;
        case What::complete_tx:
          if (site->kind == SiteKind::bulk_copy) causality_.bulk_complete(thread, object, r.phase[lane], now_);
          break;
        case What::async_arrive: causality_.mbarrier_async_arrive(thread, object, r.phase[lane], now_); break;
        case What::test:
          if (r.succeeded >> lane & 1)
            causality_.mbarrier_test(thread, object, r.phase[lane], Ordering::acquire, Scope::sys,
                                     site->outcome_unused);
          break;
        case What::expect_tx: break;
      }
    });
  }
  void take(const trace::ThreadExit& r) {
    const OperationIndex operation = in_cluster(r.warp.launch);
    if (!operation) return;
    Owner& owner = owners_[ThreadKey(operation, r.warp.block, 0).block_bits()];
    each_lane(r.mask, [&](unsigned lane) {
      const ThreadKey thread = key_of(operation, r.warp, lane);
      std::erase_if(owner.touches, [&](const auto& at) {
        const Touch& touch = at.second;
        return causality_.ordered(touch.thread, touch.stamp, touch.group, thread);
      });
    });
    owner.exited += std::uint32_t(std::popcount(r.mask));
    if (owner.exited == threads_of(operation)) {
      for (const auto& [key, touch] : owner.touches) exits_early(touch.thread, touch.where, r.warp.block);
      owner.touches.clear();
    }
    causality_.thread_exit(operation, r.warp.block, r.warp.warp, r.mask);
  }

  const Detector& detector_;
  order::OperationClocks no_operations_;
  order::Causality causality_;
  order::Stamp now_ = 0;
  std::unordered_map<Block, Owner> owners_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::string>, CountedSyncError> said_;
};

} // namespace

std::vector<CountedSyncError> lifetime_errors(const Source& source, const Detector& detector) {
  Lifetimes lifetimes(detector);
  for (std::size_t chunk = 0; chunk < source.chunks(); ++chunk) source.play(chunk, lifetimes);
  return lifetimes.errors();
}

} // namespace deadheat::detect
