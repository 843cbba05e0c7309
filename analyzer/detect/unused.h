// Races whose read does not matter: what it reads flows only into stores that no thread which reads so performs.
//
// Tile compilers make them: where a tile has fewer elements than its layout has threads, several threads load each
// element, and one of them stores what comes of it. A kernel that works in place stores over what the others load.
//
// Feed it the log's records, once the races are known.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/detect/detector.h"
#include "analyzer/detect/outcomes.h"

namespace deadheat::detect {

class UnusedReads final : public trace::RecordVisitor {
 public:
  UnusedReads(const Detector& detector, const std::vector<FoundRace>& races, ModuleText text);
  bool access(const trace::AccessView& access) override;
  bool record(trace::Record& record) override;
  void missing() override { candidates_.clear(); }

  bool possible() const { return !candidates_.empty(); }
  // After the last record.
  bool unused(std::size_t index) const;

 private:
  struct Candidate {
    std::size_t race = 0;
    std::map<std::uint32_t, std::set<std::uint32_t>> loads; // sites by module; their stores are known once it is empty
    bool used = false;
  };
  const Detector& detector_;
  const std::vector<FoundRace>& races_;
  const ModuleText text_;
  std::vector<Candidate> candidates_;
  std::set<std::uint32_t> running_; // operations; those that a hang or a fault ended stay
  std::unordered_map<PlaceId, std::vector<std::size_t>> stores_; // whose values would be used → candidates
};

} // namespace deadheat::detect
