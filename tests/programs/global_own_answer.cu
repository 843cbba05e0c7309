// A block reads a number and asks with it, another writes its answer in the number's place. Without a fence before the
// question nothing orders the read before the answer; yet it cannot read that: what is answered depends on what was read,
// and no value comes from itself.
#include "check.h"

__global__ void ask(int* number, int* question, int* seen) {
  if (blockIdx.x) {
    int asked;
    while ((asked = *(volatile int*)question) == 0) {
    }
    __threadfence();
    *number = 2 * asked;  // @Answer
    return;
  }
  const int mine = *number;  // @Read
#ifndef RACY
  __threadfence();
#endif
  *(volatile int*)question = mine + 1;
  *seen = mine;
}

int main() {
  int *number = zeros<int>(1), *question = zeros<int>(1), *seen = zeros<int>(1);
  ask<<<2, 1>>>(number, question, seen);
  report(seen, 1);
  report(number, 1);
}
