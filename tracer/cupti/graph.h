// What the tracer knows of an instantiated graph: what its nodes do, in an order in which they can run.
//
// Thread-safety: used under the session's lock.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "deadheat/trace.h"

namespace deadheat::cupti {

class HostNode;
class NodeAlone;
struct BodyTurns;
struct LastLaunch;
struct OtherKernel;
class RecordedLaunch;
class WholeGraph;
struct Kernel;

struct GraphNode {
  std::vector<std::uint32_t> after; // indices
  std::variant<trace::Marker, trace::Launch, trace::Copy, trace::Set, trace::HostCallback, trace::PoolOperation> what;
  std::uint32_t control = 0; // of an instrumented kernel: the number that its accesses carry
  Kernel* kernel = nullptr; // of kernel nodes
  std::vector<std::uint64_t> reached; // of recorded ones: their footprint, where what they did is not known after all
  std::uint64_t hash = 0; // of opaque ones: NodeFootprints::hash
  HostNode* host = nullptr; // of host nodes: null: what the function tells is not known
  CUevent event = nullptr; // that a marker records, or waits for
  bool event_waits = false;
  std::uint64_t address = 0, bytes = 0; // of memory nodes; bytes: of those that allocate
  CUgraphNode handle = nullptr; // in the graph that it was made from
  std::uint32_t number = 0; // of all of the graph's nodes: their index, or of those in bodies one behind those
  std::vector<std::vector<GraphNode>> bodies; // of a condition; `after` of their nodes are indices in them
  std::shared_ptr<NodeAlone> alone; // where it may be needed (graph_pieces.h); null: nothing is known of it, or to do
  std::shared_ptr<OtherKernel> other; // graph_exchange.h; null: it was not needed
  bool has_no_other = false; // it was, and cannot be had
  bool enabled = true; // else a launch passes it by
  bool unknown = false; // a node that is not followed
  bool reaches_host = false; // a kernel with memory among its arguments that host and device reach
  bool programmatic = false; // a kernel that need not wait for the one that it depends on to begin
};

// Calls each(node) for the nodes and those in their bodies.
template <typename Nodes, typename Each>
void each_node(Nodes& nodes, Each&& each) {
  for (auto& node : nodes) {
    each(node);
    for (auto& body : node.bodies) each_node(body, each);
  }
}

struct Executable {
  std::uint32_t id = 0, done = 0, last_stream = 0; // done: an event, recorded after each launch
  std::vector<GraphNode> nodes;
  struct Part { // of nodes: [begin, end)
    std::uint32_t begin = 0, end = 0;
  };
  std::unordered_map<CUgraphNode, Part> children; // by their nodes in the graph that it was made from
  bool frees_on_launch = false; // memory that an earlier launch allocated
  bool exchangeable = false; // it has kernels that another may be launched in place of (graph_exchange.h)
  std::shared_ptr<WholeGraph> whole; // with such
  std::shared_ptr<LastLaunch> last; // null: none, or it is not exchangeable
  bool decides = false; // it has conditions
  std::shared_ptr<BodyTurns> launching_turns; // during the driver's call that launches it
  bool stood_still = false; // a launch of it was waited for in vain
  std::vector<std::pair<std::uint32_t, std::weak_ptr<RecordedLaunch>>> launching; // with their control numbers
};

} // namespace deadheat::cupti
