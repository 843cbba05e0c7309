// Which execution of its site an access was: the nth of the names of accesses.
//
// Feed it the records that a Detector was fed; its stamps count as the Detector's do.
// Thread-safety: none.
#pragma once

#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "analyzer/detect/detector.h"

namespace deadheat::detect {

// Counts executions: nth of each wanted (thread, place, stamp).
class Counter final : public trace::RecordVisitor {
 public:
  // `wanted`: what to look up; `launches`: launch number → operation index, as the Detector numbered them.
  Counter(const Detector& detector, const std::set<Touch>& wanted);
  bool access(const trace::AccessView& access) override;
  bool record(trace::Record& record) override;
  std::uint64_t nth(const Touch& touch) const;

 private:
  void count(const trace::Warp& warp, std::uint32_t module, std::uint32_t site, std::uint32_t mask);
  const Detector& detector_;
  order::Stamp now_ = 0;
  std::set<std::pair<std::uint32_t, std::uint32_t>> sites_;                  // (module, site) that are wanted
  std::unordered_map<std::uint32_t, std::uint32_t> launches_;                // launch number → operation index
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> counts_;  // (thread, module<<32|site)
  std::map<std::pair<std::uint64_t, order::Stamp>, std::uint64_t> nth_;      // (thread, stamp)
  std::set<std::pair<std::uint64_t, order::Stamp>> wanted_;
};

}  // namespace deadheat::detect
