// Blocks insert nodes into one sorted list without locks, each by a compare-and-swap of its predecessor's link. Whoever
// walks the list reads links by plain loads, which acquire nothing: that is the one mistake behind the races of the links
// and those of the keys.
#include "check.h"

constexpr int threads = 32, blocks = 4, each = 32, none = -1;

struct Node {
  int key, next;
};

__device__ int link(const Node& node) {
#ifdef RACY
  return node.next;
#else
  return *(volatile const int*)&node.next;
#endif
}

__global__ void insert(const int* in, Node* nodes) {
  if (threadIdx.x % each) return;
  const int me = 1 + blockIdx.x * threads + threadIdx.x, key = in[me];
  nodes[me].key = key;  // @Key
  for (;;) {
    int before = 0, at = link(nodes[0]);
    while (at != none) {  // @Link
      __threadfence();
      if (nodes[at].key >= key) break;  // @Walk
      before = at;
      at = link(nodes[at]);
    }
    *(volatile int*)&nodes[me].next = at;  // @Own
    __threadfence();
    if (atomicCAS(&nodes[before].next, at, me) == at) break;  // @Insert
  }
}

__global__ void list(const Node* nodes, int* keys) {
  int n = 0;
  for (int at = nodes[0].next; at != none; at = nodes[at].next) keys[n++] = nodes[at].key;
}

int main() {
  const int count = threads * blocks + 1;
  int* in = to_device(numbers(count));
  Node* nodes = to_device(std::vector<Node>(count, Node{0, none}));
  int* keys = zeros<int>(count);
  insert<<<blocks, threads>>>(in, nodes);
  list<<<1, 1>>>(nodes, keys);
  report(keys, count);
}
