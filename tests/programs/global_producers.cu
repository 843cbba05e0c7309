// A queue of many producers and one consumer: a producer exchanges the tail for its node, and links the former tail to
// it. The consumer waits for the link. Stored plainly, it releases nothing, whatever fence stands before it; it races
// itself, and so does what the node holds.
#include "check.h"

constexpr int threads = 32, blocks = 4, each = 8, none = -1;

struct Node {
  int value, next;
};

__device__ void enqueue(Node* nodes, int* tail, int me, int value) {
  nodes[me].value = value;  // @Value
  __threadfence();
  const int before = atomicExch(tail, me);
#ifdef RACY
  nodes[before].next = me;  // @Link
#else
  *(volatile int*)&nodes[before].next = me;
#endif
}

__global__ void work(const int* in, Node* nodes, int* tail, int* sum) {
  if (threadIdx.x % each) return;
  if (blockIdx.x) return enqueue(nodes, tail, (blockIdx.x - 1) * threads + threadIdx.x + 1, in[threadIdx.x]);
  if (threadIdx.x) return;
  int at = 0, total = 0;
  for (int n = 0; n < (blocks - 1) * threads / each; ++n) {
    int next;
    while ((next = *(volatile int*)&nodes[at].next) == none) continue;  // @Wait
    __threadfence();
    total += nodes[next].value;  // @Taken
    at = next;
  }
  *sum = total;
}

int main() {
  const int count = threads * blocks + 1;
  int* in = to_device(numbers(count));
  Node* nodes = to_device(std::vector<Node>(count, Node{0, none}));
  int* tail = zeros<int>(1);
  int* sum = zeros<int>(1);
  work<<<blocks, threads>>>(in, nodes, tail, sum);
  report(sum, 1);
}
