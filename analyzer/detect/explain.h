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
    return has_message(cases_[index]) || cases_[index].race->lacks_proxy_fence;
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
  struct Mark { // a site that was executed
    std::uint32_t module = 0, site = 0;
    bool executed = false;
    Mark() = default;
    Mark(std::uint32_t in, std::uint32_t number) : module(in), site(number), executed(true) {}
    friend bool operator==(const Mark&, const Mark&) = default;
    explicit operator bool() const { return executed; }
  };
  struct Arrival {
    Mark mark;
    std::uint32_t barrier = 0, phase = 0;
    bool sync = true;
  };
  struct Phase { // of an mbarrier
    Mark mark;
    std::uint32_t block = 0;
    std::uint64_t address = 0;
    std::uint32_t phase = 0;
    Scope scope = Scope::cta;
    Ordering ordering = Ordering::weak; // of an arrival or a wait
  };
  using Object = std::pair<std::uint32_t, std::uint64_t>; // an mbarrier: block and address
  using Flag =
      std::pair<std::uint64_t, std::uint64_t>; // 0, or of shared memory one more than the block's bits; address
  struct Fence {
    Mark mark;
    Ordering ordering = Ordering::sc;
    Scope scope = Scope::none;
    order::Stamp stamp = 0;
  };
  // An access to what one thread tells another by: a strong one, or a plain one that races with strong ones.
  struct FlagUse {
    Mark mark;
    order::ThreadKey thread;
    Ordering ordering = Ordering::relaxed;
    Scope scope = Scope::none;
    bool reads = false, writes = false;
    bool unused = false; // nobody looks at what it returned
    bool waits = false; // it is a wait loop's, or acquires
    bool in_shared = false; // the flag is in shared memory
    order::Stamp stamp = 0;
  };
  struct FlagWrite {
    FlagUse use;
    Fence before; // the writer's fence since the first access: of those that release the last of the widest scope
    bool barrier_before = false;
    bool handed_on = false; // the first's thread wrote the flag before, as who passes a lock on
    bool lent = false; // `before` is the first's, and a barrier stands between
    Fence released =
        {}; // as a release of the flag by this thread, ahead of it: strong writes behind it are part of that
    Mark over = {}; // a store: what it overwrites, by which the first's thread released
    std::optional<FlagUse> lost_to = {}; // a store behind it, or an atomic operation that is none to the two
  };
  struct FlagWrites { // the last by the first's thread, and by others of its block
    std::optional<FlagWrite> own, other;
    bool ever_own = false;
  };
  // Places that a thread read on the line of a race, the first few, and whether it wrote them there afterwards.
  using LineReads = std::map<std::uint64_t, bool>;
  // How the author passes a message.
  struct Message {
    FlagWrite write;
    FlagUse read;
    Fence after; // the reader's first fence of enough scope since, else the last
    bool barrier_after = false;
    Fence behind_barrier = {}; // by the second's thread, behind that barrier
  };
  // A third block that hears from the first's, and tells the second's.
  struct Relay {
    Message in; // its barriers and fences since
    std::map<Flag, FlagWrite> writes;
    std::optional<Message> out;
  };
  struct Case {
    const FoundRace* race = nullptr;
    Mark common; // FoundRace::common
    Arrival first, second; // the last barrier that the one side alone came to between them
    Arrival first_before, second_before;
    bool exited = false; // the first's thread, since its access
    Mark early; // the first's arrival, before its access, at the barrier that the second then waits at
    Mark warp_barrier; // bar.warp.sync between them, with only one of the lanes in its mask
    std::uint32_t warp_mask = 0;
    Mark warp_value; // shfl, vote, match, redux between them
    Fence first_fence, second_fence;
    Fence just_before; // the first's last before its access, behind its barriers
    Mark restricted; // such a fence (order::Restriction) of either thread since the first access
    Mark async_wait;
    std::uint32_t async_pending = 0;
    bool async_reads_only = false;
    // Of mbarriers: where the first's thread first arrived after its access, or its bulk copy completed; what the
    // second's thread last saw complete, and what it last tested without looking at the outcome.
    Phase arrived, completed, tested, unlooked;
    std::map<Object, Phase> arrived_before; // the first's last
    std::map<Object, Phase> tested_of; // the last that the second's thread saw complete of each
    std::map<Object, Phase> relaxed_of; // that others of its block did by a .relaxed wait
    bool unlooked_succeeded = false;
    Mark proxy_fence, proxy_fence_before; // of either thread, since the first access and before it
    Mark cluster_arrive, cluster_arrive_before, cluster_wait;
    bool cluster_relaxed = false;
    // Of the first side's block; `fences` since the first access, of other threads since the barrier behind it.
    std::map<order::ThreadKey, Fence> fences, fences_before;
    bool barrier = false; // of the first thread, since the first access
    std::uint32_t met = 0; // lanes of its warp that bar.warp.sync had it wait for since
    LineReads first_reads, second_reads;
    std::map<Flag, FlagWrites> writes; // since the first access
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> flags_of; // of `writes`, by module and site
    std::array<std::optional<Message>, 4> messages; // the last; 2 more: the first's thread wrote, 1: the second's read
    std::map<Flag, FlagWrite> writes_before; // by others of the first's block, since its last barrier before
    std::map<Flag, FlagWrite> writes_behind; // by the second's
    std::optional<Message> early_message, late_message;
    // What other threads of the first's block look at in loops that wait, while its thread comes to no barrier; and
    // where one of them still does, behind both.
    std::map<order::ThreadKey, std::pair<Flag, Mark>> waiting;
    Mark still_waiting;
    // The last wait of the second's block, in between, for what the first's has not written since its access.
    std::optional<std::pair<Flag, Mark>> waited_elsewhere;
    // What the first's block wrote, and the second's reads behind its access only.
    std::optional<Message> heard_late;
    bool second_passed = false; // a barrier, behind its access
    std::set<Flag> answered; // flags that the second's block writes there
    std::map<std::uint64_t, Relay> relays; // by the third block's bits
    std::map<order::ThreadKey, Fence> relay_fences; // of their threads
  };

  template <typename Each> void each_case(order::OperationIndex operation, std::uint32_t block, Each&& each);
  // A barrier, of one warp's lanes or of all.
  void passed_behind(order::OperationIndex operation, std::uint32_t block, std::optional<std::uint32_t> warp,
                     std::uint32_t mask);
  void note_plain_flag(const FoundRace& race);
  void note_unused(const trace::Module& module);
  void flag(const trace::AccessView& view, PlaceId place, unsigned lane);
  static void note_waiting(Case& entry, const Flag& flag, const FlagUse& use);
  void flag_before(Case& entry, const Flag& flag, const FlagUse& use);
  void flag_between(Case& entry, const Flag& flag, const FlagUse& use);
  void flag_behind(Case& entry, const Flag& flag, const FlagUse& use);
  void heard_behind(Case& entry, const Flag& flag, const FlagUse& use);
  // By a thread of neither block, or what one of the second's writes.
  void flag_elsewhere(const Flag& flag, const FlagUse& use);
  void lose(FlagWrites& known, order::ThreadKey reader, const FlagUse& use) const;
  static bool releases(const FlagWrite& write);
  static bool is_release(const Fence& fence) { return fence.mark && deadheat::is_release(fence.ordering); }
  static bool is_acquire(const Fence& fence) { return fence.mark && deadheat::is_acquire(fence.ordering); }
  static bool is_release(Ordering ordering) { return deadheat::is_release(ordering); }
  static bool is_acquire(Ordering ordering) { return deadheat::is_acquire(ordering); }
  void hears(std::size_t index, const FlagWrites& known, const FlagUse& use); // a third block
  void relay(Case& entry, const Flag& flag, const FlagUse& use); // from there, or by the second's
  void relay_fence(Case& entry, order::ThreadKey thread, const Fence& fence);
  static void relay_barrier(Case& entry, std::uint64_t block) {
    if (const auto at = entry.relays.find(block); at != entry.relays.end()) at->second.in.barrier_after = true;
  }
  bool is_side(const FoundRace& race, PlaceId place) const;
  static bool in_first_block(const FoundRace& race, const FlagUse& use) {
    return use.thread.block_bits() == race.first.thread.block_bits();
  }
  static bool in_second_block(const FoundRace& race, const FlagUse& use) {
    return use.thread.block_bits() == race.second.thread.block_bits();
  }
  // Does the value say whether something has happened? Strong loads that neither wait nor draw a number fetch data.
  static bool looks(const FlagUse& read) { return read.waits || (read.writes && !read.unused); }
  // Launches of one device that have a counter in common need not tell each other anything by it.
  bool may_tell(const FoundRace& race, const FlagUse& read) const {
    const order::ThreadKey a = race.first.thread, b = race.second.thread;
    return a.operation() == b.operation() || read.waits || apart(a, b) == Apart::devices;
  }
  static bool has_message(const Case& entry) {
    return std::any_of(entry.messages.begin(), entry.messages.end(), [](const auto& m) { return m.has_value(); });
  }
  static void barrier_behind(Case& entry) { // that the second's thread came to
    for (std::optional<Message>& message : entry.messages)
      if (message) message->barrier_after = true;
    if (entry.early_message) entry.early_message->barrier_after = true;
    for (auto& [block, relay] : entry.relays)
      if (relay.out) relay.out->barrier_after = true;
  }
  static void barrier_before(Case& entry) { // that the first's thread came to
    entry.writes_before.clear();
    entry.waiting.clear();
    entry.early_message.reset();
    entry.just_before = {};
  }
  // Of those that do what it is there for the widest.
  static bool serves_more(const Fence& fence, const Fence& than, bool (*does)(Ordering)) {
    return !than.mark || std::pair(does(fence.ordering), fence.scope) > std::pair(does(than.ordering), than.scope);
  }
  static void keep_widest(Fence& known, const Fence& fence) { // the last of them, that release
    if (!known.mark || !serves_more(known, fence, is_release)) known = fence;
  }
  static bool meets(std::uint32_t lanes, order::ThreadKey thread, order::ThreadKey other) { // of the other's warp
    return thread.block_bits() == other.block_bits() && thread.warp() == other.warp() &&
           (lanes >> (thread.thread() % 32) & 1);
  }
  // The same by bar.warp.sync of those lanes.
  static void barrier_behind(Case& entry, std::uint32_t lanes) {
    const auto after = [&](std::optional<Message>& message) {
      if (message) message->barrier_after |= meets(lanes, message->read.thread, entry.race->second.thread);
    };
    for (std::optional<Message>& message : entry.messages) after(message);
    after(entry.early_message);
    for (auto& [block, relay] : entry.relays) after(relay.out);
  }
  static void passes_barrier(Case& entry, std::uint32_t lanes) {
    const order::ThreadKey first = entry.race->first.thread;
    std::erase_if(entry.fences, [&](const auto& fence) {
      return fence.first != first && !meets(entry.met, fence.first, first) && meets(lanes, fence.first, first);
    });
    entry.met |= lanes;
    entry.waiting.clear();
  }
  static void passes_barrier(Case& entry) { // the first's thread, behind its access
    const order::ThreadKey first = entry.race->first.thread;
    if (!entry.barrier) std::erase_if(entry.fences, [&](const auto& fence) { return fence.first != first; });
    entry.barrier = true;
    entry.waiting.clear();
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
  static bool deliberate(const Message& message);
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
