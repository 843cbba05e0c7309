// A stack without locks: blocks push nodes by a compare-and-swap of its head, and others pop them. Without a fence before
// the swap that publishes a node, neither its value nor its link need be there for who finds it: one fault, however many
// places hear of the head.
#include "check.h"

constexpr int threads = 64, blocks = 4, each = 32, none = -1;

struct Node {
  int value, next;
};

__device__ void push(Node* nodes, int* head, int me, int value) {
  nodes[me].value = value;  // @Value
  int seen = *(volatile int*)head, expected;
  do {
    expected = seen;
    nodes[me].next = expected;  // @Next
#ifndef RACY
    __threadfence();
#endif
    seen = atomicCAS(head, expected, me);
  } while (seen != expected);
}

// Nodes are never pushed again, so that a head that is what it was is the same node.
__device__ int pop(const Node* nodes, int* head) {
  for (;;) {
    const int top = *(volatile int*)head;
    if (top == none) continue;
    __threadfence();
    const int next = nodes[top].next;  // @Link
    if (atomicCAS(head, top, next) != top) continue;
    __threadfence();
    return nodes[top].value;  // @Taken
  }
}

__global__ void work(const int* in, Node* nodes, int* head, int* sum) {
  const int me = blockIdx.x * threads + threadIdx.x;
  if (threadIdx.x % each) return;
  if (blockIdx.x < blocks / 2)
    push(nodes, head, me, in[me]);
  else
    atomicAdd(sum, pop(nodes, head));
}

int main() {
  const int count = threads * blocks;
  int* in = to_device(numbers(count));
  Node* nodes = to_device(std::vector<Node>(count, Node{0, none}));
  int* head = to_device(std::vector<int>(1, none));
  int* sum = zeros<int>(1);
  work<<<blocks, threads>>>(in, nodes, head, sum);
  report(sum, 1);
}
