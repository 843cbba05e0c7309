// A graph's launch in a window, node by node: what an opaque kernel changed is known only where the device is at rest
// before and after it (window.h).
//
// Each node of an executable is kept as a graph of its own, which the driver copies the parameters into, while the
// graph that it is made from is still there. In a window, the call gets a sign to launch in place of the executable,
// and where that was given, those are launched on its way out; a driver that launches what the program named does so
// once. They run in as many streams as the graph has branches, behind events: nodes that the graph lets run at the same
// time may wait for each other, and whoever waits for the device to rest gives up after a while.
//
// Thread-safety: the session's lock is not held, where nothing else is said.
#pragma once

#include <cuda.h>

#include <memory>
#include <string>
#include <vector>

#include "tracer/cupti/graph.h"
#include "tracer/cupti/graph_exchange.h"
#include "tracer/cupti/handlers.h"

namespace deadheat::cupti {

// A graph that has a node like one of an executable's, and nothing else.
class NodeAlone {
 public:
  // Null: the driver does not take it, or the node is no kernel, copy or set.
  static std::shared_ptr<NodeAlone> of(Call& call, CUgraphNode node);
  // `like`: whose attributes it has; null: none.
  static std::shared_ptr<NodeAlone> kernel(const CUDA_KERNEL_NODE_PARAMS& params, CUgraphNode like);
  static std::shared_ptr<NodeAlone> copy(const CUDA_MEMCPY3D& params, CUcontext context);
  static std::shared_ptr<NodeAlone> set(const CUDA_MEMSET_NODE_PARAMS& params, CUcontext context);
  ~NodeAlone();

  CUgraphNode node() const { return node_; }
  CUgraphExec executable(); // made the first time; null: the driver does not make it

 private:
  NodeAlone();
  template <typename Add>
  static std::shared_ptr<NodeAlone> made(Add&& add);
  CUgraph graph_ = nullptr;
  CUgraphNode node_ = nullptr;
  CUgraphExec executable_ = nullptr;
};

// A graph that sets a word of the device.
std::shared_ptr<NodeAlone> sets_word(CUdeviceptr word, unsigned value, CUcontext context);
// Waits until all work of the stream is complete; false: it takes ten seconds and more, where microseconds would do.
bool ends_soon(CUstream stream);
// A node like that one, which is no other than a kernel, copy or set, in that graph; null: the driver does not take it.
CUgraphNode add_like(Call& call, CUgraph graph, const std::vector<CUgraphNode>& after, CUgraphNode node);

// Keeps the nodes of what was just made from a graph, where a window may come, or kernels may be exchanged.
void keep_alone(Call& call, Executable& made);

// What a launch is made of, as of when it began.
struct Piece {
  std::shared_ptr<NodeAlone> alone; // null: there is nothing to launch
  bool opaque = false;
  HostNode* host = nullptr; // a host function
  CUevent event = nullptr; // to be recorded, or waited for
  bool event_waits = false;
  std::vector<std::uint32_t> after; // indices

  bool operator==(const Piece&) const = default;
};
bool can_be_taken_apart(); // the driver is not too old
// Why another graph cannot be made of the executable's nodes; null: it can. Under the session's lock.
const char* take_apart(const Executable& graph, const Others& others, std::vector<Piece>& pieces);

// What is known of a launch from the way in to the way out. The driver may be given another graph, to launch the nodes
// in pieces then, or as another whole.
struct PlayedGraph {
  CUgraphExec own = nullptr; // the program's
  CUgraphExec given = nullptr; // what the driver is given
  Others others; // kernels that are launched in place of the executable's
  struct Parts;
  std::shared_ptr<Parts> parts; // until they are launched; null: it is a whole
  bool launched = false; // in pieces: before they are submitted
  CUresult result = CUDA_SUCCESS;
  struct Node {
    std::uint32_t launch = 0; // its number
    std::shared_ptr<RecordedLaunch> recorded;
    bool by_effect = false;
    std::vector<trace::Effects::Change> effects;
  };
  std::vector<Node> nodes; // as the executable has them
  std::vector<trace::Bytes> brought; // by nodes that copy from the host, in a window (graph_copies.h)
};

// What is recorded of its nodes' launches is expected from here on. Under the session's lock (graph_launches.cpp).
void expect_nodes(Session& session, CUcontext context, Executable& graph, PlayedGraph& played);

// On the way in, where the executable has opaque kernels and a window is open. Null: the driver is to launch it; a
// window that is open cannot be used then.
std::unique_ptr<PlayedGraph> prepare_to_play(Call& call, CUgraphExec executable, CUstream stream, const Others& others);
// On the way out: launches the nodes, unless the driver has launched the program's own.
void play(Call& call, PlayedGraph& played);

} // namespace deadheat::cupti
