// Jobs with graphs under the preload library, over embedded_cuda.cpp: graph_job WHAT EARLY
//
// A graph's launch copies into a page-locked buffer, and another stream's copy into it comes behind that, as a host
// function of the graph tells the host. WHAT: how the function comes into the executable.
// added      to the graph that is instantiated         captured   from a stream
// cloned     the graph is a clone                      child      in a child graph
// updated    the whole executable is updated           set        the executable's node is changed
// set_any    likewise, by the function for any node    child_set  the executable's child graph is changed
// launched   a captured launch of an executable, which is destroyed before the graph is instantiated
// again      the second launch; the executable is destroyed before that one has ended
// Or what tells is an event: records (a node records it, and the other stream waits), waits (a node waits for it).
// EARLY 1: what tells comes before the copy, and nothing orders the two.
//
// memory     memory that a graph allocates, writes and frees; EARLY 1: another stream writes it, too
// kernels    two nodes of which one was made and the other changed with what the driver told of the first; EARLY 1:
//            they write the same memory
// dependent  one kernel behind another, which write the same memory; EARLY 1: by a programmatic edge, and it does not
// refilled   a graph copies from page-locked memory, which the host refills; EARLY 1: before it has waited
// filled     likewise, and a host function of the graph fills the memory ahead of the copy: certain is nothing
//            wait
// fails      a launch that fails, and one that does not
// while WHAT three turns of a loop, in each of which a kernel writes and one behind it counts; EARLY 1: the body is
//            captured. WHAT: "" or several of
//            races  another stream writes the same   edge  the body's two kernels are not ordered, and write the same
//            set    the executable's kernel that writes is changed to write elsewhere   twice  launched twice at once
//            many   1000 turns                          behind  a kernel behind the loop writes the same
//            leaves while the graph runs, which makes a billion turns
// nested     in each of four turns a kernel chooses which of two bodies runs, or none
// either     the second of two bodies runs
// often      graphs that are captured, cloned, instantiated and destroyed over and over; EARLY 1: while they run.
// Prints
//            how many bytes more are in use after ten times as many
// Prints "done".
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/tracer/condition_kernels.h"
#include "tests/tracer/driver_check.h"
#include "tests/tracer/fill_kernel.h"

extern "C" unsigned embedded_turns(); // how often bodies of conditions ran: of the stand-in for the driver

namespace {

constexpr std::size_t bytes = 128;

struct Job {
  CUmodule module = nullptr;
  CUstream one = nullptr, other = nullptr;
  CUdeviceptr memory = 0;
  void *buffer = nullptr, *elsewhere = nullptr;
  std::atomic<int> told{0};
  bool early = false;

  explicit Job(bool early_) : early(early_) {
    CHECK(cuInit(0));
    CHECK(cuModuleLoadData(&module, (std::string(fill_kernel) + condition_kernels).c_str()));
    CHECK(cuStreamCreateWithPriority(&one, CU_STREAM_NON_BLOCKING, 0));
    CHECK(cuStreamCreateWithPriority(&other, CU_STREAM_NON_BLOCKING, 0));
    CHECK(cuMemAlloc_v2(&memory, 4096));
    CHECK(cuMemsetD32Async(memory, 1, 1024, one));
    CHECK(cuMemHostAlloc(&buffer, bytes, 0));
    CHECK(cuMemHostAlloc(&elsewhere, bytes, 0));
    CHECK(cuStreamSynchronize(one));
  }

  static void tell(void* of) { ++*static_cast<std::atomic<int>*>(of); }
  static void nothing(void*) {}
  CUDA_HOST_NODE_PARAMS telling() { return {tell, &told}; }
  CUDA_HOST_NODE_PARAMS silent() { return {nothing, nullptr}; }

  CUDA_MEMCPY3D copy(void* to) const {
    CUDA_MEMCPY3D c{};
    c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    c.srcDevice = memory;
    c.dstMemoryType = CU_MEMORYTYPE_HOST;
    c.dstHost = to;
    c.WidthInBytes = bytes;
    c.Height = c.Depth = 1;
    return c;
  }
  // A copy and a function behind it, or the other way round. Returns the function's node.
  CUgraphNode fill(CUgraph graph, void* to, const CUDA_HOST_NODE_PARAMS& function) const {
    CUgraphNode copied = nullptr, tells = nullptr;
    const CUDA_MEMCPY3D c = copy(to);
    if (early) CHECK(cuGraphAddHostNode(&tells, graph, nullptr, 0, &function));
    CHECK(cuGraphAddMemcpyNode(&copied, graph, &tells, early, &c, nullptr));
    if (!early) CHECK(cuGraphAddHostNode(&tells, graph, &copied, 1, &function));
    return tells;
  }
  static CUgraph graph() {
    CUgraph made = nullptr;
    CHECK(cuGraphCreate(&made, 0));
    return made;
  }
  static CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec made = nullptr;
    CHECK(cuGraphInstantiateWithFlags(&made, graph, 0));
    return made;
  }

  CUgraphExec told_by(const std::string& what) {
    const CUgraph made = graph();
    const bool later = what == "updated" || what.starts_with("set");
    if (what == "captured") {
      const CUDA_HOST_NODE_PARAMS function = telling();
      CHECK(cuStreamBeginCaptureToGraph(one, made, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
      if (early) CHECK(cuLaunchHostFunc(one, function.fn, function.userData));
      CHECK(cuMemcpyDtoHAsync_v2(buffer, memory, bytes, one));
      if (!early) CHECK(cuLaunchHostFunc(one, function.fn, function.userData));
      CUgraph captured = nullptr;
      CHECK(cuStreamEndCapture(one, &captured));
      return instantiate(captured);
    }
    if (what.starts_with("child")) {
      const CUgraph child = graph(), changed = graph();
      CUgraphNode node = nullptr;
      const bool changes = what == "child_set";
      fill(child, changes ? elsewhere : buffer, changes ? silent() : telling());
      CHECK(cuGraphAddChildGraphNode(&node, made, nullptr, 0, child));
      const CUgraphExec executable = instantiate(made);
      fill(changed, buffer, telling());
      if (changes) CHECK(cuGraphExecChildGraphNodeSetParams(executable, node, changed));
      return executable;
    }
    const CUgraphNode node = fill(made, buffer, later ? silent() : telling());
    if (what == "cloned") {
      CUgraph clone = nullptr;
      CHECK(cuGraphClone(&clone, made));
      return instantiate(clone);
    }
    const CUgraphExec executable = instantiate(made);
    if (what == "updated") {
      const CUgraph changed = graph();
      CUgraphExecUpdateResultInfo info{};
      fill(changed, buffer, telling());
      CHECK(cuGraphExecUpdate_v2(executable, changed, &info));
    } else if (what == "set") {
      const CUDA_HOST_NODE_PARAMS function = telling();
      CHECK(cuGraphExecHostNodeSetParams(executable, node, &function));
    } else if (what == "set_any") {
      CUgraphNodeParams params{};
      params.type = CU_GRAPH_NODE_TYPE_HOST;
      params.host = {telling().fn, telling().userData};
      CHECK(cuGraphExecNodeSetParams(executable, node, &params));
    } else if (what == "launched") {
      const CUgraph outer = graph();
      CUgraph captured = nullptr;
      CHECK(cuStreamBeginCaptureToGraph(one, outer, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
      CHECK(cuGraphLaunch(executable, one));
      CHECK(cuStreamEndCapture(one, &captured));
      CHECK(cuGraphExecDestroy(executable));
      return instantiate(captured);
    }
    CUDA_HOST_NODE_PARAMS function{}; // the program's own, still
    CHECK(cuGraphHostNodeGetParams(node, &function));
    if (function.fn != (later ? nothing : tell)) std::exit(1);
    return executable;
  }

  void hosts(const std::string& what) {
    const CUgraphExec executable = told_by(what);
    const int launches = what == "again" ? 2 : 1;
    for (int i = 0; i < launches; ++i) CHECK(cuGraphLaunch(executable, one));
    if (launches > 1) CHECK(cuGraphExecDestroy(executable));
    while (told < launches) usleep(1000);
    CHECK(cuMemcpyDtoHAsync_v2(buffer, memory + bytes, bytes, other));
  }

  void events(bool recorded_by_graph) {
    const CUgraph made = graph();
    CUevent event = nullptr;
    CUgraphNode before = nullptr, node = nullptr;
    CHECK(cuEventCreate(&event, 0));
    const CUDA_MEMCPY3D c = copy(buffer);
    if (recorded_by_graph) {
      if (early) CHECK(cuGraphAddEventRecordNode(&before, made, nullptr, 0, event));
      CHECK(cuGraphAddMemcpyNode(&node, made, &before, early, &c, nullptr));
      if (!early) CHECK(cuGraphAddEventRecordNode(&before, made, &node, 1, event));
      CHECK(cuGraphLaunch(instantiate(made), one));
      CHECK(cuStreamWaitEvent(other, event, 0));
      CHECK(cuMemcpyDtoHAsync_v2(buffer, memory + bytes, bytes, other));
    } else {
      CHECK(cuGraphAddEventWaitNode(&before, made, nullptr, 0, event));
      CHECK(cuGraphAddMemcpyNode(&node, made, &before, 1, &c, nullptr));
      const CUgraphExec executable = instantiate(made);
      if (early) CHECK(cuEventRecord(event, other));
      CHECK(cuMemcpyDtoHAsync_v2(buffer, memory + bytes, bytes, other));
      if (!early) CHECK(cuEventRecord(event, other));
      CHECK(cuGraphLaunch(executable, one));
    }
  }

  void allocations() {
    const CUgraph made = graph();
    CUgraphNode node = nullptr, after = nullptr;
    CUDA_MEM_ALLOC_NODE_PARAMS allocated{};
    allocated.bytesize = 4096;
    CHECK(cuGraphAddMemAllocNode(&node, made, nullptr, 0, &allocated));
    CUDA_MEMSET_NODE_PARAMS set{allocated.dptr, 0, 3, 4, 1024, 1};
    CHECK(cuGraphAddMemsetNode(&after, made, &node, 1, &set, nullptr));
    CHECK(cuGraphAddMemFreeNode(&node, made, &after, 1, allocated.dptr));
    const CUgraphExec executable = instantiate(made);
    for (int i = 0; i < 2; ++i) CHECK(cuGraphLaunch(executable, one));
    if (early) CHECK(cuMemsetD32Async(allocated.dptr, 1, 1, other));
  }

  void kernels() {
    CUfunction function = nullptr;
    CHECK(cuModuleGetFunction(&function, module, "fill"));
    CUdeviceptr to = memory, apart = memory + 1024;
    void *parameters[] = {&to}, *changed[] = {early ? &to : &apart};
    const CUgraph made = graph();
    CUgraphNode nodes[2];
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_KERNEL;
    params.kernel = {function, 1, 1, 1, 32, 1, 1, 0, parameters, nullptr, nullptr, nullptr};
    for (CUgraphNode& node : nodes) CHECK(cuGraphAddNode_v2(&node, made, nullptr, nullptr, 0, &params));
    CUDA_KERNEL_NODE_PARAMS told_of{};
    CHECK(cuGraphKernelNodeGetParams_v2(nodes[0], &told_of));
    CUfunction of_told = told_of.func;
    const char *name = nullptr, *own = nullptr;
    CHECK(cuFuncGetName(&name, of_told));
    CHECK(cuFuncGetName(&own, function));
    if (std::string(name) != own) std::exit(1);
    told_of.kernelParams = changed;
    CHECK(cuGraphKernelNodeSetParams_v2(nodes[1], &told_of));
    const CUgraphExec executable = instantiate(made);
    for (int i = 0; i < 2; ++i) CHECK(cuGraphLaunch(executable, one));
  }

  void dependent() {
    CUfunction function = nullptr;
    CHECK(cuModuleGetFunction(&function, module, "fill"));
    void* parameters[] = {&memory};
    const CUgraph made = graph();
    CUgraphNode before, behind;
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_KERNEL;
    params.kernel = {function, 1, 1, 1, 32, 1, 1, 0, parameters, nullptr, nullptr, nullptr};
    CHECK(cuGraphAddNode_v2(&before, made, nullptr, nullptr, 0, &params));
    const CUgraphEdgeData edge{CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, 0, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC, {}};
    CHECK(cuGraphAddNode_v2(&behind, made, &before, early ? &edge : nullptr, 1, &params));
    CHECK(cuGraphLaunch(instantiate(made), one));
  }

  CUfunction function(const char* name) const {
    CUfunction found = nullptr;
    CHECK(cuModuleGetFunction(&found, module, name));
    return found;
  }
  // Kernels of one block behind `after`; null: behind nothing.
  template <typename... Values>
  static CUgraphNode kernel(CUgraph graph, CUgraphNode after, CUfunction function, Values... values) {
    void* parameters[] = {&values...};
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_KERNEL;
    params.kernel = {function, 1, 1, 1, 32, 1, 1, 0, parameters, nullptr, nullptr, nullptr};
    CUgraphNode node = nullptr;
    CHECK(cuGraphAddNode_v2(&node, graph, &after, nullptr, after ? 1 : 0, &params));
    return node;
  }
  static CUgraphConditionalHandle handle(CUgraph graph, unsigned value) {
    CUgraphConditionalHandle made = 0;
    CHECK(cuGraphConditionalHandleCreate(&made, graph, nullptr, value, CU_GRAPH_COND_ASSIGN_DEFAULT));
    return made;
  }
  static CUgraphNode condition(CUgraph graph, CUgraphNode after, CUgraphConditionalHandle handle,
                               CUgraphConditionalNodeType type, unsigned size, CUgraph*& bodies) {
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = size;
    CUgraphNode node = nullptr;
    CHECK(cuGraphAddNode_v2(&node, graph, &after, nullptr, after ? 1 : 0, &params));
    bodies = params.conditional.phGraph_out;
    return node;
  }

  // memory + 2048: how many turns are left.
  void loops(const std::string& how) {
    const auto has = [&](const char* word) { return how.find(word) != std::string::npos; };
    const CUgraph made = graph();
    const CUgraphConditionalHandle again = handle(made, 1);
    CUgraph* bodies = nullptr;
    const CUfunction fill = function("fill"), count = function("count");
    const unsigned turns = has("many") ? 1000 : has("leaves") ? 1 << 30 : 3;
    CHECK(cuMemsetD32Async(memory + 2048, has("twice") ? 2 * turns : turns, 1, one));
    CHECK(cuStreamSynchronize(one));
    const CUgraphNode loop = condition(made, nullptr, again, CU_GRAPH_COND_TYPE_WHILE, 1, bodies);
    CUdeviceptr left = memory + 2048, apart = memory + 1024, counts = memory + (has("edge") ? 0 : 512);
    CUgraphNode writes = nullptr;
    if (early) {
      void* filled[] = {&memory};
      void* counted[] = {&left, &counts, const_cast<CUgraphConditionalHandle*>(&again), const_cast<unsigned*>(&turns)};
      CUgraph body = nullptr;
      CHECK(cuStreamBeginCaptureToGraph(one, bodies[0], nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
      CHECK(cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, one, filled, nullptr));
      CHECK(cuLaunchKernel(count, 1, 1, 1, 32, 1, 1, 0, one, counted, nullptr));
      CHECK(cuStreamEndCapture(one, &body));
    } else {
      writes = kernel(bodies[0], nullptr, fill, memory);
      kernel(bodies[0], has("edge") ? nullptr : writes, count, left, counts, again, turns);
    }
    if (has("behind")) kernel(made, loop, fill, memory);
    const CUgraphExec executable = instantiate(made);
    void* changed[] = {&apart};
    const CUDA_KERNEL_NODE_PARAMS elsewhere{fill, 1, 1, 1, 32, 1, 1, 0, changed, nullptr, nullptr, nullptr};
    if (has("set")) CHECK(cuGraphExecKernelNodeSetParams_v2(executable, writes, &elsewhere));
    CHECK(cuGraphLaunch(executable, one));
    if (has("twice")) CHECK(cuGraphLaunch(executable, one));
    if (has("leaves")) {
      for (int left = 30'000; embedded_turns() < 8 && left; --left) usleep(1000);
      std::printf("done\n");
      std::exit(0);
    }
    CHECK(cuMemsetD32Async(memory, 1, 32, has("races") ? other : one));
  }

  void nested() {
    const CUgraph made = graph();
    const CUgraphConditionalHandle again = handle(made, 1), which = handle(made, 5);
    CUgraph *loop = nullptr, *cases = nullptr;
    const CUfunction fill = function("fill");
    CHECK(cuMemsetD32Async(memory + 2048, 4, 1, one));
    CHECK(cuStreamSynchronize(one));
    condition(made, nullptr, again, CU_GRAPH_COND_TYPE_WHILE, 1, loop);
    // What is left, 3 to 0, chooses: none, none, the second, the first, of two.
    const CUgraphNode first = kernel(loop[0], nullptr, function("count"), memory + 2048, memory + 512, again, 4u);
    const CUgraphNode chosen = kernel(loop[0], first, function("choose"), memory + 2048, which);
    const CUgraphNode switched = condition(loop[0], chosen, which, CU_GRAPH_COND_TYPE_SWITCH, 2, cases);
    kernel(cases[0], nullptr, fill, memory);
    kernel(cases[1], nullptr, fill, memory + 1024);
    if (!early) kernel(loop[0], switched, fill, memory);
    if (early) kernel(loop[0], chosen, fill, memory);
    CHECK(cuGraphLaunch(instantiate(made), one));
  }

  void either() {
    const CUgraph made = graph();
    CUgraph* bodies = nullptr;
    condition(made, nullptr, handle(made, 0), CU_GRAPH_COND_TYPE_IF, 2, bodies);
    kernel(bodies[0], nullptr, function("fill"), memory);
    kernel(bodies[1], nullptr, function("fill"), memory + 1024);
    CHECK(cuGraphLaunch(instantiate(made), one));
    CHECK(cuMemsetD32Async(memory + (early ? 1024 : 0), 1, 32, other));
  }

  // Of 64 kernels each; they write the same memory, one after the other.
  void capture_and_destroy(CUfunction function, bool launches) {
    void* parameters[] = {&memory};
    CUgraph captured = nullptr, copy = nullptr;
    CHECK(cuStreamBeginCaptureToGraph(one, graph(), nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int i = 0; i < 64; ++i) CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, one, parameters, nullptr));
    CHECK(cuStreamEndCapture(one, &captured));
    CHECK(cuGraphClone(&copy, captured));
    const CUgraphExec executable = instantiate(captured), of_copy = instantiate(copy);
    CHECK(cuGraphDestroy(captured));
    CHECK(cuGraphDestroy(copy));
    if (launches) CHECK(cuGraphLaunch(executable, one));
    CHECK(cuGraphExecDestroy(executable));
    if (launches) CHECK(cuGraphLaunch(of_copy, one));
    CHECK(cuGraphExecDestroy(of_copy));
  }
  void often() {
    CUfunction function = nullptr;
    CHECK(cuModuleGetFunction(&function, module, "fill"));
    const auto in_use = [] {
      usleep(300'000); // what waits to be written is
      return long(mallinfo2().uordblks);
    };
    for (int i = 0; i < 100; ++i) capture_and_destroy(function, false);
    const long before = in_use();
    for (int i = 0; i < 1000; ++i) capture_and_destroy(function, false);
    std::printf("%ld\n", in_use() - before);
    if (early) {
      for (int i = 0; i < 3; ++i) capture_and_destroy(function, true);
    }
  }

  void refills(bool by_function) {
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = buffer;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = memory;
    copy.WidthInBytes = bytes;
    copy.Height = copy.Depth = 1;
    const CUgraph made = graph();
    CUgraphNode first = nullptr, node = nullptr;
    const CUDA_HOST_NODE_PARAMS fill{[](void* at) { std::memset(at, 5, bytes); }, buffer};
    if (by_function) CHECK(cuGraphAddHostNode(&first, made, nullptr, 0, &fill));
    CHECK(cuGraphAddMemcpyNode(&node, made, &first, by_function, &copy, nullptr));
    const CUgraphExec executable = instantiate(made);
    for (int i = 0; i < 3; ++i) {
      if (!early) CHECK(cuStreamSynchronize(one));
      if (!by_function) std::memset(buffer, i, bytes);
      CHECK(cuGraphLaunch(executable, one));
    }
  }

  void fails() {
    const CUgraph made = graph();
    CUfunction function = nullptr;
    CHECK(cuModuleGetFunction(&function, module, "fill"));
    void* parameters[] = {&memory};
    CUgraphNode node = nullptr, next = nullptr;
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_KERNEL;
    params.kernel = {function, 1, 1, 1, 32, 1, 1, 0, parameters, nullptr, nullptr, nullptr};
    CHECK(cuGraphAddNode_v2(&node, made, nullptr, nullptr, 0, &params));
    const CUDA_HOST_NODE_PARAMS function_of_host = telling();
    CHECK(cuGraphAddHostNode(&next, made, &node, 1, &function_of_host));
    const CUgraphExec executable = instantiate(made);
    if (cuGraphLaunch(executable, CU_STREAM_LEGACY) == CUDA_SUCCESS) std::exit(1);
    CHECK(cuGraphLaunch(executable, one));
    while (!told) usleep(1000);
  }
};

} // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string what = argv[1];
  Job job(std::atoi(argv[2]));
  if (what == "records" || what == "waits")
    job.events(what == "records");
  else if (what == "memory")
    job.allocations();
  else if (what == "kernels")
    job.kernels();
  else if (what == "dependent")
    job.dependent();
  else if (what.starts_with("while"))
    job.loops(what);
  else if (what == "nested")
    job.nested();
  else if (what == "either")
    job.either();
  else if (what == "often")
    job.often();
  else if (what == "refilled" || what == "filled")
    job.refills(what == "filled");
  else if (what == "fails")
    job.fails();
  else
    job.hosts(what);
  CHECK(cuStreamSynchronize(job.one));
  CHECK(cuStreamSynchronize(job.other));
  std::printf("done\n");
  return 0;
}
