#include "tracer/cupti/condition_run.h"

#include <algorithm>
#include <utility>

#include "tracer/cupti/recorder.h"
#include "tracer/cupti/session.h"

namespace deadheat::cupti {

namespace {

bool is_recorded(const GraphNode& node) { return node.enabled && node.control; }

bool has_effects(const GraphNode& node) {
  return node.enabled && (!node.bodies.empty() || !std::holds_alternative<trace::Marker>(node.what));
}

// Whether node `b` of the list depends on node `a`.
bool depends(const std::vector<GraphNode>& nodes, std::size_t b, std::size_t a) {
  std::vector<bool> seen(nodes.size());
  std::vector<std::size_t> open{b};
  while (!open.empty()) {
    const std::size_t at = open.back();
    open.pop_back();
    for (std::uint32_t before : nodes[at].after) {
      if (before == a) return true;
      if (!seen[before]) open.push_back(before);
      seen[before] = true;
    }
  }
  return false;
}

} // namespace

bool can_tell_turns(const GraphNode& condition) {
  return std::all_of(condition.bodies.begin(), condition.bodies.end(), [](const std::vector<GraphNode>& body) {
    return std::none_of(body.begin(), body.end(), has_effects) || std::any_of(body.begin(), body.end(), is_recorded);
  });
}

ConditionRun::ConditionRun(Session& session, const GraphNode& node, trace::Operation operation,
                           std::shared_ptr<BodyTurns> turns)
    : session_(session), node_(node), operation_(std::move(operation)), turns_(std::move(turns)) {
  node_.alone = nullptr; // would call the driver when it goes
  node_.other = nullptr;
  for (const std::vector<GraphNode>& body : node_.bodies) {
    each_node(body, [&](const GraphNode& inner) {
      if (inner.bodies.empty()) return;
      if (std::optional<trace::Launch> opaque = opaque_condition(session, inner))
        opaque_[inner.number] = std::move(*opaque);
    });
  }
}

const KernelTurns* ConditionRun::turns_of(const GraphNode& kernel) const {
  if (!is_recorded(kernel)) return nullptr;
  for (const auto& [control, turns] : turns_->kernels) {
    if (control == kernel.control) return turns.get();
  }
  return nullptr;
}

std::vector<ConditionRun::Run> ConditionRun::runs_of(const GraphNode& condition) const {
  std::vector<Run> runs;
  for (std::size_t body = 0; body < condition.bodies.size(); ++body) {
    const std::size_t first = runs.size();
    for (const GraphNode& node : condition.bodies[body]) {
      const KernelTurns* const turns = turns_of(node);
      for (std::size_t turn = 0; turns && turn < turns->turns.size(); ++turn) {
        if (runs.size() == first + turn) runs.push_back({body, turn, turns->began[turn]});
        runs[first + turn].began = std::min(runs[first + turn].began, turns->began[turn]);
      }
    }
  }
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.began < b.began; });
  return runs;
}

std::optional<std::size_t> ConditionRun::turn_around(const std::vector<GraphNode>& body, std::size_t condition,
                                                     const Run& run) const {
  for (std::size_t i = 0; i < body.size(); ++i) {
    const KernelTurns* const turns = turns_of(body[i]);
    if (!turns) continue;
    const bool before = depends(body, condition, i);
    if (!before && !depends(body, i, condition)) continue;
    const auto begun =
        std::size_t(std::lower_bound(turns->began.begin(), turns->began.end(), run.began) - turns->began.begin());
    if (before && begun == 0) return std::nullopt; // by no order that there can be
    return before ? begun - 1 : begun;
  }
  return std::nullopt;
}

const ConditionRun::Nested& ConditionRun::nested(const std::vector<GraphNode>& around, std::size_t at) {
  const auto [place, fresh] = nested_.try_emplace(around[at].number);
  Nested& found = place->second;
  if (!fresh) return found;
  found.told = can_tell_turns(around[at]);
  for (const Run& run : runs_of(around[at])) {
    const std::optional<std::size_t> turn = turn_around(around, at, run);
    found.told &= turn.has_value();
    if (turn) found.runs.emplace_back(*turn, run);
  }
  found.told &= std::is_sorted(found.runs.begin(), found.runs.end(),
                               [](const auto& a, const auto& b) { return a.first < b.first; });
  return found;
}

bool ConditionRun::agrees(const std::vector<GraphNode>& nodes) const {
  std::optional<std::size_t> expected;
  return std::all_of(nodes.begin(), nodes.end(), [&](const GraphNode& node) {
    const KernelTurns* const turns = turns_of(node);
    if (turns && !expected) expected = turns->turns.size();
    return (!turns || turns->turns.size() == *expected) &&
           std::all_of(node.bodies.begin(), node.bodies.end(),
                       [&](const std::vector<GraphNode>& body) { return agrees(body); });
  });
}

bool ConditionRun::has_ended(const std::vector<GraphNode>& body, std::size_t turn) const {
  return std::all_of(body.begin(), body.end(), [&](const GraphNode& node) {
    const KernelTurns* const turns = turns_of(node);
    return !turns || turn < turns->first_open;
  });
}

trace::Operation ConditionRun::operation_of(const GraphNode& node, Operations after) const {
  trace::Operation made;
  made.id = session_.next_operation();
  made.stream = operation_.stream;
  made.host_thread = operation_.host_thread;
  made.graph_launch = operation_.graph_launch;
  made.graph_node = node.number;
  made.node_dependencies = std::move(after);
  return made;
}

void ConditionRun::write_opaque(trace::TraceWriter& writer, trace::Operation operation) {
  operation.launch = session_.next_launch();
  writer.write(operation);
  writer.write(trace::OperationBegin{operation.id});
  writer.write(trace::OperationEnd{operation.id});
}

std::uint32_t ConditionRun::write_marker(const GraphNode& node, Operations after, trace::TraceWriter& writer) {
  const trace::Operation marker = operation_of(node, std::move(after));
  writer.write(marker);
  return marker.id;
}

std::uint32_t ConditionRun::write_node(const GraphNode& node, std::size_t turn, Operations after,
                                       trace::TraceWriter& writer) {
  if (!has_effects(node)) return write_marker(node, std::move(after), writer); // empty, or switched off
  trace::Operation operation = operation_of(node, std::move(after));
  const std::uint32_t id = operation.id;
  operation.what = node.what;
  RecordedLaunch* recorded = nullptr;
  if (auto* launch = std::get_if<trace::Launch>(&operation.what)) {
    const KernelTurns* const turns = turns_of(node);
    recorded = turns ? turns->turns[turn].get() : nullptr;
    operation.launch = session_.next_launch();
    launch->programmatic = node.programmatic && recorded;
    const NodeFootprints::Footprint* reached = recorded ? nullptr : session_.journal().node_reaches(node.number);
    if (reached) launch->footprint = *reached;
    if (recorded) recorded->shape_.launch = operation.launch;
  }
  writer.write(operation);
  writer.write(trace::OperationBegin{id});
  if (recorded) recorded->write(writer, true);
  writer.write(trace::OperationEnd{id});
  return id;
}

// A condition in a body: of its runs those in that turn of the body.
std::uint32_t ConditionRun::write_condition(const std::vector<GraphNode>& around, std::size_t at, std::size_t turn,
                                            Operations after, trace::TraceWriter& writer) {
  const GraphNode& node = around[at];
  const Nested& its = nested(around, at);
  if (its.told) {
    std::vector<Run> runs;
    auto next = std::lower_bound(its.runs.begin(), its.runs.end(), turn,
                                 [](const auto& run, std::size_t before) { return run.first < before; });
    for (; next != its.runs.end() && next->first == turn; ++next) runs.push_back(next->second);
    after = write_runs(node, runs, std::move(after), writer);
    return write_marker(node, std::move(after), writer);
  }
  session_.incident("opaque",
                    "in which turns of a body a condition in it was true cannot be told: it counts as a kernel "
                    "that may touch all that its bodies may");
  trace::Operation operation = operation_of(node, std::move(after));
  const std::uint32_t id = operation.id;
  const auto opaque = opaque_.find(node.number);
  if (opaque != opaque_.end()) operation.what = opaque->second;
  opaque == opaque_.end() ? writer.write(operation) : write_opaque(writer, std::move(operation));
  return id;
}

ConditionRun::Operations ConditionRun::write_turn(const std::vector<GraphNode>& body, std::size_t turn,
                                                  const Operations& entry, trace::TraceWriter& writer) {
  Operations written, exits;
  std::vector<bool> inner(body.size());
  const bool ended = has_ended(body, turn);
  for (std::size_t i = 0; i < body.size(); ++i) {
    Operations after = body[i].after.empty() ? entry : Operations{};
    for (std::uint32_t before : body[i].after) {
      inner[before] = true;
      after.push_back(written[before]);
    }
    const bool condition = body[i].enabled && !body[i].bodies.empty();
    const KernelTurns* const turns = turns_of(body[i]);
    const bool begun = ended || (condition && nested(body, i).told) || (turns && turn < turns->turns.size());
    written.push_back(!begun      ? write_marker(body[i], std::move(after), writer)
                      : condition ? write_condition(body, i, turn, std::move(after), writer)
                                  : write_node(body[i], turn, std::move(after), writer));
  }
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (!inner[i]) exits.push_back(written[i]);
  }
  return body.empty() ? entry : exits;
}

ConditionRun::Operations ConditionRun::write_runs(const GraphNode& condition, const std::vector<Run>& runs,
                                                  Operations after, trace::TraceWriter& writer) {
  for (const Run& run : runs) after = write_turn(condition.bodies[run.body], run.turn, after, writer);
  return after;
}

bool ConditionRun::write(trace::TraceWriter& writer, bool last_chance) {
  const bool over = turns_->over, spoiled = turns_->spoiled;
  if (!over && !spoiled && !last_chance) return false;
  if (!over && !spoiled) { // as far as it has come
    session_.recorder().cut_off(*turns_);
    session_.incident("lost",
                      "a graph did not end, or its end was not seen: what bodies of its conditions did after "
                      "that is missing");
  } else if (spoiled) {
    session_.incident("lost",
                      "a graph was launched before it was known that its last launch was over, or accesses are "
                      "missing: what bodies of its conditions did is not known");
  }
  const bool agree = over && std::all_of(node_.bodies.begin(), node_.bodies.end(),
                                         [&](const std::vector<GraphNode>& body) { return agrees(body); });
  if (over && !spoiled && !agree)
    session_.incident("lost",
                      "kernels of a condition's body did not run as often as each other: what it did is not "
                      "known");
  if (spoiled || (over && !agree)) {
    write_opaque(writer, operation_);
    return true;
  }
  trace::Operation end = operation_;
  end.what = trace::Marker{};
  end.node_dependencies = write_runs(node_, runs_of(node_), std::move(end.node_dependencies), writer);
  writer.write(end);
  return true;
}

} // namespace deadheat::cupti
