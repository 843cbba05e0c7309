// A job whose tensors are blocks of a caching allocator: torch_job WHAT HOW
//
// Two opaque kernels on two streams that nothing orders. WHAT: apart (each has a block of its own, of the same
// segment), reuse (the first one's block was given back and handed out again, to the second), dangling (the first one's
// block is given back before it is launched, the second has another one), structure (as reuse, but the first one's
// block is given back before it is launched, with a structure that has its address), lists, lists-first, lists-last
// (the first one has a structure with the addresses of a thousand blocks, at its begin and its end, as ATen's
// multi_tensor_apply hands them over; the second one's block is none of them, the first or the last of them), graph,
// graph-reuse, graph-changed (the first one is launched by a graph, and its block given back before that is made; the
// second one has another block, the second of two smaller ones in its place, or another one while the graph's node was
// changed and has what it had not), graph-made, graph-set, graph-child (its graph is a child of the one that is
// launched, or has another node, made by hand with a block that is given back since, or changed in the executable; the
// second one has another block), nonsense (apart, but before it a block is reported over another one). HOW: as in
// fake_c10.h. Prints how many reports the profiler got, and "done".
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/tracer/fake_c10.h"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string what = argv[1];
  const char* const how = argv[2];
  cuInit(0);
  // As Python loads extension modules: nothing of it is visible to others.
  void* const library = dlopen("libc10_cuda.so", RTLD_NOW | RTLD_LOCAL);
  if (!library) return std::printf("%s\n", dlerror()), 1;
  const auto block = reinterpret_cast<decltype(&fake_block)>(dlsym(library, "fake_block"));
  const auto give = reinterpret_cast<decltype(&fake_give)>(dlsym(library, "fake_give"));
  const auto tell = reinterpret_cast<decltype(&fake_tell)>(dlsym(library, "fake_tell"));
  const auto reports = reinterpret_cast<decltype(&fake_reports)>(dlsym(library, "fake_reports"));
  CUstream first = nullptr, second = nullptr;
  cuStreamCreate(&first, CU_STREAM_NON_BLOCKING);
  cuStreamCreate(&second, CU_STREAM_NON_BLOCKING);
  const auto launch = [](CUdeviceptr pointer, CUstream stream) {
    int number = 0;
    void* parameters[] = {&pointer, &number};
    cuLaunchKernel(reinterpret_cast<CUfunction>(0x100), 4, 1, 1, 128, 1, 1, 0, stream, parameters, nullptr);
  };
  const auto launch_with_structure = [](CUdeviceptr pointer, CUstream stream) {
    struct {
      CUdeviceptr pointer;
      std::uint64_t number;
    } structure{pointer, 0};
    void* parameters[] = {&structure};
    cuLaunchKernel(reinterpret_cast<CUfunction>(0x200), 4, 1, 1, 128, 1, 1, 0, stream, parameters, nullptr);
  };
  const auto launch_with_lists = [](const std::vector<CUdeviceptr>& blocks, CUstream stream) {
    std::vector<CUdeviceptr> structure(32744 / 8);
    std::copy(blocks.begin(), blocks.end() - 1, structure.begin());
    structure.back() = blocks.back();
    int number = 0;
    CUdeviceptr pointer = blocks[1];
    void* parameters[] = {structure.data(), &number, &pointer};
    cuLaunchKernel(reinterpret_cast<CUfunction>(0x300), 4, 1, 1, 128, 1, 1, 0, stream, parameters, nullptr);
  };
  if (what.rfind("lists", 0) == 0) {
    const std::uint64_t before = block(512, how);
    std::vector<CUdeviceptr> blocks;
    for (int i = 0; i < 1000; ++i) blocks.push_back(block(512, how));
    block(512, how);
    launch_with_lists(blocks, first);
    launch(what == "lists" ? before : what == "lists-first" ? blocks.front() : blocks.back(), second);
    std::printf("%ld reports\ndone\n", reports());
    return 0;
  }
  const std::uint64_t other = block(1000, how), mine = block(5000, how);
  if (what.rfind("graph", 0) == 0) {
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    launch(mine + 256, first);
    cuStreamEndCapture(first, &graph);
    give(mine, how);
    CUdeviceptr in_its_place = 0;
    if (what == "graph-reuse") {
      block(512, how);
      in_its_place = block(4000, how);
    }
    CUgraphNode made = nullptr;
    CUDA_KERNEL_NODE_PARAMS work{};
    CUdeviceptr pointer = mine + 512;
    int number = 0;
    void* parameters[] = {&pointer, &number};
    work.func = reinterpret_cast<CUfunction>(0x100);
    work.gridDimX = work.gridDimY = work.gridDimZ = work.blockDimX = work.blockDimY = work.blockDimZ = 1;
    work.kernelParams = parameters;
    if (what == "graph-made" || what == "graph-set") {
      block(5000, how); // in the place of the one that was given back
      pointer = block(3000, how);
      cuGraphAddKernelNode(&made, graph, nullptr, 0, &work);
      if (what == "graph-made") give(pointer, how);
    }
    if (what == "graph-child") {
      CUgraph parent = nullptr;
      cuGraphCreate(&parent, 0);
      cuGraphAddChildGraphNode(&made, parent, nullptr, 0, graph);
      cuGraphDestroy(graph);
      graph = parent;
    }
    if (what == "graph-changed") {
      CUgraphNode node = nullptr;
      std::size_t count = 1;
      cuGraphGetNodes(graph, &node, &count);
      CUDA_KERNEL_NODE_PARAMS params{};
      cuGraphKernelNodeGetParams(node, &params);
      pointer = other;
      params.kernelParams = parameters;
      cuGraphKernelNodeSetParams(node, &params);
    }
    cuGraphInstantiate(&executable, graph, 0);
    if (what == "graph-set") {
      pointer = block(2000, how);
      cuGraphExecKernelNodeSetParams(executable, made, &work);
      give(pointer, how);
    }
    cuGraphDestroy(graph);
    cuGraphLaunch(executable, first);
    launch(in_its_place ? in_its_place : other, second);
    std::printf("%ld reports\ndone\n", reports());
    return 0;
  }
  if (what == "nonsense") tell(mine + 512, 512);
  if (what == "dangling" || what == "structure") give(mine, how);
  what == "structure" ? launch_with_structure(mine + 256, first) : launch(mine + 256, first);
  if (what == "reuse" || what == "structure") {
    if (what == "reuse") give(mine, how);
    launch(block(4000, how), second);
  } else {
    launch(other, second);
  }
  std::printf("%ld reports\ndone\n", reports());
  return 0;
}
