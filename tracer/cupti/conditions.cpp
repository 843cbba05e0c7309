// Conditional nodes of graphs: how often their bodies run, if at all, kernels say while the graph runs (CUDA driver
// API, CUDA_CONDITIONAL_NODE_PARAMS). So one stands for a launch of a kernel of which nothing is recorded, and which
// may touch all that the nodes of its bodies touch.
#include <algorithm>

#include "deadheat/footprint.h"
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
    to.footprint.insert(to.footprint.end(), launch->footprint.begin(), launch->footprint.end());
  } else if (const auto* copy = std::get_if<trace::Copy>(&node.what)) {
    add(session, copy->source, to.footprint);
    add(session, copy->destination, to.footprint);
  } else if (const auto* set = std::get_if<trace::Set>(&node.what)) {
    add(session, set->destination, to.footprint);
  }
}

} // namespace

bool describe_condition(Call& call, CUgraphNode node, GraphNode& to) {
  Session& session = call.session;
  const std::vector<CUgraph> bodies = session.bodies_of(node);
  trace::Launch launch;
  bool unknown = bodies.empty();
  for (const CUgraph body : bodies) {
    const Executable made = nodes_of(call, body, nullptr);
    std::lock_guard hold(session.lock);
    for (const GraphNode& inner : made.nodes) {
      add(session, inner, launch);
      to.reaches_host |= inner.reaches_host || std::holds_alternative<trace::Copy>(inner.what);
      unknown |= inner.unknown && !std::holds_alternative<trace::Launch>(inner.what);
    }
  }
  if (unknown || launch.kernel.empty()) return false;
  to.unknown = true; // in a window
  to.what = std::move(launch);
  session.incident("opaque",
                   "kernels in the bodies of conditions are not recorded: a condition counts as a kernel that "
                   "may touch all that they may");
  return true;
}

} // namespace deadheat::cupti
