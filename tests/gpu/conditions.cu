// Graphs with conditional nodes, whose bodies run as the device decides: conditions WHAT FAULT
//
// loop     a WHILE node: steps of a Collatz sequence, in each of which a grid of 64 blocks writes. FAULT 1: another
//          stream copies what the bodies write, and has waited for nothing
// either   an IF node with two bodies, of which the second runs; FAULT 1: likewise
// choice   a SWITCH node in a WHILE node's body, beside an IF node; FAULT 1: what gathers does not wait for the choice
// again    the graph of `loop` launched 20 times at once, with a start of its own each; FAULT 1: as `loop`
// barrier  a WHILE node whose body's kernel adds up shared memory; FAULT 1: without its barrier
// Prints how often each body ran ("NAME COUNT"), sums of the results, and "done". A watchdog ends it after 60 seconds.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "checked_calls.h"

constexpr unsigned threads = 128, blocks = 64, count = threads * blocks;

__global__ void spread(const unsigned* number, unsigned* data) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  data[i] = data[i] * 31 + *number + i;
}
__global__ void collatz(unsigned* number, unsigned* steps, cudaGraphConditionalHandle again) {
  if (threadIdx.x > 0) return;
  *number = *number % 2 ? 3 * *number + 1 : *number / 2;
  ++*steps;
  cudaGraphSetConditional(again, *number != 1);
}
__global__ void start(unsigned* number, unsigned value) { *number = value; }
__global__ void look(const unsigned* number, cudaGraphConditionalHandle condition) {
  if (threadIdx.x == 0) cudaGraphSetConditional(condition, *number > 100);
}
__global__ void first_body(unsigned* data, unsigned* steps) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  data[i] += 1;
  if (i == 0) ++steps[1];
}
__global__ void second_body(unsigned* data, unsigned* steps) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  data[i] = data[i] * 3 + i;
  if (i == 0) ++steps[2];
}
__global__ void odd_body(unsigned* other, unsigned* steps) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  other[i] += i;
  if (i == 0) ++steps[3];
}
__global__ void choose(unsigned* steps, cudaGraphConditionalHandle which, cudaGraphConditionalHandle odd,
                       cudaGraphConditionalHandle again) {
  if (threadIdx.x > 0) return;
  const unsigned turn = steps[0]++;
  cudaGraphSetConditional(which, turn % 3);  // 2: none
  cudaGraphSetConditional(odd, turn % 2);
  cudaGraphSetConditional(again, turn + 1 < 10);
}
__global__ void gather(const unsigned* data, unsigned* sums) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  sums[i] += data[i];
}
template <bool fault>
__global__ void add_up(unsigned* data, unsigned* steps, cudaGraphConditionalHandle again) {
  __shared__ unsigned part[threads];
  part[threadIdx.x] = data[blockIdx.x * threads + threadIdx.x];
  if (!fault) __syncthreads();
  const unsigned other = part[threads - 1 - threadIdx.x];
  data[blockIdx.x * threads + threadIdx.x] += other;
  if (blockIdx.x > 0 || threadIdx.x > 0) return;
  ++*steps;
  cudaGraphSetConditional(again, *steps < 5);
}

unsigned* allocated(unsigned elements, unsigned value) {
  unsigned* data;
  std::vector<unsigned> host(elements);
  for (unsigned i = 0; i < elements; ++i) host[i] = i * value;
  CHECK(cudaMalloc(&data, sizeof(unsigned) * elements));
  CHECK(cudaMemcpy(data, host.data(), sizeof(unsigned) * elements, cudaMemcpyHostToDevice));
  return data;
}

cudaGraphConditionalHandle handle_of(cudaGraph_t graph, unsigned value) {
  cudaGraphConditionalHandle handle;
  CHECK(cudaGraphConditionalHandleCreate(&handle, graph, value, cudaGraphCondAssignDefault));
  return handle;
}
cudaGraphNode_t condition(cudaGraph_t graph, cudaGraphNode_t after, cudaGraphConditionalHandle handle,
                          cudaGraphConditionalNodeType type, unsigned size, cudaGraph_t*& bodies) {
  cudaGraphNodeParams params = {};
  params.type = cudaGraphNodeTypeConditional;
  params.conditional.handle = handle;
  params.conditional.type = type;
  params.conditional.size = size;
  cudaGraphNode_t node;
  CHECK(cudaGraphAddNode(&node, graph, &after, nullptr, after ? 1 : 0, &params));
  bodies = params.conditional.phGraph_out;
  return node;
}
template <class... Parameters, class... Arguments>
cudaGraphNode_t kernel(cudaGraph_t graph, cudaGraphNode_t after, unsigned grid, void (*function)(Parameters...),
                       Arguments... arguments) {
  void* pointers[] = {&arguments...};
  cudaGraphNodeParams params = {};
  params.type = cudaGraphNodeTypeKernel;
  params.kernel.func = reinterpret_cast<void*>(function);
  params.kernel.gridDim = dim3(grid);
  params.kernel.blockDim = dim3(threads);
  params.kernel.kernelParams = pointers;
  cudaGraphNode_t node;
  CHECK(cudaGraphAddNode(&node, graph, &after, nullptr, after ? 1 : 0, &params));
  return node;
}

struct Job {
  bool fault = false;
  unsigned *number = allocated(1, 0), *data = allocated(count, 3), *sums = allocated(count, 5), *steps = allocated(4, 0);
  cudaStream_t one, other;
  cudaGraph_t graph;
  cudaGraph_t* bodies = nullptr;

  explicit Job(bool fault_) : fault(fault_) {
    CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaDeviceSynchronize());
  }
  cudaGraphExec_t instantiate() {
    cudaGraphExec_t made;
    CHECK(cudaGraphInstantiate(&made, graph, 0));
    return made;
  }
  void copies_elsewhere() {
    cudaEvent_t written;
    CHECK(cudaEventCreateWithFlags(&written, cudaEventDisableTiming));
    CHECK(cudaEventRecord(written, one));
    if (!fault) CHECK(cudaStreamWaitEvent(other, written, 0));
    CHECK(cudaMemcpyAsync(sums, data, sizeof(unsigned) * count, cudaMemcpyDeviceToDevice, other));
  }

  void loop(unsigned launches) {
    const cudaGraphConditionalHandle again = handle_of(graph, 1);
    condition(graph, nullptr, again, cudaGraphCondTypeWhile, 1, bodies);
    CHECK(cudaStreamBeginCaptureToGraph(one, bodies[0], nullptr, nullptr, 0, cudaStreamCaptureModeThreadLocal));
    spread<<<blocks, threads, 0, one>>>(number, data);
    collatz<<<1, threads, 0, one>>>(number, steps, again);
    CHECK(cudaStreamEndCapture(one, nullptr));
    const cudaGraphExec_t executable = instantiate();
    for (unsigned i = 0; i < launches; ++i) {
      start<<<1, 1, 0, one>>>(number, 27 + i);
      CHECK(cudaGraphLaunch(executable, one));
    }
    copies_elsewhere();
  }
  void either() {
    const cudaGraphConditionalHandle large = handle_of(graph, 1);
    const cudaGraphNode_t looked = kernel(graph, nullptr, 1, look, static_cast<const unsigned*>(number), large);
    condition(graph, looked, large, cudaGraphCondTypeIf, 2, bodies);
    kernel(bodies[0], nullptr, blocks, first_body, data, steps);
    kernel(bodies[1], nullptr, blocks, second_body, data, steps);
    CHECK(cudaGraphLaunch(instantiate(), one));
    copies_elsewhere();
  }
  void choice() {
    unsigned* odd_data = allocated(count, 7);
    CHECK(cudaDeviceSynchronize());
    const cudaGraphConditionalHandle again = handle_of(graph, 1), which = handle_of(graph, 2), odd = handle_of(graph, 0);
    cudaGraph_t *cases = nullptr, *odd_bodies = nullptr;
    condition(graph, nullptr, again, cudaGraphCondTypeWhile, 1, bodies);
    const cudaGraph_t body = bodies[0];
    const cudaGraphNode_t chosen = kernel(body, nullptr, 1, choose, steps, which, odd, again);
    const cudaGraphNode_t switched = condition(body, chosen, which, cudaGraphCondTypeSwitch, 2, cases);
    kernel(cases[0], nullptr, blocks, first_body, data, steps);
    kernel(cases[1], nullptr, blocks, second_body, data, steps);
    condition(body, chosen, odd, cudaGraphCondTypeIf, 1, odd_bodies);
    kernel(odd_bodies[0], nullptr, blocks, odd_body, odd_data, steps);
    kernel(body, fault ? chosen : switched, blocks, gather, static_cast<const unsigned*>(data), sums);
    CHECK(cudaGraphLaunch(instantiate(), one));
  }
  void barrier() {
    const cudaGraphConditionalHandle again = handle_of(graph, 1);
    condition(graph, nullptr, again, cudaGraphCondTypeWhile, 1, bodies);
    kernel(bodies[0], nullptr, blocks, fault ? add_up<true> : add_up<false>, data, steps, again);
    CHECK(cudaGraphLaunch(instantiate(), one));
  }
  unsigned sum(const unsigned* of, unsigned elements) {
    std::vector<unsigned> host(elements);
    CHECK(cudaMemcpy(host.data(), of, sizeof(unsigned) * elements, cudaMemcpyDeviceToHost));
    unsigned result = 0;
    for (unsigned value : host) result = result * 31 + value;
    return result;
  }
};

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  alarm(60);
  const std::string what = argv[1];
  Job job(std::atoi(argv[2]) != 0);
  if (what == "loop")
    job.loop(1);
  else if (what == "again")
    job.loop(20);
  else if (what == "either")
    job.either();
  else if (what == "choice")
    job.choice();
  else if (what == "barrier")
    job.barrier();
  else
    return 2;
  CHECK(cudaDeviceSynchronize());
  unsigned steps[4];
  CHECK(cudaMemcpy(steps, job.steps, sizeof steps, cudaMemcpyDeviceToHost));
  const char* turns = what == "choice" ? "choose" : what == "barrier" ? "add_up" : what == "either" ? "look" : "collatz";
  std::printf("%s %u\n", turns, what == "either" ? 1 : steps[0]);
  std::printf("first_body %u\nsecond_body %u\nodd_body %u\n", steps[1], steps[2], steps[3]);
  if (!job.fault) std::printf("%08x %08x\n", job.sum(job.data, count), job.sum(job.sums, count));
  std::printf("done\n");
  return 0;
}
