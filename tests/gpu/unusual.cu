// Jobs that ask for what recording could break: unusual stopped|cooperative|shared|crowded|pool|window|throws|asserts
// (unusual.py)
//
// stopped      says "begun", launches for some seconds, and says what came of it
// cooperative  a cooperative grid of as many blocks as fit at the same time
// crowded      takes all memory of the device, 256 MiB at a time, with a kernel's launches and a graph's before and after.
//              Says how many pieces were free, how many it had, and what was written
// pool         the same, with stream-ordered allocations
// window       as crowded, with 4 GiB of its own, between cudaProfilerStart and Stop
// shared       the same, of blocks that need so much shared memory that this is what limits them
// throws       what a race made of a number is too much for a vector: nobody catches that
// asserts      the same, and an assertion fails
#include <cooperative_groups.h>
#include <cuda_profiler_api.h>

#include <cassert>
#include <cstdio>
#include <cstring>
#include <vector>

#include "checked_calls.h"

constexpr int threads = 128;

__global__ void add(int* data, int n) {
  for (int i = blockIdx.x * threads + threadIdx.x; i < n; i += gridDim.x * threads) data[i] += i % 7;
}

// Each block leaves a word for the next one, which takes it when all have.
__global__ void hand_on(int* words, int* sum) {
  extern __shared__ int own[];
  own[threadIdx.x] = blockIdx.x + threadIdx.x;
  __syncthreads();
  if (threadIdx.x == 0) words[blockIdx.x] = own[threads - 1];
  cooperative_groups::this_grid().sync();
  if (threadIdx.x == 0) atomicAdd(sum, words[(blockIdx.x + 1) % gridDim.x]);
}

__global__ void count_blocks(int* count) { *count = *count + 1; }

static int wrong_count(bool asserts) {
  int *count = nullptr, result = 0;
  CHECK(cudaMalloc(&count, sizeof(int)));
  CHECK(cudaMemset(count, 0, sizeof(int)));
  count_blocks<<<2, 1>>>(count);
  CHECK(cudaMemcpy(&result, count, sizeof result, cudaMemcpyDeviceToHost));
  if (asserts) assert(result > 2);
  return int(std::vector<int>(std::size_t(-result)).size());
}

static int stopped() {
  constexpr int n = 1 << 19, launches = 60;
  int* data = nullptr;
  CHECK(cudaMalloc(&data, n * sizeof(int)));
  CHECK(cudaMemset(data, 0, n * sizeof(int)));
  CHECK(cudaDeviceSynchronize());
  std::printf("begun\n");
  std::fflush(stdout);
  for (int i = 0; i < launches; ++i) {
    add<<<64, threads>>>(data, n);
    if (i % 10 == 9) CHECK(cudaDeviceSynchronize());
  }
  std::vector<int> result(n);
  CHECK(cudaMemcpy(result.data(), data, n * sizeof(int), cudaMemcpyDeviceToHost));
  long sum = 0;
  for (const int value : result) sum += value;
  std::printf("sum %ld\n", sum);
  return 0;
}

static int cooperative(std::size_t shared) {
  int device = 0, multiprocessors = 0, blocks = 0;
  CHECK(cudaGetDevice(&device));
  CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  CHECK(cudaFuncSetAttribute(hand_on, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared)));
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, hand_on, threads, shared));
  blocks *= multiprocessors;
  int *words = nullptr, *sum = nullptr, result = 0;
  CHECK(cudaMalloc(&words, blocks * sizeof(int)));
  CHECK(cudaMalloc(&sum, sizeof(int)));
  CHECK(cudaMemset(sum, 0, sizeof(int)));
  void* arguments[] = {&words, &sum};
  CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(hand_on), dim3(blocks), dim3(threads), arguments, shared, 0));
  CHECK(cudaMemcpy(&result, sum, sizeof(int), cudaMemcpyDeviceToHost));
  std::printf("blocks %d sum %d\n", blocks, result);
  return 0;
}

// How many pieces there are; the last of them is left.
template <typename Allocate, typename Free>
static int take_all(Allocate&& allocate, Free&& free, int** last) {
  std::vector<int*> pieces;
  int* piece = nullptr;
  while (allocate(&piece) == cudaSuccess) pieces.push_back(piece);
  cudaGetLastError();
  const int count = int(pieces.size());
  if (!count) return 0;
  *last = pieces.back();
  pieces.pop_back();
  for (int* at : pieces) CHECK(free(at));
  CHECK(cudaDeviceSynchronize());
  return count;
}

static int crowded(bool pool, int held = 0) {
  constexpr int n = 1 << 16;
  constexpr std::size_t bytes = std::size_t(256) << 20;
  int *data = nullptr, *last = nullptr;
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&data, n * sizeof(int)));
  CHECK(cudaMemset(data, 0, n * sizeof(int)));
  for (int i = 0; i < held; ++i) { // that a window has to keep
    int* piece = nullptr;
    CHECK(cudaMalloc(&piece, bytes));
    CHECK(cudaMemset(piece, i, bytes));
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  add<<<64, threads, 0, stream>>>(data, n);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  const auto both = [&] {
    CHECK(cudaGraphLaunch(executable, stream));
    if (last) add<<<64, threads, 0, stream>>>(last, n);
    CHECK(cudaStreamSynchronize(stream));
  };
  if (held) CHECK(cudaProfilerStart());
  both();
  std::size_t left = 0, all = 0;
  CHECK(cudaMemGetInfo(&left, &all));
  std::printf("free %zu\n", left / bytes);
  const int pieces = take_all(
      [&](int** at) { return pool ? cudaMallocAsync(at, bytes, stream) : cudaMalloc(at, bytes); },
      [&](int* at) { return pool ? cudaFreeAsync(at, stream) : cudaFree(at); }, &last);
  std::printf("pieces %d\n", pieces);
  CHECK(cudaMemset(last, 0, n * sizeof(int)));
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 20; ++i) both();
  if (held) CHECK(cudaProfilerStop());
  std::vector<int> result(n);
  long sum = 0;
  for (const int* from : {data, last}) {
    CHECK(cudaMemcpy(result.data(), from, n * sizeof(int), cudaMemcpyDeviceToHost));
    for (const int value : result) sum += value;
  }
  std::printf("sum %ld\n", sum);
  return 0;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (!std::strcmp(what, "stopped")) return stopped();
  if (!std::strcmp(what, "cooperative")) return cooperative(threads * sizeof(int));
  if (!std::strcmp(what, "shared")) return cooperative(64 << 10);
  if (!std::strcmp(what, "crowded")) return crowded(false);
  if (!std::strcmp(what, "pool")) return crowded(true);
  if (!std::strcmp(what, "window")) return crowded(false, 16);
  if (!std::strcmp(what, "throws")) return wrong_count(false);
  if (!std::strcmp(what, "asserts")) return wrong_count(true);
  return 2;
}
