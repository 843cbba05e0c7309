// Jobs with textures, surfaces and arrays, over embedded_cuda.cpp: texture_job WHAT FAULT
//
// A kernel on one stream reads texels, and what is done on another stream writes them; with FAULT 0 that comes once the
// host has waited.
// linear    memory, by a texture over it; a copy writes it
// plane     rows of memory, in a pitch; a copy writes the last one
// array     an array of two dimensions, filtered; a copy writes a part of it
// line      an array of one dimension; a copy of so many bytes writes the second half of it
// volume    layers of an array; a copy writes the last one
// graph     as array, and the copy is a graph's node
// surface   an array that another kernel writes by a surface
// level     a mipmapped array; a copy writes the level that is read (with FAULT 0 another one, and nobody waits)
// again     the object is destroyed and its handle given again, for another array, which the copy writes (FAULT 0), or
//           the copy writes the first one (FAULT 1); nobody waits
// gone      as array, and the array is destroyed and made anew before the copy writes it: the host has waited by then
// early     as linear, and nobody saw the object being made
// Prints "done".
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/tracer/driver_check.h"

extern "C" CUresult embedded_early_texture(CUtexObject* object, const CUDA_RESOURCE_DESC* resource,
                                           const CUDA_TEXTURE_DESC* texture);

namespace {

constexpr unsigned width = 32, height = 8, row = width * 4, layers = 3, levels = 3;

// Each of a thread a texel; a block a row.
constexpr const char* text = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry fetch_line(.param .u64 object, .param .u64 to)
{
  .reg .b32 %r<10>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [object];
  ld.param.u64 %rd2, [to];
  mov.u32 %r1, %tid.x;
  tex.1d.v4.s32.s32 {%r2, %r3, %r4, %r5}, [%rd1, {%r1}];
  mul.wide.u32 %rd3, %r1, 4;
  add.u64 %rd4, %rd2, %rd3;
  st.global.u32 [%rd4], %r2;
  ret;
}
.visible .entry fetch(.param .u64 object, .param .u64 to)
{
  .reg .b32 %r<10>;
  .reg .f32 %f<10>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [object];
  ld.param.u64 %rd2, [to];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  cvt.rn.f32.u32 %f1, %r1;
  cvt.rn.f32.u32 %f2, %r2;
  add.f32 %f3, %f1, 0f3F000000;
  add.f32 %f4, %f2, 0f3F000000;
  tex.2d.v4.f32.f32 {%f5, %f6, %f7, %f8}, [%rd1, {%f3, %f4}];
  mad.lo.u32 %r3, %r2, 32, %r1;
  mul.wide.u32 %rd3, %r3, 4;
  add.u64 %rd4, %rd2, %rd3;
  st.global.f32 [%rd4], %f5;
  ret;
}
.visible .entry fetch_layer(.param .u64 object, .param .u64 to)
{
  .reg .b32 %r<10>;
  .reg .f32 %f<10>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [object];
  ld.param.u64 %rd2, [to];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  cvt.rn.f32.u32 %f1, %r1;
  mov.b32 %r4, 2;
  tex.a2d.v4.f32.f32 {%f5, %f6, %f7, %f8}, [%rd1, {%r4, %f1, 0f3F000000, 0f00000000}];
  mul.wide.u32 %rd3, %r1, 4;
  add.u64 %rd4, %rd2, %rd3;
  st.global.f32 [%rd4], %f5;
  ret;
}
.visible .entry fetch_level(.param .u64 object, .param .u64 to)
{
  .reg .b32 %r<10>;
  .reg .f32 %f<10>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [object];
  ld.param.u64 %rd2, [to];
  mov.u32 %r1, %tid.x;
  cvt.rn.f32.u32 %f1, %r1;
  mul.f32 %f2, %f1, 0f3D000000;
  tex.level.2d.v4.f32.f32 {%f5, %f6, %f7, %f8}, [%rd1, {%f2, %f2}], 0f3F800000;
  mul.wide.u32 %rd3, %r1, 4;
  add.u64 %rd4, %rd2, %rd3;
  st.global.f32 [%rd4], %f5;
  ret;
}
.visible .entry store(.param .u64 object, .param .u64 unused)
{
  .reg .b32 %r<10>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [object];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  shl.b32 %r3, %r1, 2;
  sust.b.2d.b32.trap [%rd1, {%r3, %r2}], {%r1};
  ret;
}
)";

struct Job {
  CUmodule module = nullptr;
  CUstream one = nullptr, other = nullptr;
  CUdeviceptr memory = 0, out = 0;
  std::vector<float> numbers;
  float* pinned = nullptr;

  Job() : numbers(width * height * layers) {
    CHECK(cuInit(0));
    CHECK(cuModuleLoadData(&module, text));
    CHECK(cuStreamCreateWithPriority(&one, CU_STREAM_NON_BLOCKING, 0));
    CHECK(cuStreamCreateWithPriority(&other, CU_STREAM_NON_BLOCKING, 0));
    CHECK(cuMemAlloc_v2(&memory, row * height));
    CHECK(cuMemAlloc_v2(&out, row * height));
    CHECK(cuMemHostAlloc(reinterpret_cast<void**>(&pinned), row * height * layers, 0));
    CHECK(cuMemcpyHtoDAsync_v2(memory, pinned, row * height, one));
    CHECK(cuStreamSynchronize(one));
  }

  void launch(const char* name, std::uint64_t object, CUstream stream, unsigned blocks) const {
    CUfunction f = nullptr;
    CHECK(cuModuleGetFunction(&f, module, name));
    CUdeviceptr to = out;
    void* parameters[] = {&object, &to};
    CHECK(cuLaunchKernel(f, blocks, 1, 1, width, 1, 1, 0, stream, parameters, nullptr));
  }

  CUarray array(unsigned rows, unsigned depth = 0, unsigned flags = 0) const {
    CUarray made = nullptr;
    const CUDA_ARRAY3D_DESCRIPTOR d{width, rows, depth, CU_AD_FORMAT_FLOAT, 1, flags};
    CHECK(cuArray3DCreate_v2(&made, &d));
    return made;
  }

  CUDA_MEMCPY3D copy(CUarray to, unsigned x, unsigned y, unsigned z, unsigned bytes, unsigned rows,
                     unsigned slices) const {
    CUDA_MEMCPY3D c{};
    c.srcMemoryType = CU_MEMORYTYPE_HOST;
    c.srcHost = pinned;
    c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    c.dstArray = to;
    c.dstXInBytes = x, c.dstY = y, c.dstZ = z;
    c.WidthInBytes = bytes, c.Height = rows, c.Depth = slices;
    return c;
  }
  void fill(CUarray array, unsigned rows, unsigned slices = 1) const {
    const CUDA_MEMCPY3D c = copy(array, 0, 0, 0, row, rows, slices);
    CHECK(cuMemcpy3DAsync_v2(&c, one));
  }
};

CUDA_RESOURCE_DESC over(CUarray array) {
  CUDA_RESOURCE_DESC r{};
  r.resType = CU_RESOURCE_TYPE_ARRAY;
  r.res.array.hArray = array;
  return r;
}

CUtexObject texture(const CUDA_RESOURCE_DESC& resource, const CUDA_TEXTURE_DESC& t = {}) {
  CUtexObject object = 0;
  CHECK(cuTexObjectCreate(&object, &resource, &t, nullptr));
  return object;
}

CUDA_TEXTURE_DESC filtered() {
  CUDA_TEXTURE_DESC t{};
  for (auto& mode : t.addressMode) mode = CU_TR_ADDRESS_MODE_CLAMP;
  t.filterMode = CU_TR_FILTER_MODE_LINEAR;
  return t;
}

CUDA_RESOURCE_DESC line_of_memory(const Job& job) {
  CUDA_RESOURCE_DESC r{};
  r.resType = CU_RESOURCE_TYPE_LINEAR;
  r.res.linear.devPtr = job.memory;
  r.res.linear.format = CU_AD_FORMAT_SIGNED_INT32;
  r.res.linear.numChannels = 1;
  r.res.linear.sizeInBytes = row;
  return r;
}

CUDA_RESOURCE_DESC plane_of_memory(const Job& job) {
  CUDA_RESOURCE_DESC r{};
  r.resType = CU_RESOURCE_TYPE_PITCH2D;
  r.res.pitch2D.devPtr = job.memory;
  r.res.pitch2D.format = CU_AD_FORMAT_FLOAT;
  r.res.pitch2D.numChannels = 1;
  r.res.pitch2D.width = width;
  r.res.pitch2D.height = height;
  r.res.pitch2D.pitchInBytes = row;
  return r;
}

void by_graph(const Job& job, const CUDA_MEMCPY3D& copy) {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec executable = nullptr;
  CHECK(cuGraphCreate(&graph, 0));
  CHECK(cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, nullptr));
  CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
  CHECK(cuGraphLaunch(executable, job.other));
}

void mipmapped(const Job& job, bool fault) {
  CUmipmappedArray array = nullptr;
  const CUDA_ARRAY3D_DESCRIPTOR d{width, width, 0, CU_AD_FORMAT_FLOAT, 1, 0};
  CHECK(cuMipmappedArrayCreate(&array, &d, levels));
  CUarray level[levels] = {};
  for (unsigned n = 0; n < levels; ++n) {
    CHECK(cuMipmappedArrayGetLevel(&level[n], array, n));
    const CUDA_MEMCPY3D c = job.copy(level[n], 0, 0, 0, row >> n, 4, 1);
    CHECK(cuMemcpy3DAsync_v2(&c, job.one));
  }
  CUDA_RESOURCE_DESC r{};
  r.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  r.res.mipmap.hMipmappedArray = array;
  CUDA_TEXTURE_DESC t = filtered();
  t.flags = CU_TRSF_NORMALIZED_COORDINATES;
  t.maxMipmapLevelClamp = levels;
  const CUtexObject object = texture(r, t);
  CHECK(cuStreamSynchronize(job.one));
  job.launch("fetch_level", object, job.one, 1);
  const CUDA_MEMCPY3D c = job.copy(level[fault ? 1 : 2], 0, 0, 0, row >> 2, 1, 1);
  CHECK(cuMemcpy3DAsync_v2(&c, job.other));
  CHECK(cuCtxSynchronize());
  CHECK(cuTexObjectDestroy(object));
  CHECK(cuMipmappedArrayDestroy(array));
}

void again(const Job& job, bool fault) {
  const CUarray arrays[] = {job.array(height), job.array(height)};
  for (CUarray array : arrays) job.fill(array, height);
  CHECK(cuStreamSynchronize(job.one));
  const CUtexObject object = texture(over(arrays[0]));
  job.launch("fetch", object, job.one, height);
  CHECK(cuTexObjectDestroy(object));
  if (texture(over(arrays[1])) != object) std::printf("another handle\n");
  const CUDA_MEMCPY3D c = job.copy(arrays[fault ? 0 : 1], 0, 0, 0, row, height, 1);
  CHECK(cuMemcpy3DAsync_v2(&c, job.other));
}

void run(const Job& job, const std::string& what, bool fault) {
  if (what == "level") return mipmapped(job, fault);
  if (what == "again") return again(job, fault);
  const bool layered = what == "volume", line = what == "line";
  CUarray array = nullptr;
  if (what != "linear" && what != "plane" && what != "early") {
    array = layered ? job.array(height, layers, CUDA_ARRAY3D_LAYERED) : job.array(line ? 0 : height);
    job.fill(array, line ? 1 : height, layered ? layers : 1);
    CHECK(cuStreamSynchronize(job.one));
  }
  CUtexObject object = 0;
  const CUDA_TEXTURE_DESC plain{};
  const CUDA_RESOURCE_DESC memory = what == "plane" ? plane_of_memory(job) : line_of_memory(job);
  if (what == "early")
    CHECK(embedded_early_texture(&object, &memory, &plain));
  else
    object = array ? texture(over(array), what == "array" ? filtered() : plain) : texture(memory);
  const bool one_row = layered || line || what == "linear" || what == "early";
  const char* kernel = layered ? "fetch_layer" : one_row ? "fetch_line" : "fetch";
  job.launch(kernel, object, job.one, one_row ? 1 : height);
  if (!fault || what == "gone") CHECK(cuStreamSynchronize(job.one));
  if (what == "gone") {
    CHECK(cuArrayDestroy(array));
    array = job.array(height);
  }
  if (what == "surface") {
    CUsurfObject surface = 0;
    const CUDA_RESOURCE_DESC r = over(array);
    CHECK(cuSurfObjectCreate(&surface, &r));
    job.launch("store", surface, job.other, height);
  } else if (line) {
    CHECK(cuMemcpyHtoAAsync_v2(array, row / 2, job.pinned, row / 2, job.other));
  } else if (array) {
    const CUDA_MEMCPY3D c =
        layered ? job.copy(array, 0, 0, layers - 1, row, height, 1) : job.copy(array, row / 2, 2, 0, row / 4, 3, 1);
    if (what == "graph")
      by_graph(job, c);
    else
      CHECK(cuMemcpy3DAsync_v2(&c, job.other));
  } else {
    CHECK(cuMemcpyHtoDAsync_v2(job.memory + (what == "plane" ? (height - 1) * row : 0), job.pinned, row, job.other));
  }
  CHECK(cuCtxSynchronize());
  CHECK(cuTexObjectDestroy(object));
  if (array) CHECK(cuArrayDestroy(array));
}

} // namespace

int main(int argc, char** argv) {
  const Job job;
  if (argc > 2) run(job, argv[1], std::atoi(argv[2]) != 0);
  CHECK(cuCtxSynchronize());
  std::printf("done\n");
  return 0;
}
