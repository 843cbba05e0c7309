// What lies beside a tensor map is handed to another block with the map, between the two proxy fences that hand on maps:
// each is a release or an acquire fence. The racy twin's first reaches no further than the block.
#include "check.h"

__device__ void set(int* flag) {
  asm volatile("st.relaxed.gpu.global.s32 [%0], 1;" ::"l"(__cvta_generic_to_global(flag)) : "memory");
}
__device__ int get(const int* flag) {
  int value;
  asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(__cvta_generic_to_global(flag)) : "memory");
  return value;
}

__global__ void pass(const int* in, int* map, int* flag, int* out) {
  unsigned t = threadIdx.x;
  if (blockIdx.x == 0) {
    map[t] = 7 * in[t];  // @A
    __syncwarp();
    if (t == 0) {
#ifdef RACY
      asm volatile("fence.proxy.tensormap::generic.release.cta;" ::: "memory");
#else
      asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
#endif
      set(flag);
    }
  } else {
    if (t == 0) {
      while (get(flag) == 0) {
      }
      asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
    }
    __syncwarp();
    out[t] = map[31 - t];  // @B
  }
}

int main() {
  int* in = to_device(numbers(32));
  int* map = zeros<int>(32);
  int* flag = zeros<int>(1);
  int* out = zeros<int>(32);
  pass<<<2, 32>>>(in, map, flag, out);
  report(out, 32);
}
