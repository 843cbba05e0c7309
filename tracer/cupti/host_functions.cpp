#include "tracer/cupti/host_functions.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "tracer/cupti/handlers.h"
#include "tracer/cupti/host_writes.h"
#include "tracer/cupti/injection.h"
#include "tracer/cupti/libraries.h"

namespace deadheat::cupti {

namespace {

// The driver calls: nothing is to be thrown through it.
void tell(Session& session, std::uint32_t operation) noexcept {
  try {
    const Own own;
    session.journal().push(trace::HostWait{trace::HostWait::Kind::operation, operation, 0, false, 0});
  } catch (...) {
    session.call_not_recorded();
  }
}

// Around the program's function, on the driver's thread.
void begins_now(Session& session) noexcept {
  try {
    const Own own;
    if (HostWrites* writes = session.host_writes()) writes->function_begins();
  } catch (...) {
    session.call_not_recorded();
  }
}
void comes(Session& session) {
  if (HostWrites* writes = session.host_writes()) writes->function_comes();
}
void is_over(Session& session) {
  if (HostWrites* writes = session.host_writes()) writes->function_over();
}

} // namespace

// ---- nodes of graphs

void HostNode::launched(std::uint32_t operation) {
  comes(session_);
  std::lock_guard hold(lock_);
  operations_.push_back(operation);
}

void HostNode::not_launched() {
  std::lock_guard hold(lock_);
  if (operations_.empty()) return;
  operations_.pop_back();
  is_over(session_);
}

void HostNode::keep() {
  std::lock_guard hold(lock_);
  kept_ = true;
}

void HostNode::retire() {
  {
    std::lock_guard hold(lock_);
    retired_ = true;
    if (kept_ || !operations_.empty()) return;
  }
  delete this;
}

bool HostNode::begins() {
  bool last = false;
  {
    std::lock_guard hold(lock_);
    if (operations_.empty()) return false; // of a launch that was not seen
    tell(session_, operations_.front());
    operations_.erase(operations_.begin());
    last = retired_ && !kept_ && operations_.empty();
  }
  if (last) delete this;
  return true;
}

void CUDA_CB HostNode::run(void* of) {
  auto* node = static_cast<HostNode*>(of);
  const CUDA_HOST_NODE_PARAMS program = node->program_;
  Session& session = node->session_;
  begins_now(session);
  const bool seen = node->begins();
  program.fn(program.userData);
  if (seen) is_over(session);
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

// A host function, or a stream's callback, from the way in until it runs.
struct HostFunction {
  Session& session;
  void* data = nullptr; // the program's own
  CUhostFn function = nullptr;
  CUstreamCallback callback = nullptr;
  std::uint32_t operation = 0, stream = 0;
  std::uint64_t entries = 0; // HostWrites::entries, when it was submitted
  std::atomic<bool> met{false}; // it has begun, or its operation is known: whoever comes second says so, and frees it

  void meet(bool runs) {
    HostWrites* const writes = session.host_writes();
    if (writes && runs) writes->untold(1);
    if (!met.exchange(true)) return;
    tell(session, operation);
    if (writes) writes->told(stream, entries);
    if (writes) writes->untold(-1);
    delete this;
  }
};

void CUDA_CB run_function(void* of) {
  auto* host = static_cast<HostFunction*>(of);
  const CUhostFn function = host->function;
  void* const data = host->data;
  Session& session = host->session;
  begins_now(session);
  host->meet(true);
  function(data);
  is_over(session);
}

void CUDA_CB run_callback(CUstream stream, CUresult status, void* of) {
  auto* host = static_cast<HostFunction*>(of);
  const CUstreamCallback callback = host->callback;
  void* const data = host->data;
  Session& session = host->session;
  begins_now(session);
  host->meet(true);
  callback(stream, status, data);
  is_over(session);
}

// The way in: `own` calls the program's function, with `data`. A captured one becomes a graph's node.
template <typename Function>
void wrap(Call& call, CUstream handle, Function HostFunction::* which, Function& function, Function own, void*& data) {
  call.carried<HostFunction>() = nullptr;
  if (!function || call.captured(handle)) return;
  auto* host = new HostFunction{call.session, data};
  host->*which = std::exchange(function, own);
  data = host;
  call.carried<HostFunction>() = host;
  comes(call.session);
}

// The way out.
void callback(Call& call, CUstream handle) {
  HostFunction* const host = std::exchange(call.carried<HostFunction>(), nullptr);
  if (!call.done()) {
    // It will not run. Of an error that may be an earlier launch's (CUDA driver API, cuLaunchHostFunc) nobody can tell.
    if (!host || call.result >= CUDA_ERROR_ILLEGAL_ADDRESS) return;
    is_over(call.session);
    delete host;
    return;
  }
  if (!host && call.captured(handle)) return;
  trace::Operation operation;
  operation.what = trace::HostCallback{call.api()};
  std::lock_guard hold(call.session.lock);
  operation.stream = call.stream(handle);
  const std::uint32_t stream = operation.stream, id = call.session.submit(std::move(operation));
  if (!host) return;
  host->operation = id;
  host->stream = stream;
  if (HostWrites* writes = call.session.host_writes()) host->entries = writes->entries();
  host->meet(false);
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
