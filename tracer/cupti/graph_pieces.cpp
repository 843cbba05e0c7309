#include "tracer/cupti/graph_pieces.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "tracer/cupti/clones.h"
#include "tracer/cupti/graphs.h"
#include "tracer/cupti/injection.h"
#include "tracer/cupti/libraries.h"
#include "tracer/cupti/modules.h"
#include "tracer/cupti/recorder.h"
#include "tracer/cupti/window.h"

namespace deadheat::cupti {

namespace {

bool good(CUresult result) { return result == CUDA_SUCCESS; }

bool is_opaque(const GraphNode& node, const OtherKernel* other) {
  return node.enabled && std::holds_alternative<trace::Launch>(node.what) && !(other ? other->control : node.control);
}

CUgraphNode add_kernel(CUgraph graph, const std::vector<CUgraphNode>& after, const CUDA_KERNEL_NODE_PARAMS& params,
                       CUgraphNode like) {
  const Driver& d = driver();
  CUgraphNode node = nullptr;
  if (!d.cuGraphAddKernelNode_v2 || (like && !d.cuGraphKernelNodeCopyAttributes) ||
      !good(d.cuGraphAddKernelNode_v2(&node, graph, after.data(), after.size(), &params)) ||
      (like && !good(d.cuGraphKernelNodeCopyAttributes(node, like))))
    return nullptr;
  return node;
}

CUgraphNode add_copy(CUgraph graph, const std::vector<CUgraphNode>& after, const CUDA_MEMCPY3D& params,
                     CUcontext context) {
  CUgraphNode node = nullptr;
  const auto add = driver().cuGraphAddMemcpyNode;
  return add && good(add(&node, graph, after.data(), after.size(), &params, context)) ? node : nullptr;
}

CUgraphNode add_set(CUgraph graph, const std::vector<CUgraphNode>& after, const CUDA_MEMSET_NODE_PARAMS& params,
                    CUcontext context) {
  CUgraphNode node = nullptr;
  const auto add = driver().cuGraphAddMemsetNode;
  return add && good(add(&node, graph, after.data(), after.size(), &params, context)) ? node : nullptr;
}

} // namespace

bool can_be_taken_apart() {
  const Driver& d = driver();
  return d.cuGraphCreate && d.cuGraphDestroy && d.cuGraphInstantiateWithFlags && d.cuGraphLaunch &&
         d.cuGraphExecDestroy && d.cuGraphAddMemsetNode && d.cuMemAlloc_v2 && d.cuMemFree_v2 && d.cuMemsetD32Async &&
         d.cuMemcpyDtoHAsync_v2 && d.cuStreamSynchronize && d.cuEventCreate && d.cuEventRecord && d.cuEventDestroy_v2 &&
         d.cuStreamWaitEvent && d.cuStreamQuery && d.cuStreamCreateWithPriority && d.cuStreamDestroy_v2;
}

NodeAlone::NodeAlone() {
  if (driver().cuGraphCreate && !good(driver().cuGraphCreate(&graph_, 0))) graph_ = nullptr;
}

NodeAlone::~NodeAlone() {
  const Own own;
  if (executable_) driver().cuGraphExecDestroy(executable_);
  if (graph_ && driver().cuGraphDestroy) driver().cuGraphDestroy(graph_);
}

template <typename Add>
std::shared_ptr<NodeAlone> NodeAlone::made(Add&& add) {
  std::shared_ptr<NodeAlone> made(new NodeAlone);
  if (made->graph_) made->node_ = add(made->graph_);
  return made->node_ ? made : nullptr;
}

std::shared_ptr<NodeAlone> NodeAlone::kernel(const CUDA_KERNEL_NODE_PARAMS& params, CUgraphNode like) {
  return made([&](CUgraph graph) { return add_kernel(graph, {}, params, like); });
}

std::shared_ptr<NodeAlone> NodeAlone::copy(const CUDA_MEMCPY3D& params, CUcontext context) {
  return made([&](CUgraph graph) { return add_copy(graph, {}, params, context); });
}

std::shared_ptr<NodeAlone> NodeAlone::set(const CUDA_MEMSET_NODE_PARAMS& params, CUcontext context) {
  return made([&](CUgraph graph) { return add_set(graph, {}, params, context); });
}

std::shared_ptr<NodeAlone> NodeAlone::of(Call& call, CUgraphNode node) {
  return made([&](CUgraph graph) { return add_like(call, graph, {}, node); });
}

std::shared_ptr<NodeAlone> sets_word(CUdeviceptr word, unsigned value, CUcontext context) {
  CUDA_MEMSET_NODE_PARAMS set{};
  set.dst = word;
  set.value = value;
  set.elementSize = sizeof(std::uint32_t);
  set.width = set.height = 1;
  return NodeAlone::set(set, context);
}

bool ends_soon(CUstream stream) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!good(driver().cuStreamQuery(stream))) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return true;
}

CUgraphNode add_like(Call& call, CUgraph graph, const std::vector<CUgraphNode>& after, CUgraphNode node) {
  const Driver& d = driver();
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  CUDA_KERNEL_NODE_PARAMS launched{};
  CUDA_MEMCPY3D copied{};
  CUDA_MEMSET_NODE_PARAMS written{};
  if (!good(d.cuGraphNodeGetType(node, &type))) return nullptr;
  if (type == CU_GRAPH_NODE_TYPE_KERNEL && d.cuGraphKernelNodeGetParams_v2 &&
      good(d.cuGraphKernelNodeGetParams_v2(node, &launched)))
    return add_kernel(graph, after, launched, node);
  if (type == CU_GRAPH_NODE_TYPE_MEMCPY && good(d.cuGraphMemcpyNodeGetParams(node, &copied)))
    return add_copy(graph, after, copied, call.context);
  if (type == CU_GRAPH_NODE_TYPE_MEMSET && good(d.cuGraphMemsetNodeGetParams(node, &written)))
    return add_set(graph, after, written, call.context);
  return nullptr;
}

CUgraphExec NodeAlone::executable() {
  if (!executable_ && !good(driver().cuGraphInstantiateWithFlags(&executable_, graph_, 0))) executable_ = nullptr;
  return executable_;
}

void keep_alone(Call& call, Executable& made) {
  const auto is_instrumented = [](const GraphNode& node) { return node.kernel && node.kernel->instrumented; };
  made.exchangeable =
      call.session.options().accesses && std::any_of(made.nodes.begin(), made.nodes.end(), is_instrumented);
  if (!(call.session.window() || made.exchangeable) || !can_be_taken_apart()) return;
  for (GraphNode& node : made.nodes) {
    if (node.handle) node.alone = NodeAlone::of(call, node.handle);
  }
}

const char* take_apart(const Executable& graph, const Others& others, std::vector<Piece>& pieces) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    const OtherKernel* const other = other_at(others, i);
    Piece piece;
    piece.after = node.after;
    piece.host = node.enabled ? node.host : nullptr;
    if (std::holds_alternative<trace::HostCallback>(node.what) && !node.host)
      return "it has a host function that is not followed";
    if (node.address) return "it has memory of its own";
    if (node.unknown) return "it has a node of a kind that is not followed";
    if (node.enabled) {
      piece.alone = other ? other->alone : node.alone;
      piece.opaque = is_opaque(node, other);
      piece.event = node.event;
      piece.event_waits = node.event_waits;
      if (!std::holds_alternative<trace::Marker>(node.what) && !piece.host && !piece.alone)
        return "the driver did not take its nodes one by one";
    }
    pieces.push_back(std::move(piece));
  }
  return nullptr;
}

namespace {

// The streams that the nodes run in, and events behind each of them.
class Branches {
 public:
  Branches(CUstream own, std::size_t nodes) : own_(own), streams_(nodes), ended_(nodes), continued_(nodes) {}
  ~Branches() {
    for (CUevent event : ended_) {
      if (event) driver().cuEventDestroy_v2(event);
    }
    if (begun_) driver().cuEventDestroy_v2(begun_);
    for (CUstream stream : made_) driver().cuStreamDestroy_v2(stream);
  }
  Branches(const Branches&) = delete;
  Branches& operator=(const Branches&) = delete;

  // Makes what it takes, so that nothing fails later. False: the driver does not.
  bool prepare(const std::vector<Piece>& pieces) {
    const Driver& d = driver();
    bool own_is_free = true;
    const auto event = [&](CUevent& to) { return good(d.cuEventCreate(&to, CU_EVENT_DISABLE_TIMING)); };
    if (!event(begun_)) return false;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (!event(ended_[i])) return false;
      CUstream* place = nullptr;
      for (std::uint32_t before : pieces[i].after) {
        if (continued_[before]) continue;
        continued_[before] = true;
        place = &streams_[before];
        break;
      }
      if (place) {
        streams_[i] = *place;
      } else if (std::exchange(own_is_free, false)) {
        streams_[i] = own_;
      } else {
        if (!good(d.cuStreamCreateWithPriority(&streams_[i], CU_STREAM_NON_BLOCKING, 0))) return false;
        made_.push_back(streams_[i]);
      }
    }
    return true;
  }
  void begin() { driver().cuEventRecord(begun_, own_); }
  CUstream stream_for(std::size_t node, const Piece& piece) {
    const CUstream stream = streams_[node];
    if (piece.after.empty() && stream != own_) driver().cuStreamWaitEvent(stream, begun_, 0);
    for (std::uint32_t before : piece.after) {
      if (streams_[before] != stream) driver().cuStreamWaitEvent(stream, ended_[before], 0);
    }
    return stream;
  }
  void end(std::size_t node) { driver().cuEventRecord(ended_[node], streams_[node]); }
  // What comes behind the graph comes behind all of it.
  void join(std::size_t launched) {
    for (std::size_t i = 0; i < launched; ++i) {
      if (streams_[i] != own_) driver().cuStreamWaitEvent(own_, ended_[i], 0);
    }
  }
  const std::vector<CUstream>& made() const { return made_; }

 private:
  CUstream own_;
  std::vector<CUstream> streams_; // of each node
  std::vector<CUevent> ended_; // likewise
  std::vector<bool> continued_; // a later node runs in its stream
  CUevent begun_ = nullptr;
  std::vector<CUstream> made_;
};

// A word of the device, and a graph that sets it. The device is at rest.
class Sign {
 public:
  Sign(CUcontext context, CUstream stream) : stream_(stream) {
    const Driver& d = driver();
    if (!good(d.cuMemAlloc_v2(&word_, sizeof(std::uint32_t)))) {
      word_ = 0;
      return;
    }
    if (good(d.cuMemsetD32Async(word_, 0, 1, stream)) && good(d.cuStreamSynchronize(stream)))
      graph_ = sets_word(word_, 1, context);
  }
  ~Sign() {
    if (word_ && good(driver().cuStreamQuery(stream_))) driver().cuMemFree_v2(word_); // else it would wait
  }
  Sign(const Sign&) = delete;
  Sign& operator=(const Sign&) = delete;

  CUgraphExec executable() { return graph_ ? graph_->executable() : nullptr; }
  // Kernels of the program, if those run in its place, may wait for their launch to be known: no wait without end.
  bool given() const {
    std::uint32_t value = 0;
    return ends_soon(stream_) && good(driver().cuMemcpyDtoHAsync_v2(&value, word_, sizeof value, stream_)) &&
           good(driver().cuStreamSynchronize(stream_)) && value == 1;
  }

 private:
  CUstream stream_;
  CUdeviceptr word_ = 0;
  std::shared_ptr<NodeAlone> graph_;
};

void launch(Call& call, const std::vector<Piece>& pieces, Branches& branches, PlayedGraph& played) {
  Window& window = *call.session.window();
  branches.begin();
  std::size_t launched = 0;
  for (; launched < pieces.size() && good(played.result); ++launched) {
    const Piece& piece = pieces[launched];
    PlayedGraph::Node& to = played.nodes[launched];
    const CUstream stream = branches.stream_for(launched, piece);
    if (piece.opaque) {
      CUDA_KERNEL_NODE_PARAMS params{};
      std::vector<std::uint8_t> arguments;
      driver().cuGraphKernelNodeGetParams_v2(piece.alone->node(), &params);
      const auto handle = params.kern ? reinterpret_cast<CUfunction>(params.kern) : params.func;
      arguments_of(call.session.modules().kernel(handle, nullptr, params.ctx ? params.ctx : call.context),
                   params.kernelParams, params.extra, arguments);
      window.before_opaque(call.context, arguments, branches.made());
    }
    if (piece.alone) played.result = driver().cuGraphLaunch(piece.alone->executable(), stream);
    if (piece.event && piece.event_waits) driver().cuStreamWaitEvent(stream, piece.event, 0);
    if (piece.event && !piece.event_waits) driver().cuEventRecord(piece.event, stream);
    if (piece.opaque) to.by_effect = window.after_opaque(stream, good(played.result), to.effects);
    branches.end(launched);
  }
  branches.join(launched);
}

constexpr const char* unknown_effects =
    "a graph with opaque kernels was launched, and what they changed is not known: ";

} // namespace

struct PlayedGraph::Parts {
  Parts(Call& call, Window& window, CUstream stream, std::vector<Piece> all)
      : alone(window), pieces(std::move(all)), branches(call.own_handle(stream), pieces.size()) {}
  Window::Alone alone; // from the way in to the way out
  std::vector<Piece> pieces;
  Branches branches;
  std::optional<Sign> sign;
};

std::unique_ptr<PlayedGraph> prepare_to_play(Call& call, CUgraphExec executable, CUstream stream,
                                             const Others& others) {
  Session& session = call.session;
  Window* window = session.window();
  if (!window || !window->open()) return nullptr;
  std::vector<Piece> pieces;
  const char* why = nullptr;
  {
    std::lock_guard hold(session.lock);
    const auto found = session.executables.find(executable);
    if (found == session.executables.end()) return nullptr;
    const std::vector<GraphNode>& nodes = found->second.nodes;
    bool any = false;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      any = any || is_opaque(nodes[i], other_at(others, i));
    }
    if (!any) return nullptr;
    why = take_apart(found->second, others, pieces);
  }
  if (std::any_of(pieces.begin(), pieces.end(), [](const Piece& piece) { return piece.host; }))
    why = "it has a host function";
  if (session.captures() > 0) why = "a stream was being captured";
  if (!why && !can_be_taken_apart()) why = "the driver is too old";
  auto played = std::make_unique<PlayedGraph>();
  played->own = executable;
  played->others = others;
  played->parts = std::make_shared<PlayedGraph::Parts>(call, *window, stream, std::move(pieces));
  PlayedGraph::Parts& parts = *played->parts;
  session.recorder().let_kernels_end(call.context, Unfinished::while_loading);
  if (!why && !window->rest(call.context)) why = "the device did not come to rest before it";
  if (!why) {
    parts.sign.emplace(call.context, call.own_handle(stream));
    played->given = parts.sign->executable();
    bool made = played->given && parts.branches.prepare(parts.pieces);
    for (const Piece& piece : parts.pieces) made = made && (!piece.alone || piece.alone->executable());
    if (!made) why = "the driver did not take its nodes one by one";
  }
  if (!why) return played;
  window->spoil(std::string(unknown_effects) + why);
  return nullptr;
}

void play(Call& call, PlayedGraph& played) {
  const std::shared_ptr<PlayedGraph::Parts> parts = std::exchange(played.parts, nullptr);
  const bool given = call.done() && parts->sign->given();
  parts->sign.reset(); // to free memory the driver waits for kernels: not for these
  if (!given) {
    call.session.window()->spoil(std::string(unknown_effects) + "the driver launched it as a whole");
    played.others.clear();
    return;
  }
  played.launched = true;
  {
    std::lock_guard hold(call.session.lock);
    const auto found = call.session.executables.find(played.own);
    if (found != call.session.executables.end()) expect_nodes(call.session, call.context, found->second, played);
  }
  played.nodes.resize(parts->pieces.size());
  launch(call, parts->pieces, parts->branches, played);
  if (!good(played.result)) call.return_instead(played.result);
}

} // namespace deadheat::cupti
