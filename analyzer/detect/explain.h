// Why two accesses are unordered: which synchronization they have in common, and what the one between them lacks.
//
// Feed it the records that a Detector was fed, once the races are known; its stamps count as the Detector's do. For
// each race it collects what the two threads, and the blocks they are in, did to synchronize between the two accesses,
// a bounded amount a race, and words it for the report.
//
// Thread-safety: none.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/detect/detector.h"

namespace deadheat::detect {

class Explainer final : public trace::RecordVisitor {
 public:
  Explainer(const Detector& detector, const std::vector<FoundRace>& races);
  bool access(const trace::AccessView& access) override;
  bool record(trace::Record& record) override;

  // After the last record: what the detector said of race `index`, and what was found here.
  std::string why(std::size_t index) const;

 private:
  struct Mark { // a site that was executed
    std::uint32_t module = 0, site = 0;
    bool executed = false;
    Mark() = default;
    Mark(std::uint32_t in, std::uint32_t number) : module(in), site(number), executed(true) {}
    explicit operator bool() const { return executed; }
  };
  struct Arrival {
    Mark mark;
    std::uint32_t barrier = 0, phase = 0;
    bool sync = true;
  };
  struct Fence {
    Mark mark;
    Ordering ordering = Ordering::sc;
    Scope scope = Scope::none;
  };
  // A strong write of the first side's block that the second side's block reads: how the author passes a message.
  struct FlagWrite {
    Mark mark;
    order::ThreadKey thread;
    Ordering ordering = Ordering::relaxed;
    Scope scope = Scope::none;
    Fence before; // the writer's last fence since the first access
    bool barrier_before = false;
  };
  struct Message {
    FlagWrite write;
    Mark mark;
    order::ThreadKey reader;
    Ordering ordering = Ordering::relaxed;
    Scope scope = Scope::none;
    Fence after; // the reader's first fence of enough scope since, else the last
    bool barrier_after = false;
  };
  struct Case {
    const FoundRace* race = nullptr;
    Mark common;              // the last synchronization before both that both took part in
    Arrival first, second;    // the last barrier that the one side alone came to between them
    Arrival first_before, second_before;
    Mark early;               // the first's arrival, before its access, at the barrier that the second then waits at
    Mark warp_barrier;        // bar.warp.sync between them, with only one of the lanes in its mask
    std::uint32_t warp_mask = 0;
    Mark warp_value;          // shfl, vote, match, redux between them
    Fence first_fence, second_fence;
    Mark async_wait;
    std::uint32_t async_pending = 0;
    std::map<order::ThreadKey, Fence> fences; // of the first side's block
    bool barrier = false;                     // of the first thread, since the first access
    std::map<std::pair<std::uint64_t, std::uint64_t>, FlagWrite> writes;
    std::optional<Message> message;
  };

  template <typename Each> void each_case(order::OperationIndex operation, std::uint32_t block, Each&& each);
  void strong(const trace::AccessView& view, const Site& site, unsigned lane);
  void barrier(Case& entry, order::ThreadKey thread, const Arrival& arrival);
  void fence(Case& entry, order::ThreadKey thread, const Fence& fence);
  std::string place(const Mark& mark) const; // "a.cu:12"
  void explain_block(const Case& entry, std::vector<std::string>& out) const;
  void explain_message(const Case& entry, std::vector<std::string>& out) const;
  void explain_operations(const Case& entry, std::vector<std::string>& out) const;

  const Detector& detector_;
  order::Stamp now_ = 0;
  std::vector<Case> cases_;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> by_block_; // ThreadKey::block_bits → cases
  struct OperationInfo {
    std::string what;
    std::uint32_t stream = 0;
  };
  std::unordered_map<std::uint32_t, OperationInfo> operations_; // by operation id
  std::unordered_map<std::uint32_t, trace::StreamCreate::Kind> streams_;
  std::vector<trace::EventRecord> event_records_;
  bool between_operations_ = false;
};

} // namespace deadheat::detect
