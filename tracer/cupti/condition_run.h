// A conditional node in one launch of its graph, on its way into the trace: in its place stand the turns that its
// bodies made (body_turns.h), each node's execution an operation of its own, ordered as the bodies order them and a
// turn behind the one before; behind them a marker, which what depends on the node comes after. Where the turns cannot
// be told, it is one launch of an opaque kernel that may touch all that its bodies may.
//
// Turns can be told of a body that has a recorded kernel of its own; in a body that runs more than once, of a condition
// that comes before or behind such a kernel.
//
// Thread-safety: made under the session's lock; written from one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tracer/cupti/body_turns.h"
#include "tracer/cupti/graph.h"
#include "tracer/cupti/journal.h"

namespace deadheat::cupti {

class Session;

// Whether the node's own turns can be told, of those in its bodies nothing is said. All that have an effect must be
// recorded or have a recorded kernel beside them.
bool can_tell_turns(const GraphNode& condition);
// The opaque kernel that stands for it; none: no kernel is in its bodies. Under the session's lock.
std::optional<trace::Launch> opaque_condition(Session& session, const GraphNode& condition);

class ConditionRun final : public Awaited {
 public:
  // `operation`: the node's, with its number; its `what` is the opaque kernel in its place.
  ConditionRun(Session& session, const GraphNode& node, trace::Operation operation, std::shared_ptr<BodyTurns> turns);
  bool write(trace::TraceWriter& writer, bool last_chance) override;

 private:
  using Operations = std::vector<std::uint32_t>;
  struct Run { // of one body
    std::size_t body = 0, turn = 0; // turn: among all of that body's
    std::uint64_t began = 0;
  };
  struct Nested { // a condition in a body
    bool told = true; // which turns its runs are in
    std::vector<std::pair<std::size_t, Run>> runs; // with the turn of the body around; in order
  };
  const KernelTurns* turns_of(const GraphNode& kernel) const; // null: it is not recorded
  // All runs of the condition's bodies, in order.
  std::vector<Run> runs_of(const GraphNode& condition) const;
  const Nested& nested(const std::vector<GraphNode>& around, std::size_t condition);
  // How often the body around the condition had begun anew when that run began; none: that does not show.
  std::optional<std::size_t> turn_around(const std::vector<GraphNode>& body, std::size_t condition,
                                         const Run& run) const;
  // A body runs as a whole: its kernels as often as each other.
  bool agrees(const std::vector<GraphNode>& nodes) const;
  bool has_ended(const std::vector<GraphNode>& body, std::size_t turn) const;
  // Writes a body's nodes, in that turn of it: of one that has not ended the kernels that had begun. Returns what comes
  // behind all of them waits for.
  Operations write_turn(const std::vector<GraphNode>& body, std::size_t turn, const Operations& entry,
                        trace::TraceWriter& writer);
  std::uint32_t write_condition(const std::vector<GraphNode>& around, std::size_t at, std::size_t turn,
                                Operations after, trace::TraceWriter& writer);
  Operations write_runs(const GraphNode& condition, const std::vector<Run>& runs, Operations after,
                        trace::TraceWriter& writer);
  std::uint32_t write_node(const GraphNode& node, std::size_t turn, Operations after, trace::TraceWriter& writer);
  std::uint32_t write_marker(const GraphNode& node, Operations after, trace::TraceWriter& writer);
  void write_opaque(trace::TraceWriter& writer, trace::Operation operation);
  trace::Operation operation_of(const GraphNode& node, Operations after) const;

  Session& session_;
  GraphNode node_; // as it was launched
  trace::Operation operation_;
  std::shared_ptr<BodyTurns> turns_;
  std::map<std::uint32_t, trace::Launch> opaque_; // by number: of conditions in its bodies whose turns are not told
  std::map<std::uint32_t, Nested> nested_; // by number: those that were asked for
};

} // namespace deadheat::cupti
