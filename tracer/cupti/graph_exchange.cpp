#include "tracer/cupti/graph_exchange.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "tracer/cupti/graph_pieces.h"
#include "tracer/cupti/host_functions.h"
#include "tracer/cupti/injection.h"
#include "tracer/cupti/libraries.h"
#include "tracer/cupti/modules.h"
#include "tracer/cupti/recorder.h"
#include "tracer/cupti/relaxed.h"

namespace deadheat::cupti {

OtherKernel::~OtherKernel() {
  if (control) recorder_.no_longer_has(control);
}

namespace {

bool good(CUresult result) { return result == CUDA_SUCCESS; }

} // namespace

// ---- what the driver does

namespace {

thread_local CUgraphExec tried = nullptr;

// The library's handlers see this call, too.
struct Seen {
  Seen() { std::swap(here.own_calls, own_); }
  ~Seen() { std::swap(here.own_calls, own_); }
  std::uint16_t own_ = 0;
};

// A word of the device that one graph sets to 1 and another to 2: the first is launched, and exchanged for the second.
// What is left of it is small, and never given back: freeing memory waits for kernels.
bool takes_another(Call& call) {
  const Driver& d = driver();
  const Relaxed relaxed;
  CUdeviceptr word = 0;
  CUstream stream = nullptr;
  if (!d.cuMemAlloc_v2 || !d.cuStreamCreateWithPriority || !d.cuMemcpyDtoHAsync_v2 ||
      !good(d.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0)) ||
      !good(d.cuMemAlloc_v2(&word, sizeof(std::uint32_t))))
    return false;
  const std::shared_ptr<NodeAlone> one = sets_word(word, 1, call.context), two = sets_word(word, 2, call.context);
  if (!one || !two || !one->executable() || !two->executable()) return false;
  tried = two->executable();
  CUresult result = CUDA_SUCCESS;
  {
    const Seen seen;
    result = d.cuGraphLaunch(one->executable(), stream);
  }
  tried = nullptr;
  std::uint32_t value = 0;
  return good(result) && ends_soon(stream) && good(d.cuMemcpyDtoHAsync_v2(&value, word, sizeof value, stream)) &&
         good(d.cuStreamSynchronize(stream)) && value == 2;
}

bool driver_takes_another(Call& call) {
  static std::once_flag once;
  static bool takes = false;
  std::call_once(once, [&] { takes = takes_another(call); });
  return takes;
}

void not_exchanged(Call& call, const Others& others, const char* why) {
  if (std::none_of(others.begin(), others.end(), [](const auto& other) { return other && other->control; }))
    return say_once(std::string("a graph's kernels go on as if they were recorded, which takes time: ") + why);
  const std::string line = std::string("kernels of a graph that was made before are not recorded: ") + why;
  say_once(line);
  call.session.incident("opaque", line);
}

} // namespace

CUgraphExec tried_graph() { return tried; }

// ---- which kernels

Others others_of(Call& call, CUgraphExec executable) {
  struct Wanted {
    std::size_t node;
    std::shared_ptr<NodeAlone> alone;
  };
  Session& session = call.session;
  Others others;
  std::vector<Wanted> wanted;
  if (!session.options().accesses) return others;
  Recorder& recorder = session.recorder();
  const bool paused = recorder.is_paused();
  {
    std::lock_guard hold(session.lock);
    const auto found = session.executables.find(executable);
    if (found == session.executables.end() || !found->second.exchangeable) return others;
    const std::vector<GraphNode>& nodes = found->second.nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const GraphNode& node = nodes[i];
      if (!node.enabled || !node.kernel || !node.alone || node.has_no_other) continue;
      if (node.control ? !paused : paused || !node.kernel->instrumented || !recorder.wants(node.kernel->name)) continue;
      others.resize(nodes.size());
      others[i] = node.other;
      if (!node.other) wanted.push_back({i, node.alone});
    }
  }
  if (wanted.empty()) return others;
  recorder.let_kernels_end(call.context, Unfinished::while_loading); // code is loaded
  for (const Wanted& one : wanted) {
    others[one.node] = other_kernel(call, *one.alone);
    std::lock_guard hold(session.lock);
    GraphNode& node = session.executables[executable].nodes[one.node];
    node.other = others[one.node];
    node.has_no_other = !node.other;
  }
  if (std::none_of(others.begin(), others.end(), [](const auto& other) { return bool(other); })) others.clear();
  return others;
}

// ---- another executable

// As the program's, less what a part of it has in place of others.
class WholeGraph {
 public:
  WholeGraph(Call& call, std::vector<Piece> pieces) : pieces_(std::move(pieces)) {
    const Driver& d = driver();
    std::vector<CUgraphNode> nodes;
    if (!d.cuGraphAddEmptyNode || !d.cuGraphAddHostNode || !d.cuGraphAddEventRecordNode || !d.cuGraphAddEventWaitNode ||
        !good(d.cuGraphCreate(&graph_, 0)))
      return;
    for (const Piece& piece : pieces_) {
      std::vector<CUgraphNode> after;
      for (std::uint32_t before : piece.after) after.push_back(nodes[before]);
      CUgraphNode node = nullptr;
      if (piece.alone)
        node = add_like(call, graph_, after, piece.alone->node());
      else if (piece.host)
        add_host(after, *piece.host, node);
      else if (piece.event && piece.event_waits)
        d.cuGraphAddEventWaitNode(&node, graph_, after.data(), after.size(), piece.event);
      else if (piece.event)
        d.cuGraphAddEventRecordNode(&node, graph_, after.data(), after.size(), piece.event);
      else
        d.cuGraphAddEmptyNode(&node, graph_, after.data(), after.size());
      if (!node) return;
      nodes.push_back(node);
    }
    if (!good(d.cuGraphInstantiateWithFlags(&executable_, graph_, 0))) executable_ = nullptr;
  }
  ~WholeGraph() {
    const Own own;
    if (executable_) driver().cuGraphExecDestroy(executable_); // once its launches have ended
    if (graph_) driver().cuGraphDestroy(graph_);
  }
  WholeGraph(const WholeGraph&) = delete;
  WholeGraph& operator=(const WholeGraph&) = delete;

  CUgraphExec executable() const { return executable_; } // null: the driver did not make it
  bool is_of(const std::vector<Piece>& pieces) const { return pieces_ == pieces; }

 private:
  void add_host(const std::vector<CUgraphNode>& after, HostNode& host, CUgraphNode& node) {
    const CUDA_HOST_NODE_PARAMS given = host.given();
    driver().cuGraphAddHostNode(&node, graph_, after.data(), after.size(), &given);
  }

  std::vector<Piece> pieces_;
  CUgraph graph_ = nullptr;
  CUgraphExec executable_ = nullptr;
};

CUgraphExec with_others(Call& call, CUgraphExec executable, const Others& others) {
  Session& session = call.session;
  std::vector<Piece> pieces;
  std::shared_ptr<WholeGraph> whole;
  const char* why = nullptr;
  {
    std::lock_guard hold(session.lock);
    const auto found = session.executables.find(executable);
    if (found == session.executables.end()) return nullptr;
    why = take_apart(found->second, others, pieces);
    whole = found->second.whole;
  }
  if (!why && !(whole && whole->is_of(pieces))) {
    if (!can_be_taken_apart())
      why = "the driver is too old";
    else if (!driver_takes_another(call))
      why = "the driver does not launch another graph in its place";
    if (!why) {
      std::shared_ptr<WholeGraph> place = whole = std::make_shared<WholeGraph>(call, std::move(pieces));
      std::lock_guard hold(session.lock);
      std::swap(session.executables[executable].whole, place); // what was there goes without the lock
    }
  }
  if (!why && !whole->executable()) why = "the driver did not take it";
  if (why) not_exchanged(call, others, why);
  return why ? nullptr : whole->executable();
}

// ---- one launch at a time

struct LastLaunch {
  ~LastLaunch() {
    const Own own;
    if (event) driver().cuEventDestroy_v2(event);
  }
  CUevent event = nullptr; // behind it
  CUgraphExec given = nullptr;
  std::uint32_t stream = 0;
};

void keep_apart(Call& call, CUgraphExec executable, CUgraphExec given, CUstream stream) {
  CUevent event = nullptr;
  {
    std::lock_guard hold(call.session.lock);
    const auto found = call.session.executables.find(executable);
    if (found == call.session.executables.end() || !found->second.last) return;
    const LastLaunch& last = *found->second.last;
    if (last.given != given && last.stream != call.stream(stream)) event = last.event;
  }
  if (event) driver().cuStreamWaitEvent(call.own_handle(stream), event, 0);
}

void launched_last(Call& call, CUgraphExec executable, CUgraphExec given, CUstream stream) {
  const Driver& d = driver();
  std::shared_ptr<LastLaunch> last;
  {
    std::lock_guard hold(call.session.lock);
    const auto found = call.session.executables.find(executable);
    if (found == call.session.executables.end() || !found->second.exchangeable) return;
    if (!found->second.last) found->second.last = std::make_shared<LastLaunch>();
    last = found->second.last;
    last->given = given;
    last->stream = call.stream(stream);
  }
  if (!last->event && !good(d.cuEventCreate(&last->event, CU_EVENT_DISABLE_TIMING))) last->event = nullptr;
  if (last->event) d.cuEventRecord(last->event, call.own_handle(stream));
}

} // namespace deadheat::cupti
