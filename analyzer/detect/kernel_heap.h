// Races in memory that kernels take from their heap and give back (CUDA programming guide, dynamic global memory
// allocation), in runs on a GPU. Where it is not sure who owned it when, the two accesses may be to memory of two
// owners, between whom the allocator orders. It is sure within a launch whose calls of malloc and free are all recorded
// (trace::HeapBlock, HeapFree): their tickets tell which came first. Between launches it is not: each launch's records
// are put in order by themselves. (On the embedded device it always is.)
//
// Feed it the log's records, once the races are known.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "analyzer/detect/detector.h"
#include "analyzer/detect/outcomes.h"

namespace deadheat::detect {

class KernelHeap final : public trace::RecordVisitor {
 public:
  KernelHeap(const Detector& detector, const std::vector<FoundRace>& races, ModuleText text);
  bool access(const trace::AccessView&) override { return true; }
  bool record(trace::Record& record) override;

  bool possible() const { return !modules_.empty(); }
  // After the last record: the race is in no allocation of the host's, its code gives memory back, and who owned it
  // when is not sure.
  bool owners_unknown(std::size_t race) const;

 private:
  std::set<std::uint32_t> modules_of(const FoundRace& race) const;

  const Detector& detector_;
  const std::vector<FoundRace>& races_;
  const ModuleText text_;
  bool on_gpu_ = false;
  std::set<std::uint32_t> modules_; // of races in no allocation
  std::set<std::uint32_t> freeing_; // of them, those that call free
  std::set<std::uint32_t> unseen_; // of those, those of which calls of malloc or free may not be recorded
};

} // namespace deadheat::detect
