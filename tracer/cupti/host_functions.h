// Host functions, in streams and in graphs. What comes before one is complete when it begins, and it can tell any host
// thread so in ways that are not seen: in the trace the host has waited for its operation then (trace::HostWait).
//
// The driver is given a function of the library, which says so and calls the program's (function_run.h). A graph that
// the program made is left as it is: only while the driver makes an executable of it, or updates one, its nodes have
// other functions.
//
// Thread-safety: HostNode locks for itself; a HostNodes is one thread's, which has the graph for itself (CUDA driver
// API, "Graph object thread safety").
#pragma once

#include <cuda.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "tracer/cupti/function_run.h"
#include "tracer/cupti/session.h"

namespace deadheat::cupti {

// A host function that is a node of an executable: it is called once by each launch, in their order.
class HostNode {
 public:
  HostNode(Session& session, const CUDA_HOST_NODE_PARAMS& program) : session_(session), program_(program) {}

  // What the driver is given for the node.
  CUDA_HOST_NODE_PARAMS given() { return {run, this}; }
  // The program's own of what some node was given.
  static CUDA_HOST_NODE_PARAMS program(const CUDA_HOST_NODE_PARAMS& given);

  // By a launch of the graph that is about to be made: its operation there. Under the session's lock.
  void launched(std::uint32_t operation, std::uint32_t stream, std::uint32_t graph, CUcontext context);
  void not_launched(); // the last one failed
  void keep(); // graphs have copies of it: it is never destroyed
  void retire(); // no launch will come any more: it is destroyed once those before have called it

 private:
  ~HostNode() = default;
  static void CUDA_CB run(void* of);
  std::unique_ptr<FunctionRun> take(); // null: of a launch that was not seen

  Session& session_;
  const CUDA_HOST_NODE_PARAMS program_;
  std::mutex lock_;
  std::deque<std::unique_ptr<FunctionRun>> runs_; // of launches that have not called it
  bool kept_ = false, retired_ = false;
};

// The host functions of a graph and its child graphs: as long as this lives, its nodes have the library's.
class HostNodes {
 public:
  HostNodes(Session& session, CUgraph graph);
  ~HostNodes(); // those that were not taken are destroyed
  HostNodes(const HostNodes&) = delete;
  HostNodes& operator=(const HostNodes&) = delete;

  bool empty() const { return nodes_.empty(); }
  void keep(); // the driver failed: some executable may have them
  HostNode* take(CUgraphNode node); // for the executable that was made; null: it is not followed

 private:
  void enter(Session& session, CUgraph graph, int depth);
  struct Node {
    CUgraphNode handle = nullptr;
    CUDA_HOST_NODE_PARAMS before{};
    HostNode* host = nullptr;
  };
  std::vector<Node> nodes_;
};

} // namespace deadheat::cupti
