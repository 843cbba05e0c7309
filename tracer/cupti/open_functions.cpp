#include "tracer/cupti/open_functions.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace deadheat::cupti {

namespace {

using StreamKind = trace::StreamCreate::Kind;

constexpr std::uint32_t legacy_stream = 1; // of the first device: nobody makes it

} // namespace

OpenFunctions::OpenFunctions() { streams_[legacy_stream].kind = StreamKind::legacy; }

void OpenFunctions::stream_made(const trace::StreamCreate& stream) {
  Stream& made = streams_[stream.stream];
  made.kind = stream.kind;
  made.device = stream.device;
}

OpenFunctions::Functions OpenFunctions::still_open(const Functions& functions) const {
  Functions open;
  std::copy_if(functions.begin(), functions.end(), std::back_inserter(open),
               [&](std::uint32_t function) { return open_.count(function); });
  return open;
}

void OpenFunctions::join(Functions& functions, const Functions& more) const {
  if (more.empty()) return;
  Functions both;
  std::set_union(functions.begin(), functions.end(), more.begin(), more.end(), std::back_inserter(both));
  functions = std::move(both);
}

OpenFunctions::Functions OpenFunctions::functions_before(std::uint32_t operation) const {
  if (open_.count(operation)) return {operation}; // and those that it comes behind are over before
  return behind(operation);
}

OpenFunctions::Functions OpenFunctions::behind(std::uint32_t operation) const {
  const auto found = behind_.find(operation);
  return found == behind_.end() ? Functions() : still_open(found->second.functions);
}

// Runtime API, "Stream synchronization behavior".
OpenFunctions::Functions OpenFunctions::in_stream(std::uint32_t stream) {
  Stream& of = streams_[stream];
  of.behind = still_open(of.behind);
  Functions functions = of.behind;
  if (of.kind == StreamKind::non_blocking) return functions;
  for (const auto& [id, other] : streams_) {
    const bool one_is_legacy = (other.kind == StreamKind::legacy) != (of.kind == StreamKind::legacy);
    if (id != stream && other.kind != StreamKind::non_blocking && other.device == of.device && one_is_legacy)
      join(functions, still_open(other.behind));
  }
  return functions;
}

void OpenFunctions::submitted(const trace::Operation& operation) {
  const bool opens = opening_ && operation.id == opening_;
  if (opens) opening_ = 0;
  const auto graph = operation.graph_launch ? graphs_.find(operation.graph_launch) : graphs_.end();
  Functions functions;
  if (graph == graphs_.end()) {
    functions = in_stream(operation.stream);
  } else {
    for (const std::uint32_t before : operation.node_dependencies) join(functions, functions_before(before));
    if (operation.node_dependencies.empty()) functions = still_open(graph->second.entered);
  }
  if (!functions.empty()) {
    behind_[operation.id].functions = functions;
    open_[functions.front()].behind.push_back(operation.id);
  }
  if (opens) open_[operation.id];
  const Functions behind_it = opens ? Functions{operation.id} : functions;
  if (graph == graphs_.end()) {
    streams_[operation.stream].behind = behind_it;
    return;
  }
  Functions& left = graph->second.left;
  if (opens) std::erase_if(left, [&](std::uint32_t id) { return std::count(functions.begin(), functions.end(), id); });
  join(left, behind_it);
}

void OpenFunctions::wait(const trace::StreamWait& wait) {
  join(streams_[wait.stream].behind, functions_before(wait.record_operation));
}

void OpenFunctions::graph_begins(const trace::GraphLaunch& launch) {
  Graph& graph = graphs_[launch.id];
  graph.stream = launch.stream;
  graph.entered = in_stream(launch.stream);
}

void OpenFunctions::graph_ends(const trace::GraphEnd& end) {
  const auto graph = graphs_.find(end.id);
  if (graph == graphs_.end()) return;
  Functions& behind = streams_[graph->second.stream].behind;
  join(behind, still_open(graph->second.left));
  graphs_.erase(graph);
}

bool OpenFunctions::keeps_begin(std::uint32_t operation) {
  const auto found = behind_.find(operation);
  return found != behind_.end() && (found->second.begins = true);
}

bool OpenFunctions::keeps(std::uint32_t operation, std::shared_ptr<Awaited>& accesses) {
  const auto found = behind_.find(operation);
  if (found == behind_.end()) return false;
  found->second.accesses = std::move(accesses);
  return true;
}

bool OpenFunctions::keeps_end(std::uint32_t operation) {
  const auto found = behind_.find(operation);
  return found != behind_.end() && (found->second.ends = true);
}

void OpenFunctions::begun(std::uint32_t function, trace::TraceWriter& writer) {
  const auto found = open_.find(function);
  if (found != open_.end() && !std::exchange(found->second.begun, true)) writer.write(trace::OperationBegin{function});
  // What comes before it is complete, and it can tell any host thread so.
  writer.write(trace::HostWait{trace::HostWait::Kind::operation, function, 0, false, 0});
}

void OpenFunctions::over(const FunctionOver& function, trace::TraceWriter& writer) {
  const auto found = open_.find(function.operation);
  if (found == open_.end()) return;
  if (!std::exchange(found->second.begun, true)) writer.write(trace::OperationBegin{function.operation});
  if (!function.wrote.empty()) writer.write(trace::Effects{function.operation, function.wrote});
  // For the second time (FORMAT.md).
  if (function.told) writer.write(trace::HostWait{trace::HostWait::Kind::operation, function.operation, 0, false, 0});
  ends(found, writer);
}

void OpenFunctions::ends(std::map<std::uint32_t, Open>::iterator function, trace::TraceWriter& writer) {
  writer.write(trace::OperationEnd{function->first});
  const std::vector<std::uint32_t> waiting = std::move(function->second.behind);
  open_.erase(function);
  for (const std::uint32_t operation : waiting) {
    const auto found = behind_.find(operation);
    Behind& waits = found->second;
    waits.functions = still_open(waits.functions);
    if (!waits.functions.empty()) {
      open_[waits.functions.front()].behind.push_back(operation);
      continue;
    }
    if (waits.begins) due_.push_back({operation, true, waits.ends, std::move(waits.accesses)});
    behind_.erase(found);
  }
}

void OpenFunctions::is_over(std::uint32_t function, trace::TraceWriter& writer) {
  const auto found = open_.find(function);
  if (found == open_.end()) return;
  if (!found->second.begun) writer.write(trace::OperationBegin{function});
  ends(found, writer);
}

// What is submitted while it waits is not covered.
void OpenFunctions::host_begins_to_wait(const trace::HostWaitBegin& wait) {
  using Kind = trace::HostWait::Kind;
  Functions& functions = waited_for_[wait.host_thread];
  functions.clear();
  if (wait.kind == Kind::stream) functions = in_stream(wait.id);
  if (wait.kind != Kind::device) return;
  for (const auto& [id, stream] : streams_) {
    if (!wait.id || stream.device + 1 == wait.id) join(functions, still_open(stream.behind));
  }
}

void OpenFunctions::host_waited(const trace::HostWait& wait, trace::TraceWriter& writer) {
  using Kind = trace::HostWait::Kind;
  Functions functions;
  if (wait.kind == Kind::event) functions = functions_before(wait.record_operation);
  const auto begun = waited_for_.find(wait.host_thread);
  if ((wait.kind == Kind::stream || wait.kind == Kind::device) && !wait.query && begun != waited_for_.end())
    functions = std::exchange(begun->second, {});
  are_over(std::move(functions), writer);
}

void OpenFunctions::are_over(Functions functions, trace::TraceWriter& writer) {
  while (!functions.empty()) {
    const std::uint32_t function = functions.back();
    const Functions before = behind(function);
    if (before.empty()) {
      is_over(function, writer);
      functions.pop_back();
    }
    functions.insert(functions.end(), before.begin(), before.end());
  }
}

void OpenFunctions::all_over(trace::TraceWriter& writer) {
  while (!open_.empty()) is_over(open_.begin()->first, writer);
}

bool OpenFunctions::flush(trace::TraceWriter& writer, bool last_chance) {
  for (; !due_.empty(); due_.pop_front()) {
    Due& due = due_.front();
    if (std::exchange(due.begins, false)) writer.write(trace::OperationBegin{due.operation});
    if (due.accesses && !due.accesses->write(writer, last_chance)) return false;
    if (due.ends) writer.write(trace::OperationEnd{due.operation});
  }
  return true;
}

} // namespace deadheat::cupti
