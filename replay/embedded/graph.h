// Graphs: nodes and edges, made by capture or by hand, and their executable form.
//
// Capture (Programming Guide, "Creating a Graph Using Stream Capture"): a stream that is being captured adds nodes in
// place of submitting work, each behind Stream::tail. Other streams join by waiting for an event that was recorded in a
// capturing stream, and must be joined back before the capture ends. Calls that cannot be captured invalidate it.
//
// An executable graph is its nodes in topological order, child graphs unfolded, ready to be submitted one after another
// with the operations that each waits for. Bodies of conditional nodes are such lists of their own: what runs of them
// is submitted when what decides it has run (graph_launch.cpp).
//
// Thread-safety: none; Runtime::lock.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "replay/embedded/launch.h"
#include "replay/embedded/work.h"

namespace deadheat::embedded {

// A handle of a graph's: the address of 4 bytes of device memory that kernels set.
struct Condition {
  cudaGraphConditionalHandle handle = 0;
  unsigned value = 0; // that it has when the graph's launch begins, if it is …
  bool assigned = false;
};

struct Bodies { // of a conditional node
  cudaGraphConditionalHandle handle = 0;
  cudaGraphConditionalNodeType type = cudaGraphCondTypeIf;
  std::vector<std::unique_ptr<Graph>> graphs;
  std::vector<cudaGraph_t> handles; // of these, for the program
};

class GraphNode {
 public:
  Graph* graph = nullptr;
  std::uint32_t index = 0; // of creation in its graph
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  Work work = {trace::Marker{}};
  std::unique_ptr<Graph> child; // of a child graph node
  Bodies bodies; // of a conditional node; empty: it is another
  std::vector<GraphNode*> after; // dependencies, without repetition
  const GraphNode* primary = nullptr; // of those a kernel that this one need not wait for to begin; null: none
  std::vector<void*> arguments = {}; // of a kernel: into its parameter block, for cudaGraphKernelNodeGetParams
};

// References of a graph to objects of the program (user_objects_api.cpp); copies hold as many.
class HeldObjects {
 public:
  HeldObjects() = default;
  HeldObjects(const HeldObjects& other);
  HeldObjects& operator=(const HeldObjects&) = delete;
  ~HeldObjects();
  std::map<cudaUserObject_t, unsigned> counts;
};

class Graph {
 public:
  std::uint32_t id = 0;
  HeldObjects objects;
  std::vector<std::unique_ptr<GraphNode>> nodes;
  std::vector<Condition> conditions;
  const GraphNode* owner = nullptr; // whose body or child graph it is
  bool has_conditions() const; // conditional nodes, at any depth

  GraphNode* add(cudaGraphNodeType type, Work work, std::vector<GraphNode*> after);
  // The edge to `node`, which depends on `before` already, as the program describes it; null: a full one.
  static void set_edge(const GraphNode& before, GraphNode& node, const cudaGraphEdgeData* edge);
  static cudaGraphEdgeData edge(const GraphNode& before, const GraphNode& node);
  bool holds(const GraphNode* node) const { return node && node->graph == this; }
  Graph() = default;
  explicit Graph(const HeldObjects& held) : objects(held) {}
  std::unique_ptr<Graph> clone() const;
  // Nodes with each behind its dependencies, earlier created ones first; empty when there is a cycle.
  std::vector<GraphNode*> in_order() const;
  std::vector<std::pair<GraphNode*, GraphNode*>> edges() const; // from, to
};

class GraphExec {
 public:
  struct Step {
    const GraphNode* node = nullptr; // of the graph it was made from: a name, never followed
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    Work work;
    std::vector<std::uint32_t> after; // steps
    bool enabled = true;
    bool programmatic = false; // a kernel that need not wait for the one that it depends on to begin
    std::uint32_t number = 0; // of the node, among all of the graph's
    cudaGraphConditionalHandle handle = 0; // of a conditional node; 0: it is another
    cudaGraphConditionalNodeType condition = cudaGraphCondTypeIf;
    std::vector<std::vector<Step>> bodies;
    std::uint32_t* decision = nullptr; // what it read: Runtime::decisions
  };
  explicit GraphExec(const Graph& graph) : objects(graph.objects) {}
  std::uint32_t id = 0, source = 0; // source: the graph that it was made from
  unsigned long long flags = 0;
  std::vector<Step> steps;
  std::vector<Condition> conditions; // of the graph and its bodies
  HeldObjects objects;
  std::uint32_t done = 0; // event recorded behind each launch: launches of one graph do not overlap
  std::uint32_t last_stream = 0;

  Step* step(const GraphNode* node);
};
// Steps of a graph; false when it, or a body, has a cycle.
bool unfold(const Graph& graph, std::vector<GraphExec::Step>* steps);
// ---- Conditional nodes (graph_conditions_api.cpp)
// May the graph be instantiated, as far as its conditional nodes go? Says why it may not. `conditions`: all that it
// has.
cudaError_t check_conditions(const Graph& graph, std::vector<Condition>* conditions, cudaGraphInstantiateResult* why);
cudaError_t add_condition(Call& call, cudaGraphNode_t* result, cudaGraph_t graph, const cudaGraphNode_t* after,
                          size_t count, cudaConditionalNodeParams* parameters);

struct Capture {
  std::uint64_t number = 0;
  std::unique_ptr<Graph> own; // unless it adds to a graph of the program's
  Graph* graph = nullptr;
  Stream* origin = nullptr;
  std::vector<Stream*> streams;
  std::vector<GraphNode*> left; // the tails of streams that were destroyed since
  std::uint32_t thread = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  bool invalidated = false;
};

// ---- Graphs by handle: null for a bad one.
Graph* graph_of(Call& call, cudaGraph_t handle);
GraphNode* node_of(Call& call, cudaGraphNode_t handle);
GraphExec* executable_of(Call& call, cudaGraphExec_t handle);
cudaError_t instantiate(Call& call, cudaGraphExec_t* result, Graph* graph, unsigned long long flags,
                        cudaGraphInstantiateResult* why = nullptr);
cudaError_t launch_graph(Call& call, cudaGraphExec_t executable, Stream& stream);
// Memory nodes: may they run now, in this order? Notes what is allocated behind them.
cudaError_t plan_graph_memory(Call& call, GraphExec& executable);

// ---- Capture. `captured`: the call is done, with the status that is returned.
cudaError_t begin_capture(Call& call, Stream& stream, cudaStreamCaptureMode mode, Graph* into);
void end_capture(Call& call, Capture& capture); // forgets it; its streams go on
void leave_capture(Call& call, Stream& stream); // is destroyed: the capture goes on without it, but for its origin
cudaError_t capture(Call& call, Stream& stream, const Work& work, bool* captured);
cudaError_t capture_record(Call& call, cudaEvent_t event, Stream& stream, bool external, bool* captured);
cudaError_t capture_wait(Call& call, cudaEvent_t event, Stream& stream, bool external, bool* captured);
// A call that is potentially unsafe while this thread, or another in global mode, captures.
cudaError_t forbid_while_capturing(Call& call);
// A call that cannot work on a stream that is captured, or on an event recorded in one.
cudaError_t forbid_on(Call& call, Stream& stream);
cudaError_t forbid_on(Call& call, Event& event);
// Invalidates the stream's capture. `what`: a call that CUDA could capture and we cannot; null: CUDA cannot either.
cudaError_t refuse_capture(Call& call, Stream& stream, const char* what);

} // namespace deadheat::embedded
