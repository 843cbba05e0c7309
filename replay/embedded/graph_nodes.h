// Adding nodes to graphs and changing them: what the entry points for the several kinds of nodes share.
//
// Thread-safety: none; Runtime::lock.
#pragma once

#include "replay/embedded/copies.h"
#include "replay/embedded/graph.h"

namespace deadheat::embedded {

// Adds a node behind the `count` nodes of `list`. `child`: of a child graph node, copied.
cudaError_t add_node(Call& call, cudaGraphNode_t* result, cudaGraph_t graph, const cudaGraphNode_t* list, size_t count,
                     cudaGraphNodeType type, Work work, const Graph* child = nullptr);
// New work for a node of that type, in its graph or in an executable graph.
cudaError_t change_node(Call& call, cudaGraphNode_t node, cudaGraphNodeType type, Work work);
cudaError_t change_node(Call& call, cudaGraphExec_t executable, cudaGraphNode_t node, cudaGraphNodeType type,
                        Work work);

// Work of kernel nodes and of sets. Params: cudaMemsetParams or its second version.
cudaError_t kernel_work(Call& call, const cudaKernelNodeParams* given, Work* work);
template <class Params>
cudaError_t set_work(Call& call, const Params* given, Work* work);
// Work of event nodes and of nodes that free memory.
cudaError_t event_work(Call& call, cudaEvent_t event, bool waits, Work* work);
cudaError_t free_work(Call& call, void* pointer, Work* work);

// Memory that a graph's nodes allocate and free has its address from when the node is made (Programming Guide, "Graph
// Memory Nodes"). `parameters->dptr` is set. Params: cudaMemAllocNodeParams or its second version.
template <class Params>
cudaError_t add_allocation(Call& call, cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* list,
                           size_t count, Params* parameters);
// The same by capture of cudaMallocAsync and cudaFreeAsync.
cudaError_t capture_allocation(Call& call, Stream& stream, void** pointer, size_t bytes);
cudaError_t capture_free(Call& call, Stream& stream, void* pointer);
// A free outside of graphs of memory that a graph allocated. `handled`: it was such memory.
cudaError_t free_graph_memory(Call& call, void* pointer, Stream* stream, bool* handled);
// Gives back what no graph, executable or not, can allocate again.
void collect_graph_memory(Call& call);

} // namespace deadheat::embedded
