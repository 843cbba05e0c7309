// The detector's third pass: which slots are written again before their reader is known to have taken what lay there.
#include "analyzer/detect/detector.h"
#include "analyzer/detect/strong_elements.h"
#include "deadheat/address.h"
#include "deadheat/lanes.h"

namespace deadheat::detect {

using order::OperationIndex;

void Detector::comes_to(const trace::Warp& warp, std::uint32_t mask, std::uint32_t module, std::uint32_t site,
                        std::uint64_t memory, std::uint64_t address) {
  if (!refills_.waiting()) return;
  if (const OperationIndex operation = operation_of(warp.launch))
    refills_.next({key_of(operation, warp, 0), mask, module, site, memory, address});
}

void Detector::note_heard(const StrongView& view, std::uint32_t of_worker, OperationIndex operation,
                          std::uint32_t bytes) {
  const StrongAccesses& all = view.all();
  each_lane(of_worker, [&](unsigned lane) {
    const std::uint64_t at = view.address(lane);
    if (all.space == Space::global) return heard_.add(0, at, bytes);
    if (const std::uint64_t memory = shared_memory(operation, all.warp.block, at >> cluster_shift))
      heard_.add(memory, at & cluster_offset_mask, bytes);
  });
}

// One lane after another. The elements of a vector count as one access.
void Detector::hand_over(const StrongView& view, OperationIndex operation, PlaceId place) {
  const StrongAccesses& all = view.all();
  const Site& site = *sides_.place(place).site;
  const ptx::FlaggedRead* flagged = nullptr;
  if (const auto of = flagged_.find(all.module); of != flagged_.end() && site.access == AccessKind::read) {
    if (const auto read = of->second.find(all.site); read != of->second.end()) flagged = &read->second;
  }
  if (!flagged && !begun_) return;
  begun_ = true;
  const unsigned warp = all.warp.warp & 31;
  if (lanes_untold_) causality_.warp_barrier(operation, all.warp.block, warp, ~0u, now_);
  StrongOfWarp of_warp = strong_of(site, place);
  auto& [access, strong] = of_warp;
  strong.ordering = Ordering::acq_rel;
  strong.scope = Scope::sys;
  const bool hears = strong.reads && !strong.reduction && !strong.unused;
  const bool fills = site.access == AccessKind::write && plain_strong(access);
  const order::Stamp begin = now_;
  std::uint32_t marked = 0;
  std::array<StrongView::Lane, 32> lanes;
  const unsigned count = view.lanes(lanes);
  for (unsigned i = 0; i < count; ++i) {
    const StrongView::Lane& lane = lanes[i];
    now_ = begin + i;
    const std::optional<order::Location> at = strong_lane(all, operation, lane, of_warp);
    if (!at) continue;
    const std::uint64_t memory = at->block, address = at->address;
    comes_to(all.warp, 1u << lane.lane, all.module, all.site, memory, address);
    if (hears || !known_heard_ || known_heard_->has(memory, address, access.record_bytes))
      each_element(site, {memory, address}, lane.values.read, lane.values.written, strong,
                   [&](unsigned) { causality_.strong_access(strong, now_); });
    if (!flagged && !fills) continue;
    access.address = address;
    const Refills::Vector vector{memory,
                                 access,
                                 strong_count(site),
                                 fills ? lane.values.written : lane.values.read,
                                 strong.order_first,
                                 strong.order_last};
    if (fills) {
      refills_.write(vector);
      continue;
    }
    marked |= 1u << lane.lane;
    full_ ? void(leave_out(memory, address, access.record_bytes)) : refills_.read(vector, all.module, *flagged);
  }
  if (marked) causality_.mark(key_of(operation, all.warp, 0), marked, begin + access_stamps - 1);
}

bool Detector::flagged_reads() const {
  for (const auto& [module, sites] : flagged_)
    for (const auto& [site, read] : sites)
      if (wait_loops_.executed(sides_.site(module, site))) return true;
  return false;
}

// What comes next in threads that wait. Whatever makes one thread wait for another orders their reads and writes of
// slots, and how weak it is does not matter: values pass all the same.
void Detector::follow(trace::Record& record) {
  if (const auto* process = std::get_if<trace::Process>(&record)) {
    lanes_untold_ = process->device_kind == "gpu";
  } else if (const auto* fence = std::get_if<trace::Fence>(&record)) {
    const Site* const site = site_of(fence->module, fence->site);
    if (site && site->kind != SiteKind::fence) return; // of proxies, or griddepcontrol.wait: flagged_reads.h knows none
    comes_to(fence->warp, fence->mask, fence->module, fence->site);
  } else if (const auto* barrier = std::get_if<trace::BlockBarrier>(&record)) {
    for (std::uint32_t warp = 0; warp < 32 && refills_.waiting(); ++warp)
      comes_to({barrier->launch, barrier->block, warp}, ~0u, barrier->module, barrier->site);
  } else if (const auto* arrival = std::get_if<trace::BarrierArrive>(&record)) {
    comes_to(arrival->warp, arrival->mask, arrival->module, arrival->site);
  } else if (const auto* lanes = std::get_if<trace::WarpBarrier>(&record)) {
    comes_to(lanes->warp, lanes->mask, lanes->module, lanes->site);
  } else if (auto* cluster = std::get_if<trace::ClusterBarrier>(&record)) {
    comes_to(cluster->warp, cluster->mask, cluster->module, cluster->site);
    cluster->relaxed = false;
  } else if (auto* object = std::get_if<trace::Mbarrier>(&record)) {
    object->ordering = Ordering::acq_rel;
    object->scope = Scope::sys;
  } else if (const auto* values = std::get_if<trace::WarpValue>(&record)) {
    if (const OperationIndex operation = operation_of(values->warp.launch))
      causality_.warp_barrier(operation, values->warp.block, values->warp.warp & 31, values->mask, now_);
  } else if (const auto* exit = std::get_if<trace::ThreadExit>(&record)) {
    const OperationIndex operation = refills_.waiting() ? operation_of(exit->warp.launch) : 0;
    if (operation) refills_.ends(key_of(operation, exit->warp, 0), exit->mask);
  }
}

} // namespace deadheat::detect
