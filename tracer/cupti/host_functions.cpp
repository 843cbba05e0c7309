#include "tracer/cupti/host_functions.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "tracer/cupti/handlers.h"
#include "tracer/cupti/libraries.h"

namespace deadheat::cupti {

// ---- nodes of graphs

void HostNode::launched(std::uint32_t operation, std::uint32_t stream, std::uint32_t graph, CUcontext context) {
  auto run = std::make_unique<FunctionRun>(session_, reinterpret_cast<const void*>(program_.fn), context);
  run->submitted(operation, stream, graph);
  std::lock_guard hold(lock_);
  runs_.push_back(std::move(run));
}

void HostNode::not_launched() {
  std::lock_guard hold(lock_);
  if (runs_.empty()) return;
  runs_.back()->will_not_run();
  runs_.pop_back();
}

void HostNode::keep() {
  std::lock_guard hold(lock_);
  kept_ = true;
}

void HostNode::retire() {
  {
    std::lock_guard hold(lock_);
    retired_ = true;
    if (kept_ || !runs_.empty()) return;
  }
  delete this;
}

std::unique_ptr<FunctionRun> HostNode::take() {
  std::unique_ptr<FunctionRun> run;
  bool last = false;
  {
    std::lock_guard hold(lock_);
    if (runs_.empty()) return nullptr; // of a launch that was not seen
    run = std::move(runs_.front());
    runs_.pop_front();
    last = retired_ && !kept_ && runs_.empty();
  }
  if (last) delete this;
  return run;
}

void CUDA_CB HostNode::run(void* of) {
  auto* node = static_cast<HostNode*>(of);
  const CUDA_HOST_NODE_PARAMS program = node->program_;
  const std::unique_ptr<FunctionRun> run = node->take();
  if (run)
    run->run([&] { program.fn(program.userData); });
  else
    program.fn(program.userData);
}

CUDA_HOST_NODE_PARAMS HostNode::program(const CUDA_HOST_NODE_PARAMS& given) {
  return given.fn == run ? static_cast<HostNode*>(given.userData)->program_ : given;
}

HostNodes::HostNodes(Session& session, CUgraph graph) { enter(session, graph, 0); }

void HostNodes::enter(Session& session, CUgraph graph, int depth) {
  const Driver& d = driver();
  std::size_t count = 0;
  if (depth > deepest_graph || !d.cuGraphHostNodeGetParams || !d.cuGraphHostNodeSetParams ||
      d.cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS) {
    return;
  }
  std::vector<CUgraphNode> handles(count);
  d.cuGraphGetNodes(graph, handles.data(), &count);
  for (CUgraphNode handle : handles) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    d.cuGraphNodeGetType(handle, &type);
    CUgraph child = nullptr;
    if (type == CU_GRAPH_NODE_TYPE_GRAPH && d.cuGraphChildGraphNodeGetGraph(handle, &child) == CUDA_SUCCESS) {
      enter(session, child, depth + 1);
    } else if (type == CU_GRAPH_NODE_TYPE_HOST) {
      Node node{handle, {}, nullptr};
      if (d.cuGraphHostNodeGetParams(handle, &node.before) != CUDA_SUCCESS || !node.before.fn) continue;
      node.host = new HostNode(session, HostNode::program(node.before));
      nodes_.push_back(node);
      const CUDA_HOST_NODE_PARAMS given = node.host->given();
      if (d.cuGraphHostNodeSetParams(handle, &given) == CUDA_SUCCESS) continue;
      node.host->retire();
      nodes_.pop_back();
    }
  }
}

HostNodes::~HostNodes() {
  for (const Node& node : nodes_) {
    driver().cuGraphHostNodeSetParams(node.handle, &node.before);
    if (node.host) node.host->retire();
  }
}

void HostNodes::keep() {
  for (const Node& node : nodes_) {
    if (node.host) node.host->keep();
  }
}

HostNode* HostNodes::take(CUgraphNode node) {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(), [&](const Node& n) { return n.handle == node; });
  return found == nodes_.end() ? nullptr : std::exchange(found->host, nullptr);
}

// ---- streams

namespace {

// A host function, or a stream's callback: of the thread that submits it and the one that runs it, whoever is done last
// destroys it.
struct HostFunction {
  FunctionRun run;
  void* data = nullptr; // the program's own
  CUhostFn function = nullptr;
  CUstreamCallback callback = nullptr;
  std::atomic<int> users{2};

  void done() {
    if (--users == 0) delete this;
  }
};

void CUDA_CB run_function(void* of) {
  auto* host = static_cast<HostFunction*>(of);
  host->run.run([&] { host->function(host->data); });
  host->done();
}

void CUDA_CB run_callback(CUstream stream, CUresult status, void* of) {
  auto* host = static_cast<HostFunction*>(of);
  host->run.run([&] { host->callback(stream, status, host->data); });
  host->done();
}

// The way in: `own` calls the program's function, with `data`. A captured one becomes a graph's node.
template <typename Function>
void wrap(Call& call, CUstream handle, Function HostFunction::* which, Function& function, Function own, void*& data) {
  call.carried<HostFunction>() = nullptr;
  if (!function || call.captured(handle)) return;
  auto* host = new HostFunction{{call.session, reinterpret_cast<const void*>(function), call.context}, data};
  host->*which = std::exchange(function, own);
  data = host;
  call.carried<HostFunction>() = host;
}

// The way out.
void callback(Call& call, CUstream handle) {
  HostFunction* const host = std::exchange(call.carried<HostFunction>(), nullptr);
  if (!call.done()) {
    // It will not run. Of an error that may be an earlier launch's (CUDA driver API, cuLaunchHostFunc) nobody can tell.
    if (!host || call.result >= CUDA_ERROR_ILLEGAL_ADDRESS) return;
    host->run.will_not_run();
    delete host;
    return;
  }
  if (!host && call.captured(handle)) return;
  trace::Operation operation;
  operation.what = trace::HostCallback{call.api()};
  std::lock_guard hold(call.session.lock);
  operation.stream = call.stream(handle);
  const std::uint32_t stream = operation.stream;
  if (!host) {
    call.session.submit(std::move(operation));
    return;
  }
  host->run.submitted(call.session.submit_function(std::move(operation)), stream, 0);
  host->done();
}

} // namespace

void host_function(Call& call, cuLaunchHostFunc_params& p) {
  if (!call.exit)
    wrap(call, p.hStream, &HostFunction::function, p.fn, CUhostFn(run_function), p.userData);
  else
    callback(call, p.hStream);
}
void stream_callback(Call& call, cuStreamAddCallback_params& p) {
  if (!call.exit)
    wrap(call, p.hStream, &HostFunction::callback, p.callback, CUstreamCallback(run_callback), p.userData);
  else
    callback(call, p.hStream);
}

} // namespace deadheat::cupti
