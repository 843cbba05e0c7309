// Which of its two kernels a node of a graph launches: the program's own, or the instrumented clone.
//
// A graph that is captured while accesses are recorded has clones, another one the program's kernels; and it is
// launched long after, when the range to be captured has begun, or is over, or the budget is used up. Then the driver
// is given another executable in its place, which has the same nodes, but of those kernels the other one. Whether a
// driver launches what it is given so, is tried once in a process. An executable is launched once at a time, in
// whatever streams; two are kept apart by an event.
//
// Thread-safety: the session's lock is not held, where nothing else is said.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "deadheat/trace.h"
#include "tracer/cupti/graph.h"
#include "tracer/cupti/handlers.h"

namespace deadheat::cupti {

struct OtherKernel {
  explicit OtherKernel(Recorder& recorder) : recorder_(recorder) {}
  ~OtherKernel(); // takes no session's lock; calls the driver
  OtherKernel(const OtherKernel&) = delete;
  OtherKernel& operator=(const OtherKernel&) = delete;

  std::shared_ptr<NodeAlone> alone; // a node with it
  Kernel* kernel = nullptr; // it
  std::uint32_t control = 0; // of a clone
  trace::Launch what; // its launch

 private:
  Recorder& recorder_;
};

// By node of an executable; null: it launches what the executable has. Empty: all do.
using Others = std::vector<std::shared_ptr<OtherKernel>>;
inline const OtherKernel* other_at(const Others& others, std::size_t node) {
  return node < others.size() ? others[node].get() : nullptr;
}

// The other kernel of the node `alone`; null: it cannot be had (kernel_nodes.cpp).
std::shared_ptr<OtherKernel> other_kernel(Call& call, const NodeAlone& alone);

// What a launch of the executable is to launch now, on its way in.
Others others_of(Call& call, CUgraphExec executable);
// An executable with those kernels, for the driver to launch; null: there is none, and why is said.
CUgraphExec with_others(Call& call, CUgraphExec executable, const Others& others);

// Around a launch of the program's executable, for which the driver is given `given`: behind what it launched last.
void keep_apart(Call& call, CUgraphExec executable, CUgraphExec given, CUstream stream);
void launched_last(Call& call, CUgraphExec executable, CUgraphExec given, CUstream stream);

// In a call of the library's own that finds out what the driver does: what it is to be given. Null: it is no such call.
CUgraphExec tried_graph();

} // namespace deadheat::cupti
