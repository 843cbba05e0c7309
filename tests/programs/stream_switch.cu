// A SWITCH node in the body of a WHILE node: each turn chooses which body runs. The node that gathers what it wrote
// lacks the edge from it.
#include "condition.h"

constexpr int count = 32;
constexpr int turns = 4;

__global__ void choose(int* turn, cudaGraphConditionalHandle which, cudaGraphConditionalHandle again) {
  if (threadIdx.x > 0) return;
  int now = (*turn)++;
  cudaGraphSetConditional(which, now % 3);
  cudaGraphSetConditional(again, now + 1 < turns);
}

__global__ void add_one(int* data) { data[threadIdx.x] += 1; }  // @One

__global__ void double_it(int* data) { data[threadIdx.x] *= 2; }  // @Two

__global__ void gather(const int* data, int* sum) {
  unsigned t = threadIdx.x;
  sum[t] += data[t];  // @Sum
}

int main() {
  int* data = to_device(numbers(count));
  int* sum = zeros<int>(count);
  int* turn = zeros<int>(1);
  cudaGraph_t graph = make_graph();
  cudaGraphConditionalHandle again = handle_of(graph, 1), which = handle_of(graph, 0);
  cudaGraph_t body = add_conditional(graph, nullptr, again, cudaGraphCondTypeWhile).bodies[0];
  cudaGraphNode_t chosen = add_kernel(body, nullptr, count, choose, turn, which, again);
  Conditional one = add_conditional(body, chosen, which, cudaGraphCondTypeSwitch, 2); // 2: none of them
  add_kernel(one.bodies[0], nullptr, count, add_one, data);
  add_kernel(one.bodies[1], nullptr, count, double_it, data);
#ifdef RACY
  cudaGraphNode_t before = chosen;
#else
  cudaGraphNode_t before = one.node;
#endif
  add_kernel(body, before, count, gather, static_cast<const int*>(data), sum);
  launch(graph, make_stream());
  report(sum, count);
}
