// A sum through shared memory in the body of a WHILE node; the barrier between filling the array and adding it up is
// missing. Only what runs in the body races, in each of its turns.
#include "condition.h"

constexpr int threads = 64;

__global__ void add_up(const int* in, int* sums, int* turn, cudaGraphConditionalHandle again) {
  __shared__ int s[threads];
  unsigned t = threadIdx.x;
  s[t] = in[t];  // @A
#ifndef RACY
  __syncthreads();
#endif
  if (t > 0) return;
  int sum = 0;
  for (int i = 0; i < threads; ++i) sum += s[i];  // @B
  int now = (*turn)++;
  sums[now] = sum;
  cudaGraphSetConditional(again, now + 1 < 3);
}

int main() {
  int* in = to_device(numbers(threads));
  int* sums = zeros<int>(3);
  int* turn = zeros<int>(1);
  cudaGraph_t graph = make_graph();
  cudaGraphConditionalHandle again = handle_of(graph, 1);
  cudaGraph_t body = add_conditional(graph, nullptr, again, cudaGraphCondTypeWhile).bodies[0];
  add_kernel(body, nullptr, threads, add_up, static_cast<const int*>(in), sums, turn, again);
  launch(graph, make_stream());
  report(sums, 3);
}
