// Which operations are complete before which others start: host, streams, events and graphs in one relation.
//
// Operations are numbered densely in submission order, from 1; each lies on a chain (a stream, as a rule), and an
// operation's clock tells for each chain up to which operation everything is complete before it starts. The host is
// one agent: API calls of all host threads form one order (what host threads use to order themselves is not seen).
//
// What is behind all that can still come is *settled*: it is complete before everything that is not over yet and
// everything that is to be submitted, and its clock is of no use any more. So memory holds the clocks of what is under
// way, and some forty bytes for each operation besides.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/order/id_table.h"
#include "analyzer/order/stream_order.h"

namespace deadheat::order {

using OperationIndex = std::uint32_t;  // dense, from 1; 0: none

// For each chain the position that is reached: of all others 0.
class ChainClock {
 public:
  std::uint32_t operator[](std::uint32_t chain) const;
  void reach(std::uint32_t chain, std::uint32_t position);
  void join(const ChainClock& other);
  auto begin() const { return reached_.begin(); } // of pairs: chain, position; by chain
  auto end() const { return reached_.end(); }

 private:
  std::vector<std::pair<std::uint32_t, std::uint32_t>> reached_;
};

class OperationClocks {
 public:
  // What is settled is looked for when at least so many operations more are over.
  explicit OperationClocks(OperationIndex worth_a_look = 1024) : worth_a_look_(worth_a_look) {}

  // Feed every command record in trace order. Returns the index of an operation.
  OperationIndex submitted(const trace::Operation& operation);
  void apply(const trace::StreamCreate& record);
  void apply(const trace::StreamMaker& record) { makers_[record.stream] = record.library; }
  void apply(const trace::StreamDestroy& record) { streams_.stream_destroyed(record); }
  void apply(const trace::EventRecord& record);
  void apply(const trace::StreamWait& record);
  void apply(const trace::HostWait& record);
  void apply(const trace::HostWaitBegin& record);
  void apply(const trace::GraphLaunch& record) {
    streams_.graph_begin(record);
    if (!record.graph) batch_ = record.id;
  }
  void apply(const trace::GraphEnd& record);
  void apply(const trace::Allocate& record);
  // Records are missing: all operations so far count as complete before any that is submitted from here on.
  void missing();

  // It begins. (Launches, and what else host functions may order.)
  void begins(OperationIndex operation);
  // A host function begins: what the host has waited for by then, any host thread may have told it. That is so of its
  // own doings; what comes behind it in streams need not know, since it may have begun so late by chance. But a
  // function that runs on while the host does may have waited for it: the trace says so by a second HostWait for its
  // operation, and all behind it comes behind what the host has waited for by then.
  void begins_on_host(OperationIndex operation);
  // It is over: it does nothing more.
  void ended(OperationIndex operation);
  // What follows is asked about it, as `second`, after it is settled, too.
  void keep(OperationIndex operation);
  void keep_those_of(const OperationClocks& other); // which was told the same

  OperationIndex index(OperationId id) const { return indices_[id]; }
  OperationId id(OperationIndex index) const { return operations_[index].id; }
  std::uint32_t stream(OperationIndex index) const { return operations_[index].stream; }
  // The library whose code created the stream; empty: not known.
  std::string maker(std::uint32_t stream) const {
    auto found = makers_.find(stream);
    return found == makers_.end() ? std::string() : found->second;
  }
  bool concurrent() const { return chain_length_.size() > 2; } // on more than one chain?
  bool one_by_one() const { return !concurrent() && !dependents_; } // none begins before the one before it is over

  // The device of its stream, where it runs; but a graph's node may be of another one. 0: it was not told of that
  // operation.
  std::uint32_t device(OperationIndex index) const {
    return index < operations_.size() ? operations_[index].device : 0;
  }
  bool on_any_device(OperationIndex index) const { return index < operations_.size() && operations_[index].graph; }
  bool several_devices() const { return several_devices_; } // so far
  void expect_several_devices() { several_devices_ = true; }
  bool same_device(OperationIndex a, OperationIndex b) const { // or it may be
    return !several_devices_ || device(a) == device(b) || on_any_device(a) || on_any_device(b);
  }
  OperationIndex count() const { return OperationIndex(operations_.size() - 1); }

  // Operations of one chain come one after another.
  struct Place {
    std::uint32_t chain = 0, position = 0; // from 1
  };
  Place place(OperationIndex operation) const {
    return {operations_[operation].chain, operations_[operation].position};
  }
  const ChainClock& complete_before(OperationIndex operation) const { return clock(operations_[operation]); }
  // Launches that are complete, with what comes before them, when a thread of the operation has waited.
  std::vector<OperationIndex> waited_for(OperationIndex operation) const;

  // Is `first` complete before `second` starts? Both are indices of submitted operations; false when equal. `second`
  // is not over, or kept.
  bool ordered(OperationIndex first, OperationIndex second) const;
  // Is `first` complete when a thread of `second` has waited for the launch before it (griddepcontrol.wait)? The launch
  // waited for counts with what it was ordered behind itself, by its start or by its own wait.
  bool ordered_by_wait(OperationIndex first, OperationIndex second) const;
  // Of a byte that a pool handed on: is one of them complete before the byte was freed, the other behind its
  // allocation? That order is the byte's alone: another time the pool may hand on other memory.
  bool handed_over(OperationIndex first, OperationIndex second, std::uint64_t address) const;
  // Did the call that submitted it wait for it?
  bool waited_for_at_once(OperationIndex operation) const { return operations_[operation].waited_for; }
  // Does one allocate memory in its stream's order, and the other free it at once (cudaFree)? Neither uses it.
  bool frees_unused(OperationIndex first, OperationIndex second) const {
    const Op &a = operations_[first], &b = operations_[second];
    return (a.allocates && b.frees && b.waited_for) || (b.allocates && a.frees && a.waited_for);
  }
  // The launch of a graph, or batch of copies, that it is a node of; 0: none.
  std::uint32_t graph(OperationIndex operation) const { return operations_[operation].graph; }
  // Would a wait order two operations that nothing does, of a stream for another one or of the host, or an edge of a
  // graph? Else it is the kernel itself that does not wait (griddepcontrol.wait), or a batch promises no order.
  bool wait_orders(OperationIndex first, OperationIndex second) const;
  // Does it not wait for what comes before it in its stream, so that only the host can delay it?
  bool only_host_delays(OperationIndex operation) const {
    const Op& op = operations_[operation];
    return op.by_host || op.reads_early || (op.frees && op.waited_for);
  }
  // A thread of the operation has waited so.
  void waited(OperationIndex operation) { operations_[operation].waited = true; }
  // Why two operations are unordered, one line.
  std::string why_unordered(OperationIndex first, OperationIndex second) const;

 private:
  struct Op {
    OperationId id = 0;
    std::uint32_t stream = 0, device = 0, chain = 0, position = 0;
    std::unique_ptr<ChainClock> clock; // what is complete before it starts; null: it is settled, or that is nothing
    OperationIndex primary = 0; // launch that it need not wait for to begin
    std::uint32_t graph = 0; // the launch that it is a node of
    std::uint32_t batch = 0; // of copies (cudaMemcpyBatchAsync): the launch that stands for it
    bool waited : 1 = false, allocates : 1 = false, by_host : 1 = false;
    bool waited_for : 1 = false; // by the call that submitted it
    bool frees : 1 = false, reads_early : 1 = false; // of a batch's copy: its source, out of the stream's order
    bool over : 1 = false, kept : 1 = false;
  };
  struct Memory {
    std::uint64_t address = 0, bytes = 0;
  };
  struct Freed {
    std::uint64_t end = 0;
    OperationIndex by = 0;
  };
  struct HandOver {
    std::uint64_t begin = 0, end = 0;
    OperationIndex freed = 0, allocated = 0;
  };
  void handed_on(const trace::PoolOperation& pool, Op& op, const ChainClock& before);
  bool is_or_follows(OperationIndex later, OperationIndex earlier) const {
    return later == earlier || ordered(earlier, later);
  }
  bool before_by_its_stream(OperationIndex first, OperationIndex second) const;
  void host_waits_for(const trace::Copy& copy, OperationIndex at);
  void join(ChainClock& clock, OperationIndex operation) const; // adds the operation's completion
  static const ChainClock& clock(const Op& op) {
    static const ChainClock nothing;
    return op.clock ? *op.clock : nothing;
  }
  void learn(OperationIndex operation, const ChainClock& more);
  void told(OperationIndex function);
  void settle();
  void used(std::uint32_t device);

  const OperationIndex worth_a_look_;
  StreamOrder streams_;
  std::unordered_map<std::uint32_t, std::string> makers_; // of streams
  std::vector<Op> operations_{1};
  IdTable<OperationIndex> indices_; // by id
  std::vector<std::uint32_t> chain_length_{0}; // chains from 1
  ChainClock host_;
  // All that is submitted comes behind what the host has waited for. So what it had waited for at some time is settled
  // when what had been submitted by then is over.
  struct Settling {
    ChainClock waited_for;
    OperationIndex submitted = 0;
  };
  std::optional<Settling> settling_;
  OperationIndex first_running_ = 1; // all before are over
  std::unordered_map<OperationId, unsigned> on_host_; // host functions that run: how often the host waited for them
  struct Told {
    OperationIndex function = 0, submitted = 0; // and what had been by then, which does not know of it yet
  };
  std::vector<Told> told_;
  std::vector<OperationIndex> kept_;
  std::vector<OperationIndex> unsettled_; // of those that were submitted when it was last looked, in order
  OperationIndex looked_ = 0, look_at_ = 0; // up to which that was; when first_running_ is there, it is worth a look
  struct BegunWait {
    trace::HostWait::Kind kind = trace::HostWait::Kind::device;
    std::uint32_t id = 0;
    ChainClock clock;
  };
  std::unordered_map<std::uint32_t, BegunWait> begun_waits_; // by host thread
  std::uint32_t batch_ = 0; // the last one
  std::uint32_t first_device_ = ~0u; // that was used
  bool several_devices_ = false;
  bool dependents_ = false; // there are launches that need not wait for the one before
  std::vector<OperationIndex> batch_waits_; // its copies that the host waits for
  struct Wait {
    std::uint32_t stream = 0, event = 0;
    OperationIndex record = 0, submitted_before = 0;
  };
  std::vector<Wait> waits_; // for explanations
  // Of events that were waited for before they were recorded: the streams that they were recorded in afterwards.
  std::unordered_map<std::uint32_t, std::set<std::uint32_t>> recorded_late_;
  std::unordered_map<std::uint32_t, Memory> allocations_; // of streams' pools, by id; a graph's come again
  // By address: freed in a stream's order, not handed on yet. They do not overlap.
  std::map<std::uint64_t, Freed> freed_;
  // Between operations that nothing else orders, in order, by the parts of the address space that they touch.
  std::unordered_map<std::uint64_t, std::vector<HandOver>> hand_overs_;
};

} // namespace deadheat::order
