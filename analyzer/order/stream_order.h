// The order of operations: which operations a submitted one must wait for, by the rules of CUDA streams, events,
// default streams, stream-ordered memory and graphs (CUDA C++ Programming Guide, "Asynchronous Concurrent
// Execution" and "Stream Ordered Memory Allocator"; Runtime API, "Stream synchronization behavior").
//
// One implementation, two users: the analyzer applies it to the records of a trace, the embedded device applies it to
// know which submitted operations are ready. Feed it API-level facts in the order the host threads made them.
//
// Thread-safety: none; the caller serializes. No CUDA, no LLVM.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "deadheat/host_waits.h"
#include "deadheat/trace.h"

namespace deadheat::order {

using OperationId = std::uint32_t;

using deadheat::host_itself;

class StreamOrder {
 public:
  StreamOrder();  // knows stream 1, the legacy default stream

  void stream_created(const trace::StreamCreate& record);
  void stream_destroyed(const trace::StreamDestroy& record);

  // Direct predecessors of `operation` (transitively reduced where that is cheap), in increasing order. Rules: the
  // operation before it in its stream; waits that the stream has made since; for the legacy stream, the last operation
  // of every blocking stream, and for a blocking stream, the last operation of the legacy stream; for a graph node,
  // its node dependencies, roots inheriting what the graph launch itself would wait for.
  std::vector<OperationId> submitted(const trace::Operation& operation);

  // The launch before it in its stream that `operation`, just submitted, need not wait for to begin (programmatic
  // dependent launch); 0: none. Only a launch directly behind a launch, with nothing else to wait for since; or a
  // graph's node that depends on a launch alone. What submitted() gave is then what that launch itself waited for, and
  // the stream's next operation, or nodes that depend on `operation`, wait for both.
  OperationId primary(OperationId operation) const {
    auto found = primaries_.find(operation);
    return found == primaries_.end() ? 0 : found->second;
  }

  void graph_begin(const trace::GraphLaunch& record);
  void graph_end(const trace::GraphEnd& record); // the stream's next operation waits for all nodes without successors

  void event_recorded(const trace::EventRecord& record); // record.operation was submitted just before
  // Returns the operation that later work of the stream waits for; 0 when there is none.
  OperationId stream_waits(const trace::StreamWait& record);

  // Operations that are complete when the wait returns (with all their predecessors).
  std::vector<OperationId> host_waits(const trace::HostWait& record) const;

  // The record operation an event stands for now; 0 if never recorded.
  OperationId event_operation(std::uint32_t event) const;
  std::uint32_t device(std::uint32_t stream) const {
    auto found = streams_.find(stream);
    return found == streams_.end() ? 0 : found->second.device;
  }
  // Last operations of a stream (several after a graph launch).
  std::vector<OperationId> stream_tail(std::uint32_t stream) const;

 private:
  struct Stream {
    trace::StreamCreate::Kind kind = trace::StreamCreate::Kind::blocking;
    std::uint32_t device = 0;
    std::vector<OperationId> tail; // operations that later ones of the stream must wait for
    std::vector<OperationId> pending; // waits made since the tail
    OperationId launch = 0; // its last operation, when that is a launch
    std::vector<OperationId> entered; // what that launch waited for
    bool destroyed = false;
  };
  struct Graph {
    std::uint32_t stream = 0;
    std::vector<OperationId> inherited, sinks;
    std::map<OperationId, std::vector<OperationId>> entered; // what its launches waited for
  };
  std::vector<OperationId> node_submitted(Graph& graph, const trace::Operation& operation);
  std::vector<OperationId> entry_dependencies(const Stream& stream) const;

  std::map<std::uint32_t, Stream> streams_;
  std::map<OperationId, OperationId> primaries_;
  std::map<std::uint32_t, OperationId> events_;
  std::map<std::uint32_t, Graph> graphs_;
};

} // namespace deadheat::order
