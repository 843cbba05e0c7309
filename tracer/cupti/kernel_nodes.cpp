// Kernel nodes of graphs: what they launch, and the instrumented clone in its place.
#include <algorithm>
#include <cstring>
#include <utility>

#include "tracer/cupti/clones.h"
#include "tracer/cupti/graph_exchange.h"
#include "tracer/cupti/graph_pieces.h"
#include "tracer/cupti/graphs.h"
#include "tracer/cupti/handlers.h"
#include "tracer/cupti/host_writes.h"
#include "tracer/cupti/libraries.h"
#include "tracer/cupti/recorder.h"

namespace deadheat::cupti {

namespace {

CUfunction handle_of(const CUDA_KERNEL_NODE_PARAMS& p) {
  return p.kern ? reinterpret_cast<CUfunction>(p.kern) : p.func;
}

// Allocations that the arguments of a graph's node point into: which blocks of them, is known of captured ones only
// (Journal::CapturedKernel). Under the session's lock.
std::vector<std::uint64_t> footprint(Session& session, const Kernel& kernel, std::uint32_t blocks,
                                     const std::vector<std::uint8_t>& arguments) {
  std::vector<std::uint64_t> words, reached;
  words_of(kernel, blocks, arguments, words);
  for (const std::uint64_t marked : words) {
    const trace::Allocate* memory = session.allocation_at(marked >> 1);
    if (memory && std::find(reached.begin(), reached.end(), memory->allocation) == reached.end()) {
      reached.push_back(memory->allocation);
    }
  }
  return reached;
}

// The number of a clone's node; 0: it is none.
std::uint32_t control_of(const CUDA_KERNEL_NODE_PARAMS& params, const Kernel& kernel) {
  if (!kernel.is_clone || !params.kernelParams) return 0;
  device_log::Control parameter;
  std::memcpy(&parameter, params.kernelParams[kernel.instrumented->parameters], sizeof parameter);
  return parameter.control;
}

bool reaches_host(Session& session, const std::vector<std::uint8_t>& arguments) {
  HostWrites* writes = session.host_writes();
  if (!writes) return false;
  std::lock_guard hold(session.lock);
  for (std::size_t at = 0; at + 8 <= arguments.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, arguments.data() + at, 8);
    if (writes->leads_to_host(word)) return true;
  }
  return false;
}

} // namespace

bool describe_kernel(Call& call, CUgraphNode node, GraphNode& to) {
  CUDA_KERNEL_NODE_PARAMS p{};
  const auto ask = driver().cuGraphKernelNodeGetParams_v2; // of drivers from 12.0 on
  if (!ask || ask(node, &p) != CUDA_SUCCESS) return false;
  describe_kernel(call, node, p, to);
  return true;
}

void describe_kernel(Call& call, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS& p, GraphNode& to) {
  Session& session = call.session;
  Kernel& kernel = session.modules().kernel(handle_of(p), nullptr, p.ctx ? p.ctx : call.context);
  trace::Launch launch;
  launch.grid = {p.gridDimX, p.gridDimY, p.gridDimZ};
  launch.block = {p.blockDimX, p.blockDimY, p.blockDimZ};
  launch.dynamic_shared = p.sharedMemBytes;
  launch.cluster = own_cluster(kernel, handle_of(p));
  CUlaunchAttributeValue value{};
  if (driver().cuGraphKernelNodeGetAttribute &&
      driver().cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value) == CUDA_SUCCESS &&
      value.clusterDim.x && value.clusterDim.y && value.clusterDim.z) {
    launch.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
  }
  launch.module = kernel.code ? kernel.code->module : kernel.opaque_module;
  launch.kernel = kernel.name;
  launch.static_shared = kernel.static_shared;
  std::vector<std::uint8_t> arguments;
  arguments_of(kernel, p.kernelParams, p.extra, arguments);
  to.control = 0;
  to.reaches_host = reaches_host(session, arguments);
  std::vector<std::uint64_t> reached;
  {
    std::lock_guard hold(session.lock);
    reached = footprint(session, kernel, launch.grid.x, arguments);
  }
  if (kernel.is_clone && p.kernelParams) {
    to.control = control_of(p, kernel);
    to.reached = std::move(reached);
    launch.instrumented = true;
  } else {
    launch.footprint = std::move(reached);
    to.hash = NodeFootprints::hash(kernel.name, arguments);
  }
  launch.arguments = session.writer().bytes(arguments);
  to.what = std::move(launch);
  to.kernel = &kernel;
}

namespace {

// What the driver is given in place of a kernel node's parameters.
struct Given {
  device_log::Control control;
  std::vector<void*> parameters;
  CUDA_KERNEL_NODE_PARAMS node{};
  CUgraphNodeParams any{};
  const Kernel* kernel = nullptr;
  const void* own = nullptr; // the program's, where the call is given another; null: it is not
};
thread_local Given given;

// The clone in place of the kernel, as `given.node`. False: it cannot take it.
bool make_given(Call& call, const Kernel& kernel, const CUDA_KERNEL_NODE_PARAMS& n, bool cooperative) {
  Session& session = call.session;
  Journal::LaunchFacts launch;
  launch.cooperative = cooperative;
  launch.grid = {n.gridDimX, n.gridDimY, n.gridDimZ};
  launch.block = {n.blockDimX, n.blockDimY, n.blockDimZ};
  launch.cluster = own_cluster(kernel, handle_of(n));
  launch.dynamic_shared = n.sharedMemBytes;
  if (!n.kernelParams || !fits(session, kernel, launch) ||
      !session.recorder().control(n.ctx ? n.ctx : call.context, kernel, given.control, true)) {
    return false;
  }
  given.kernel = &kernel;
  given.parameters.assign(n.kernelParams, n.kernelParams + kernel.instrumented->parameters);
  given.parameters.push_back(&given.control);
  given.node = n;
  given.node.kernelParams = given.parameters.data();
  given.node.func = kernel.code->library ? nullptr : kernel.clone;
  given.node.kern = kernel.code->library ? reinterpret_cast<CUkernel>(kernel.clone) : nullptr;
  return true;
}

// A kernel node made by hand, or changed, gets the clone like any launch.
bool gets_clone(Call& call, const CUDA_KERNEL_NODE_PARAMS& n) {
  if (!n.kernelParams) return false;
  Session& session = call.session;
  const Kernel& kernel = session.modules().kernel(handle_of(n), nullptr, call.context);
  return kernel.instrumented && !kernel.is_clone && session.recorder().wants(kernel.name) &&
         make_given(call, kernel, n, false);
}

// `params`: const CUDA_KERNEL_NODE_PARAMS* or CUDA_KERNEL_NODE_PARAMS*.
template <typename Params>
void give_clone(Call& call, Params*& params) {
  given.own = nullptr;
  if (!params || !gets_clone(call, *params)) return;
  given.own = params;
  params = &given.node;
}

// The way out of such a call: where the driver does not take the clone, it is given what the program gave, by `again`.
template <typename Params, typename Again>
void give_own(Call& call, Params*& params, Again&& again) {
  Params* const own = static_cast<Params*>(const_cast<void*>(std::exchange(given.own, nullptr)));
  if (!own || call.result == CUDA_SUCCESS) return;
  const CUresult why = call.result;
  params = own;
  call.return_instead(again());
  if (!call.done()) return;
  given.kernel->forgone = true;
  not_taken(call, why);
}

CUDA_KERNEL_NODE_PARAMS kernel_of(const CUgraphNodeParams& any) {
  const CUDA_KERNEL_NODE_PARAMS_v3& k = any.kernel;
  return {k.func,      k.gridDimX,       k.gridDimY,     k.gridDimZ, k.blockDimX, k.blockDimY,
          k.blockDimZ, k.sharedMemBytes, k.kernelParams, k.extra,    k.kern,      k.ctx};
}

void give_clone(Call& call, CUgraphNodeParams*& params) {
  given.own = nullptr;
  if (!params || params->type != CU_GRAPH_NODE_TYPE_KERNEL || !gets_clone(call, kernel_of(*params))) return;
  given.own = params;
  given.any = *params;
  CUDA_KERNEL_NODE_PARAMS_v3& k = given.any.kernel;
  k.func = given.node.func;
  k.kern = given.node.kern;
  k.kernelParams = given.node.kernelParams;
  params = &given.any;
}

// What the opaque kernel that a node is made with reaches now: its blocks may be given back before it runs. `node`: of
// a graph, or what stands for one.
void reaches(Call& call, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS& params) {
  Session& session = call.session;
  if (!node || (!params.kernelParams && !params.extra)) return;
  const Kernel& kernel = session.modules().kernel(handle_of(params), nullptr, params.ctx ? params.ctx : call.context);
  if (kernel.is_clone) return;
  std::vector<std::uint8_t> arguments;
  arguments_of(kernel, params.kernelParams, params.extra, arguments);
  session.journal().push(Journal::CapturedKernel{node, &kernel, params.gridDimX, std::move(arguments)});
}

std::shared_ptr<NodeAlone> alone_of(Call& call, CUgraphExec executable, CUgraphNode handle) {
  std::lock_guard hold(call.session.lock);
  const GraphNode* node = call.session.node_of(executable, handle);
  return node ? node->alone : nullptr;
}

void changed(Call& call, CUgraphExec executable, CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS& params) {
  if (!call.done()) return;
  GraphNode made;
  describe_kernel(call, handle, params, made);
  const std::shared_ptr<NodeAlone> old = alone_of(call, executable, handle); // goes without the lock
  if (old) made.alone = NodeAlone::kernel(params, old->node());
  std::lock_guard hold(call.session.lock);
  if (GraphNode* node = call.session.node_of(executable, handle)) {
    node->alone = std::move(made.alone);
    node->other.swap(made.other);
    node->has_no_other = false;
    node->what = std::move(made.what);
    if (node->control && node->control != made.control) call.session.recorder().no_longer_has(node->control);
    node->control = made.control;
    node->kernel = made.kernel;
    node->hash = made.hash;
    node->reached = std::move(made.reached);
    node->reaches_host = made.reaches_host;
    Executable& graph = call.session.executables[executable];
    const auto now = reinterpret_cast<CUgraphNode>(node);
    reaches(call, now, params);
    made_of(call.session, graph, *node, now);
    call.session.journal().push(Journal::CapturedGone{now});
  } else {
    changed_unseen(call.session, executable);
  }
}

// Of a node that is not known nobody reads what a clone would write.
bool is_followed(Call& call, CUgraphExec executable, CUgraphNode handle) {
  std::lock_guard hold(call.session.lock);
  return call.session.node_of(executable, handle) != nullptr;
}

template <typename Params>
void give_clone(Call& call, CUgraphExec executable, CUgraphNode handle, Params*& params) {
  given.own = nullptr;
  if (is_followed(call, executable, handle)) give_clone(call, params);
}

// Calls each(node, its parameters, the kernel) for the kernels of a graph, its child graphs and its conditions' bodies.
template <typename Each>
void each_kernel_node(Call& call, CUgraph graph, int depth, Each&& each) {
  const Driver& d = driver();
  std::size_t count = 0;
  if (depth > deepest_graph || !d.cuGraphKernelNodeGetParams_v2 ||
      d.cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS || !count)
    return;
  std::vector<CUgraphNode> nodes(count);
  if (d.cuGraphGetNodes(graph, nodes.data(), &count) != CUDA_SUCCESS) return;
  for (const CUgraphNode node : nodes) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    CUDA_KERNEL_NODE_PARAMS params{};
    CUgraph child = nullptr;
    d.cuGraphNodeGetType(node, &type);
    if (type == CU_GRAPH_NODE_TYPE_GRAPH && d.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS)
      each_kernel_node(call, child, depth + 1, each);
    if (type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
      for (const CUgraph body : call.session.bodies_of(node)) each_kernel_node(call, body, depth + 1, each);
    }
    if (type != CU_GRAPH_NODE_TYPE_KERNEL || d.cuGraphKernelNodeGetParams_v2(node, &params) != CUDA_SUCCESS) continue;
    each(node, params,
         call.session.modules().kernel(handle_of(params), nullptr, params.ctx ? params.ctx : call.context));
  }
}

// The graph was made as another one is: its nodes are new, and reach what that one's do.
void copied(Call& call, CUgraph graph) {
  std::vector<std::uint8_t> arguments;
  each_kernel_node(call, graph, 0, [&](CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS& params, const Kernel& kernel) {
    if (const std::uint32_t control = control_of(params, kernel)) call.session.recorder().also_has(control);
    if (kernel.is_clone) return;
    arguments_of(kernel, params.kernelParams, params.extra, arguments);
    call.session.journal().push(Journal::CopiedNode{node, NodeFootprints::hash(kernel.name, arguments)});
  });
}

void part_added(Call& call, CUgraphNode node) {
  CUgraph child = nullptr;
  if (driver().cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS) copied(call, child);
}

// The program is told of its own kernel, which it may know by its handle, and give to another node. The parameters
// that it is told of are its own and one more.
void put_original(Modules& modules, const Kernel& clone, CUfunction* function, CUkernel* kernel) {
  const Driver& d = driver();
  const char* const name = clone.instrumented->name.c_str();
  CUkernel original = nullptr;
  if (!clone.code->library) {
    d.cuModuleGetFunction(function, clone.code->handle, name);
    modules.found(*function, clone.code->handle, false);
  } else if (d.cuLibraryGetKernel(&original, clone.code->library, name) == CUDA_SUCCESS) {
    modules.found(original, clone.code->library, true);
    if (kernel && *kernel) *kernel = original;
    if (*function && d.cuKernelGetFunction(function, original) == CUDA_SUCCESS) modules.same(*function, original);
  }
}

void tell_original(Call& call, CUfunction* function, CUkernel* kernel) {
  const CUfunction handle = kernel && *kernel ? reinterpret_cast<CUfunction>(*kernel) : *function;
  if (!call.done() || !handle) return;
  Modules& modules = call.session.modules();
  const Kernel& told = modules.kernel(handle, nullptr, call.context);
  if (told.is_clone) put_original(modules, told, function, kernel);
}

} // namespace

std::shared_ptr<OtherKernel> other_kernel(Call& call, const NodeAlone& alone) {
  const Driver& d = driver();
  Session& session = call.session;
  CUDA_KERNEL_NODE_PARAMS params{};
  CUlaunchAttributeValue cooperative{};
  if (!d.cuGraphKernelNodeGetParams_v2 || d.cuGraphKernelNodeGetParams_v2(alone.node(), &params) != CUDA_SUCCESS)
    return nullptr;
  if (d.cuGraphKernelNodeGetAttribute)
    d.cuGraphKernelNodeGetAttribute(alone.node(), CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &cooperative);
  const Kernel& own = session.modules().kernel(handle_of(params), nullptr, params.ctx ? params.ctx : call.context);
  auto other = std::make_shared<OtherKernel>(session.recorder());
  if (own.is_clone) {
    put_original(session.modules(), own, &params.func, &params.kern);
  } else {
    if (!make_given(call, own, params, cooperative.cooperative != 0)) return nullptr;
    other->control = given.control.control;
    params = given.node;
  }
  other->alone = NodeAlone::kernel(params, alone.node());
  if (!other->alone) return nullptr;
  GraphNode node;
  describe_kernel(call, other->alone->node(), params, node);
  other->kernel = node.kernel;
  other->what = std::get<trace::Launch>(std::move(node.what));
  return other;
}

void release_controls(Call& call, CUgraph graph) {
  each_kernel_node(call, graph, 0, [&](CUgraphNode, const CUDA_KERNEL_NODE_PARAMS& params, const Kernel& kernel) {
    if (const std::uint32_t control = control_of(params, kernel)) call.session.recorder().no_longer_has(control);
  });
}

void keep_controls(Call& call, CUgraph graph) {
  each_kernel_node(call, graph, 0, [&](CUgraphNode, const CUDA_KERNEL_NODE_PARAMS& params, const Kernel& kernel) {
    if (const std::uint32_t control = control_of(params, kernel)) call.session.recorder().keeps(control);
  });
}

bool put_originals(Call& call, CUgraph graph) {
  const Driver& d = driver();
  if (!d.cuGraphKernelNodeSetParams_v2) return false;
  bool any = false;
  each_kernel_node(call, graph, 0, [&](CUgraphNode node, CUDA_KERNEL_NODE_PARAMS& params, const Kernel& kernel) {
    if (!kernel.is_clone || !params.kernelParams) return;
    put_original(call.session.modules(), kernel, &params.func, &params.kern);
    any |= d.cuGraphKernelNodeSetParams_v2(node, &params) == CUDA_SUCCESS;
  });
  return any;
}

void not_taken(Call& call, CUresult why) {
  const std::string line = "a graph's kernels are not recorded: the driver did not take them instrumented (error " +
                           std::to_string(int(why)) + ")";
  say_once(line);
  call.session.incident("opaque", line);
}

namespace {

bool is_kernel(const CUgraphNodeParams* params) { return params && params->type == CU_GRAPH_NODE_TYPE_KERNEL; }

template <typename Again>
void added(Call& call, CUgraphNodeParams*& params, const CUgraphNode* node, Again&& again) {
  if (!call.exit) return give_clone(call, params);
  give_own(call, params, again);
  if (!call.done() || !params) return;
  if (node && is_kernel(params)) return reaches(call, *node, kernel_of(*params));
  if (node && params->type == CU_GRAPH_NODE_TYPE_GRAPH) return part_added(call, *node);
  if (params->type != CU_GRAPH_NODE_TYPE_CONDITIONAL) return;
  const CUDA_CONDITIONAL_NODE_PARAMS& condition = params->conditional;
  if (!node || !condition.phGraph_out) return;
  call.session.no_condition(*node); // a handle may come again
  for (unsigned i = 0; i < condition.size; ++i) call.session.has_body(*node, condition.phGraph_out[i]);
}

} // namespace

void add_kernel_node(Call& call, cuGraphAddKernelNode_v2_params& p) {
  if (!call.exit) return give_clone(call, p.nodeParams);
  give_own(call, p.nodeParams, [&] {
    return driver().cuGraphAddKernelNode_v2(p.phGraphNode, p.hGraph, p.dependencies, p.numDependencies, p.nodeParams);
  });
  if (call.done() && p.phGraphNode && p.nodeParams) reaches(call, *p.phGraphNode, *p.nodeParams);
}
void add_any_node(Call& call, cuGraphAddNode_params& p) {
  added(call, p.nodeParams, p.phGraphNode, [&] {
    return driver().cuGraphAddNode_v2(p.phGraphNode, p.hGraph, p.dependencies, nullptr, p.numDependencies,
                                      p.nodeParams);
  });
}
void add_any_node_with_edges(Call& call, cuGraphAddNode_v2_params& p) {
  added(call, p.nodeParams, p.phGraphNode, [&] {
    return driver().cuGraphAddNode_v2(p.phGraphNode, p.hGraph, p.dependencies, p.dependencyData, p.numDependencies,
                                      p.nodeParams);
  });
}
void add_child_node(Call& call, cuGraphAddChildGraphNode_params& p) {
  if (call.done() && p.phGraphNode) part_added(call, *p.phGraphNode);
}
void clone_graph(Call& call, cuGraphClone_params& p) {
  if (call.done() && p.phGraphClone) copied(call, *p.phGraphClone);
}
void change_kernel_node(Call& call, cuGraphKernelNodeSetParams_v2_params& p) {
  if (!call.exit) return give_clone(call, p.nodeParams);
  give_own(call, p.nodeParams, [&] { return driver().cuGraphKernelNodeSetParams_v2(p.hNode, p.nodeParams); });
  if (call.done() && p.nodeParams) reaches(call, p.hNode, *p.nodeParams);
}
void change_any_node(Call& call, cuGraphNodeSetParams_params& p) {
  if (!call.exit) return give_clone(call, p.nodeParams);
  give_own(call, p.nodeParams, [&] { return driver().cuGraphNodeSetParams(p.hNode, p.nodeParams); });
  if (call.done() && is_kernel(p.nodeParams)) reaches(call, p.hNode, kernel_of(*p.nodeParams));
}
void tell_kernel_node(Call& call, cuGraphKernelNodeGetParams_v2_params& p) {
  if (p.nodeParams) tell_original(call, &p.nodeParams->func, &p.nodeParams->kern);
}
void tell_kernel_node_first(Call& call, cuGraphKernelNodeGetParams_params& p) {
  if (p.nodeParams) tell_original(call, &p.nodeParams->func, nullptr);
}

void update_kernel_node(Call& call, cuGraphExecKernelNodeSetParams_v2_params& p) {
  if (!call.exit) return give_clone(call, p.hGraphExec, p.hNode, p.nodeParams);
  give_own(call, p.nodeParams,
           [&] { return driver().cuGraphExecKernelNodeSetParams_v2(p.hGraphExec, p.hNode, p.nodeParams); });
  if (p.nodeParams) changed(call, p.hGraphExec, p.hNode, *p.nodeParams);
}
void update_kernel_node_first(Call& call, cuGraphExecKernelNodeSetParams_params& p) {
  if (!p.nodeParams) return;
  const CUDA_KERNEL_NODE_PARAMS_v1& k = *p.nodeParams;
  changed(call, p.hGraphExec, p.hNode,
          {k.func, k.gridDimX, k.gridDimY, k.gridDimZ, k.blockDimX, k.blockDimY, k.blockDimZ, k.sharedMemBytes,
           k.kernelParams, k.extra, nullptr, nullptr});
}
void update_any_kernel_node(Call& call, cuGraphExecNodeSetParams_params& p) {
  if (!call.exit) return give_clone(call, p.hGraphExec, p.hNode, p.nodeParams);
  give_own(call, p.nodeParams, [&] { return driver().cuGraphExecNodeSetParams(p.hGraphExec, p.hNode, p.nodeParams); });
  changed(call, p.hGraphExec, p.hNode, kernel_of(*p.nodeParams));
}

device_log::Shape graph_shape(Session& session, CUcontext context, const Kernel& kernel, const trace::Launch& launch,
                              std::uint32_t number) {
  return shape_of(session, context, kernel, launch, number);
}

} // namespace deadheat::cupti
