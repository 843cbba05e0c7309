// Threads push nodes onto lists, and one thread a list takes what is there at once: it exchanges the head until it has got
// something. Whoever pushes has fenced before. Without a fence behind the exchange what the nodes hold need not be there
// yet.
#include "check.h"

constexpr int threads = 32, blocks = 2, lists = 4, none = -1;

struct Node {
  int value, next;
};

__device__ int sum_of(const Node* nodes, int first) {
  int sum = 0;
  for (int n = first; n != none; n = nodes[n].next) sum += nodes[n].value;  // @Walk
  return sum;
}

__device__ int take(int* head) {
  int first;
  do {
    first = atomicExch(head, none);
  } while (first == none);
#ifndef RACY
  __threadfence();
#endif
  return first;
}

__global__ void push_and_take(const int* in, Node* nodes, int* heads, int* sums) {
  const int me = blockIdx.x * threads + threadIdx.x;
  int* head = heads + me % lists;
  if (me < lists) {
    sums[me] = sum_of(nodes, take(head));
    return;
  }
  nodes[me].value = in[me];  // @Value
  int seen = *(volatile int*)head, expected;
  do {
    expected = seen;
    nodes[me].next = expected;  // @Next
    __threadfence();
    seen = atomicCAS(head, expected, me);
  } while (seen != expected);
}

__global__ void take_the_rest(const Node* nodes, const int* heads, int* sums) {
  sums[threadIdx.x] += sum_of(nodes, heads[threadIdx.x]);
}

int main() {
  const int count = threads * blocks;
  int* in = to_device(numbers(count));
  Node* nodes = zeros<Node>(count);
  int* heads = to_device(std::vector<int>(lists, none));
  int* sums = zeros<int>(lists);
  push_and_take<<<blocks, threads>>>(in, nodes, heads, sums);
  take_the_rest<<<1, lists>>>(nodes, heads, sums);
  report(sums, lists);
}
