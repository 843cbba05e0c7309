// One function for each watched entry point of the driver (driver_calls.def). Each is called on the way in (exit false)
// and on the way out, with the call's parameters, which it may change on the way in.
//
// Thread-safety: called on the host thread that made the call; they lock the session themselves.
#pragma once

#include <cuda.h>
#include <cupti_callbacks.h>
#include <generated_cuda_meta.h>

#include <string>

#include "tracer/cupti/recorder.h"
#include "tracer/cupti/session.h"
#include "tracer/device_log/launch_log.h"

namespace deadheat::cupti {

struct Call {
  Session& session;
  CUcontext context = nullptr;
  const char* symbol = nullptr; // of launches: the kernel's mangled name
  const char* function = nullptr; // as the program called it: cudaMemcpyAsync_v3020, or cuMemcpyHtoDAsync_v2
  bool per_thread = false; // stream 0 is the per-thread default stream
  bool exit = false;
  CUresult result = CUDA_SUCCESS; // on the way out
  std::uint64_t* correlation = nullptr; // 64 bits kept from the way in to the way out
  CUresult* returned = nullptr; // on the way out: what the program gets

  // What a handler keeps from the way in to the way out; the way in sets it.
  template <typename T>
  T*& carried() {
    static_assert(sizeof(T*) == sizeof *correlation);
    return reinterpret_cast<T*&>(*correlation);
  }
  const std::string& api() const; // without its version: cudaMemcpyAsync
  // What the program gets in place of what the driver said of the call that it was given.
  void return_instead(CUresult of_another) {
    result = of_another;
    if (returned) *returned = of_another;
  }
  // The driver had no memory for the call, and the library could give some of its own back: it is to be made again.
  bool makes_room(CUresult failed) const {
    return exit && failed == CUDA_ERROR_OUT_OF_MEMORY && session.give_back_memory(context);
  }
  // Makes it again then, by `again`: each time there is more room.
  template <typename Again>
  void retry_with_room(Again&& again) {
    while (makes_room(result)) return_instead(again());
  }
  bool done() const { return exit && result == CUDA_SUCCESS; }
  std::uint32_t stream(CUstream handle) const { return session.stream(context, handle, per_thread); }
  // The stream, by a handle that other calls understand.
  CUstream own_handle(CUstream handle) const { return !handle && per_thread ? CU_STREAM_PER_THREAD : handle; }
  // The stream is being captured: the call makes a graph node, no operation.
  bool captured(CUstream handle) const {
    return session.captures().load(std::memory_order_relaxed) > 0 && is_captured(handle);
  }
  bool is_captured(CUstream handle) const; // the driver says so: it is asked while there are captures
  CUgraphNode captured_node(CUstream handle) const; // likewise: what the call just made; null: not known
};

// name##_params of a _ptsz function has the same members.
#define CALL(name, handler, way_in) void handler(Call& call, name##_params& p);
#define STREAM_CALL(name, suffix, handler, way_in) CALL(name, handler, way_in)
#define QUEUED_CALL STREAM_CALL
#define UNTIL_IDLE(name, most)
#define FOR_ACCESSES(name)
#define LEFT_OUT(name, what)
// Calls without parameters.
struct cuCtxSynchronize_params {};
struct cuProfilerStart_params {};
struct cuProfilerStop_params {};
#include "tracer/cupti/driver_calls.def"
#undef CALL
#undef STREAM_CALL
#undef QUEUED_CALL
#undef UNTIL_IDLE
#undef FOR_ACCESSES
#undef LEFT_OUT

// What a graph's nodes do, and submitting them (graphs.cpp, graph_launches.cpp, kernel_nodes.cpp).
inline constexpr int deepest_graph = 8; // child graphs in child graphs
bool describe_kernel(Call& call, CUgraphNode node, GraphNode& to);
void describe_kernel(Call& call, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS& p, GraphNode& to);
// False: what its bodies do is not known (conditions.cpp).
bool describe_condition(Call& call, CUgraphNode node, GraphNode& to);
void update_any_kernel_node(Call& call, cuGraphExecNodeSetParams_params& p);
device_log::Shape graph_shape(Session& session, CUcontext context, const Kernel& kernel, const trace::Launch& launch,
                              std::uint32_t number);
trace::Copy copy_of(Session& session, const CUDA_MEMCPY3D& copy, const std::string& api);
trace::Set set_of(const CUDA_MEMSET_NODE_PARAMS& set, const std::string& api);

} // namespace deadheat::cupti
