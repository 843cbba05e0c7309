// Boxes of tensors and multiplications of warpgroups: what agents beside the threads read and write of shared memory.
//
//   agents load|reuse|store|multiply racy|fixed      status 0: it ran to its end; what it prints is the same each time
//                                                    for fixed
//
// Lines that race carry their names in comments; agents.py looks for them. Every wait has a bound: who waits too long
// ends the kernel.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "checked_calls.h"

constexpr int side = 32, threads = 128, tensor_side = 128;

__device__ unsigned shared_address(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }
__device__ void prepare(std::uint64_t* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ void expect(std::uint64_t* barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
__device__ void wait(std::uint64_t* barrier, unsigned parity) {
  for (unsigned turn = 0; turn < 1u << 22; ++turn) {
    unsigned done = 0;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
    if (done) return;
  }
  __trap();
}
__device__ void load_box(float* to, const CUtensorMap* map, int x, int y, std::uint64_t* barrier) {
  // clang-format off
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(to)), "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier)) : "memory");  // LOAD
}
__device__ void store_box(const CUtensorMap* map, int x, int y, const float* from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x), "r"(y), "r"(shared_address(from)) : "memory");  // STORE
  // clang-format on
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
__device__ void fence_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Each block brings a box, at the tensor's edge a part of one, and adds its rows up. Racy: nobody waits for the box.
template <bool racy>
__global__ void load(const __grid_constant__ CUtensorMap map, float* sums) {
  __shared__ alignas(128) float box[side * side];
  __shared__ std::uint64_t barrier;
  if (threadIdx.x == 0) {
    prepare(&barrier);
    expect(&barrier, sizeof box);
    load_box(box, &map, int(blockIdx.x) * side - 8, 16, &barrier);
  }
  __syncthreads();
  if (!racy) wait(&barrier, 0);
  float sum = 0;
  for (int i = 0; i < side; ++i) sum += threadIdx.x < side ? box[threadIdx.x * side + i] : 0;  // SUM
  if (racy) wait(&barrier, 0);
  if (threadIdx.x < side) sums[blockIdx.x * side + threadIdx.x] = sum;
}

// Two boxes, one after the other, into the same memory. Racy: the second is asked for while the first is read.
template <bool racy>
__global__ void reuse(const __grid_constant__ CUtensorMap map, float* sums) {
  __shared__ alignas(128) float box[side * side];
  __shared__ std::uint64_t barrier;
  if (threadIdx.x == 0) prepare(&barrier);
  __syncthreads();
  float sum = 0;
  for (int turn = 0; turn < 2; ++turn) {
    if (threadIdx.x == 0) {
      expect(&barrier, sizeof box);
      load_box(box, &map, int(blockIdx.x) * side, turn * side, &barrier);
    }
    wait(&barrier, unsigned(turn));
    for (int i = 0; i < side; ++i) sum += threadIdx.x < side ? box[i * side + threadIdx.x] : 0;  // ADD
    if (!racy) __syncthreads();
  }
  if (threadIdx.x < side) sums[blockIdx.x * side + threadIdx.x] = sum;
}

// Blocks write a box and store it. Racy: without the fence between what threads wrote and what the copy reads.
template <bool racy>
__global__ void store(const __grid_constant__ CUtensorMap map) {
  __shared__ alignas(128) float box[side * side];
  for (int i = threadIdx.x; i < side * side; i += threads) box[i] = float(i + int(blockIdx.x));  // FILL
  if (!racy) fence_proxy();
  __syncthreads();
  if (threadIdx.x == 0) store_box(&map, int(blockIdx.x) * side, 0, box);
}

// A warpgroup multiplies a matrix of ones (64 x 16, half) with one of small numbers (16 x 8), then its memory is used for
// something else. Racy: before anyone has waited for the product.
template <bool racy>
__global__ void multiply(float* product) {
#if __CUDA_ARCH_FEAT_SM90_ALL
  __shared__ alignas(1024) unsigned short a[64 * 16], b[16 * 8];
  for (int i = threadIdx.x; i < 64 * 16; i += threads) a[i] = 0x3c00;
  for (int i = threadIdx.x; i < 16 * 8; i += threads) b[i] = 0x4000;
  fence_proxy();
  __syncthreads();
  // Core matrices of 8 rows of 16 bytes: two along K, 128 bytes apart; 8 rows further on is 256 bytes.
  auto descriptor = [](const void* p) {
    return std::uint64_t(shared_address(p) >> 4 & 0x3fff) | std::uint64_t(128 >> 4) << 16 | std::uint64_t(256 >> 4) << 32;
  };
  float d[4] = {};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  // clang-format off
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(descriptor(a)), "l"(descriptor(b)) : "memory");  // MULTIPLY
  // clang-format on
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  if (!racy) asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])::"memory");
  if (!racy) __syncthreads();
  reinterpret_cast<volatile unsigned short*>(b)[threadIdx.x] = 0;  // OVERWRITE
  if (racy) asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])::"memory");
  for (int i = 0; i < 4; ++i) product[threadIdx.x * 4 + i] = d[i];
#endif
}

CUtensorMap map_of(float* tensor) {
  using Encode = decltype(&cuTensorMapEncodeTiled);
  void* encode = nullptr;
  cudaDriverEntryPointQueryResult found;
  CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found));
  CUtensorMap map;
  const cuuint64_t size[] = {tensor_side, tensor_side}, stride[] = {tensor_side * sizeof(float)};
  const cuuint32_t box[] = {side, side}, step[] = {1, 1};
  const CUresult result = reinterpret_cast<Encode>(encode)(
      &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, tensor, size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    std::fprintf(stderr, "cuTensorMapEncodeTiled: %d\n", int(result));
    std::exit(3);
  }
  return map;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const bool racy = !std::strcmp(argv[2], "racy");
  const int blocks = tensor_side / side;
  std::vector<float> numbers(tensor_side * tensor_side);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = float(i % 251);
  float *tensor = nullptr, *out = nullptr;
  CHECK(cudaMalloc(&tensor, numbers.size() * sizeof(float)));
  CHECK(cudaMalloc(&out, 4096 * sizeof(float)));
  CHECK(cudaMemset(out, 0, 4096 * sizeof(float)));
  CHECK(cudaMemcpy(tensor, numbers.data(), numbers.size() * sizeof(float), cudaMemcpyHostToDevice));
  const CUtensorMap map = map_of(tensor);
  const char* what = argv[1];
  if (!std::strcmp(what, "load")) {
    racy ? load<true><<<blocks, threads>>>(map, out) : load<false><<<blocks, threads>>>(map, out);
  } else if (!std::strcmp(what, "reuse")) {
    racy ? reuse<true><<<blocks, threads>>>(map, out) : reuse<false><<<blocks, threads>>>(map, out);
  } else if (!std::strcmp(what, "store")) {
    racy ? store<true><<<blocks, threads>>>(map) : store<false><<<blocks, threads>>>(map);
  } else {
    racy ? multiply<true><<<1, threads>>>(out) : multiply<false><<<1, threads>>>(out);
  }
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(numbers.data(), !std::strcmp(what, "store") ? tensor : out, 4096 * sizeof(float), cudaMemcpyDeviceToHost));
  double sum = 0;
  for (int i = 0; i < 4096; ++i) sum += double(numbers[std::size_t(i)]) * (i % 13 + 1);
  std::printf("%s: %.1f\n", what, sum);
}
