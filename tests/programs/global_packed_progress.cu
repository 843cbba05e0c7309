// A block says in the second half of a pair how far it is: begun, and then, behind its data, done. The other block polls
// the pair until it reads that, and drops the first half. The racy twin lacks the writer's fence.
#include "check.h"

constexpr int threads = 64, begun = 1, done = 2;

__device__ void say(int2* at, int how_far) {
  asm volatile("st.volatile.global.v2.s32 [%0], {%1, %2};" ::"l"(at), "r"(0), "r"(how_far) : "memory");
}
__device__ int look(const int2* at) {
  int how_far;
  asm volatile("ld.volatile.global.v2.s32 {_, %0}, [%1];" : "=r"(how_far) : "l"(at) : "memory");
  return how_far;
}

__global__ void pass(const int* in, int* data, int2* state, int* out) {
  unsigned t = threadIdx.x;
  if (blockIdx.x == 0) {
    if (t == 0) say(state, begun);
    data[t] = 3 * in[t];  // @A
    __syncthreads();
    if (t == 0) {
#ifndef RACY
      __threadfence();
#endif
      say(state, done);
    }
  } else {
    if (t == 0) {
      while (look(state) != done) {
      }
      __threadfence();
    }
    __syncthreads();
    out[t] = data[threads - 1 - t];  // @B
  }
}

int main() {
  int* in = to_device(numbers(threads));
  int* data = zeros<int>(threads);
  int2* state = zeros<int2>(1);
  int* out = zeros<int>(threads);
  pass<<<2, threads>>>(in, data, state, out);
  report(out, threads);
}
