// Blocks insert nodes into one sorted list without locks, by a compare-and-swap of the predecessor's link each. Whoever
// walks the list reads links by plain loads, which acquire nothing: that is the one mistake behind the races of the links
// and those of the keys.
#include "check.h"

constexpr int blocks = 12, each = 4, none = -1;

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

__device__ void insert(Node* nodes, int me, int key) {
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

__global__ void insert_all(const int* in, Node* nodes) {
  for (int i = 0; i < each; ++i) {
    const int me = 1 + i * blocks + blockIdx.x;
    insert(nodes, me, in[me]);
  }
}

__global__ void list(const Node* nodes, int* keys) {
  int n = 0;
  for (int at = nodes[0].next; at != none; at = nodes[at].next) keys[n++] = nodes[at].key;
}

int main() {
  const int count = each * blocks + 1;
  int* in = to_device(numbers(count));
  Node* nodes = to_device(std::vector<Node>(count, Node{0, none}));
  int* keys = zeros<int>(count);
  insert_all<<<blocks, 1>>>(in, nodes);
  list<<<1, 1>>>(nodes, keys);
  report(keys, count);
}
