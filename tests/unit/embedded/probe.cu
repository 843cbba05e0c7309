// Behaviour probe: prints what each call returns. Run on a GPU and on the embedded device, outputs compared.
#include <cooperative_groups.h>
#include <cuda_runtime.h>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>
__device__ int dvar[4] = {1, 2, 3, 4};
__constant__ float cvar[8];
__managed__ int mvar = 5;
int not_a_symbol;
__global__ void nop() {}
__global__ void set1(int* p, int v) {
  *p = v;
}
__global__ void scale(int* p, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] *= 2;
}
__global__ void __launch_bounds__(128) bounded(int* p) {
  if (p) *p = threadIdx.x;
}
__global__ void stat(int* p) {
  __shared__ int s[1000];
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  p[threadIdx.x] = s[31 - threadIdx.x];
}
__global__ void bump() {
  mvar += dvar[1];
}
extern __shared__ int dyn[];
__global__ void dynk(int* p, int n) {
  dyn[n - 1] = 7;
  *p = dyn[n - 1];
}
__global__ void coop(int* p) {
  cooperative_groups::this_grid().sync();
  if (p) atomicAdd(p, 1);
}
#define P(call)                                               \
  do {                                                        \
    cudaError_t e_ = (call);                                  \
    printf("%-70s %d %s\n", #call, e_, cudaGetErrorName(e_)); \
    cudaGetLastError();                                       \
  } while (0)
#define L(launch)                                               \
  do {                                                          \
    launch;                                                     \
    cudaError_t e_ = cudaGetLastError();                        \
    printf("%-70s %d %s\n", #launch, e_, cudaGetErrorName(e_)); \
  } while (0)
static void CUDART_CB cb(void* d) {
  int v;
  printf("callback %d: %s\n", *(int*)d, cudaGetErrorName(cudaGetDevice(&v)));
}
static void CUDART_CB scb(cudaStream_t, cudaError_t e, void* d) {
  printf("stream callback %d %d\n", *(int*)d, e);
}
int main() {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  cudaStream_t s, t;
  cudaEvent_t e, f;
  int *d, *h, v = 0;
  float ms;
  size_t z;
  void* p;
  unsigned u;
  P(cudaGetDeviceCount(&v));
  P(cudaSetDevice(-1));
  P(cudaSetDevice(1000));
  P(cudaSetDevice(0));
  P(cudaMalloc((void**)0, 4));
  P(cudaMalloc(&p, 0));
  printf("null %d\n", p == 0);
  P(cudaMalloc(&p, size_t(1) << 50));
  P(cudaMalloc(&d, 4096));
  P(cudaMallocHost(&h, 4096));
  P(cudaFree(0));
  P(cudaFree((char*)d + 4));
  P(cudaFree(h));
  P(cudaFreeHost(d));
  P(cudaFreeHost(0));
  P(cudaFree(&v));
  std::vector<int> host(1024, 3);
  puts("-- copies");
  P(cudaMemcpy(d, host.data(), 4096, cudaMemcpyHostToDevice));
  P(cudaMemcpy(d, host.data(), 4097, cudaMemcpyHostToDevice));
  P(cudaMemcpy(d, d, 16, cudaMemcpyHostToDevice));
  P(cudaMemcpy(host.data(), host.data() + 8, 16, cudaMemcpyHostToDevice));
  P(cudaMemcpy(host.data(), d, 16, cudaMemcpyHostToDevice));
  P(cudaMemcpy(host.data(), d, 16, cudaMemcpyDeviceToDevice));
  P(cudaMemcpy(host.data(), d, 16, cudaMemcpyHostToHost));
  P(cudaMemcpy(d, host.data(), 16, cudaMemcpyDeviceToHost));
  P(cudaMemcpy(d, host.data(), 16, cudaMemcpyDefault));
  P(cudaMemcpy(d, h, 16, cudaMemcpyDeviceToDevice));
  P(cudaMemcpy(h, d, 16, cudaMemcpyDeviceToDevice));
  P(cudaMemcpy(d, host.data(), 16, (cudaMemcpyKind)9));
  P(cudaMemcpy(0, host.data(), 16, cudaMemcpyHostToDevice));
  P(cudaMemcpy(d, 0, 16, cudaMemcpyHostToDevice));
  P(cudaMemcpy(d, 0, 0, cudaMemcpyHostToDevice));
  P(cudaMemcpy2D(d, 16, host.data(), 64, 32, 4, cudaMemcpyHostToDevice));
  P(cudaMemcpy2D(d, 64, host.data(), 64, 32, 4, cudaMemcpyHostToDevice));
  P(cudaMemcpy2D(d, 64, host.data(), 64, 32, 100, cudaMemcpyHostToDevice));
  P(cudaMemset(d, 1, 4096));
  P(cudaMemset(d, 1, 4097));
  P(cudaMemset(host.data(), 1, 4));
  P(cudaMemset(h, 1, 4));
  P(cudaMemset(0, 0, 0));
  P(cudaMemset2D(d, 16, 0, 32, 2));
  P(cudaMemset2D(d, 64, 0, 32, 2));
  puts("-- symbols");
  P(cudaMemcpyToSymbol(dvar, host.data(), 16));
  P(cudaMemcpyToSymbol(dvar, host.data(), 20));
  P(cudaMemcpyToSymbol(dvar, host.data(), 8, 12));
  P(cudaMemcpyToSymbol(not_a_symbol, host.data(), 4));
  P(cudaMemcpyToSymbol(cvar, host.data(), 4, 4));
  P(cudaMemcpyFromSymbol(host.data(), cvar, 4, 4));
  P(cudaMemcpyFromSymbol(host.data(), cvar, 4, 0, cudaMemcpyHostToDevice));
  P(cudaGetSymbolAddress(&p, dvar));
  P(cudaGetSymbolSize(&z, cvar));
  printf("%zu\n", z);
  P(cudaGetSymbolSize(&z, not_a_symbol));
  P(cudaMemcpyFromSymbol(&v, mvar, 4));
  printf("%d\n", v);
  mvar = 6;
  bump<<<1, 1>>>();
  P(cudaDeviceSynchronize());
  printf("mvar %d\n", mvar);
  puts("-- launches");
  L((nop<<<1, 1>>>()));
  L((nop<<<0, 1>>>()));
  L((nop<<<1, 0>>>()));
  L((nop<<<1, 1025>>>()));
  L((nop<<<dim3(1, 65536), 1>>>()));
  L((nop<<<1, dim3(1, 1, 65)>>>()));
  L((nop<<<1, dim3(1024, 2)>>>()));
  L((bounded<<<1, 128>>>(d)));
  L((bounded<<<1, 129>>>(d)));
  L((bounded<<<1, 1024>>>(d)));
  L((nop<<<1, 1, 48 * 1024>>>()));
  L((nop<<<1, 1, 48 * 1024 + 1>>>()));
  L((nop<<<1, 1, 1 << 30>>>()));
  L((stat<<<1, 32, 45 * 1024>>>(d)));
  L((stat<<<1, 32, 44 * 1024>>>(d)));
  P(cudaFuncSetAttribute(dynk, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000));
  L((dynk<<<1, 1, 100000>>>(d, 25000)));
  L((dynk<<<1, 1, 100001>>>(d, 25000)));
  P(cudaFuncSetAttribute(dynk, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448));
  P(cudaFuncSetAttribute(dynk, cudaFuncAttributeMaxDynamicSharedMemorySize, 232449));
  P(cudaFuncSetAttribute(stat, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448));
  P(cudaFuncSetAttribute(dynk, (cudaFuncAttribute)99, 1));
  P(cudaFuncSetAttribute(dynk, cudaFuncAttributePreferredSharedMemoryCarveout, 101));
  void* none[1] = {0};
  (void)none;
  P(cudaLaunchKernel((void*)&v, dim3(1), dim3(1), 0, 0, 0));
  P(cudaLaunchKernel((void*)nop, dim3(1), dim3(1), 0, 0, (cudaStream_t)0));
  cudaFuncAttributes fa;
  P(cudaFuncGetAttributes(&fa, stat));
  printf("static %zu threads %d maxdyn %d ptx %d bin %d\n", fa.sharedSizeBytes, fa.maxThreadsPerBlock,
         fa.maxDynamicSharedSizeBytes, fa.ptxVersion, fa.binaryVersion);
  P(cudaFuncGetAttributes(&fa, bounded));
  printf("threads %d\n", fa.maxThreadsPerBlock);
  P(cudaFuncGetAttributes(&fa, (void*)&v));
  P(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&v, stat, 128, 0));
  printf("%d\n", v);
  P(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&v, stat, 0, 0));
  P(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&v, stat, 2000, 0));
  P(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&v, stat, 128, 100000));
  printf("%d\n", v);
  P(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&v, nop, 1024, 0));
  printf("%d\n", v);
  P(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&v, nop, 32, 0));
  printf("%d\n", v);
  P(cudaOccupancyAvailableDynamicSMemPerBlock(&z, nop, 2, 128));
  printf("%zu\n", z);
  P(cudaOccupancyAvailableDynamicSMemPerBlock(&z, nop, 1, 128));
  printf("%zu\n", z);
  P(cudaOccupancyAvailableDynamicSMemPerBlock(&z, stat, 4, 128));
  printf("%zu\n", z);
  int gs, bs;
  P(cudaOccupancyMaxPotentialBlockSize(&gs, &bs, nop));
  printf("%d\n", bs);
  puts("-- streams and events");
  P(cudaStreamCreate(&s));
  P(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
  P(cudaStreamCreateWithFlags(&t, 77));
  P(cudaStreamCreateWithPriority(&t, 1, -100));
  P(cudaStreamGetPriority(t, &v));
  printf("%d\n", v);
  P(cudaDeviceGetStreamPriorityRange(&gs, &bs));
  printf("%d %d\n", gs, bs);
  P(cudaStreamGetFlags(t, &u));
  printf("%u\n", u);
  P(cudaStreamGetFlags(0, &u));
  P(cudaStreamGetPriority(cudaStreamPerThread, &v));
  P(cudaStreamSynchronize(0));
  P(cudaStreamSynchronize(cudaStreamPerThread));
  P(cudaStreamQuery(s));
  P(cudaEventCreate(&e));
  P(cudaEventCreateWithFlags(&f, cudaEventDisableTiming));
  P(cudaEventCreateWithFlags(&f, 99));
  P(cudaEventCreateWithFlags(&f, cudaEventDisableTiming));
  P(cudaEventQuery(e));
  P(cudaEventSynchronize(e));
  P(cudaEventElapsedTime(&ms, e, e));
  P(cudaStreamWaitEvent(s, e, 0));
  P(cudaStreamWaitEvent(s, e, 5));
  P(cudaEventRecord(e, s));
  P(cudaEventElapsedTime(&ms, e, f));
  P(cudaEventRecord(f, s));
  P(cudaEventSynchronize(f));
  P(cudaEventElapsedTime(&ms, e, f));
  P(cudaEventElapsedTime(&ms, e, e));
  P(cudaEventRecordWithFlags(e, s, 1));
  P(cudaEventRecord(0, s));
  P(cudaEventDestroy(f));
  P(cudaEventDestroy(0));
  P(cudaStreamDestroy(0));
  P(cudaStreamDestroy(cudaStreamPerThread));
  P(cudaStreamDestroy(cudaStreamLegacy));
  static int one = 1, two = 2;
  P(cudaLaunchHostFunc(s, cb, &one));
  P(cudaStreamSynchronize(s));
  P(cudaStreamAddCallback(s, scb, &two, 0));
  P(cudaStreamSynchronize(s));
  P(cudaStreamAddCallback(s, scb, &two, 1));
  P(cudaLaunchHostFunc(s, 0, 0));
  puts("-- pointers");
  cudaPointerAttributes pa;
  auto show = [&](const void* q) {
    cudaError_t er = cudaPointerGetAttributes(&pa, q);
    printf("%d type %d device %d dev %d host %d\n", er, pa.type, pa.device, pa.devicePointer == q, pa.hostPointer == q);
  };
  show(d);
  show((char*)d + 100);
  show(h);
  show(&v);
  show(&mvar);
  show(0);
  show((void*)0x7fff00000000);
  P(cudaPointerGetAttributes(0, d));
  P(cudaHostGetDevicePointer(&p, h, 0));
  P(cudaHostGetDevicePointer(&p, &v, 0));
  P(cudaHostGetDevicePointer(&p, h, 1));
  P(cudaHostGetFlags(&u, h));
  printf("%u\n", u);
  P(cudaHostGetFlags(&u, &v));
  P(cudaHostAlloc(&p, 64, 99));
  P(cudaHostAlloc(&p, 64, cudaHostAllocMapped));
  P(cudaHostGetFlags(&u, p));
  printf("%u\n", u);
  P(cudaHostAlloc(&p, 0, 0));
  printf("null %d\n", p == 0);
  P(cudaMallocManaged(&p, 0));
  P(cudaMallocManaged(&p, 64, 7));
  P(cudaMallocManaged(&p, 64));
  P(cudaMemAdvise(p, 64, cudaMemAdviseSetReadMostly, {cudaMemLocationTypeDevice, 0}));
  P(cudaMemPrefetchAsync(p, 64, {cudaMemLocationTypeDevice, 0}, 0, s));
  P(cudaMemPrefetchAsync(d, 64, {cudaMemLocationTypeDevice, 0}, 0, s));
  P(cudaFree(p));
  P(cudaMallocPitch(&p, &z, 100, 3));
  printf("pitch %zu\n", z);
  cudaPitchedPtr pp;
  P(cudaMalloc3D(&pp, make_cudaExtent(600, 2, 2)));
  printf("pitch %zu %zu %zu\n", pp.pitch, pp.xsize, pp.ysize);
  puts("-- async memory");
  P(cudaMallocAsync(&p, 1024, s));
  P(cudaMemsetAsync(p, 0, 1024, s));
  P(cudaFreeAsync(p, s));
  P(cudaMallocAsync(&p, 0, s));
  printf("null %d\n", p == 0);
  P(cudaFreeAsync(0, s));
  P(cudaMallocAsync(&p, 1024, s));
  P(cudaFree(p));
  P(cudaMalloc(&p, 64));
  P(cudaFreeAsync(p, s));
  P(cudaFreeAsync(h, s));
  cudaMemPool_t mp;
  P(cudaDeviceGetDefaultMemPool(&mp, 0));
  std::uint64_t th = 0;
  P(cudaMemPoolGetAttribute(mp, cudaMemPoolAttrReleaseThreshold, &th));
  printf("%lu\n", th);
  P(cudaMallocFromPoolAsync(&p, 64, mp, s));
  P(cudaFreeAsync(p, s));
  P(cudaMemPoolDestroy(mp));
  P(cudaStreamSynchronize(s));
  puts("-- capture");
  cudaGraph_t g;
  cudaGraphExec_t x;
  cudaStreamCaptureStatus cs;
  cudaStream_t a, b;
  cudaStreamCreate(&a);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  cudaEvent_t fork, join;
  cudaEventCreate(&fork);
  cudaEventCreate(&join);
  P(cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal));
  P(cudaStreamEndCapture(a, &g));
  P(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
  P(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
  P(cudaStreamIsCapturing(a, &cs));
  printf("%d\n", cs);
  P(cudaMemsetAsync(d, 1, 64, a));
  P(cudaEventRecord(fork, a));
  P(cudaStreamWaitEvent(b, fork, 0));
  P(cudaStreamIsCapturing(b, &cs));
  printf("%d\n", cs);
  scale<<<1, 16, 0, a>>>(d, 16);
  scale<<<1, 16, 0, b>>>(d + 16, 16);
  P(cudaEventRecord(join, b));
  P(cudaStreamWaitEvent(a, join, 0));
  P(cudaStreamEndCapture(a, &g));
  P(cudaGraphGetNodes(g, 0, &z));
  printf("nodes %zu\n", z);
  P(cudaGraphGetEdges(g, 0, 0, 0, &z));
  printf("edges %zu\n", z);
  P(cudaGraphGetRootNodes(g, 0, &z));
  printf("roots %zu\n", z);
  P(cudaGraphInstantiate(&x, g, 0));
  P(cudaGraphLaunch(x, a));
  P(cudaGraphLaunch(x, b));
  P(cudaStreamSynchronize(a));
  P(cudaStreamSynchronize(b));
  P(cudaMemcpy(host.data(), d, 128, cudaMemcpyDeviceToHost));
  printf("%x %x\n", host[0], host[16]);
  P(cudaEventQuery(fork));
  P(cudaEventSynchronize(join));
  P(cudaStreamWaitEvent(a, fork, 0));
  P(cudaEventElapsedTime(&ms, fork, join));
  P(cudaGraphExecDestroy(x));
  P(cudaGraphDestroy(g));
  P(cudaGraphExecDestroy(0));
  P(cudaGraphDestroy(0));
  P(cudaGraphLaunch(0, a));
#define BEGIN(mode) cudaStreamBeginCapture(a, mode)
#define END()                       \
  do {                              \
    P(cudaStreamEndCapture(a, &g)); \
  } while (0)
  BEGIN(cudaStreamCaptureModeGlobal);
  P(cudaMalloc(&p, 64));
  END();
  BEGIN(cudaStreamCaptureModeThreadLocal);
  P(cudaMalloc(&p, 64));
  END();
  BEGIN(cudaStreamCaptureModeRelaxed);
  P(cudaMalloc(&p, 64));
  END();
  BEGIN(cudaStreamCaptureModeGlobal);
  P(cudaFree(p));
  END();
  BEGIN(cudaStreamCaptureModeGlobal);
  P(cudaMemcpy(d, host.data(), 16, cudaMemcpyHostToDevice));
  END();
  BEGIN(cudaStreamCaptureModeGlobal);
  P(cudaMemset(d, 0, 16));
  END();
  BEGIN(cudaStreamCaptureModeGlobal);
  L((nop<<<1, 1>>>()));
  END();
  BEGIN(cudaStreamCaptureModeRelaxed);
  L((nop<<<1, 1>>>()));
  END();
  BEGIN(cudaStreamCaptureModeGlobal);
  P(cudaStreamSynchronize(a));
  END();
  BEGIN(cudaStreamCaptureModeGlobal);
  P(cudaStreamQuery(a));
  END();
  BEGIN(cudaStreamCaptureModeGlobal);
  P(cudaStreamSynchronize(b));
  END();
  BEGIN(cudaStreamCaptureModeGlobal);
  P(cudaStreamQuery(b));
  END();
  BEGIN(cudaStreamCaptureModeGlobal);
  P(cudaDeviceSynchronize());
  END();
  BEGIN(cudaStreamCaptureModeRelaxed);
  P(cudaDeviceSynchronize());
  END();
  BEGIN(cudaStreamCaptureModeGlobal);
  P(cudaEventQuery(e));
  END();
  BEGIN(cudaStreamCaptureModeGlobal);
  P(cudaEventSynchronize(e));
  END();
  BEGIN(cudaStreamCaptureModeGlobal);
  P(cudaEventRecord(fork, a));
  P(cudaEventQuery(fork));
  END();
  BEGIN(cudaStreamCaptureModeGlobal);
  P(cudaStreamWaitEvent(a, e, 0));
  END();
  BEGIN(cudaStreamCaptureModeGlobal);
  cudaEvent_t fresh;
  cudaEventCreate(&fresh);
  P(cudaStreamWaitEvent(a, fresh, 0));
  END();
  BEGIN(cudaStreamCaptureModeGlobal);
  P(cudaEventRecord(fork, a));
  P(cudaStreamWaitEvent(b, fork, 0));
  nop<<<1, 1, 0, b>>>();
  END();
  P(cudaStreamIsCapturing(b, &cs));
  printf("%d\n", cs);
  BEGIN(cudaStreamCaptureModeGlobal);
  P(cudaStreamAddCallback(a, scb, &two, 0));
  END();
  BEGIN(cudaStreamCaptureModeGlobal);
  P(cudaLaunchHostFunc(a, cb, &one));
  END();
  BEGIN(cudaStreamCaptureModeGlobal);
  P(cudaStreamDestroy(b));
  P(cudaStreamCreate(&b));
  P(cudaMemGetInfo(&z, &z));
  P(cudaMallocHost(&p, 64));
  END();
  BEGIN(cudaStreamCaptureModeGlobal);
  P(cudaMemcpyAsync(d, host.data(), 16, cudaMemcpyHostToDevice, a));
  P(cudaMemcpyAsync(host.data(), d, 16, cudaMemcpyDeviceToHost, a));
  END();
  BEGIN(cudaStreamCaptureModeGlobal);
  std::thread([&] {
    P(cudaMalloc(&p, 64));
    P(cudaStreamEndCapture(a, &g));
  }).join();
  END();
  BEGIN(cudaStreamCaptureModeThreadLocal);
  std::thread([&] {
    P(cudaMalloc(&p, 64));
    P(cudaStreamEndCapture(a, &g));
  }).join();
  END();
  BEGIN(cudaStreamCaptureModeGlobal);
  P(cudaStreamWaitEvent(0, fork, 0));
  P(cudaEventRecord(fork, 0));
  END();
  BEGIN(cudaStreamCaptureModeGlobal);
  P(cudaStreamSynchronize(0));
  END();
  BEGIN(cudaStreamCaptureModeGlobal);
  P(cudaStreamQuery(0));
  END();
  P(cudaStreamIsCapturing(0, &cs));
  BEGIN(cudaStreamCaptureModeGlobal);
  P(cudaStreamIsCapturing(0, &cs));
  printf("%d\n", cs);
  END();
  BEGIN(cudaStreamCaptureModeGlobal);
  P(cudaEventRecord(fork, a));
  P(cudaStreamWaitEvent(b, fork, 0));
  P(cudaStreamEndCapture(b, &g));
  END();
  BEGIN(cudaStreamCaptureModeGlobal);
  P(cudaMallocAsync(&p, 64, b));
  P(cudaMemcpy(h, d, 4, cudaMemcpyDeviceToHost));
  END();
  BEGIN(cudaStreamCaptureModeRelaxed);
  P(cudaMemcpy(h, d, 4, cudaMemcpyDeviceToHost));
  END();
  {
    cudaGraph_t info;
    const cudaGraphNode_t* deps;
    size_t n;
    unsigned long long id;
    BEGIN(cudaStreamCaptureModeGlobal);
    P(cudaStreamGetCaptureInfo(a, &cs, &id, &info, &deps, 0, &n));
    printf("%d %zu\n", cs, n);
    nop<<<1, 1, 0, a>>>();
    P(cudaStreamGetCaptureInfo(a, &cs, &id, &info, &deps, 0, &n));
    printf("%d %zu\n", cs, n);
    cudaGraphNodeType ty;
    P(cudaGraphNodeGetType(deps[0], &ty));
    printf("%d\n", ty);
    END();
    P(cudaStreamGetCaptureInfo(a, &cs, 0, 0, 0, 0, 0));
    printf("%d\n", cs);
    P(cudaGraphInstantiate(&x, g, 0));
    P(cudaGraphDestroy(g));
    P(cudaGraphLaunch(x, a));
    BEGIN(cudaStreamCaptureModeGlobal);
    P(cudaGraphLaunch(x, a));
    P(cudaGraphLaunch(x, a));
    END();
    P(cudaGraphGetNodes(g, 0, &n));
    printf("%zu\n", n);
  }
  puts("-- hand-made graph");
  P(cudaGraphCreate(&g, 0));
  cudaGraphNode_t n1, n2, n3;
  cudaMemsetParams ms_ = {d, 0, 0x01020304, 4, 8, 1};
  P(cudaGraphAddMemsetNode(&n1, g, 0, 0, &ms_));
  ms_.elementSize = 3;
  P(cudaGraphAddMemsetNode(&n2, g, 0, 0, &ms_));
  int cnt = 8;
  void* ka[] = {&d, &cnt};
  cudaKernelNodeParams kp = {(void*)scale, dim3(1), dim3(32), 0, ka, 0};
  P(cudaGraphAddKernelNode(&n2, g, &n1, 1, &kp));
  P(cudaGraphAddMemcpyNode1D(&n3, g, &n2, 1, h, d, 32, cudaMemcpyDeviceToHost));
  P(cudaGraphInstantiate(&x, g, 0));
  P(cudaGraphLaunch(x, s));
  P(cudaStreamSynchronize(s));
  printf("%x %x\n", h[0], h[7]);
  P(cudaGraphAddDependencies(g, &n3, &n1, 0, 1));
  cudaGraphExec_t y;
  P(cudaGraphInstantiate(&y, g, 0));
  P(cudaGraphKernelNodeGetParams(n2, &kp));
  printf("%u %u\n", kp.blockDim.x, kp.gridDim.x);
  P(cudaGraphNodeSetEnabled(x, n2, 0));
  P(cudaGraphLaunch(x, s));
  P(cudaStreamSynchronize(s));
  printf("%x\n", h[0]);
  puts("-- errors");
  cudaMalloc((void**)0, 4);
  printf("%d %d %d\n", cudaPeekAtLastError(), cudaGetLastError(), cudaGetLastError());
  cudaMalloc((void**)0, 4);
  cudaMalloc(&p, 4);
  printf("%d\n", cudaGetLastError());
  std::thread([] {
    printf("other thread %d\n", cudaGetLastError());
    cudaSetDevice(-1);
  }).join();
  printf("%d\n", cudaGetLastError());
  cudaEventQuery((cudaEvent_t)0);
  printf("%d\n", cudaGetLastError());
  printf("%s | %s\n", cudaGetErrorString((cudaError_t)12345), cudaGetErrorName((cudaError_t)12345));
  puts("-- properties");
  cudaDeviceProp pr;
  P(cudaGetDeviceProperties(&pr, 1));
  P(cudaGetDeviceProperties(&pr, 0));
  printf(
      "cc %d.%d warp %d threads %d shared %zu optin %zu regs %d sms %d l2 %d persist %d async %d tpm %d bpm %d const "
      "%zu res %zu cl %d policy %d surf %zu pitchalign %zu hostreg %d ptr %d pageable %d\n",
      pr.major, pr.minor, pr.warpSize, pr.maxThreadsPerBlock, pr.sharedMemPerBlock, pr.sharedMemPerBlockOptin,
      pr.regsPerBlock, pr.multiProcessorCount, pr.l2CacheSize, pr.persistingL2CacheMaxSize, pr.asyncEngineCount,
      pr.maxThreadsPerMultiProcessor, pr.maxBlocksPerMultiProcessor, pr.totalConstMem, pr.reservedSharedMemPerBlock,
      pr.clusterLaunch, pr.accessPolicyMaxWindowSize, pr.surfaceAlignment, pr.texturePitchAlignment,
      pr.hostRegisterSupported, pr.canUseHostPointerForRegisteredMem, pr.pageableMemoryAccess);
  for (int i = 1; i < cudaDevAttrMax; i++) {
    v = -77;
    cudaError_t er = cudaDeviceGetAttribute(&v, (cudaDeviceAttr)i, 0);
    printf("attr %d: %d %d\n", i, er, v);
    cudaGetLastError();
  }
  P(cudaDeviceGetAttribute(&v, (cudaDeviceAttr)0, 0));
  P(cudaDeviceGetAttribute(&v, (cudaDeviceAttr)1, 5));
  for (int i = 0; i < 8; i++) {
    size_t l = 0;
    cudaError_t er = cudaDeviceGetLimit(&l, (cudaLimit)i);
    printf("limit %d: %d %zu\n", i, er, l);
    cudaGetLastError();
  }
  P(cudaDeviceCanAccessPeer(&v, 0, 0));
  P(cudaDeviceEnablePeerAccess(0, 0));
  P(cudaDeviceDisablePeerAccess(0));
  P(cudaGetDriverEntryPointByVersion("cuNothing", &p, 12000, 0, 0));
  P(cudaGetDeviceFlags(&u));
  printf("flags %u\n", u);
  P(cudaSetDeviceFlags(0));
  P(cudaSetDeviceFlags(cudaDeviceScheduleSpin));
  puts("-- cooperative");
  {
    int* a0 = 0;
    void* args[] = {&a0};
    P(cudaLaunchCooperativeKernel((void*)coop, dim3(4), dim3(64), args, 0, 0));
    P(cudaLaunchCooperativeKernel((void*)coop, dim3(1 << 20), dim3(1024), args, 0, 0));
  }
  P(cudaDeviceSynchronize());
  return 0;
}
