// Flags that are elements of vectors: a vector access is one strong access an element (8.2.2), whatever the other side's
// accesses look like. In cases named races_* a fence is missing or another element is waited for, in those named ordered_*
// none. corners.py reads the names, and which lines must race.
#include "cases.h"

__device__ alignas(32) int flags[8];
__device__ int data[64];
__global__ void clear() {
  for (int& flag : flags) flag = 0;
  for (int& value : data) value = 0;
}

__device__ void store_one(int* p, int v) { asm volatile("st.relaxed.gpu.global.s32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
__device__ void store_two(int* p, int a, int b) {
  asm volatile("st.relaxed.gpu.global.v2.s32 [%0], {%1, %2};" ::"l"(p), "r"(a), "r"(b) : "memory");
}
__device__ void store_four(int* p, int a, int b, int c, int d) {
  asm volatile("st.relaxed.gpu.global.v4.s32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
__device__ int load_one(const int* p) {
  int v;
  asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ int2 load_two(const int* p) {
  int2 v;
  asm volatile("ld.relaxed.gpu.global.v2.s32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p) : "memory");
  return v;
}
__device__ int4 load_four(const int* p) {
  int4 v;
  asm volatile("ld.relaxed.gpu.global.v4.s32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
  return v;
}

// ---- which shapes the two sides have

enum class Shape {
  one_to_two, two_to_one, one_to_four, four_to_one, two_to_four, four_to_two, four_to_four
};
template <Shape shape, bool releases, bool acquires> __device__ __forceinline__ void hand_over(int* out) {
  if (threadIdx.x != 0) return;
  constexpr bool four = shape == Shape::one_to_four || shape == Shape::two_to_four || shape == Shape::four_to_one ||
                        shape == Shape::four_to_two || shape == Shape::four_to_four;
  constexpr int flag = four ? 3 : 1; // the last element
  if (blockIdx.x == 0) {
    data[0] = 5; // @data
    if (releases) __threadfence();
    if (shape == Shape::one_to_two || shape == Shape::one_to_four) store_one(&flags[flag], 1);
    else if (shape == Shape::two_to_one) store_two(flags, 0, 1);
    else if (shape == Shape::two_to_four) store_two(flags + 2, 0, 1);
    else store_four(flags, 0, 0, 0, 1);
  } else {
    for (int tries = 0; tries < 1 << 20; ++tries) {
      int seen;
      if (shape == Shape::two_to_one || shape == Shape::four_to_one) seen = load_one(&flags[flag]);
      else if (shape == Shape::one_to_two) seen = load_two(flags).y;
      else if (shape == Shape::four_to_two) seen = load_two(flags + 2).y;
      else seen = load_four(flags).w;
      if (seen) break;
    }
    if (acquires) __threadfence();
    out[0] = data[0]; // @taken
  }
}
CASE(ordered_one_to_two, 2, 32, hand_over<Shape::one_to_two, true, true>)
CASE(races_one_to_two_unreleased, 2, 32, hand_over<Shape::one_to_two, false, true>) // races data-taken
CASE(races_one_to_two_not_acquired, 2, 32, hand_over<Shape::one_to_two, true, false>) // races data-taken
CASE(ordered_two_to_one, 2, 32, hand_over<Shape::two_to_one, true, true>)
CASE(races_two_to_one_unreleased, 2, 32, hand_over<Shape::two_to_one, false, true>) // races data-taken
CASE(ordered_one_to_four, 2, 32, hand_over<Shape::one_to_four, true, true>)
CASE(races_one_to_four_unreleased, 2, 32, hand_over<Shape::one_to_four, false, true>) // races data-taken
CASE(ordered_four_to_one, 2, 32, hand_over<Shape::four_to_one, true, true>)
CASE(races_four_to_one_not_acquired, 2, 32, hand_over<Shape::four_to_one, true, false>) // races data-taken
CASE(ordered_two_to_four, 2, 32, hand_over<Shape::two_to_four, true, true>)
CASE(races_two_to_four_unreleased, 2, 32, hand_over<Shape::two_to_four, false, true>) // races data-taken
CASE(ordered_four_to_two, 2, 32, hand_over<Shape::four_to_two, true, true>)
CASE(races_four_to_two_not_acquired, 2, 32, hand_over<Shape::four_to_two, true, false>) // races data-taken
CASE(ordered_four_to_four, 2, 32, hand_over<Shape::four_to_four, true, true>)
CASE(races_four_to_four_unreleased, 2, 32, hand_over<Shape::four_to_four, false, true>) // races data-taken

// ---- two flags of two writers, polled at once

enum class Both { right, first_unreleased, second_unreleased, waits_for_either };
template <Both wrong> __device__ __forceinline__ void both(int* out) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x < 2) {
    if (blockIdx.x == 0) data[0] = 5; // @first
    else data[1] = 6; // @second
    if (wrong != (blockIdx.x ? Both::second_unreleased : Both::first_unreleased)) __threadfence();
    store_one(&flags[blockIdx.x], 1);
  } else {
    for (int tries = 0; tries < 1 << 20; ++tries) {
      const int2 seen = load_two(flags);
      if (wrong == Both::waits_for_either ? seen.x : seen.x && seen.y) break;
    }
    __threadfence();
    out[0] = data[0]; // @takes_first
    if (wrong == Both::waits_for_either) return;
    out[1] = data[1]; // @takes_second
  }
}
CASE(ordered_both, 3, 32, both<Both::right>)
CASE(races_both_first_unreleased, 3, 32, both<Both::first_unreleased>) // races first-takes_first
CASE(races_both_second_unreleased, 3, 32, both<Both::second_unreleased>) // races second-takes_second
CASE(ordered_both_waits_for_either, 3, 32, both<Both::waits_for_either>)

int main(int, char** arguments) { run_cases(clear, arguments[1]); }
