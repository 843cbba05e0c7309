// libcu++'s pipelines: of one thread, of a block whose threads all copy, and of a block split into producers and
// consumers; one to four stages, sizes that fill the last tile and sizes that do not.
#include <cooperative_groups.h>
#include <cuda/pipeline>

#include "agree.h"

namespace cg = cooperative_groups;
using namespace agree;
#pragma nv_diag_suppress static_var_with_dynamic_init  // shared states, initialised by make_pipeline()

// Each thread copies for itself what it alone reads.
template <int Stages>
__global__ void thread_kernel(const int4* in, int* out, int tiles) {
  extern __shared__ __align__(16) int4 buffer[];  // [Stages][threads]
  auto pipeline = cuda::make_pipeline();
  int width = gridDim.x * blockDim.x, me = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
  auto fetch = [&](int tile) {
    pipeline.producer_acquire();
    if (tile < tiles)
      cuda::memcpy_async(&buffer[tile % Stages * blockDim.x + threadIdx.x], &in[tile * width + me],
                         cuda::aligned_size_t<16>(sizeof(int4)), pipeline);
    pipeline.producer_commit();
  };
  for (int tile = 0; tile < Stages - 1; ++tile) fetch(tile);
  for (int tile = 0; tile < tiles; ++tile) {
    fetch(tile + Stages - 1);
    cuda::pipeline_consumer_wait_prior<Stages - 1>(pipeline);
    int4 v = buffer[tile % Stages * blockDim.x + threadIdx.x];
    sum = 3 * sum + v.x + 2 * v.y + 4 * v.z + 8 * v.w;
    pipeline.consumer_release();
  }
  out[me] = sum;
}

// The block copies together; whoever reads what others copied waits for the stage.
template <int Stages>
__global__ void block_kernel(const int* in, int* out, int count) {
  extern __shared__ int stage_memory[];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, Stages> state;
  cg::thread_block block = cg::this_thread_block();
  auto pipeline = cuda::make_pipeline(block, &state);
  int n = block.size(), tiles = (count + n - 1) / n, t = block.thread_rank(), fetched = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    for (; fetched < tiles && fetched < tile + Stages; ++fetched) {
      pipeline.producer_acquire();
      int size = min(n, count - fetched * n);
      cuda::memcpy_async(block, stage_memory + fetched % Stages * n, in + fetched * n, sizeof(int) * size, pipeline);
      pipeline.producer_commit();
    }
    pipeline.consumer_wait();
    int size = min(n, count - tile * n);
    if (t < size) out[tile * n + t] = 5 * stage_memory[tile % Stages * n + size - 1 - t] + tile;
    pipeline.consumer_release();
  }
}

// Some warps only copy, the others only add.
template <int Stages>
__global__ void roles_kernel(const int* in, int* out, int tiles, int producers) {
  extern __shared__ int stage_memory[];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, Stages> state;
  cg::thread_block block = cg::this_thread_block();
  bool produces = int(block.thread_rank()) < producers;
  auto pipeline = cuda::make_pipeline(block, &state,
                                      produces ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
  int consumers = block.size() - producers, width = consumers;
  if (produces) {
    for (int tile = 0; tile < tiles; ++tile) {
      pipeline.producer_acquire();
      for (int i = block.thread_rank(); i < width; i += producers)
        cuda::memcpy_async(&stage_memory[tile % Stages * width + i], &in[tile * width + i], sizeof(int), pipeline);
      pipeline.producer_commit();
    }
  } else {
    int t = block.thread_rank() - producers, sum = 0;
    for (int tile = 0; tile < tiles; ++tile) {
      pipeline.consumer_wait();
      sum = 3 * sum + stage_memory[tile % Stages * width + (t + tile) % width];
      pipeline.consumer_release();
    }
    out[t] = sum;
  }
}

template <int Stages>
void of_threads(int blocks, int threads, int tiles) {
  int width = blocks * threads;
  std::vector<int> in = values<int>(4 * width * tiles, 0, 99, Stages), expected(width);
  for (int i = 0; i < width; ++i) {
    unsigned sum = 0;
    for (int tile = 0; tile < tiles; ++tile) {
      const int* v = &in[4 * (tile * width + i)];
      sum = 3 * sum + v[0] + 2 * v[1] + 4 * v[2] + 8 * v[3];
    }
    expected[i] = int(sum);
  }
  Array<int> from(in), out(width);
  thread_kernel<Stages><<<blocks, threads, Stages * threads * sizeof(int4)>>>(
      reinterpret_cast<const int4*>(from.data()), out, tiles);
  equal("pipeline of a thread", in.size(), out.host(), expected);
}

template <int Stages>
void of_blocks(int threads, int count) {
  std::vector<int> in = values<int>(count, 0, 1000, Stages), expected(count);
  for (int i = 0; i < count; ++i) {
    int tile = i / threads, size = std::min(threads, count - tile * threads);
    expected[i] = 5 * in[tile * threads + size - 1 - i % threads] + tile;
  }
  Array<int> from(in), out(count);
  block_kernel<Stages><<<1, threads, Stages * threads * sizeof(int)>>>(from, out, count);
  equal("pipeline of a block", count, out.host(), expected);
}

template <int Stages>
void of_roles(int producers, int consumers, int tiles) {
  std::vector<int> in = values<int>(consumers * tiles, 0, 1000, Stages), expected(consumers);
  for (int t = 0; t < consumers; ++t) {
    unsigned sum = 0;
    for (int tile = 0; tile < tiles; ++tile) sum = 3 * sum + in[tile * consumers + (t + tile) % consumers];
    expected[t] = int(sum);
  }
  Array<int> from(in), out(consumers);
  roles_kernel<Stages><<<1, producers + consumers, Stages * consumers * sizeof(int)>>>(from, out, tiles, producers);
  equal("producers and consumers", in.size(), out.host(), expected);
}

int main() {
  of_threads<1>(2, 32, 3), of_threads<2>(1, 100, 5), of_threads<4>(3, 64, 9);
  of_blocks<1>(32, 100), of_blocks<2>(64, 64), of_blocks<3>(96, 1000), of_blocks<4>(128, 513);
  of_roles<1>(32, 32, 4), of_roles<2>(32, 96, 7), of_roles<4>(64, 160, 6);
  return conclude();
}
