#include "tracer/cupti/graph_copies.h"

#include <mutex>

#include "tracer/cupti/graph.h"
#include "tracer/cupti/recorder.h"
#include "tracer/cupti/window.h"

namespace deadheat::cupti {

namespace {

struct Read {
  std::size_t node = 0;
  trace::MemoryRange source;
  bool pageable = false;
};

std::vector<Read> reads_of(const std::vector<GraphNode>& nodes) {
  using Direction = trace::Copy::Direction;
  std::vector<Read> reads;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto* copy = std::get_if<trace::Copy>(&nodes[i].what);
    if (copy && nodes[i].enabled && (copy->direction == Direction::h2d || copy->direction == Direction::h2h))
      reads.push_back({i, copy->source, copy->pageable_source});
  }
  return reads;
}

// A host function that need not come behind the node: it may fill what that reads. Nodes stand behind what they come
// after.
bool function_may_come_first(const std::vector<GraphNode>& nodes, std::size_t node) {
  std::vector<bool> behind(nodes.size());
  behind[node] = true;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (std::uint32_t before : nodes[i].after) behind[i] = behind[i] || behind[before];
    if (nodes[i].enabled && std::holds_alternative<trace::HostCallback>(nodes[i].what) && !behind[i]) return true;
  }
  return false;
}

} // namespace

std::vector<trace::Bytes> bytes_from_host(Call& call, CUgraphExec executable) {
  Session& session = call.session;
  Window* const window = session.window();
  std::vector<trace::Bytes> bytes;
  if (!window || !window->open() || window->is_spoiled()) return bytes;
  std::vector<Read> reads;
  {
    std::lock_guard hold(session.lock);
    const auto found = session.executables.find(executable);
    if (found == session.executables.end()) return bytes;
    const std::vector<GraphNode>& nodes = found->second.nodes;
    reads = reads_of(nodes);
    bytes.resize(reads.empty() ? 0 : nodes.size());
    for (const Read& read : reads) {
      if (function_may_come_first(nodes, read.node))
        window->spoil("a graph copies from the host what a host function of it may write");
    }
  }
  if (reads.empty() || window->is_spoiled()) return bytes;
  const Window::Alone alone(*window);
  session.recorder().let_kernels_end(call.context, Unfinished::while_loading);
  if (!window->rest(call.context)) {
    window->spoil("the device did not come to rest before a graph that copies from the host");
    return bytes;
  }
  for (const Read& read : reads) {
    if (!read.pageable) window->device_reads(read.source);
    bytes[read.node] = window->bytes_of(read.source, false, nullptr);
  }
  return bytes;
}

} // namespace deadheat::cupti
