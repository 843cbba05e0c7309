// What instantiating graphs and changing them has in common.
//
// Thread-safety: the thread has the graph for itself; the session's lock is not held, where nothing else is said.
#pragma once

#include <cuda.h>

#include <memory>

#include "tracer/cupti/graph.h"
#include "tracer/cupti/handlers.h"
#include "tracer/cupti/host_functions.h"

namespace deadheat::cupti {

// The way in of a call that makes an executable of the graph, or of a part: the library's host functions are put into
// the graph. The way out: what was put; null: nothing was.
void put_host_functions(Call& call, CUgraph graph);
std::unique_ptr<HostNodes> host_functions(Call& call);
// What the graph's nodes do. `hosts`: null: none.
Executable nodes_of(Call& call, CUgraph graph, HostNodes* hosts);
std::vector<GraphNode> nodes_of_body(Call& call, CUgraph body); // of a condition
// What the opaque kernel reaches that is this node of the graph, is known of the node that it is made of, if that was
// captured. Under the session's lock.
void made_of(Session& session, const Executable& graph, const GraphNode& made, CUgraphNode node);
// A node was changed that the executable is not known to have. Under the session's lock.
void changed_unseen(Session& session, CUgraphExec executable);
// The program's own kernels, in place of clones, in a graph and its child graphs; false: it has none. Says that the
// driver did not take the clones.
bool put_originals(Call& call, CUgraph graph);
void not_taken(Call& call, CUresult why);
// No launch of what it has will come. Under the session's lock.
void retire(Session& session, Executable& graph);
// The numbers of the graph's clones: the graph goes; or some executable may have them that is not known.
void release_controls(Call& call, CUgraph graph);
void keep_controls(Call& call, CUgraph graph);

} // namespace deadheat::cupti
