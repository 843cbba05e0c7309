// Launches of graphs: what their nodes are to do is submitted as the launch's, node by node.
#include <algorithm>
#include <optional>
#include <utility>

#include "tracer/cupti/condition_run.h"
#include "tracer/cupti/graph_copies.h"
#include "tracer/cupti/graph_exchange.h"
#include "tracer/cupti/graph_pieces.h"
#include "tracer/cupti/graphs.h"
#include "tracer/cupti/handlers.h"
#include "tracer/cupti/host_functions.h"
#include "tracer/cupti/host_writes.h"
#include "tracer/cupti/libraries.h"
#include "tracer/cupti/recorder.h"
#include "tracer/cupti/window.h"

namespace deadheat::cupti {

namespace {

// What a window must know of a graph's node.
void in_window(Window& window, const GraphNode& node, const OtherKernel* other, bool in_pieces) {
  if (const auto* copy = std::get_if<trace::Copy>(&node.what)) {
    using Direction = trace::Copy::Direction;
    if (copy->direction == Direction::d2d || copy->direction == Direction::d2h) window.touch(copy->source);
    if (!copy->pageable_destination) window.touch(copy->destination);
  } else if (const auto* set = std::get_if<trace::Set>(&node.what)) {
    window.touch(set->destination);
  } else if (std::holds_alternative<trace::PoolOperation>(node.what)) {
    window.spoil("a graph that allocates memory was launched");
  } else if (std::holds_alternative<trace::Launch>(node.what) && !(other ? other->control : node.control) &&
             !in_pieces) {
    window.spoil("a graph with opaque kernels was launched");
  }
}

// Null: nothing is recorded of it. Under the session's lock.
std::shared_ptr<RecordedLaunch> expected(Session& session, CUcontext context, Executable& graph, const GraphNode& node,
                                         const OtherKernel* other, std::uint32_t launch) {
  const std::uint32_t control = other ? other->control : node.control;
  if (!control) return nullptr;
  const auto& what = other ? other->what : std::get<trace::Launch>(node.what);
  auto recorded = session.recorder().expect(
      control, graph_shape(session, context, *(other ? other->kernel : node.kernel), what, launch));
  graph.launching.emplace_back(control, recorded);
  return recorded;
}

// What comes of the recorded kernels in the bodies of its conditions; null: there are none, or it is not expected,
// since nothing would tell when the graph has ended. Under the session's lock.
std::shared_ptr<BodyTurns> expected_turns(Call& call, Executable& graph) {
  Session& session = call.session;
  if (!graph.decides) return nullptr;
  auto turns = std::make_shared<BodyTurns>();
  for (const GraphNode& node : graph.nodes) {
    if (!node.enabled || node.bodies.empty() || !can_tell_turns(node)) continue;
    for (const std::vector<GraphNode>& body : node.bodies) {
      each_node(body, [&](const GraphNode& inner) {
        if (!inner.enabled || !inner.control) return;
        auto kernel = std::make_shared<KernelTurns>();
        kernel->shape = graph_shape(session, call.context, *inner.kernel, std::get<trace::Launch>(inner.what), 0);
        turns->kernels.emplace_back(inner.control, std::move(kernel));
      });
    }
  }
  const Driver& d = driver();
  if (turns->kernels.empty() || !d.cuEventCreate || !d.cuEventRecord || !d.cuEventQuery || !d.cuEventDestroy_v2)
    return nullptr;
  if (!session.recorder().expect(turns)) return nullptr;
  return graph.launching_turns = turns;
}

const OtherKernel* other_of(const PlayedGraph* played, std::size_t node) {
  return played ? other_at(played->others, node) : nullptr;
}

// A node of a launch: what its operation is, but for its number, and what more comes with it.
struct Launching {
  Call& call;
  Executable& graph;
  std::uint32_t stream = 0, launch = 0;
  CUstream handle = nullptr;
  PlayedGraph* played = nullptr; // may be null
  std::shared_ptr<BodyTurns> turns; // may be null
  std::vector<std::uint32_t> operations; // of nodes

  trace::Operation operation(std::size_t node) const {
    trace::Operation made;
    made.stream = stream;
    made.graph_launch = launch;
    made.graph_node = std::uint32_t(node);
    for (std::uint32_t before : graph.nodes[node].after) made.node_dependencies.push_back(operations[before]);
    return made;
  }

  void event(const GraphNode& node, trace::Operation operation) {
    Session& session = call.session;
    const std::uint32_t event = session.event(node.event);
    std::uint32_t record = node.event_waits ? session.recorded(event) : 0;
    if (node.event_waits && !record && session.shared_events().has(event)) {
      const auto& records = session.shared_events().records();
      if (!records.empty()) record = records.begin()->second.operation;
    }
    if (record) {
      if (operation.node_dependencies.empty()) { // it waits for what precedes the graph, too
        operation.node_dependencies.push_back(session.submit(trace::Operation(operation)));
      }
      operation.node_dependencies.push_back(record);
      if (session.shared_events().has(event)) {
        for (const auto& [on, shared] : session.shared_events().records())
          operation.node_dependencies.push_back(shared.operation);
      }
    }
    operations.push_back(session.submit(std::move(operation)));
    if (!node.event_waits) session.event_recorded(event, stream, operations.back());
  }

  void memory(const GraphNode& node, trace::Operation operation) {
    Session& session = call.session;
    const bool frees = node.bytes == 0;
    operation.id = session.next_operation();
    if (!frees) session.allocated(trace::Allocate::Kind::pool, node.address, node.bytes, 0, operation.id);
    const trace::Allocate* memory = session.allocation_at(node.address);
    if (memory) operation.what = trace::PoolOperation{frees, memory->allocation};
    if (memory && frees) session.freed(node.address, operation.id);
    operations.push_back(session.submit(std::move(operation)));
  }

  // Its number is that of what comes last of it.
  void condition(const GraphNode& node, trace::Operation operation) {
    Session& session = call.session;
    const std::optional<trace::Launch> opaque = opaque_condition(session, node);
    if (opaque) operation.what = *opaque;
    if (!turns || !can_tell_turns(node)) {
      if (opaque) operation.launch = session.next_launch();
      operations.push_back(session.submit(std::move(operation)));
      return;
    }
    operation.id = session.next_operation();
    operation.host_thread = session.host_thread();
    operations.push_back(operation.id);
    session.journal().push(Journal::Item(std::make_shared<ConditionRun>(session, node, std::move(operation), turns)));
  }

  void work(const GraphNode& node, trace::Operation operation) {
    Session& session = call.session;
    std::shared_ptr<RecordedLaunch> recorded;
    const OtherKernel* const other = other_of(played, operation.graph_node);
    if (played && played->launched && std::holds_alternative<trace::Launch>(node.what)) {
      PlayedGraph::Node& known = played->nodes[operation.graph_node];
      operation.id = session.next_operation();
      operation.launch = known.launch;
      recorded = known.recorded;
      if (known.by_effect) session.journal().push(trace::Effects{operation.id, std::move(known.effects)});
    } else if (std::holds_alternative<trace::Launch>(node.what)) {
      operation.launch = session.next_launch();
      recorded = expected(session, call.context, graph, node, other, operation.launch);
    }
    operation.what = node.what;
    if (other) operation.what = other->what;
    // When an opaque one waits, nothing tells.
    if (auto* launch = std::get_if<trace::Launch>(&operation.what))
      launch->programmatic = node.programmatic && recorded;
    if (auto* copy = std::get_if<trace::Copy>(&operation.what);
        copy && played && operation.graph_node < played->brought.size())
      copy->data = std::move(played->brought[operation.graph_node]);
    if (node.host) {
      operations.push_back(session.submit_function(std::move(operation)));
      node.host->launched(operations.back(), stream, launch, call.context);
    } else {
      operations.push_back(session.submit(std::move(operation), recorded));
    }
  }
};

// What the host writes into memory that nodes read (host_writes.h): before they are submitted.
void before_nodes(HostWrites& writes, const Executable& graph) {
  for (const GraphNode& node : graph.nodes) {
    const auto* copy = std::get_if<trace::Copy>(&node.what);
    if (!copy || !node.enabled) continue;
    writes.before(copy->source);
    writes.before(copy->destination);
  }
}

} // namespace

void expect_nodes(Session& session, CUcontext context, Executable& graph, PlayedGraph& played) {
  if (HostWrites* writes = session.host_writes()) before_nodes(*writes, graph);
  played.nodes.resize(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    if (!node.enabled || !std::holds_alternative<trace::Launch>(node.what)) continue;
    played.nodes[i].launch = session.next_launch();
    played.nodes[i].recorded = expected(session, context, graph, node, other_of(&played, i), played.nodes[i].launch);
  }
}

namespace {

void behind_nodes(HostWrites& writes, const Executable& graph, std::uint32_t stream, std::uint32_t launch) {
  using Direction = trace::Copy::Direction;
  const auto each_copy = [&](auto&& what) {
    for (const GraphNode& node : graph.nodes) {
      if (const auto* copy = std::get_if<trace::Copy>(&node.what); copy && node.enabled) what(*copy);
    }
  };
  for (const GraphNode& node : graph.nodes) {
    const auto* set = std::get_if<trace::Set>(&node.what);
    if (!node.enabled) continue;
    const bool finds_it = std::holds_alternative<trace::Launch>(node.what) && writes.kernels_may_find_it();
    if (node.reaches_host || finds_it) writes.talks(stream, launch);
    if (set && writes.reaches_host(set->destination.address)) writes.device_writes(set->destination, stream, launch);
  }
  each_copy([&](const trace::Copy& copy) {
    const bool writes_host = copy.direction == Direction::d2h || copy.direction == Direction::h2h;
    if (writes_host && !copy.pageable_destination) writes.device_writes(copy.destination, stream, launch);
  });
  each_copy([&](const trace::Copy& copy) {
    if (!copy.pageable_source) writes.brings(copy);
    if (copy.direction == Direction::h2d) writes.copied(copy, stream, launch);
  });
}

void failed(Session& session, Executable& graph) {
  if (HostWrites* writes = session.host_writes()) writes->launch_failed();
  for (const auto& [control, launch] : graph.launching) {
    if (const std::shared_ptr<RecordedLaunch> expected = launch.lock()) session.recorder().cancel(control, expected);
  }
  for (const GraphNode& node : graph.nodes) {
    if (node.host && node.enabled) node.host->not_launched();
  }
  session.incident("lost", "a graph could not be launched: it is in the trace as if it had been");
}

bool has_recorded_kernels(Session& session, CUgraphExec handle, const Others& others) {
  if (std::any_of(others.begin(), others.end(), [](const auto& other) { return other && other->control; })) return true;
  std::lock_guard hold(session.lock);
  const auto found = session.executables.find(handle);
  return found != session.executables.end() &&
         std::any_of(found->second.nodes.begin(), found->second.nodes.end(),
                     [](const GraphNode& node) { return node.enabled && (node.control || !node.bodies.empty()); });
}

// The launch and its nodes. `played`: may be null. Under the session's lock.
void submit(Call& call, Executable& graph, CUstream handle, PlayedGraph* played) {
  Session& session = call.session;
  const std::uint32_t stream = call.stream(handle);
  if (graph.done && graph.last_stream != stream) session.wait_event(stream, graph.done); // one launch at a time
  if (!graph.done) graph.done = session.event(reinterpret_cast<CUevent>(&graph));
  graph.last_stream = stream;
  if (graph.frees_on_launch) {
    for (const GraphNode& node : graph.nodes) {
      if (node.bytes) session.freed_in_stream(node.address, stream);
    }
  }
  HostWrites* const writes = session.host_writes();
  if (writes && !(played && played->launched)) before_nodes(*writes, graph);
  const std::uint32_t launch = session.next_graph_launch();
  session.journal().push(trace::GraphLaunch{launch, graph.id, stream, session.host_thread()});
  Launching launching{call, graph, stream, launch, handle, played, expected_turns(call, graph), {}};
  Window* window = session.window();
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    trace::Operation operation = launching.operation(i);
    if (node.enabled && window && window->open())
      in_window(*window, node, other_of(played, i), played && played->launched);
    if (!node.enabled)
      launching.operations.push_back(session.submit(std::move(operation))); // a marker
    else if (node.event)
      launching.event(node, std::move(operation));
    else if (node.address)
      launching.memory(node, std::move(operation));
    else if (!node.bodies.empty())
      launching.condition(node, std::move(operation));
    else
      launching.work(node, std::move(operation));
  }
  session.journal().push(trace::GraphEnd{launch});
  if (writes) behind_nodes(*writes, graph, stream, launch);
  session.record_event(graph.done, stream);
  if (window) window->graph_launched(stream, session.recorded(graph.done), call.own_handle(handle));
}

// What bodies of its conditions do now is not to be taken for what they did in its last launch.
void let_end(Call& call, CUgraphExec executable) {
  std::vector<std::uint32_t> controls;
  {
    std::lock_guard hold(call.session.lock);
    const auto found = call.session.executables.find(executable);
    if (found == call.session.executables.end() || !found->second.decides || found->second.stood_still) return;
    for (const GraphNode& node : found->second.nodes) {
      for (const std::vector<GraphNode>& body : node.bodies) {
        each_node(body, [&](const GraphNode& inner) {
          if (inner.control) controls.push_back(inner.control);
        });
      }
    }
  }
  if (controls.empty() || call.session.recorder().let_end(controls)) return;
  std::lock_guard hold(call.session.lock);
  const auto found = call.session.executables.find(executable);
  if (found != call.session.executables.end()) found->second.stood_still = true;
}

// The way out of a launch: what tells that it is over.
void ends(Call& call, CUgraphExec executable, CUstream stream) {
  std::shared_ptr<BodyTurns> turns;
  {
    std::lock_guard hold(call.session.lock);
    const auto found = call.session.executables.find(executable);
    if (found != call.session.executables.end()) turns = std::exchange(found->second.launching_turns, nullptr);
  }
  if (!turns) return;
  if (!call.done()) return call.session.recorder().not_launched(turns);
  const Driver& d = driver();
  CUevent event = nullptr;
  if (d.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) event = nullptr;
  if (event && d.cuEventRecord(event, call.own_handle(stream)) != CUDA_SUCCESS) {
    d.cuEventDestroy_v2(event);
    event = nullptr;
  }
  call.session.recorder().ends_with(turns, event);
}

// On the way in: what the driver is given in place of the executable; null: that itself.
std::unique_ptr<PlayedGraph> in_place_of(Call& call, CUgraphExec executable, CUstream stream) {
  Others others = others_of(call, executable);
  if (has_recorded_kernels(call.session, executable, others))
    call.session.recorder().before_launch(call.context, call.own_handle(stream));
  std::vector<trace::Bytes> brought = bytes_from_host(call, executable);
  std::unique_ptr<PlayedGraph> played = prepare_to_play(call, executable, stream, others);
  CUgraphExec whole = nullptr;
  if (!played && !others.empty()) whole = with_others(call, executable, others);
  if (!played && (whole || !brought.empty())) {
    played = std::make_unique<PlayedGraph>();
    played->own = executable;
    played->given = whole ? whole : executable;
    if (whole) played->others = std::move(others);
  }
  if (played) played->brought = std::move(brought);
  keep_apart(call, executable, played ? played->given : executable, stream);
  return played;
}

} // namespace

// On the way in, so that launches are known before their accesses come; on the way out where the nodes are launched
// then.
void launch_graph(Call& call, cuGraphLaunch_params& p) {
  if (const CUgraphExec other = tried_graph()) {
    if (!call.exit) p.hGraph = other;
    return;
  }
  Session& session = call.session;
  const bool captured = call.captured(p.hStream);
  const CUgraphExec given = p.hGraph; // on the way out
  std::unique_ptr<PlayedGraph> played;
  if (!call.exit) {
    call.carried<PlayedGraph>() = nullptr;
    if (!captured) {
      let_end(call, p.hGraph);
      played = in_place_of(call, p.hGraph, p.hStream);
    }
  } else {
    played.reset(std::exchange(call.carried<PlayedGraph>(), nullptr));
  }
  const CUgraphExec own = played ? played->own : p.hGraph;
  const bool in_pieces = played && played->parts;
  if (call.exit && in_pieces) play(call, *played);
  if (!call.exit && played) p.hGraph = played->given;
  if (call.exit && played) p.hGraph = own;
  {
    std::lock_guard hold(session.lock);
    const auto found = session.executables.find(own);
    if (found == session.executables.end()) {
      if (call.exit || captured) return;
      if (HostWrites* writes = session.host_writes()) writes->stop();
      return session.incident("lost", "a graph was launched whose instantiation was not seen");
    }
    Executable& graph = found->second;
    if (captured) { // its nodes become those of a child graph
      for (const GraphNode& node : graph.nodes) {
        if (!call.exit && node.host) node.host->keep();
        if (!call.exit && node.control) session.recorder().also_has(node.control);
      }
      return;
    }
    if (call.exit == in_pieces) submit(call, graph, p.hStream, played.get());
    if (call.exit) {
      if (!call.done()) failed(session, graph);
      graph.launching.clear();
    }
  }
  if (call.exit) ends(call, own, p.hStream);
  if (call.done()) launched_last(call, own, given, p.hStream);
  if (!call.exit) call.carried<PlayedGraph>() = played.release();
}

} // namespace deadheat::cupti
