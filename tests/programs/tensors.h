// Tensor maps for the programs of this folder: made by the driver's functions, as the runtime hands them out, and
// copies by them, one function an instruction. Sides of races that lie in these are named by the programs, not here.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "async.h"
#include "check.h"

template <class F>
F driver_function(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  CHECK(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
  if (!found) {
    std::fprintf(stderr, "%s is not there\n", name);
    std::exit(3);
  }
  return reinterpret_cast<F>(found);
}

inline void check_driver(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: error %d\n", call, static_cast<int>(result));
  std::exit(3);
}

// Of rows of ints, and boxes in it.
inline CUtensorMap tensor_of_rows(int* data, unsigned width, unsigned height, unsigned box_width, unsigned box_height,
                                  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE) {
  alignas(64) CUtensorMap map;
  const cuuint64_t size[] = {width, height}, stride[] = {width * sizeof(int)};
  const cuuint32_t box[] = {box_width, box_height}, step[] = {1, 1};
  check_driver(driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled")(
                   &map, CU_TENSOR_MAP_DATA_TYPE_INT32, 2, data, size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                   swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
               "cuTensorMapEncodeTiled");
  return map;
}

// clang-format off
__device__ __forceinline__ void tensor_load(void* to, const CUtensorMap* map, int x, int y, std::uint64_t* barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(to)), "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier)) : "memory");
}
__device__ __forceinline__ void tensor_multicast(void* to, const CUtensorMap* map, int x, int y, std::uint64_t* barrier, unsigned short blocks) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(to)), "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier)), "h"(blocks) : "memory");
}
// Of a tensor of images: C, W, H, N, and a place in the filter.
__device__ __forceinline__ void tensor_pixels(void* to, const CUtensorMap* map, int c, int x, int y, int n, unsigned short right, unsigned short down, std::uint64_t* barrier) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(shared_address(to)), "l"(map), "r"(c), "r"(x), "r"(y), "r"(n), "r"(shared_address(barrier)), "h"(right), "h"(down) : "memory");
}
__device__ __forceinline__ void tensor_store(const CUtensorMap* map, int x, int y, const void* from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x), "r"(y), "r"(shared_address(from)) : "memory");
}
__device__ __forceinline__ void tensor_add(const CUtensorMap* map, int x, int y, const void* from) {
  asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x), "r"(y), "r"(shared_address(from)) : "memory");
}
// clang-format on
__device__ inline void bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
