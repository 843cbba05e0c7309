// Two modules with kernels of one name, which differ in what they do, in one captured graph that is launched many times
// without a wait.
#include <vector>

#include "agree.h"

using namespace agree;

namespace {

// out[i] = 3 * in[i], i: of all blocks of 64 threads
constexpr const char* tripling = R"(.version 8.0
.target sm_75
.address_size 64
.visible .entry step(.param .u64 in, .param .u64 out)
{
  .reg .b32 %r<8>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r6, %ctaid.x;
  mad.lo.u32 %r5, %r6, 64, %r1;
  mul.wide.u32 %rd3, %r5, 4;
  add.u64 %rd4, %rd1, %rd3;
  add.u64 %rd5, %rd2, %rd3;
  ld.global.u32 %r2, [%rd4];
  mul.lo.u32 %r3, %r2, 3;
  st.global.u32 [%rd5], %r3;
  ret;
}
)";

// out[i] += in[i] + in of the next two threads of the block, through shared memory
constexpr const char* adding = R"(.version 8.0
.target sm_75
.address_size 64
.visible .entry step(.param .u64 in, .param .u64 out)
{
  .reg .b32 %r<16>;
  .reg .b64 %rd<8>;
  .shared .align 4 .b8 tile[256];
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r11, %ctaid.x;
  mad.lo.u32 %r12, %r11, 64, %r1;
  mul.wide.u32 %rd3, %r12, 4;
  add.u64 %rd4, %rd1, %rd3;
  add.u64 %rd5, %rd2, %rd3;
  ld.global.u32 %r2, [%rd4];
  mov.u32 %r3, tile;
  shl.b32 %r4, %r1, 2;
  add.u32 %r5, %r3, %r4;
  st.shared.u32 [%r5], %r2;
  bar.sync 0;
  add.u32 %r6, %r4, 4;
  and.b32 %r6, %r6, 255;
  add.u32 %r6, %r6, %r3;
  ld.shared.u32 %r7, [%r6];
  add.u32 %r8, %r4, 8;
  and.b32 %r8, %r8, 255;
  add.u32 %r8, %r8, %r3;
  ld.shared.u32 %r9, [%r8];
  ld.global.u32 %r10, [%rd5];
  add.u32 %r10, %r10, %r2;
  add.u32 %r10, %r10, %r7;
  add.u32 %r10, %r10, %r9;
  st.global.u32 [%rd5], %r10;
  ret;
}
)";

constexpr int threads = 64, blocks = 150, count = blocks * threads, launches = 20;

cudaKernel_t kernel_of(const char* text) {
  cudaLibrary_t library;
  cudaKernel_t kernel;
  CHECK(cudaLibraryLoadData(&library, text, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CHECK(cudaLibraryGetKernel(&kernel, library, "step"));
  return kernel;
}

void launch(cudaKernel_t kernel, int* in, int* out, cudaStream_t stream) {
  void* arguments[] = {&in, &out};
  CHECK(cudaLaunchKernel(reinterpret_cast<void*>(kernel), dim3(blocks), dim3(threads), arguments, 0, stream));
}

} // namespace

int main() {
  const std::vector<int> in = values<int>(count, -1000, 1000, 5);
  std::vector<int> sums(count);
  for (int i = 0; i < count; ++i) {
    const int first = i / threads * threads;
    sums[i] = 3 * launches * (in[i] + in[first + (i + 1) % threads] + in[first + (i + 2) % threads]);
  }
  const cudaKernel_t first = kernel_of(tripling), second = kernel_of(adding);
  const std::vector<int> zeros(count);
  Array<int> device_in(in), between(count), out(zeros);
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  launch(first, device_in.data(), between.data(), stream);
  launch(second, between.data(), out.data(), stream);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < launches; ++i) CHECK(cudaGraphLaunch(executable, stream));
  CHECK(cudaStreamSynchronize(stream));
  equal("sums", count, out.host(), sums);
  return conclude();
}
