// Stream capture: see graph.h.
#include <algorithm>
#include <set>

#include "replay/embedded/graph.h"

namespace deadheat::embedded {

namespace {

void invalidate(Capture& capture) { capture.invalidated = true; }

Capture* open_capture(Call& call, std::uint64_t number) {
  for (const auto& open : call.runtime.captures) {
    if (open->number == number) return open.get();
  }
  return nullptr;
}

cudaGraphNodeType type_of(const Work& work) {
  if (std::holds_alternative<trace::Launch>(work.what)) return cudaGraphNodeTypeKernel;
  if (std::holds_alternative<trace::Copy>(work.what)) return cudaGraphNodeTypeMemcpy;
  if (std::holds_alternative<trace::Set>(work.what)) return cudaGraphNodeTypeMemset;
  if (std::holds_alternative<trace::HostCallback>(work.what)) return cudaGraphNodeTypeHost;
  if (const auto* pool = std::get_if<trace::PoolOperation>(&work.what)) {
    return pool->free ? cudaGraphNodeTypeMemFree : cudaGraphNodeTypeMemAlloc;
  }
  if (work.event) return work.event_waits ? cudaGraphNodeTypeWaitEvent : cudaGraphNodeTypeEventRecord;
  return cudaGraphNodeTypeEmpty;
}

// Captures that the legacy stream would depend on: those that blocking streams take part in.
std::vector<Capture*> implicit_captures(Call& call, const Stream& stream) {
  std::vector<Capture*> found;
  if (stream.kind != trace::StreamCreate::Kind::legacy) return found;
  for (const auto& open : call.runtime.captures) {
    const bool blocking = std::any_of(open->streams.begin(), open->streams.end(), [](const Stream* other) {
      return other->kind != trace::StreamCreate::Kind::non_blocking;
    });
    if (blocking) found.push_back(open.get());
  }
  return found;
}

cudaError_t forbid_implicit(Call& call, const Stream& stream) {
  const std::vector<Capture*> clashes = implicit_captures(call, stream);
  for (Capture* open : clashes) invalidate(*open);
  return clashes.empty() ? cudaSuccess : cudaErrorStreamCaptureImplicit;
}

} // namespace

cudaError_t begin_capture(Call& call, Stream& stream, cudaStreamCaptureMode mode, Graph* into) {
  if (mode < cudaStreamCaptureModeGlobal || mode > cudaStreamCaptureModeRelaxed) return cudaErrorInvalidValue;
  if (stream.kind == trace::StreamCreate::Kind::legacy) return cudaErrorStreamCaptureUnsupported;
  if (stream.capture) return cudaErrorIllegalState;
  auto made = std::make_unique<Capture>();
  made->number = call.runtime.next_capture++;
  if (!into) {
    made->own = std::make_unique<Graph>();
    made->own->id = call.runtime.next_graph++;
  }
  made->graph = into ? into : made->own.get();
  made->origin = &stream;
  made->streams = {&stream};
  made->thread = call.thread.number;
  made->mode = mode;
  stream.capture = made.get();
  stream.tail.clear();
  stream.edge_from = nullptr;
  call.runtime.captures.push_back(std::move(made));
  return cudaSuccess;
}

void end_capture(Call& call, Capture& capture) {
  for (Stream* stream : capture.streams) {
    stream->capture = nullptr;
    stream->tail.clear();
  }
  std::erase_if(call.runtime.captures, [&](const auto& open) { return open.get() == &capture; });
}

void leave_capture(Call& call, Stream& stream) {
  Capture& capture = *stream.capture;
  if (capture.origin == &stream) return end_capture(call, capture);
  capture.left.insert(capture.left.end(), stream.tail.begin(), stream.tail.end());
  std::erase(capture.streams, &stream);
}

cudaError_t capture(Call& call, Stream& stream, const Work& work, bool* captured) {
  *captured = false;
  if (!stream.capture) return forbid_implicit(call, stream);
  if (stream.capture->invalidated) return cudaErrorStreamCaptureInvalidated;
  GraphNode* node = stream.capture->graph->add(type_of(work), work, stream.tail);
  // Programming Guide, "Programmatic Dependent Launch": "Use in CUDA Graphs", by capture.
  const auto* launch = std::get_if<trace::Launch>(&work.what);
  const cudaGraphEdgeData edge{cudaGraphKernelNodePortProgrammatic, 0, cudaGraphDependencyTypeProgrammatic, {}};
  if (launch && launch->programmatic && node->after.size() == 1) Graph::set_edge(*node->after.front(), *node, &edge);
  if (node->after == std::vector<GraphNode*>{stream.edge_from}) Graph::set_edge(*stream.edge_from, *node, &stream.edge);
  stream.edge_from = nullptr;
  stream.tail = {node};
  *captured = true;
  return cudaSuccess;
}

cudaError_t capture_record(Call& call, cudaEvent_t handle, Stream& stream, bool external, bool* captured) {
  Event& event = *call.event(handle);
  *captured = false;
  if (!stream.capture) return forbid_implicit(call, stream);
  if (stream.capture->invalidated) return cudaErrorStreamCaptureInvalidated;
  if (external) {
    Work work{trace::Marker{}};
    work.event = handle;
    return embedded::capture(call, stream, work, captured);
  }
  event.capture = stream.capture;
  event.capture_id = stream.capture->number;
  event.nodes = stream.tail;
  *captured = true;
  return cudaSuccess;
}

cudaError_t capture_wait(Call& call, cudaEvent_t handle, Stream& stream, bool external, bool* captured) {
  Event& event = *call.event(handle);
  *captured = false;
  Capture* recorded = event.capture ? open_capture(call, event.capture_id) : nullptr;
  if (stream.capture) {
    if (stream.capture->invalidated) return cudaErrorStreamCaptureInvalidated;
    if (external) {
      Work work{trace::Marker{}};
      work.event = handle;
      work.event_waits = true;
      return embedded::capture(call, stream, work, captured);
    }
    if (!recorded) {
      if (!event.recorded && !event.capture) {
        *captured = true; // never recorded: nothing to wait for
        return cudaSuccess;
      }
      invalidate(*stream.capture);
      return cudaErrorStreamCaptureIsolation;
    }
    if (recorded != stream.capture) {
      invalidate(*stream.capture);
      invalidate(*recorded);
      return cudaErrorStreamCaptureMerge;
    }
  } else {
    if (const cudaError_t status = forbid_implicit(call, stream); status != cudaSuccess) return status;
    if (!event.capture) return cudaSuccess;
    if (!recorded) return cudaErrorInvalidValue; // its capture has ended
    if (recorded->invalidated) return cudaErrorStreamCaptureInvalidated;
    if (stream.kind == trace::StreamCreate::Kind::legacy) {
      invalidate(*recorded);
      return cudaErrorStreamCaptureImplicit;
    }
    stream.capture = recorded; // the stream joins the capture
    stream.tail.clear();
    recorded->streams.push_back(&stream);
  }
  for (GraphNode* node : event.nodes) {
    if (std::find(stream.tail.begin(), stream.tail.end(), node) == stream.tail.end()) stream.tail.push_back(node);
  }
  *captured = true;
  return cudaSuccess;
}

cudaError_t forbid_while_capturing(Call& call) {
  if (call.thread.capture_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  bool forbidden = false;
  for (const auto& open : call.runtime.captures) {
    const bool own = open->thread == call.thread.number && open->mode != cudaStreamCaptureModeRelaxed;
    const bool other =
        open->mode == cudaStreamCaptureModeGlobal && call.thread.capture_mode == cudaStreamCaptureModeGlobal;
    if (!own && !other) continue;
    invalidate(*open);
    forbidden = true;
  }
  return forbidden ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t forbid_on(Call& call, Stream& stream) {
  if (stream.capture) return refuse_capture(call, stream, nullptr);
  const cudaError_t status = forbid_implicit(call, stream);
  return status == cudaSuccess ? forbid_while_capturing(call) : status;
}

cudaError_t forbid_on(Call& call, Event& event) {
  if (!event.capture) return forbid_while_capturing(call);
  Capture* open = open_capture(call, event.capture_id);
  if (!open) return cudaErrorInvalidValue; // its capture has ended
  invalidate(*open);
  return cudaErrorCapturedEvent;
}

cudaError_t refuse_capture(Call&, Stream& stream, const char* what) {
  if (stream.capture->invalidated) return cudaErrorStreamCaptureInvalidated;
  invalidate(*stream.capture);
  if (!what) return cudaErrorStreamCaptureUnsupported;
  say_once(std::string(what) + " cannot be captured into a graph on the embedded device");
  return cudaErrorNotSupported;
}

} // namespace deadheat::embedded

using namespace deadheat::embedded;

DEADHEAT_STREAM_API(cudaStreamBeginCapture, _ptsz, device, (cudaStream_t handle, cudaStreamCaptureMode mode),
                    (handle, mode)) {
  Stream* stream = call.stream(handle);
  return stream ? begin_capture(call, *stream, mode, nullptr) : cudaErrorInvalidResourceHandle;
}

DEADHEAT_STREAM_API(cudaStreamBeginCaptureToGraph, _ptsz, device,
                    (cudaStream_t handle, cudaGraph_t graph_handle, const cudaGraphNode_t* dependencies,
                     const cudaGraphEdgeData* edges, size_t count, cudaStreamCaptureMode mode),
                    (handle, graph_handle, dependencies, edges, count, mode)) {
  Stream* stream = call.stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  Graph* graph = graph_of(call, graph_handle);
  if (!graph || (count && !dependencies)) return cudaErrorInvalidValue;
  std::vector<GraphNode*> tail;
  for (size_t i = 0; i < count; ++i) {
    tail.push_back(node_of(call, dependencies[i]));
    if (!graph->holds(tail.back())) return cudaErrorInvalidValue;
  }
  const cudaError_t status = begin_capture(call, *stream, mode, graph);
  if (status != cudaSuccess) return status;
  if (edges && tail.size() == 1) {
    stream->edge_from = tail.front();
    stream->edge = *edges;
  }
  stream->tail = std::move(tail);
  return cudaSuccess;
}

// Every node of the capture's streams must lead to the origin's tail.
static bool joined(const Capture& capture) {
  std::set<const GraphNode*> reached;
  std::vector<const GraphNode*> open(capture.origin->tail.begin(), capture.origin->tail.end());
  while (!open.empty()) {
    const GraphNode* node = open.back();
    open.pop_back();
    if (!reached.insert(node).second) continue;
    open.insert(open.end(), node->after.begin(), node->after.end());
  }
  const auto leads_there = [&](const GraphNode* node) { return reached.count(node) != 0; };
  return std::all_of(capture.left.begin(), capture.left.end(), leads_there) &&
         std::all_of(capture.streams.begin(), capture.streams.end(), [&](const Stream* stream) {
           return std::all_of(stream->tail.begin(), stream->tail.end(), leads_there);
         });
}

DEADHEAT_STREAM_API(cudaStreamEndCapture, _ptsz, device, (cudaStream_t handle, cudaGraph_t* graph), (handle, graph)) {
  Stream* stream = call.stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (graph) *graph = nullptr;
  Capture* open = stream->capture;
  if (!open) return cudaErrorIllegalState;
  if (open->origin != stream) {
    invalidate(*open);
    return cudaErrorStreamCaptureUnmatched;
  }
  cudaError_t status = cudaSuccess;
  if (open->invalidated) {
    status = cudaErrorStreamCaptureInvalidated;
  } else if (open->mode != cudaStreamCaptureModeRelaxed && open->thread != call.thread.number) {
    status = cudaErrorStreamCaptureWrongThread;
  } else if (!joined(*open)) {
    status = cudaErrorStreamCaptureUnjoined;
  } else {
    const auto made = reinterpret_cast<cudaGraph_t>(open->graph);
    if (open->own) call.runtime.graphs.emplace(made, std::move(open->own));
    if (graph) *graph = made;
  }
  end_capture(call, *open);
  return status;
}

DEADHEAT_STREAM_API(cudaStreamIsCapturing, _ptsz, device, (cudaStream_t handle, cudaStreamCaptureStatus* result),
                    (handle, result)) {
  Stream* stream = call.stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (!result) return cudaErrorInvalidValue;
  if (!implicit_captures(call, *stream).empty()) return cudaErrorStreamCaptureImplicit;
  *result = !stream->capture               ? cudaStreamCaptureStatusNone
            : stream->capture->invalidated ? cudaStreamCaptureStatusInvalidated
                                           : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

DEADHEAT_STREAM_API(cudaStreamGetCaptureInfo, _ptsz, device,
                    (cudaStream_t handle, cudaStreamCaptureStatus* result, unsigned long long* id, cudaGraph_t* graph,
                     const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges, size_t* count),
                    (handle, result, id, graph, dependencies, edges, count)) {
  Stream* stream = call.stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (!result) return cudaErrorInvalidValue;
  const cudaError_t status = cudaStreamIsCapturing_body(call, handle, result);
  if (status != cudaSuccess || !stream->capture) return status;
  if (id) *id = stream->capture->number;
  if (graph) *graph = reinterpret_cast<cudaGraph_t>(stream->capture->graph);
  // The array is the stream's own; it holds until the next call on the stream.
  if (dependencies) *dependencies = reinterpret_cast<const cudaGraphNode_t*>(stream->tail.data());
  if (edges) *edges = nullptr;
  if (count) *count = stream->tail.size();
  return cudaSuccess;
}

DEADHEAT_STREAM_API(cudaStreamUpdateCaptureDependencies, _ptsz, device,
                    (cudaStream_t handle, cudaGraphNode_t* dependencies, const cudaGraphEdgeData* edges, size_t count,
                     unsigned flags),
                    (handle, dependencies, edges, count, flags)) {
  Stream* stream = call.stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (!stream->capture) return cudaErrorIllegalState;
  if (flags > cudaStreamSetCaptureDependencies || (count && !dependencies)) return cudaErrorInvalidValue;
  std::vector<GraphNode*> tail;
  if (flags == cudaStreamAddCaptureDependencies) tail = stream->tail;
  stream->edge_from = nullptr;
  for (size_t i = 0; i < count; ++i) {
    GraphNode* node = node_of(call, dependencies[i]);
    if (!stream->capture->graph->holds(node)) return cudaErrorInvalidValue;
    if (std::find(tail.begin(), tail.end(), node) == tail.end()) tail.push_back(node);
    if (edges) {
      stream->edge_from = node;
      stream->edge = edges[i];
    }
  }
  stream->tail = std::move(tail);
  return cudaSuccess;
}

DEADHEAT_API(cudaThreadExchangeStreamCaptureMode, nothing, (cudaStreamCaptureMode * mode), (mode)) {
  if (!mode || *mode < cudaStreamCaptureModeGlobal || *mode > cudaStreamCaptureModeRelaxed)
    return cudaErrorInvalidValue;
  std::swap(*mode, call.thread.capture_mode);
  return cudaSuccess;
}
