// Graph memory nodes (Runtime API, "Graph Management"; Programming Guide, "Graph Memory Nodes"): memory that a graph
// allocates when it runs, at an address that its node got when it was made.
//
// The place is reserved for as long as a graph or an executable names it, or it is allocated. Allocating and freeing
// are operations of the stream: between them the bytes are valid, and fresh each time.
#include <algorithm>
#include <map>

#include "replay/embedded/graph_nodes.h"

namespace deadheat::embedded {

struct GraphMemory {
  std::uint64_t address = 0, bytes = 0;
  std::uint32_t allocation = 0;
  bool allocated = false; // behind everything that was submitted so far
};

namespace {

std::vector<std::shared_ptr<GraphMemory>>& reserved() {
  static auto* list = new std::vector<std::shared_ptr<GraphMemory>>;
  return *list;
}
std::uint64_t high_water = 0;

std::uint64_t used() {
  std::uint64_t bytes = 0;
  for (const auto& memory : reserved()) bytes += memory->allocated ? memory->bytes : 0;
  return bytes;
}

std::shared_ptr<GraphMemory> memory_at(const void* pointer) {
  for (const auto& memory : reserved()) {
    if (memory->address == reinterpret_cast<std::uint64_t>(pointer)) return memory;
  }
  return nullptr;
}

cudaError_t reserve(Call& call, std::size_t bytes, Work* work) {
  if (bytes == 0) return cudaErrorInvalidValue;
  Expected<trace::Allocate> made = call.device().reserve(bytes, call.thread.number);
  if (!made) return cudaErrorMemoryAllocation;
  auto memory = std::make_shared<GraphMemory>();
  memory->address = made->address;
  memory->bytes = bytes;
  memory->allocation = made->allocation;
  reserved().push_back(memory);
  work->what = trace::PoolOperation{false, made->allocation};
  work->memory = std::move(memory);
  return cudaSuccess;
}

} // namespace

cudaError_t free_work(Call&, void* pointer, Work* work) {
  work->memory = memory_at(pointer);
  if (!work->memory) return cudaErrorInvalidValue;
  work->what = trace::PoolOperation{true, work->memory->allocation};
  return cudaSuccess;
}

template <class Params>
cudaError_t add_allocation(Call& call, cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* list,
                           size_t count, Params* parameters) {
  if (!parameters || parameters->poolProps.allocType != cudaMemAllocationTypePinned) return cudaErrorInvalidValue;
  if (parameters->poolProps.handleTypes != cudaMemHandleTypeNone) return cudaErrorInvalidValue;
  if (parameters->poolProps.location.type != cudaMemLocationTypeDevice) return cudaErrorNotSupported;
  if (parameters->poolProps.location.id != 0) return cudaErrorInvalidDevice;
  Work work{trace::Marker{}};
  cudaError_t status = reserve(call, parameters->bytesize, &work);
  if (status != cudaSuccess) return status;
  void* pointer = reinterpret_cast<void*>(work.memory->address);
  status = add_node(call, node, graph, list, count, cudaGraphNodeTypeMemAlloc, std::move(work));
  if (status == cudaSuccess) parameters->dptr = pointer;
  collect_graph_memory(call);
  return status;
}
template cudaError_t add_allocation(Call&, cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t*, size_t,
                                    cudaMemAllocNodeParams*);
template cudaError_t add_allocation(Call&, cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t*, size_t,
                                    cudaMemAllocNodeParamsV2*);

cudaError_t capture_allocation(Call& call, Stream& stream, void** pointer, size_t bytes) {
  Work work{trace::Marker{}};
  cudaError_t status = reserve(call, bytes, &work);
  if (status != cudaSuccess) return status;
  *pointer = reinterpret_cast<void*>(work.memory->address);
  return submit(call, stream, std::move(work));
}

cudaError_t capture_free(Call& call, Stream& stream, void* pointer) {
  Work work{trace::Marker{}};
  const cudaError_t status = free_work(call, pointer, &work);
  return status == cudaSuccess ? submit(call, stream, std::move(work)) : status;
}

cudaError_t free_graph_memory(Call& call, void* pointer, Stream* stream, bool* handled) {
  const std::shared_ptr<GraphMemory> memory = memory_at(pointer);
  *handled = memory != nullptr;
  if (!memory) return cudaSuccess;
  if (!memory->allocated) return cudaErrorInvalidValue;
  Work work{trace::Marker{}};
  cudaError_t status = free_work(call, pointer, &work);
  std::uint32_t operation = 0;
  if (status == cudaSuccess && !stream) status = call.wait(trace::HostWait::Kind::device);
  if (status == cudaSuccess) status = submit(call, stream ? *stream : call.runtime.legacy, std::move(work), &operation);
  if (status == cudaSuccess && !stream) status = call.wait_operation(operation);
  if (status == cudaSuccess) memory->allocated = false;
  return status;
}

cudaError_t plan_graph_memory(Call& call, GraphExec& executable) {
  std::map<GraphMemory*, bool> after; // allocated, behind the steps so far
  auto state = [&](GraphMemory* memory) -> bool& { return after.emplace(memory, memory->allocated).first->second; };
  const bool frees = executable.flags & cudaGraphInstantiateFlagAutoFreeOnLaunch;
  std::vector<Work> left; // allocated by an earlier launch and not freed
  for (const GraphExec::Step& step : executable.steps) {
    const auto* pool = std::get_if<trace::PoolOperation>(&step.work.what);
    if (!pool || !step.work.memory || !step.enabled) continue;
    bool& allocated = state(step.work.memory.get());
    if (!pool->free && allocated && frees) {
      left.push_back(step.work);
      std::get<trace::PoolOperation>(left.back().what).free = true;
      allocated = false;
    }
    if (allocated != pool->free) return cudaErrorInvalidValue; // allocates twice, or frees what is not there
    allocated = !pool->free;
  }
  for (const Work& work : left) {
    const cudaError_t status = submit_now(call, executable.last_stream, work, {}, nullptr);
    if (status != cudaSuccess) return status;
  }
  // The launch that follows waits for this event if it goes to another stream.
  if (!left.empty()) call.device().record_event(executable.done, executable.last_stream, call.thread.number);
  for (const auto& [memory, allocated] : after) memory->allocated = allocated;
  high_water = std::max(high_water, used());
  return cudaSuccess;
}

void collect_graph_memory(Call& call) {
  if (!call.runtime.device || call.runtime.sticky != cudaSuccess) return;
  auto unused = [](const std::shared_ptr<GraphMemory>& memory) {
    return memory.use_count() == 1 && !memory->allocated;
  };
  if (std::none_of(reserved().begin(), reserved().end(), unused)) return;
  // Others may reserve, use and collect while this waits: who is unused is asked again.
  if (call.wait(trace::HostWait::Kind::device) != cudaSuccess) return;
  std::erase_if(reserved(), [&](const std::shared_ptr<GraphMemory>& memory) {
    return unused(memory) && bool(call.device().release(memory->address, call.thread.number));
  });
}

} // namespace deadheat::embedded

using namespace deadheat::embedded;

namespace {

GraphNode* memory_node(Call& call, cudaGraphNode_t handle, cudaGraphNodeType type) {
  GraphNode* node = node_of(call, handle);
  return node && node->type == type && node->work.memory ? node : nullptr;
}

} // namespace

DEADHEAT_API(cudaGraphAddMemAllocNode, device,
             (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
              cudaMemAllocNodeParams* parameters),
             (node, graph, after, count, parameters)) {
  return add_allocation(call, node, graph, after, count, parameters);
}

DEADHEAT_API(cudaGraphAddMemFreeNode, device,
             (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, void* pointer),
             (node, graph, after, count, pointer)) {
  Work work{deadheat::trace::Marker{}};
  const cudaError_t status = free_work(call, pointer, &work);
  return status == cudaSuccess ? add_node(call, node, graph, after, count, cudaGraphNodeTypeMemFree, std::move(work))
                               : status;
}

DEADHEAT_API(cudaGraphMemAllocNodeGetParams, device, (cudaGraphNode_t handle, cudaMemAllocNodeParams* result),
             (handle, result)) {
  const GraphNode* node = memory_node(call, handle, cudaGraphNodeTypeMemAlloc);
  if (!node || !result) return cudaErrorInvalidValue;
  *result = {};
  result->poolProps.allocType = cudaMemAllocationTypePinned;
  result->poolProps.location = {cudaMemLocationTypeDevice, 0};
  result->bytesize = node->work.memory->bytes;
  result->dptr = reinterpret_cast<void*>(node->work.memory->address);
  return cudaSuccess;
}

DEADHEAT_API(cudaGraphMemFreeNodeGetParams, device, (cudaGraphNode_t handle, void* result), (handle, result)) {
  const GraphNode* node = memory_node(call, handle, cudaGraphNodeTypeMemFree);
  if (!node || !result) return cudaErrorInvalidValue;
  *static_cast<void**>(result) = reinterpret_cast<void*>(node->work.memory->address);
  return cudaSuccess;
}

DEADHEAT_API(cudaDeviceGetGraphMemAttribute, device, (int ordinal, cudaGraphMemAttributeType attribute, void* value),
             (ordinal, attribute, value)) {
  if (ordinal != 0) return cudaErrorInvalidDevice;
  if (!value) return cudaErrorInvalidValue;
  std::uint64_t bytes = 0;
  switch (attribute) {
    case cudaGraphMemAttrUsedMemCurrent: bytes = used(); break;
    case cudaGraphMemAttrUsedMemHigh: bytes = high_water; break;
    case cudaGraphMemAttrReservedMemCurrent:
      for (const auto& memory : reserved()) bytes += memory->bytes;
      break;
    case cudaGraphMemAttrReservedMemHigh: bytes = high_water; break;
    default: return cudaErrorInvalidValue;
  }
  *static_cast<std::uint64_t*>(value) = bytes;
  return cudaSuccess;
}

// Only the high water marks may be set, and only to zero.
DEADHEAT_API(cudaDeviceSetGraphMemAttribute, device, (int ordinal, cudaGraphMemAttributeType attribute, void* value),
             (ordinal, attribute, value)) {
  if (ordinal != 0) return cudaErrorInvalidDevice;
  if (!value || *static_cast<std::uint64_t*>(value) != 0) return cudaErrorInvalidValue;
  if (attribute != cudaGraphMemAttrUsedMemHigh && attribute != cudaGraphMemAttrReservedMemHigh)
    return cudaErrorInvalidValue;
  high_water = used();
  return cudaSuccess;
}

DEADHEAT_API(cudaDeviceGraphMemTrim, device, (int ordinal), (ordinal)) {
  if (ordinal != 0) return cudaErrorInvalidDevice;
  collect_graph_memory(call);
  return cudaSuccess;
}
