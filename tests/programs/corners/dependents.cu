// Programmatic dependent launches: a launch that may begin before the one ahead of it in its stream is complete, and what
// griddepcontrol.wait adds (PTX ISA 9.7.13.13; CUDA programming guide, programmatic dependent launch). In races_* the wait
// is missing, late, or made by others. corners.py reads the names.
#include "check.h"

constexpr int threads = 64, blocks = 2, count = threads * blocks;

struct Room {
  int* weights = zeros<int>(count);
  int* in = zeros<int>(count);
  int* middle = zeros<int>(count);
  int* out = zeros<int>(count);
  cudaStream_t stream = make_stream(cudaStreamNonBlocking);
  ~Room() { CHECK(cudaDeviceSynchronize()); }
};
std::vector<void (*)(Room&)>& cases() {
  static std::vector<void (*)(Room&)> all;
  return all;
}
#define CASE(name)                                             \
  namespace name {                                             \
  void run(Room& room);                                        \
  const bool listed = (cases().push_back(run), true);          \
  }                                                            \
  namespace name

__device__ void trigger() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ void wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ int index() { return blockIdx.x * threads + threadIdx.x; }

// May begin while the launch ahead of it runs, where that has triggered it.
template <class... Parameters, class... Arguments>
void launch_dependent(cudaStream_t stream, void (*kernel)(Parameters...), Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.stream = stream;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

// ---- a prologue that overlaps with the launch ahead

CASE(ordered_prologue) {
  __global__ void first(const int* in, int* middle) {
    trigger();
    middle[index()] = in[index()] + 1;
  }
  __global__ void second(const int* weights, const int* middle, int* out) {
    __shared__ int s[threads];
    s[threadIdx.x] = weights[index()]; // nobody writes these
    __syncthreads();
    wait();
    out[index()] = s[threads - 1 - threadIdx.x] * middle[count - 1 - index()];
  }
  void run(Room& r) {
    first<<<blocks, threads, 0, r.stream>>>(r.in, r.middle);
    launch_dependent(r.stream, second, r.weights, r.middle, r.out);
  }
}
CASE(races_prologue_reads_results) {
  __global__ void first(const int* in, int* middle) {
    trigger();
    middle[index()] = in[index()] + 1; // @race
  }
  __global__ void second(const int* middle, int* out) {
    const int early = middle[count - 1 - index()]; // @race
    wait();
    out[index()] = early;
  }
  void run(Room& r) {
    first<<<blocks, threads, 0, r.stream>>>(r.in, r.middle);
    launch_dependent(r.stream, second, r.middle, r.out);
  }
}
CASE(races_written_before_the_trigger) { // it lets the next begin, and publishes nothing
  __global__ void first(const int* in, int* middle) {
    middle[index()] = in[index()] + 1; // @race
    __threadfence();
    trigger();
  }
  __global__ void second(const int* middle, int* out) {
    out[index()] = middle[count - 1 - index()]; // @race
  }
  void run(Room& r) {
    first<<<blocks, threads, 0, r.stream>>>(r.in, r.middle);
    launch_dependent(r.stream, second, r.middle, r.out);
  }
}
CASE(races_prologue_overwrites_input) { // what the launch ahead still reads
  __global__ void first(const int* in, int* middle) {
    trigger();
    middle[index()] = in[index()] + 1; // @race
  }
  __global__ void second(int* in, const int* middle, int* out) {
    in[count - 1 - index()] = 5; // @race
    wait();
    out[index()] = middle[index()];
  }
  void run(Room& r) {
    first<<<blocks, threads, 0, r.stream>>>(r.in, r.middle);
    launch_dependent(r.stream, second, r.in, r.middle, r.out);
  }
}
CASE(ordered_overwrites_input_behind_the_wait) {
  __global__ void first(const int* in, int* middle) {
    trigger();
    middle[index()] = in[index()] + 1;
  }
  __global__ void second(int* in, const int* middle, int* out) {
    wait();
    in[count - 1 - index()] = 5;
    out[index()] = middle[index()];
  }
  void run(Room& r) {
    first<<<blocks, threads, 0, r.stream>>>(r.in, r.middle);
    launch_dependent(r.stream, second, r.in, r.middle, r.out);
  }
}

// ---- who waits

CASE(ordered_one_thread_waits_for_its_block) {
  __global__ void first(int* middle) {
    trigger();
    middle[index()] = 1;
  }
  __global__ void second(const int* middle, int* out) {
    if (threadIdx.x == 0) wait();
    __syncthreads();
    out[index()] = middle[count - 1 - index()];
  }
  void run(Room& r) {
    first<<<blocks, threads, 0, r.stream>>>(r.middle);
    launch_dependent(r.stream, second, r.middle, r.out);
  }
}
CASE(races_one_thread_waits_for_itself) {
  __global__ void first(int* middle) {
    trigger();
    middle[index()] = 1; // @race
  }
  __global__ void second(const int* middle, int* out) {
    if (threadIdx.x == 0) wait();
    out[index()] = middle[count - 1 - index()]; // @race
  }
  void run(Room& r) {
    first<<<blocks, threads, 0, r.stream>>>(r.middle);
    launch_dependent(r.stream, second, r.middle, r.out);
  }
}
CASE(races_one_block_waits) {
  __global__ void first(int* middle) {
    trigger();
    middle[index()] = 1; // @race
  }
  __global__ void second(const int* middle, int* out) {
    if (blockIdx.x == 0) wait();
    out[index()] = middle[count - 1 - index()]; // @race
  }
  void run(Room& r) {
    first<<<blocks, threads, 0, r.stream>>>(r.middle);
    launch_dependent(r.stream, second, r.middle, r.out);
  }
}

// ---- chains

CASE(ordered_chain_of_waits) {
  __global__ void first(int* in) {
    trigger();
    in[index()] = 1;
  }
  __global__ void second(int* middle) {
    trigger();
    wait();
    middle[index()] = 2;
  }
  __global__ void third(const int* in, const int* middle, int* out) {
    wait();
    out[index()] = in[count - 1 - index()] + middle[count - 1 - index()];
  }
  void run(Room& r) {
    first<<<blocks, threads, 0, r.stream>>>(r.in);
    launch_dependent(r.stream, second, r.middle);
    launch_dependent(r.stream, third, r.in, r.middle, r.out);
  }
}
CASE(ordered_plain_launch_behind_dependents) { // it begins when those before it are complete
  __global__ void first(int* in) {
    trigger();
    in[index()] = 1;
  }
  __global__ void second(int* middle) {
    wait();
    middle[index()] = 2;
  }
  __global__ void third(const int* in, const int* middle, int* out) {
    out[index()] = in[count - 1 - index()] + middle[count - 1 - index()];
  }
  void run(Room& r) {
    first<<<blocks, threads, 0, r.stream>>>(r.in);
    launch_dependent(r.stream, second, r.middle);
    third<<<blocks, threads, 0, r.stream>>>(r.in, r.middle, r.out);
  }
}
CASE(ordered_wait_of_a_plain_launch) { // nothing to wait for
  __global__ void first(int* in) {
    trigger();
    in[index()] = 1;
  }
  __global__ void second(const int* in, int* out) {
    out[index()] = in[count - 1 - index()];
    wait();
  }
  void run(Room& r) {
    first<<<blocks, threads, 0, r.stream>>>(r.in);
    second<<<blocks, threads, 0, r.stream>>>(r.in, r.out);
  }
}
CASE(ordered_copy_behind_a_dependent) {
  __global__ void first(int* middle) {
    trigger();
    middle[index()] = 1;
  }
  __global__ void second(const int* middle, int* out) {
    wait();
    out[index()] = middle[count - 1 - index()];
  }
  void run(Room& r) {
    first<<<blocks, threads, 0, r.stream>>>(r.middle);
    launch_dependent(r.stream, second, r.middle, r.out);
    CHECK(cudaMemcpyAsync(r.in, r.out, count * sizeof(int), cudaMemcpyDeviceToDevice, r.stream));
    CHECK(cudaMemsetAsync(r.middle, 0, count * sizeof(int), r.stream));
  }
}
CASE(ordered_never_triggered) { // the trigger comes with the end of its blocks, the writes still need the wait
  __global__ void first(int* middle) { middle[index()] = 1; }
  __global__ void second(const int* middle, int* out) {
    wait();
    out[index()] = middle[count - 1 - index()];
  }
  void run(Room& r) {
    first<<<blocks, threads, 0, r.stream>>>(r.middle);
    launch_dependent(r.stream, second, r.middle, r.out);
  }
}

// ---- in graphs: a captured launch has a programmatic edge, and so may one that is made by hand

template <class Work>
void launch_captured(cudaStream_t stream, Work&& work) {
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  work();
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphLaunch(executable, stream));
}
cudaGraphNode_t add(cudaGraph_t graph, void* kernel, std::vector<void*> arguments) {
  cudaKernelNodeParams parameters = {};
  parameters.func = kernel;
  parameters.gridDim = dim3(blocks);
  parameters.blockDim = dim3(threads);
  parameters.kernelParams = arguments.data();
  cudaGraphNode_t node;
  CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &parameters));
  return node;
}
CASE(races_captured_without_a_wait) {
  __global__ void first(int* middle) {
    trigger();
    middle[index()] = 1; // @race
  }
  __global__ void second(const int* middle, int* out) {
    out[index()] = middle[count - 1 - index()]; // @race
  }
  void run(Room& r) {
    launch_captured(r.stream, [&] {
      first<<<blocks, threads, 0, r.stream>>>(r.middle);
      launch_dependent(r.stream, second, r.middle, r.out);
    });
  }
}
CASE(ordered_captured_with_a_wait) { // and a copy behind both
  __global__ void first(int* middle) {
    trigger();
    middle[index()] = 1;
  }
  __global__ void second(const int* middle, int* out) {
    wait();
    out[index()] = middle[count - 1 - index()];
  }
  void run(Room& r) {
    launch_captured(r.stream, [&] {
      first<<<blocks, threads, 0, r.stream>>>(r.middle);
      launch_dependent(r.stream, second, r.middle, r.out);
      CHECK(cudaMemsetAsync(r.middle, 0, count * sizeof(int), r.stream));
    });
    CHECK(cudaMemsetAsync(r.out, 0, count * sizeof(int), r.stream));
  }
}
CASE(ordered_captured_behind_a_set) { // an edge from something else than a kernel is full
  __global__ void second(const int* middle, int* out) {
    out[index()] = middle[count - 1 - index()];
  }
  void run(Room& r) {
    launch_captured(r.stream, [&] {
      CHECK(cudaMemsetAsync(r.middle, 0, count * sizeof(int), r.stream));
      launch_dependent(r.stream, second, r.middle, r.out);
    });
  }
}
CASE(races_programmatic_edge) {
  __global__ void first(int* middle) {
    trigger();
    middle[index()] = 1; // @race
  }
  __global__ void second(const int* middle, int* out) {
    out[index()] = middle[count - 1 - index()]; // @race
  }
  void run(Room& r) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t before = add(graph, reinterpret_cast<void*>(first), {&r.middle});
    cudaGraphNode_t after = add(graph, reinterpret_cast<void*>(second), {&r.middle, &r.out});
    cudaGraphEdgeData edge = {};
    edge.from_port = cudaGraphKernelNodePortProgrammatic;
    edge.type = cudaGraphDependencyTypeProgrammatic;
    CHECK(cudaGraphAddDependencies(graph, &before, &after, &edge, 1));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, r.stream));
  }
}
CASE(races_edge_from_the_launch_alone) { // the blocks of the first have begun
  __global__ void first(int* middle) {
    middle[index()] = 1; // @race
  }
  __global__ void second(const int* middle, int* out) {
    out[index()] = middle[count - 1 - index()]; // @race
  }
  void run(Room& r) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t before = add(graph, reinterpret_cast<void*>(first), {&r.middle});
    cudaGraphNode_t after = add(graph, reinterpret_cast<void*>(second), {&r.middle, &r.out});
    cudaGraphEdgeData edge = {};
    edge.from_port = cudaGraphKernelNodePortLaunchCompletion;
    CHECK(cudaGraphAddDependencies(graph, &before, &after, &edge, 1));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, r.stream));
  }
}
CASE(races_edge_given_to_a_capture) {
  __global__ void first(int* middle) {
    middle[index()] = 1; // @race
  }
  __global__ void second(const int* middle, int* out) {
    out[index()] = middle[count - 1 - index()]; // @race
  }
  void run(Room& r) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t before = add(graph, reinterpret_cast<void*>(first), {&r.middle});
    cudaGraphEdgeData edge = {};
    edge.from_port = cudaGraphKernelNodePortProgrammatic;
    edge.type = cudaGraphDependencyTypeProgrammatic;
    CHECK(cudaStreamBeginCaptureToGraph(r.stream, graph, &before, &edge, 1, cudaStreamCaptureModeGlobal));
    second<<<blocks, threads, 0, r.stream>>>(r.middle, r.out);
    CHECK(cudaStreamEndCapture(r.stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, r.stream));
  }
}
CASE(ordered_edge_of_a_capture_behind_another_kernel) { // the edge is the first one's that is captured
  __global__ void first(int* middle) { middle[index()] = 1; }
  __global__ void waits(int* out) {
    wait();
    out[index()] = 2;
  }
  __global__ void second(const int* middle, int* out) { out[index()] = middle[count - 1 - index()]; }
  void run(Room& r) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t before = add(graph, reinterpret_cast<void*>(first), {&r.middle});
    cudaGraphEdgeData edge = {};
    edge.from_port = cudaGraphKernelNodePortProgrammatic;
    edge.type = cudaGraphDependencyTypeProgrammatic;
    CHECK(cudaStreamBeginCaptureToGraph(r.stream, graph, nullptr, nullptr, 0, cudaStreamCaptureModeGlobal));
    CHECK(cudaStreamUpdateCaptureDependencies(r.stream, &before, &edge, 1, cudaStreamSetCaptureDependencies));
    waits<<<blocks, threads, 0, r.stream>>>(r.out);
    second<<<blocks, threads, 0, r.stream>>>(r.middle, r.out);
    CHECK(cudaStreamEndCapture(r.stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, r.stream));
  }
}
CASE(ordered_full_edge) {
  __global__ void first(int* middle) {
    trigger();
    middle[index()] = 1;
  }
  __global__ void second(const int* middle, int* out) {
    out[index()] = middle[count - 1 - index()];
  }
  void run(Room& r) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t before = add(graph, reinterpret_cast<void*>(first), {&r.middle});
    cudaGraphNode_t after = add(graph, reinterpret_cast<void*>(second), {&r.middle, &r.out});
    CHECK(cudaGraphAddDependencies(graph, &before, &after, nullptr, 1));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, r.stream));
  }
}

int main() {
  for (void (*run)(Room&) : cases()) {
    Room room;
    run(room);
  }
  std::printf("%zu cases\n", cases().size());
}
