// Two ranks, each a kernel in a stream of its own, send each other vectors of data beside a flag (16 bytes, as NCCL's LL
// protocol does), a slot an element, step by step. In the racy twin nobody waits until a slot has been read before it is
// filled again: a rank is up to a step ahead of the other one, which then may wait for a flag that is gone, and gives up.
#include "check.h"

constexpr int elements = 32, steps = 3;

__device__ void send(uint4* slot, uint2 data, unsigned flag) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(slot), "r"(data.x), "r"(flag), "r"(data.y),
               "r"(flag) : "memory");  // @A
}
__device__ uint2 receive(const uint4* slot, unsigned flag) {
  uint4 v;
  [[maybe_unused]] unsigned looks = 0;
  do {
#ifdef RACY
    if (++looks > 1 << 18) asm volatile("exit;");
#endif
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(slot) : "memory");  // @B
  } while (v.y != flag || v.w != flag);
  return {v.x, v.z};
}

__global__ void rank(const int* in, uint4* theirs, const uint4* mine, volatile unsigned* their_head,
                     const volatile unsigned* my_head, int* out) {
  const unsigned t = threadIdx.x;
  for (unsigned step = 0; step < steps; ++step) {
    const unsigned value = unsigned(in[t]) + step;
#ifndef RACY
    while (my_head[t] < step) {
    }
#endif
    send(theirs + t, {value, 5 * value}, step + 1);
    const uint2 got = receive(mine + t, step + 1);
    their_head[t] = step + 1;
    out[step * elements + t] = int(value + 3 * got.x + got.y);
  }
}

int main() {
  int *in[2], *out[2];
  uint4* slots[2];
  unsigned* heads[2];
  cudaStream_t streams[2];
  for (int r = 0; r < 2; ++r) {
    std::vector<int> values = numbers(elements);
    for (int& value : values) value += 1000 * r;
    in[r] = to_device(values);
    out[r] = zeros<int>(steps * elements);
    slots[r] = zeros<uint4>(elements);
    heads[r] = zeros<unsigned>(elements);
    CHECK(cudaStreamCreateWithFlags(&streams[r], cudaStreamNonBlocking));
  }
  for (int r = 0; r < 2; ++r)
    rank<<<1, elements, 0, streams[r]>>>(in[r], slots[1 - r], slots[r], heads[1 - r], heads[r], out[r]);
  CHECK(cudaDeviceSynchronize());
  report(out[0], steps * elements);
  report(out[1], steps * elements);
}
