// Conditional nodes of graphs: how often their bodies run, if at all, kernels say while the graph runs (CUDA driver
// API, CUDA_CONDITIONAL_NODE_PARAMS). What ran is told by the kernels that are recorded (condition_run.h). Where there
// are none, one stands for a launch of a kernel of which nothing is recorded, and which may touch all that the nodes of
// its bodies touch.
#include <algorithm>
#include <optional>

#include "deadheat/footprint.h"
#include "tracer/cupti/condition_run.h"
#include "tracer/cupti/graphs.h"
#include "tracer/cupti/handlers.h"

namespace deadheat::cupti {

namespace {

// Under the session's lock.
void add(Session& session, const trace::MemoryRange& range, std::vector<std::uint64_t>& footprint) {
  if (range.bytes() && session.allocation_at(range.address)) {
    trace::add_range(footprint, range.address, range.extent());
  }
}

void add(Session& session, const GraphNode& node, trace::Launch& to) {
  if (const auto* launch = std::get_if<trace::Launch>(&node.what)) {
    if (to.kernel.empty()) to.module = launch->module;
    to.kernel += (to.kernel.empty() ? "a condition's " : ", ") + launch->kernel;
    const std::vector<std::uint64_t>& reached = node.control ? node.reached : launch->footprint;
    to.footprint.insert(to.footprint.end(), reached.begin(), reached.end());
  } else if (const auto* copy = std::get_if<trace::Copy>(&node.what)) {
    add(session, copy->source, to.footprint);
    add(session, copy->destination, to.footprint);
  } else if (const auto* set = std::get_if<trace::Set>(&node.what)) {
    add(session, set->destination, to.footprint);
  }
}

} // namespace

// Under the session's lock.
std::optional<trace::Launch> opaque_condition(Session& session, const GraphNode& condition) {
  trace::Launch launch;
  for (const std::vector<GraphNode>& body : condition.bodies) {
    each_node(body, [&](const GraphNode& inner) {
      if (inner.bodies.empty()) add(session, inner, launch);
    });
  }
  return launch.kernel.empty() ? std::nullopt : std::optional(std::move(launch));
}

bool describe_condition(Call& call, CUgraphNode node, GraphNode& to) {
  Session& session = call.session;
  const std::vector<CUgraph> bodies = session.bodies_of(node);
  bool unknown = bodies.empty();
  for (const CUgraph body : bodies) {
    const std::vector<GraphNode>& nodes = to.bodies.emplace_back(nodes_of_body(call, body));
    for (const GraphNode& inner : nodes) {
      to.reaches_host |= inner.reaches_host || std::holds_alternative<trace::Copy>(inner.what);
      unknown |= inner.unknown && !std::holds_alternative<trace::Launch>(inner.what);
    }
  }
  std::lock_guard hold(session.lock);
  std::optional<trace::Launch> opaque = opaque_condition(session, to);
  if (unknown || !opaque) return false;
  to.unknown = true; // in a window
  to.what = std::move(*opaque);
  if (!can_tell_turns(to)) {
    session.incident("opaque",
                     "a condition's body has kernels and none that is recorded: how often it ran cannot be "
                     "told, and the condition counts as a kernel that may touch all that they may");
  }
  return true;
}

} // namespace deadheat::cupti
