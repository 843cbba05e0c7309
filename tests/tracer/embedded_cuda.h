// What the parts of the stand-in for libcuda.so.1 on the embedded device share.
//
// Thread-safety: one call at a time, under `lock`, which they take themselves.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <future>
#include <mutex>
#include <vector>

#include "deadheat/trace.h"
#include "replay/device/device.h"

namespace embedded {

extern std::recursive_mutex& lock;
extern deadheat::device::Device* the_device;

std::uint32_t stream_of(CUstream stream);
CUresult submit(CUstream stream, decltype(deadheat::trace::Operation::what) what);
CUresult copy(const CUDA_MEMCPY3D& copy, CUstream stream); // arrays too
CUresult wait(deadheat::trace::HostWait::Kind kind, std::uint32_t id);
CUresult load(CUmodule* module, const void* image);
// What the driver refuses, where EMBEDDED_REFUSES names it: "images" that have clones, "kernels" of such, and "clones",
// when they are loaded one by one, "launches" of clones, "nodes" of graphs that are clones, "graphs" with such;
// "events", to be recorded.
bool refuses(const char* what);
bool has_clones(CUfunction f); // the module that it is of
bool cannot_launch(CUfunction f);
bool is_clone(CUfunction f);
// What a call that loads an image writes back: whether it was refused, and how long that took.
void tell(bool refused, unsigned count, const CUjit_option* options, void** values);
CUfunction function(CUmodule module, const char* name); // null: it has none of that name
deadheat::Dim3 cluster_of(CUfunction f); // that the kernel was told to have
std::vector<std::uint8_t> arguments_of(CUfunction f, void** parameters);
CUresult launch(CUfunction f, deadheat::Dim3 grid, deadheat::Dim3 block, std::uint32_t shared,
                const std::vector<std::uint8_t>& arguments, CUstream stream);

// What a call on a stream that is being captured becomes: a node. False: it is not being captured.
struct CapturedWork {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  CUDA_MEMCPY3D copy{};
  CUDA_HOST_NODE_PARAMS host{};
  CUDA_KERNEL_NODE_PARAMS kernel{};
  CUevent event = nullptr;
};
bool captured(CUstream stream, const CapturedWork& work); // embedded_graphs.cpp
bool is_captured(CUstream stream);
// Graphs that run in a thread of their own: the last of a stream's; invalid: there is none. Under the lock.
std::shared_future<void>& late_graph(CUstream stream);
void late_graphs(CUstream stream); // waits for them
// In a thread of its own, some time later; who waits for the stream, or for all (0), waits for that.
void run_function(CUstream stream, const CUDA_HOST_NODE_PARAMS& function);
void late_functions(std::uint32_t stream);
CUgraph captured_graph(CUstream stream); // that it is captured into; null: it is not

} // namespace embedded
