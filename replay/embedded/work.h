// One operation on its way to the device: submitted to a stream, or kept as a node of a graph.
//
// Thread-safety: none; Runtime::lock.
#pragma once

#include <functional>
#include <memory>

#include "replay/embedded/entry.h"

namespace deadheat::embedded {

struct GraphMemory;

struct Work {
  decltype(trace::Operation::what) what;
  std::function<void()> callback = {}; // of a HostCallback: the program's function …
  cudaHostNodeParams host = {};        // … and what it was made from, if it can be a graph's node
  const void* code = nullptr;          // where it lies
  std::string call_site = {};          // of the call that submitted it or made it a node, when recording
  cudaEvent_t event = nullptr;         // of an event node, which …
  bool event_waits = false;            // … waits for it, or records it
  std::shared_ptr<GraphMemory> memory = {}; // of a node that allocates or frees memory
};

Work host_work(const Call& call, const cudaHostNodeParams& host);

// Says in the work where the call was made, when recording.
void note_call_site(const Call& call, Work& work);

// Submits to the stream, or adds a node where the stream is being captured (*operation is 0 then).
cudaError_t submit(Call& call, Stream& stream, Work work, std::uint32_t* operation = nullptr);
// The same without looking at capture; `place` gives the graph fields.
cudaError_t submit_now(Call& call, std::uint32_t stream, const Work& work, const trace::Operation& place,
                       std::uint32_t* operation);

// Records the event in the stream, or in the capture of it.
cudaError_t record_event(Call& call, cudaEvent_t event, cudaStream_t stream, unsigned flags);

// Of streams' callbacks, which cannot be captured. Nothing: the caller gave no function, or flags, which there are none
// of.
cudaError_t add_callback(Call& call, cudaStream_t stream, const void* code, std::function<void()> function);

// As the device runs it: on one of FunctionThreads. It may not call CUDA; other threads may meanwhile, and drive the
// device.
device::HostFunction as_callback(Runtime& runtime, const void* code, std::function<void()> function);

} // namespace deadheat::embedded
