// Two blocks pass data behind a pair that says how many elements are skipped, none here, and that the data is there, and
// then that the writer is done: of what is polled only the second half changes. The racy twin lacks the writer's fence.
#include "check.h"

constexpr int threads = 64;

__device__ void publish(int2* at, int2 pair) {
  asm volatile("st.volatile.global.v2.s32 [%0], {%1, %2};" ::"l"(at), "r"(pair.x), "r"(pair.y) : "memory");
}
__device__ int2 look(const int2* at) {
  int2 pair;
  asm volatile("ld.volatile.global.v2.s32 {%0, %1}, [%2];" : "=r"(pair.x), "=r"(pair.y) : "l"(at) : "memory");
  return pair;
}

__global__ void pass(const int* in, int* data, int2* state, int* out) {
  unsigned t = threadIdx.x;
  if (blockIdx.x == 0) {
    data[t] = 3 * in[t];  // @A
    __syncthreads();
    if (t == 0) {
#ifndef RACY
      __threadfence();
#endif
      publish(state, {0, 1});
      publish(state, {0, 2});
    }
  } else {
    int skipped = 0;
    if (t == 0) {
      int2 now = look(state);
      while (now.y == 0) now = look(state);
      skipped = now.x;
      __threadfence();
    }
    __syncthreads();
    out[t] = data[threads - 1 - t] + skipped;  // @B
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
