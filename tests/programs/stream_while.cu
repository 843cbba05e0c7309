// Smoothing until nothing changes, as the body of a WHILE node: the node that takes the new values over and decides
// whether there is another turn lacks the edge from the one that computes them.
#include "condition.h"

constexpr int count = 64;
constexpr int most_turns = 12;

__global__ void smooth(const int* now, int* next) {
  int t = int(threadIdx.x);
  int sum = now[t > 0 ? t - 1 : t] + now[t + 1 < count ? t + 1 : t];  // @Old
  next[t] = sum / 2;  // @New
}

__global__ void take_over(int* now, const int* next, int* turns, cudaGraphConditionalHandle again) {
  int t = int(threadIdx.x);
  int value = next[t];  // @Read
  int changed = __syncthreads_or(value != now[t]);
  now[t] = value;  // @Write
  if (t == 0) cudaGraphSetConditional(again, changed && ++*turns < most_turns);
}

int main() {
  int* now = to_device(numbers(count));
  int* next = zeros<int>(count);
  int* turns = zeros<int>(1);
  cudaGraph_t graph = make_graph();
  cudaGraphConditionalHandle again = handle_of(graph, 1);
  cudaGraph_t body = add_conditional(graph, nullptr, again, cudaGraphCondTypeWhile).bodies[0];
  cudaGraphNode_t computed = add_kernel(body, nullptr, count, smooth, static_cast<const int*>(now), next);
#ifdef RACY
  computed = nullptr;
#endif
  add_kernel(body, computed, count, take_over, now, static_cast<const int*>(next), turns, again);
  launch(graph, make_stream());
  std::printf("%d turns\n", to_host(turns, 1)[0]);
  report(now, count);
}
