#include "analyzer/order/stream_order.h"

#include <algorithm>

namespace deadheat::order {

namespace {

constexpr std::uint32_t legacy_stream = 1;

void add(std::vector<OperationId>& ids, const std::vector<OperationId>& more) {
  ids.insert(ids.end(), more.begin(), more.end());
}

void sort_unique(std::vector<OperationId>& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

// Streams that wait for the legacy stream and for which it waits (Runtime API, "Stream synchronization behavior").
bool blocks(trace::StreamCreate::Kind kind) { return kind != trace::StreamCreate::Kind::non_blocking; }

}  // namespace

StreamOrder::StreamOrder() { streams_[legacy_stream].kind = trace::StreamCreate::Kind::legacy; }

void StreamOrder::stream_created(const trace::StreamCreate& record) {
  Stream& stream = streams_[record.stream];
  stream.kind = record.kind;
  stream.device = record.device;
}

void StreamOrder::stream_destroyed(const trace::StreamDestroy& record) {
  auto found = streams_.find(record.stream);
  if (found != streams_.end()) found->second.destroyed = true;  // its work goes on, and others still wait for it
}

std::vector<OperationId> StreamOrder::entry_dependencies(const Stream& stream) const {
  std::vector<OperationId> ids = stream.tail;
  add(ids, stream.pending);
  if (stream.kind == trace::StreamCreate::Kind::legacy) {
    for (const auto& [id, other] : streams_) {
      if (&other != &stream && other.device == stream.device && blocks(other.kind)) {
        add(ids, other.tail);
        add(ids, other.pending);
      }
    }
  } else if (blocks(stream.kind)) {
    for (const auto& [id, other] : streams_) {
      if (other.kind == trace::StreamCreate::Kind::legacy && other.device == stream.device) {
        add(ids, other.tail);
        add(ids, other.pending);
      }
    }
  }
  sort_unique(ids);
  return ids;
}

std::vector<OperationId> StreamOrder::node_submitted(Graph& graph, const trace::Operation& operation) {
  std::vector<OperationId> ids = operation.node_dependencies;
  const auto* launch = std::get_if<trace::Launch>(&operation.what);
  const auto before = ids.size() == 1 ? graph.entered.find(ids.front()) : graph.entered.end();
  if (launch && launch->programmatic && before != graph.entered.end()) {
    primaries_[operation.id] = ids.front();
    ids = before->second;
  } else {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (const OperationId first = primary(ids[i])) ids.push_back(first);
    }
    sort_unique(ids);
    for (OperationId id : ids) std::erase(graph.sinks, id);
    if (ids.empty()) ids = graph.inherited;
  }
  graph.sinks.push_back(operation.id);
  if (launch) graph.entered[operation.id] = ids;
  return ids;
}

std::vector<OperationId> StreamOrder::submitted(const trace::Operation& operation) {
  if (operation.graph_launch) return node_submitted(graphs_[operation.graph_launch], operation);
  Stream& stream = streams_[operation.stream];
  std::vector<OperationId> ids = entry_dependencies(stream);
  const auto* launch = std::get_if<trace::Launch>(&operation.what);
  // CUDA C++ Programming Guide, "Programmatic Dependent Launch": behind a launch, and behind nothing that this did not
  // wait for itself (the legacy stream's last operation stays among what streams wait for).
  auto waited_for = [&](OperationId id) {
    return std::binary_search(stream.tail.begin(), stream.tail.end(), id) ||
           std::binary_search(stream.entered.begin(), stream.entered.end(), id);
  };
  if (launch && launch->programmatic && stream.launch && std::all_of(ids.begin(), ids.end(), waited_for)) {
    primaries_[operation.id] = stream.launch;
    ids = stream.entered;
    stream.tail.push_back(operation.id);
    sort_unique(stream.tail);
  } else {
    stream.entered = ids;
    stream.tail = {operation.id};
  }
  stream.launch = launch ? operation.id : 0;
  stream.pending.clear();
  return ids;
}

void StreamOrder::graph_begin(const trace::GraphLaunch& record) {
  Graph& graph = graphs_[record.id];
  graph.stream = record.stream;
  graph.inherited = entry_dependencies(streams_[record.stream]);
}

void StreamOrder::graph_end(const trace::GraphEnd& record) {
  auto found = graphs_.find(record.id);
  if (found == graphs_.end()) return;
  Stream& stream = streams_[found->second.stream];
  if (!found->second.sinks.empty()) { // an empty graph changes nothing
    stream.tail = found->second.sinks;
    stream.launch = 0;
    sort_unique(stream.tail);
    stream.pending.clear();
  }
  graphs_.erase(found);
}

void StreamOrder::event_recorded(const trace::EventRecord& record) { events_[record.event] = record.operation; }

OperationId StreamOrder::stream_waits(const trace::StreamWait& record) {
  // Replays name the record that was waited on; in a live run it is the event's record now.
  OperationId id = record.record_operation ? record.record_operation : event_operation(record.event);
  if (!id) return id;
  Stream& stream = streams_[record.stream];
  // A wait in the legacy stream is an action like any other there: it waits for all blocking streams, and they wait for
  // it (Runtime API, "Stream synchronization behavior").
  if (stream.kind == trace::StreamCreate::Kind::legacy) stream.pending = entry_dependencies(stream);
  stream.pending.push_back(id);
  return id;
}

std::vector<OperationId> StreamOrder::host_waits(const trace::HostWait& record) const {
  std::vector<OperationId> ids;
  switch (record.kind) {
    case trace::HostWait::Kind::device:
      for (const auto& [id, stream] : streams_) {
        if (record.id && stream.device != record.id - 1) continue;
        add(ids, stream.tail);
        add(ids, stream.pending);
      }
      break;
    case trace::HostWait::Kind::stream: {
      auto found = streams_.find(record.id);
      if (found == streams_.end()) break;
      // The legacy stream's last operation is ordered with the blocking streams; synchronizing it waits for them too.
      ids = found->second.kind == trace::StreamCreate::Kind::legacy ? entry_dependencies(found->second)
                                                                    : found->second.tail;
      add(ids, found->second.pending);
      break;
    }
    case trace::HostWait::Kind::event: {
      OperationId id = record.record_operation ? record.record_operation : event_operation(record.id);
      if (id) ids.push_back(id);
      break;
    }
    case trace::HostWait::Kind::operation:
      if (record.id) ids.push_back(record.id);
      break;
  }
  sort_unique(ids);
  return ids;
}

OperationId StreamOrder::event_operation(std::uint32_t event) const {
  auto found = events_.find(event);
  return found == events_.end() ? 0 : found->second;
}

std::vector<OperationId> StreamOrder::stream_tail(std::uint32_t stream) const {
  auto found = streams_.find(stream);
  return found == streams_.end() ? std::vector<OperationId>{} : found->second.tail;
}

} // namespace deadheat::order
