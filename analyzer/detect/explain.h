// Why two accesses are unordered: which synchronization they have in common, and what the one between them lacks.
//
// Feed it the records that a Detector was fed, once the races are known; its stamps count as the Detector's do. For
// each race it collects what the two threads, and the blocks they are in, did to synchronize between the two accesses,
// a bounded amount a race, and words it for the report.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/detect/detector.h"
#include "analyzer/detect/explain_case.h"
#include "analyzer/detect/outcomes.h"

namespace deadheat::detect {

class Explainer final : public trace::RecordVisitor {
 public:
  Explainer(const Detector& detector, const std::vector<FoundRace>& races, ModuleText text);
  bool access(const trace::AccessView& access) override;
  bool record(trace::Record& record) override;

  // After the last record: what the detector said of race `index`, and what was found here.
  std::string why(std::size_t index) const;
  // Are the two ordered by a message, or a copy's completion, if by anything? Else by a barrier.
  bool beyond_barriers(std::size_t index) const {
    return cases_[index].has_message() || cases_[index].race->lacks_proxy_fence;
  }
  // Names the message that should have ordered the two, by its source lines, and what it lacks: races that have it in
  // common are one fault. Empty where there is none, or where what looks like one may be by chance.
  std::string broken_message(std::size_t index) const;
  // Of a race of a plain access with a strong one, in another block: the broken messages that make both what they are,
  // those that lack nothing but that this access be strong. Empty of other races.
  std::string plain_message(std::size_t index) const;
  // The line that reads a location and writes it back, whose updates race; the same for all that one line makes.
  std::optional<SideId> updated_by(std::size_t index) const;
  // "kernel a(int*) (operation 7 in stream 2)", of a side of a race or of what the two have in common.
  std::string named(order::OperationIndex operation) const;
  // Where the host submitted an operation that is a side of a race; empty where that is not known.
  std::string called_at(std::uint32_t operation) const;

 private:
  using Mark = why::Mark;
  using Arrival = why::Arrival;
  using Phase = why::Phase;
  using Object = why::Object;
  using Flag = why::Flag;
  using Fence = why::Fence;
  using FlagUse = why::FlagUse;
  using FlagWrite = why::FlagWrite;
  using FlagWrites = why::FlagWrites;
  using LineReads = why::LineReads;
  using Message = why::Message;
  using Relay = why::Relay;
  using Case = why::Case;
  template <typename Each> void each_case(order::OperationIndex operation, std::uint32_t block, Each&& each);
  // A barrier, of one warp's lanes or of all.
  void passed_behind(order::OperationIndex operation, std::uint32_t block, std::optional<std::uint32_t> warp,
                     std::uint32_t mask);
  void note_plain_flag(const FoundRace& race);
  void note_unused(const trace::Module& module);
  void flag(const trace::AccessView& view, PlaceId place, unsigned lane);
  void flag_before(Case& entry, const Flag& flag, const FlagUse& use);
  void flag_between(Case& entry, const Flag& flag, const FlagUse& use);
  void flag_behind(Case& entry, const Flag& flag, const FlagUse& use);
  void heard_behind(Case& entry, const Flag& flag, const FlagUse& use);
  // By a thread of neither block, or what one of the second's writes.
  void flag_elsewhere(const Flag& flag, const FlagUse& use);
  void lose(FlagWrites& known, order::ThreadKey reader, const FlagUse& use) const;
  void hears(std::size_t index, const FlagWrites& known, const FlagUse& use); // a third block
  void relay(Case& entry, const Flag& flag, const FlagUse& use); // from there, or by the second's
  void relay_fence(Case& entry, order::ThreadKey thread, const Fence& fence);
  bool is_side(const FoundRace& race, PlaceId place) const;
  // Launches of one device that have a counter in common need not tell each other anything by it.
  bool may_tell(const FoundRace& race, const FlagUse& read) const {
    const order::ThreadKey a = race.first.thread, b = race.second.thread;
    return a.operation() == b.operation() || read.waits || apart(a, b) == Apart::devices;
  }
  struct Lack {
    std::string words;
    bool of_write = true; // else of the read
    std::string beside = {}; // more about it, which tells no faults apart
    bool between = false; // what comes between the two
  };
  struct Shortfall {
    const Message* message = nullptr;
    std::vector<Lack> lacks;
  };
  Shortfall shortfall(const Case& entry) const; // of the message that was meant; of none: what is there is in order
  bool by_another_block(const Case& entry) const;
  bool by_chance(const FoundRace& race, const Message& message) const;
  // A message that lacks nothing but that the first's access comes before it.
  static bool only_early(const FoundRace& race, const Message& message);
  // What keeps a message from ordering the two; nothing, where none is known.
  std::vector<Lack> shortcomings(const Case& entry, const Message& message) const;
  // From whom, to whom; of several in a row the words say which is meant.
  struct Hop {
    order::ThreadKey from, to;
    std::string the_write = "the write", the_read = "the read";
  };
  std::vector<Lack> lacks_release(const Case& entry, const Message& message, const Hop& hop) const;
  std::vector<Lack> lacks_acquire(const Case& entry, const Message& message, const Hop& hop) const;
  std::string lost(const Message& message, const Hop& hop) const; // on the way
  std::string relayed(const Case& entry) const; // by a third block, and what is wrong there
  std::string lines_of(PlaceId place) const;
  const Place* plain_flag(const FoundRace& race) const; // the plain one of the two; null: they are none, and a flag
  void barrier(Case& entry, order::ThreadKey thread, const Arrival& arrival);
  void fence(Case& entry, order::ThreadKey thread, const Fence& fence);
  void asynchronous(const trace::Mbarrier& record);
  void asynchronous(const trace::ClusterBarrier& record);
  void proxy_fence(const trace::Fence& record);
  std::string place(const Mark& mark) const; // "a.cu:12"
  static const char* name(Scope scope);
  // Between blocks a pattern needs more than .cta, between clusters more than .cluster, between devices more than .gpu
  // (PTX ISA, "Scope"). A block of a launch without clusters is one by itself.
  enum class Apart : std::uint8_t { no, blocks, clusters, devices };
  Apart apart(order::ThreadKey a, order::ThreadKey b) const;
  static bool narrow(Scope scope, Apart apart) {
    return (apart != Apart::no && scope == Scope::cta) || (apart >= Apart::clusters && scope == Scope::cluster) ||
           (apart == Apart::devices && scope == Scope::gpu);
  }
  // " has … scope, and …": what is wrong with it.
  static std::string too_narrow(Scope scope, Apart apart);
  void explain_asynchronous(const Case& entry, std::vector<std::string>& out) const;
  void explain_block(const Case& entry, std::vector<std::string>& out) const;
  void explain_message(const Case& entry, std::vector<std::string>& out) const;
  void explain_freed(const FoundRace& race, std::vector<std::string>& out) const;
  void explain_operations(const Case& entry, std::vector<std::string>& out) const;
  void explain_values(const FoundRace& race, std::vector<std::string>& out) const;
  void note_common(const Mark& mark);
  // The write of a race inside a launch whose sides are one line, else null.
  const Place* write_of_line(const FoundRace& race) const;
  void note_line_use(const trace::AccessView& view, PlaceId place);
  // Does the line write back what it reads, and read nothing else that others write there?
  bool updates(const Case& entry) const;

  const Detector& detector_;
  order::Stamp now_ = 0;
  std::vector<Case> cases_;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> by_block_; // ThreadKey::block_bits → cases
  std::unordered_multimap<order::Stamp, std::size_t> by_common_;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> told_; // by address of a flag in Case::writes → cases
  const ModuleText text_;
  std::set<PlaceId> unused_; // atomics of the races' modules that nobody looks at the outcome of
  std::set<SideId> plain_flags_; // sides of plain accesses that race with strong ones
  std::set<SideId> read_on_line_, written_by_many_; // writes that race with a read of their line, and with themselves
  std::set<PlaceId> line_uses_; // instructions of races whose sides are one line
  struct OperationInfo {
    std::string what, called_at;
  };
  static constexpr order::OperationIndex furthest = 4096; // operations looked back over
  void note_operations(order::OperationIndex a, order::OperationIndex b);
  order::IdSet asked_about_; // operations, by index
  std::unordered_map<std::uint32_t, OperationInfo> operations_; // of these, by id
  std::unordered_map<std::uint32_t, trace::StreamCreate::Kind> streams_;
  std::vector<trace::EventRecord> event_records_;
  bool between_operations_ = false, embedded_ = false, after_graph_ = false, batch_ = false;
};

// Each race one of whose sides is in the block.
template <typename Each>
void Explainer::each_case(order::OperationIndex operation, std::uint32_t block, Each&& each) {
  if (!operation) return;
  auto found = by_block_.find(order::ThreadKey(operation, block, 0).block_bits());
  if (found == by_block_.end()) return;
  for (std::size_t index : found->second) {
    if (now_ < cases_[index].race->second.stamp) each(cases_[index]);
  }
}

} // namespace deadheat::detect
