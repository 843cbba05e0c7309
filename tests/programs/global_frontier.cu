// A step of a breadth-first search: who claims a vertex appends it to the next frontier. The racy twin's cursor is read
// and written back. That claims are made and looked at in the same launch is no message about it.
#include "check.h"

constexpr int vertices = 256, edges = 4, threads = 64, blocks = 2;

__global__ void expand(int* claimed, const int* targets, int* frontier, int* cursor) {
  for (int e = blockIdx.x * threads + threadIdx.x; e < threads * edges; e += blocks * threads) {
    int to = targets[e];
    if (atomicExch(&claimed[to], 1)) continue;
#ifdef RACY
    frontier[(*cursor)++] = to;  // @A
#else
    frontier[atomicAdd(cursor, 1)] = to;
#endif
  }
}

int main() {
  std::vector<int> targets(threads * edges);
  for (int e = 0; e < threads * edges; ++e) targets[e] = e * 7 % vertices / 2;
  int *claimed = zeros<int>(vertices), *to = to_device(targets);
  int *frontier = zeros<int>(vertices), *cursor = zeros<int>(1);
  expand<<<blocks, threads>>>(claimed, to, frontier, cursor);
  report(cursor, 1);
}
