// A step of breadth-first search by blocks: who finds a vertex appends it to the next frontier, whose order nothing fixes,
// and says that something changed. All say the same, by plain stores: a race that changes nothing, whatever the order of
// the frontier does to the outputs. The fixed twin says it by an atomic.
#include <algorithm>

#include "check.h"

constexpr int threads = 32, blocks = 4, vertices = threads * blocks;

__global__ void step(const int* found, int* tail, int* frontier, int* changed) {
  const int v = blockIdx.x * threads + threadIdx.x;
  if (found[v] % 2 == 0) return;
  frontier[atomicAdd(tail, 1)] = v;
#ifdef RACY
  *changed = 1;  // @A
#else
  atomicExch(changed, 1);
#endif
}

int main() {
  int* found = to_device(numbers(vertices));
  int* tail = zeros<int>(1);
  int* out = zeros<int>(vertices + 1);
  step<<<blocks, threads>>>(found, tail, out, out + vertices);
  std::vector<int> frontier = to_host(out, vertices + 1);
  std::sort(frontier.begin(), frontier.end()); // it is printed in an order of its own
  print_checksum(frontier.data(), frontier.size());
}
