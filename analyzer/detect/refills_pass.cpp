// The detector's third pass: which slots are written again before their reader is known to have taken what lay there.
#include "analyzer/detect/detector.h"
#include "deadheat/lanes.h"

namespace deadheat::detect {

using order::OperationIndex;

void Detector::comes_to(const trace::Warp& warp, std::uint32_t mask, std::uint32_t module, std::uint32_t site,
                        std::uint64_t memory, std::uint64_t address) {
  if (!refills_.waiting()) return;
  if (const OperationIndex operation = operation_of(warp.launch))
    refills_.next({key_of(operation, warp, 0), mask, module, site, memory, address});
}

void Detector::refill(const Refills::Vector& vector) {
  const Place& place = sides_.place(vector.access.place);
  if (vector.access.kind == AccessKind::read) {
    const auto module = flagged_.find(place.module);
    if (module == flagged_.end()) return;
    if (const auto read = module->second.find(place.site_number); read != module->second.end())
      refills_.read(vector, place.module, read->second);
  } else if (vector.access.kind == AccessKind::write && plain_strong(vector.access)) {
    refills_.write(vector);
  }
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
