// Cooperative groups, cuda::atomic, cuda::barrier, cuda::pipeline; and what compilers emit for calls, tables, textures.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cassert>
#include <cstdio>

namespace cg = cooperative_groups;

__device__ int table[4] = {1, 2, 3, 4};
__device__ int* pointers[2] = {table, table + 2};
__constant__ float constants[3] = {1.f, 2.f, 3.f};
__managed__ int managed;
struct __attribute__((packed)) Packed {
  char c;
  int* p;
};
__device__ Packed packed[2] = {{1, table}, {2, table + 1}};

struct Shape {
  __device__ virtual float area() const = 0;
};
struct Square : Shape {
  float side;
  __device__ float area() const override { return side * side; }
};
struct Circle : Shape {
  float radius;
  __device__ float area() const override { return 3.14f * radius * radius; }
};

__device__ __noinline__ float step(float x, int n) {
  for (int i = 0; i < n; ++i) x = x * x + i;
  return x;
}
__device__ __noinline__ float other(float x, int n) { return n == 0 ? x : other(x - n, n - 1); }
using Function = float (*)(float, int);
__device__ Function functions[2] = {step, other};

__global__ void calls(float* p, int n, Packed argument, cudaTextureObject_t texture, cudaSurfaceObject_t surface) {
  p[0] = functions[n & 1](p[2], n);
  switch (n) {
    case 0: p[5] = 1; break;
    case 1: p[6] = 2; break;
    case 2: p[9] += 2; break;
    case 3: p[1] *= 2; break;
    case 4: p[11] /= 2; break;
    case 5: p[10] = constants[n % 3]; break;
    case 6: p[4] = sinf(p[6]); break;
    case 7: p[7] = tex2D<float>(texture, p[0], p[1]); break;
  }
  surf2Dwrite(p[3], surface, 4, 0);
  Square square;
  Circle circle;
  square.side = p[1];
  circle.radius = p[2];
  Shape* shape = n > 3 ? static_cast<Shape*>(&square) : &circle;
  p[8] = shape->area();
  *pointers[n] = packed[n].c + *argument.p + managed;
  assert(n < 1000);
  int* heap = static_cast<int*>(malloc(n));
  if (heap) heap[0] = n;
  printf("%d %f\n", n, p[0]);
  free(heap);
}

__global__ void group(const int* in, int* out, int n) {
  extern __shared__ int dynamic[];
  cg::grid_group grid = cg::this_grid();
  cg::thread_block block = cg::this_thread_block();
  auto tile = cg::tiled_partition<32>(block);
  auto small = cg::tiled_partition<4>(tile);
  cg::memcpy_async(block, dynamic, in, sizeof(int) * 128);
  cg::wait(block);
  int value = cg::reduce(tile, dynamic[threadIdx.x], cg::plus<int>());
  value += cg::inclusive_scan(small, value) + small.shfl_xor(value, 1);
  if (value & 1) {
    cg::coalesced_group active = cg::coalesced_threads();
    value += active.size() + active.any(value > 3);
  }
  grid.sync();
  out[grid.thread_rank()] = value;
}

__global__ void atomics(int* p, double* d, __half2* h, __nv_bfloat16* b, unsigned long long* u) {
  cuda::atomic_ref<int, cuda::thread_scope_device> device(p[0]);
  cuda::atomic_ref<int, cuda::thread_scope_block> block(p[1]);
  cuda::atomic_ref<int, cuda::thread_scope_system> system(p[2]);
  device.fetch_add(1, cuda::memory_order_acq_rel);
  block.store(2, cuda::memory_order_release);
  system.store(3);
  while (device.load(cuda::memory_order_acquire) != 3) __nanosleep(20);
  int expected = 3;
  system.compare_exchange_strong(expected, 4, cuda::memory_order_seq_cst);
  cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_block);
  atomicAdd(d, 1.0);
  atomicAdd(h, __half2{1, 2});
  atomicCAS(u, 1ull, 2ull);
  atomicMax_system(p, 3);
  __threadfence();
  *b = *b + __nv_bfloat16(1.0f);
  volatile int* v = p;
  v[5] = v[4];
  p[6] = __shfl_down_sync(~0u, p[7], 1) + __popc(__ballot_sync(~0u, p[8])) + __match_any_sync(~0u, p[9]);
  p[10] = __syncthreads_count(p[11]);
}

#pragma nv_diag_suppress static_var_with_dynamic_init
__global__ void pipelines(const float4* in, float4* out) {
  __shared__ float4 stages[2][64];
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  auto pipe = cuda::make_pipeline();
  for (int i = 0; i < 4; ++i) {
    pipe.producer_acquire();
    cuda::memcpy_async(&stages[i & 1][threadIdx.x], &in[i * 64 + threadIdx.x], sizeof(float4), pipe);
    pipe.producer_commit();
    pipe.consumer_wait();
    barrier.arrive_and_wait();
    out[i * 64 + threadIdx.x] = stages[i & 1][63 - threadIdx.x];
    pipe.consumer_release();
  }
}
