// What cannot be in a trace that says the truth: waits for records that were not made before, graph nodes that wait for
// what is no node before them, graphs that end without having been launched, allocations that overlap living ones,
// frees of what was not allocated, operations that are submitted twice or end without having begun, launches and copies
// larger than any can be. Each kind is counted and becomes one warning; a trace with any is not complete.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "analyzer/order/id_table.h"
#include "tracer/recorder/reader.h"

namespace deadheat::detect {

class Consistency final : public trace::RecordVisitor {
 public:
  bool access(const trace::AccessView&) override { return true; }
  bool record(trace::Record& record) override;
  // Contradictions so far that say that records are missing which may have ordered others.
  std::uint64_t hiding() const { return hiding_; }

  // One line a kind of contradiction, with how often and the first; none when there are none.
  std::vector<std::string> warnings() const;

 private:
  enum class Kind : std::uint8_t { wait, host, node, graph, allocation, free, execution, extent };
  void found(Kind kind, const std::string& first);
  void allocated(const trace::Allocate& allocation);
  void submitted(const trace::Operation& operation);
  void host_waits(const trace::HostWait& wait);

  std::uint64_t hiding_ = 0;
  struct Count {
    std::uint64_t count = 0;
    std::string first;
  };
  std::map<Kind, Count> found_;
  order::IdSet submitted_, event_records_;
  std::unordered_set<std::uint32_t> running_, graphs_, empty_;
  std::unordered_map<std::uint32_t, std::unordered_set<std::uint32_t>> nodes_; // by graph launch, until that ends
  struct Extent {
    std::uint64_t end = 0;
    std::uint32_t allocation = 0;
  };
  std::map<std::uint64_t, Extent> live_; // by first byte
  std::unordered_map<std::uint32_t, std::uint64_t> address_of_;
};

} // namespace deadheat::detect
