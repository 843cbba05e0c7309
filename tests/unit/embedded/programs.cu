// Small CUDA programs, one a word on the command line. Each prints what it computed; embedded_programs.cpp knows what.
#include <cuda_runtime.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "check.h"

__device__ int numbers[4] = {1, 2, 3, 4};
__constant__ int factor[2];
__managed__ int shared_sum = 5;

__global__ void add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
__global__ void scale(int* data, int n, int by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] *= by;
}
__global__ void fill(int* data, int n, int value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = value;
}
__global__ void use_symbols(int* out) { *out = numbers[3] * factor[1]; numbers[0] = 10; shared_sum += 1; }
__global__ void raise_flag(volatile int* flag, int value) { *flag = value; }
__global__ void wait_flag(volatile int* flag, int* out) { while (*flag == 0) {} *out = *flag; }
__global__ void count_long(volatile int* at, int n) { for (int i = 0; i < n; ++i) *at = *at + i; }
__global__ void out_of_bounds(int* data) { data[threadIdx.x + 1000000] = 1; }
__global__ void say_hello() { printf("hello from %d\n", threadIdx.x); }
extern __shared__ int dynamic_shared[];
__global__ void big_shared(int* out, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) dynamic_shared[i] = i;
  __syncthreads();
  if (threadIdx.x == 0) *out = dynamic_shared[n - 1];
}
struct Many { char c; double d; short s[3]; };
template <class T> __global__ void arguments(T value, Many many, char last, int* out) {
  *out = int(value) + many.c + int(many.d) + many.s[2] + last;
}

template <class T> static T* device(std::size_t count) {
  T* pointer = nullptr;
  CHECK(cudaMalloc(&pointer, count * sizeof(T)));
  return pointer;
}
static int read(const int* pointer) {
  int value = 0;
  CHECK(cudaMemcpy(&value, pointer, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}

static void vector_add() {
  const int n = 1000;
  std::vector<float> a(n), b(n), c(n);
  for (int i = 0; i < n; ++i) a[i] = i, b[i] = 2 * i;
  float *da = device<float>(n), *db = device<float>(n), *dc = device<float>(n);
  CHECK(cudaMemcpy(da, a.data(), n * 4, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(db, b.data(), n * 4, cudaMemcpyHostToDevice));
  add<<<(n + 255) / 256, 256>>>(da, db, dc, n);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(c.data(), dc, n * 4, cudaMemcpyDeviceToHost));
  double sum = 0;
  for (float x : c) sum += x;
  std::printf("%g\n", sum);
  CHECK(cudaFree(da));
}

static void streams() {
  const int n = 1 << 12;
  cudaStream_t s[2];
  cudaEvent_t begin, middle, end;
  CHECK(cudaStreamCreate(&s[0]));
  CHECK(cudaStreamCreateWithFlags(&s[1], cudaStreamNonBlocking));
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreateWithFlags(&middle, cudaEventDisableTiming));
  CHECK(cudaEventCreate(&end));
  int *data = device<int>(n), *host = nullptr;
  CHECK(cudaMallocHost(&host, n * 4));
  for (int i = 0; i < n; ++i) host[i] = i;
  CHECK(cudaEventRecord(begin, s[0]));
  CHECK(cudaMemcpyAsync(data, host, n * 4, cudaMemcpyHostToDevice, s[0]));
  scale<<<n / 256, 256, 0, s[0]>>>(data, n, 3);
  CHECK(cudaEventRecord(middle, s[0]));
  CHECK(cudaStreamWaitEvent(s[1], middle, 0));
  scale<<<n / 256, 256, 0, s[1]>>>(data, n, 5);
  CHECK(cudaMemcpyAsync(host, data, n * 4, cudaMemcpyDeviceToHost, s[1]));
  CHECK(cudaEventRecord(end, s[1]));
  int queries = 0;
  while (cudaEventQuery(end) == cudaErrorNotReady) ++queries;
  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
  long long sum = 0;
  for (int i = 0; i < n; ++i) sum += host[i];
  std::printf("%lld waited %d elapsed %g\n", sum, queries > 0, milliseconds);
  CHECK(cudaStreamDestroy(s[0]));
  CHECK(cudaEventDestroy(end));
}

static void symbols() {
  int values[2] = {6, 7}, back[4] = {};
  int* out = device<int>(1);
  CHECK(cudaMemcpyToSymbol(factor, values, sizeof values));
  CHECK(cudaMemcpyToSymbol(numbers, &values[0], 4, 12));
  shared_sum = 100;
  use_symbols<<<1, 1>>>(out);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpyFromSymbol(back, numbers, sizeof back));
  void* address = nullptr;
  std::size_t bytes = 0;
  CHECK(cudaGetSymbolAddress(&address, numbers));
  CHECK(cudaGetSymbolSize(&bytes, factor));
  CHECK(cudaMemset(address, 0, 4));
  int first = -1;
  CHECK(cudaMemcpyFromSymbol(&first, numbers, 4));
  std::printf("%d %d %d %d %d %zu %d\n", read(out), back[0], back[1], back[3], shared_sum, bytes, first);
}

static void copies() {
  int host[64], back[64] = {};
  std::iota(host, host + 64, 0);
  int* pitched = nullptr;
  std::size_t pitch = 0;
  CHECK(cudaMallocPitch(&pitched, &pitch, 8 * 4, 8));
  CHECK(cudaMemset2D(pitched, pitch, 0xFF, 8 * 4, 8));
  CHECK(cudaMemcpy2D(pitched, pitch, host, 8 * 4, 4 * 4, 8, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy2D(back, 8 * 4, pitched, pitch, 8 * 4, 8, cudaMemcpyDeviceToHost));
  std::printf("%d %d %d %d\n", back[0], back[3], back[4], back[8 * 7 + 3]);
  cudaPitchedPtr cube;
  CHECK(cudaMalloc3D(&cube, make_cudaExtent(16, 2, 2)));
  cudaMemcpy3DParms p = {};
  p.srcPtr = make_cudaPitchedPtr(host, 16, 16, 2);
  p.dstPtr = cube;
  p.extent = make_cudaExtent(16, 2, 2);
  p.kind = cudaMemcpyHostToDevice;
  CHECK(cudaMemcpy3D(&p));
  int line[4] = {};
  CHECK(cudaMemcpy(line, static_cast<char*>(cube.ptr) + 3 * cube.pitch, 16, cudaMemcpyDefault));
  std::printf("%d %d\n", line[0], line[3]);
  int* other = device<int>(64);
  CHECK(cudaMemcpy(other, cube.ptr, 16, cudaMemcpyDefault));
  CHECK(cudaMemcpyPeer(other + 4, 0, other, 0, 16));
  std::printf("%d\n", read(other + 6));
}

static void graphs() {
  const int n = 256;
  cudaStream_t a, b;
  cudaEvent_t fork, join;
  CHECK(cudaStreamCreate(&a));
  CHECK(cudaStreamCreate(&b));
  CHECK(cudaEventCreate(&fork));
  CHECK(cudaEventCreate(&join));
  int* data = device<int>(2 * n);
  int host = 0;
  CHECK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
  fill<<<1, n, 0, a>>>(data, n, 1);
  CHECK(cudaEventRecord(fork, a));
  CHECK(cudaStreamWaitEvent(b, fork, 0));
  scale<<<1, n, 0, a>>>(data, n, 2);
  fill<<<1, n, 0, b>>>(data + n, n, 20);
  CHECK(cudaEventRecord(join, b));
  CHECK(cudaStreamWaitEvent(a, join, 0));
  scale<<<2, n, 0, a>>>(data, 2 * n, 3);
  CHECK(cudaMemcpyAsync(&host, data + n, 4, cudaMemcpyDeviceToHost, a));
  cudaGraph_t graph;
  CHECK(cudaStreamEndCapture(a, &graph));
  std::size_t nodes = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(executable, i % 2 ? a : b));
  CHECK(cudaDeviceSynchronize());
  std::printf("%zu %d %d %d\n", nodes, read(data), read(data + n), host);
  CHECK(cudaGraphExecDestroy(executable));
}

static void CUDART_CB host_function(void* data) {
  int device = 0;
  std::printf("callback %s: %s\n", static_cast<const char*>(data), cudaGetErrorName(cudaGetDevice(&device)));
}
static void CUDART_CB stream_callback(cudaStream_t, cudaError_t status, void* data) {
  std::printf("stream callback %s: %d\n", static_cast<const char*>(data), int(status));
}
static void callbacks() {
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaLaunchHostFunc(stream, host_function, const_cast<char*>("one")));
  CHECK(cudaStreamAddCallback(stream, stream_callback, const_cast<char*>("two"), 0));
  CHECK(cudaStreamSynchronize(stream));
  std::printf("done\n");
}

static void memory() {
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  int *host = nullptr, *mapped = nullptr, *managed = nullptr, *pool = nullptr;
  CHECK(cudaHostAlloc(&host, 1024, cudaHostAllocMapped));
  CHECK(cudaHostGetDevicePointer(&mapped, host, 0));
  fill<<<1, 256>>>(mapped, 256, 4);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMallocManaged(&managed, 1024));
  for (int i = 0; i < 256; ++i) managed[i] = host[i] + i;
  scale<<<1, 256>>>(managed, 256, 10);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMallocAsync(&pool, 1024, stream));
  CHECK(cudaMemsetAsync(pool, 0, 1024, stream));
  CHECK(cudaMemcpyAsync(pool, managed, 512, cudaMemcpyDefault, stream));
  CHECK(cudaMemcpyAsync(host, pool, 1024, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaFreeAsync(pool, stream));
  CHECK(cudaStreamSynchronize(stream));
  std::printf("%d %d %d\n", host[0], host[127], host[128]);
  std::size_t free_before = 0, free_after = 0, total = 0;
  CHECK(cudaMemGetInfo(&free_before, &total));
  void* large = nullptr;
  CHECK(cudaMalloc(&large, 1 << 30));
  CHECK(cudaMemGetInfo(&free_after, &total));
  std::printf("%d\n", free_before - free_after >= (1u << 30));
  CHECK(cudaFree(large));
  CHECK(cudaFreeHost(host));
  CHECK(cudaFree(managed));
}

static void launches() {
  int* out = device<int>(1);
  CHECK(cudaFuncSetAttribute(big_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 160 * 1024));
  big_shared<<<1, 64, 160 * 1024>>>(out, 40 * 1024);
  std::printf("%d\n", read(out));
  Many many{3, 4.5, {0, 0, 5}};
  arguments<<<1, 1>>>(6.75, many, 7, out);
  std::printf("%d\n", read(out));
  cudaLaunchConfig_t config = {};
  config.gridDim = config.blockDim = dim3(1);
  cudaLaunchAttribute attribute[1];
  attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute[0].val.programmaticStreamSerializationAllowed = 1;
  config.attrs = attribute;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, fill, out, 1, 77));
  std::printf("%d\n", read(out));
  const char* name = nullptr;
  CHECK(cudaFuncGetName(&name, reinterpret_cast<const void*>(fill)));
  std::printf("%s\n", name);
}

static void two_threads() {
  int* data = device<int>(512);
  auto work = [&](int which) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    int* mine = data + 256 * which;
    for (int i = 0; i < 20; ++i) fill<<<1, 256, 0, stream>>>(mine, 256, i + which);
    CHECK(cudaStreamSynchronize(stream));
    cudaSetDevice(-1); // an error of this thread's own
  };
  std::thread one(work, 0), two(work, 1);
  one.join();
  two.join();
  std::printf("%d %d %d\n", read(data), read(data + 256), int(cudaGetLastError()));
}

// Reads its own half through the default stream: legacy or, compiled so, the thread's own.
static void default_stream() {
  int value[2] = {};
  int* data = device<int>(2);
  auto work = [&](int which) {
    fill<<<1, 1>>>(data + which, 1, which + 1);
    CHECK(cudaMemcpyAsync(&value[which], data + which, 4, cudaMemcpyDeviceToHost, 0));
    CHECK(cudaStreamSynchronize(0));
  };
  std::thread one(work, 0), two(work, 1);
  one.join();
  two.join();
  unsigned long long own = 0, legacy = 0;
  CHECK(cudaStreamGetId(0, &own));
  CHECK(cudaStreamGetId(cudaStreamLegacy, &legacy));
  std::printf("%d %d %s\n", value[0], value[1], own == legacy ? "legacy" : "own");
}

static __global__ void wait_together(volatile int* told, int* out) {
  if (threadIdx.x == 0) {
    while (told[0] == 0) {
    }
  }
  __syncwarp();
  __threadfence_system();
  out[threadIdx.x] = told[1];
}
static void run_told(bool by_a_thread) {
  int *told, *out, values[32];
  cudaHostAlloc(&told, 2 * sizeof(int), cudaHostAllocMapped);
  told[0] = told[1] = 0;
  cudaMalloc(&out, sizeof values);
  wait_together<<<1, 32>>>(told, out);
  std::thread other([=] {
    if (!by_a_thread) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    told[1] = 7;
    __atomic_store_n(told, 1, __ATOMIC_RELEASE);
  });
  const cudaError_t waited = cudaDeviceSynchronize();
  other.join();
  if (waited != cudaSuccess) {
    std::printf("%s\n", cudaGetErrorName(waited));
    return;
  }
  cudaMemcpy(values, out, sizeof values, cudaMemcpyDeviceToHost);
  int sum = 0;
  for (int value : values) sum += value;
  std::printf("%d\n", sum);
}
static void told_by_a_thread() { run_told(true); }
static void told_by_nobody() { run_told(false); }

static void poll_memory() { // no CUDA call while waiting
  volatile int* flag = nullptr;
  CHECK(cudaMallocHost(const_cast<int**>(&flag), 4));
  *flag = 0;
  raise_flag<<<1, 1>>>(flag, 9);
  while (*flag == 0) {}
  std::printf("%d\n", *flag);
}

static void poll_beside() { // what the host polls has nothing to do with the other kernel
  volatile int* flag = nullptr;
  CHECK(cudaMallocHost(const_cast<int**>(&flag), 4));
  *flag = 0;
  cudaStream_t a, b;
  CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  int* beside = device<int>(1);
  raise_flag<<<1, 1, 0, a>>>(beside, 5);
  raise_flag<<<1, 1, 0, b>>>(flag, 9);
  while (*flag == 0) {}
  std::printf("%d\n", *flag);
}

static cudaGraph_t graph_by_hand(int* to) {
  cudaGraph_t graph;
  cudaGraphNode_t node;
  int value = 3;
  void* arguments[] = {&to, &value};
  cudaKernelNodeParams kernel = {};
  kernel.func = reinterpret_cast<void*>(raise_flag);
  kernel.gridDim = kernel.blockDim = dim3(1);
  kernel.kernelParams = arguments;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &kernel));
  return graph;
}

static void run_by_hand() {
  int* to = device<int>(1);
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph_by_hand(to), 0));
  CHECK(cudaGraphLaunch(executable, nullptr));
  std::printf("%d\n", read(to));
}

static void spin_on_stream() { // one kernel waits for another's flag
  cudaStream_t a, b;
  CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  int* flag = device<int>(2);
  CHECK(cudaMemset(flag, 0, 8));
  CHECK(cudaDeviceSynchronize());
  wait_flag<<<1, 1, 0, a>>>(flag, flag + 1);
  raise_flag<<<1, 1, 0, b>>>(flag, 3);
  CHECK(cudaDeviceSynchronize());
  std::printf("%d\n", read(flag + 1));
}

static void other_thread_answers() { // a kernel waits for a host thread that makes no CUDA call
  volatile int* flag = nullptr;
  CHECK(cudaMallocHost(const_cast<int**>(&flag), 4));
  *flag = 0;
  int* out = device<int>(1);
  wait_flag<<<1, 1>>>(flag, out);
  std::thread other([=] {
    usleep(50 * 1000);
    *flag = 6;
  });
  CHECK(cudaDeviceSynchronize());
  other.join();
  std::printf("%d\n", read(out));
}

static void hang() {
  int* flag = device<int>(2);
  CHECK(cudaMemset(flag, 0, 8));
  wait_flag<<<1, 1>>>(flag, flag + 1);
  std::printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}

static void fault() {
  out_of_bounds<<<1, 32>>>(device<int>(4));
  std::printf("launch %s\n", cudaGetErrorName(cudaGetLastError()));
  std::printf("sync %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  void* pointer = nullptr;
  std::printf("malloc %s\n", cudaGetErrorName(cudaMalloc(&pointer, 4)));
}

// Until the host, whose call runs what comes before it in another stream, tells it to go on.
static std::mutex& telling = *new std::mutex; // a function may wait when the process ends
static std::condition_variable& told = *new std::condition_variable;
static int may_go_on = 0;
static void CUDART_CB wait_for_the_host(void* said) {
  std::unique_lock<std::mutex> hold(telling);
  told.wait(hold, [] { return may_go_on != 0; });
  *static_cast<int*>(said) = may_go_on;
}
static void tell() {
  cudaStream_t waiting, other;
  CHECK(cudaStreamCreateWithFlags(&waiting, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  int *data = device<int>(256), *behind = device<int>(256), said[2] = {};
  for (int& place : said) CHECK(cudaLaunchHostFunc(waiting, wait_for_the_host, &place));
  fill<<<1, 256, 0, waiting>>>(behind, 256, 6);
  fill<<<1, 256, 0, other>>>(data, 256, 5);
  CHECK(cudaStreamSynchronize(other));
  std::printf("%d %s\n", said[0], cudaGetErrorName(cudaStreamQuery(waiting)));
  {
    const std::lock_guard<std::mutex> hold(telling);
    may_go_on = 3;
  }
  told.notify_all();
  CHECK(cudaStreamSynchronize(waiting));
  std::printf("%d %d %d %d\n", said[0], said[1], read(behind + 255), read(data + 255));
}
static void leave_running() { // exits beside a host function that waits
  cudaStream_t waiting, other;
  CHECK(cudaStreamCreateWithFlags(&waiting, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  static int said = 0;
  CHECK(cudaLaunchHostFunc(waiting, wait_for_the_host, &said));
  fill<<<1, 256, 0, other>>>(device<int>(256), 256, 5);
  CHECK(cudaStreamSynchronize(other));
  std::printf("leaving\n");
  std::exit(7);
}
static void leave_within() { // a host function ends the process
  CHECK(cudaLaunchHostFunc(nullptr, [](void*) { std::exit(9); }, nullptr));
  CHECK(cudaDeviceSynchronize());
  std::printf("still there\n");
}

static void leave_queued() { // exits with work in the queue
  static int* data = device<int>(256);
  fill<<<1, 256>>>(data, 256, 1);
  cudaLaunchHostFunc(nullptr, host_function, const_cast<char*>("late"));
  std::printf("leaving\n");
  std::exit(7);
}

struct AtEnd { // destroyed after main, calls CUDA
  ~AtEnd() {
    if (used) std::printf("destructor %s\n", cudaGetErrorName(cudaFree(pointer)));
  }
  bool used = false;
  void* pointer = nullptr;
} at_end;
static void destructor() {
  at_end.used = true;
  CHECK(cudaMalloc(&at_end.pointer, 64));
}

static void forked() {
  int* data = device<int>(256);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    void* pointer = nullptr;
    std::printf("child %s\n", cudaGetErrorName(cudaMalloc(&pointer, 4)));
    std::fflush(stdout);
    std::exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  fill<<<1, 256>>>(data, 256, 8);
  std::printf("parent %d %d\n", read(data + 255), status);
}

static void forked_early() { // nothing has needed the device yet: child and parent have one each
  cudaGetLastError();
  const pid_t child = fork();
  if (child == 0) {
    int* data = device<int>(256);
    fill<<<1, 256>>>(data, 256, 5);
    std::printf("child %d\n", read(data + 255));
    std::fflush(stdout);
    std::exit(3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  int* data = device<int>(256);
  fill<<<1, 256>>>(data, 256, 8);
  std::printf("parent %d %d\n", read(data + 255), WEXITSTATUS(status));
}

// Ends the process within a call of this thread's.
static void leave_in_handler() {
  static int* data = device<int>(1);
  signal(SIGALRM, [](int) {
    std::printf("leaving %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    std::exit(7);
  });
  count_long<<<1, 1>>>(data, 1 << 30);
  const itimerval soon{{0, 0}, {0, 200'000}};
  setitimer(ITIMER_REAL, &soon, nullptr);
  cudaDeviceSynchronize();
  std::printf("still there\n");
}

static void leave_beside_kernel() { // another thread waits for it
  static int* data = device<int>(1);
  count_long<<<1, 1>>>(data, 1 << 30);
  std::thread([] { cudaDeviceSynchronize(); }).detach();
  usleep(300'000);
  std::printf("leaving\n");
  std::exit(7);
}

static void cancelled() { // threads end when they are told to, and not within a call
  static int* data = device<int>(256);
  for (int i = 1; i <= 20; ++i) {
    pthread_t thread;
    pthread_create(&thread, nullptr, [](void*) -> void* {
      for (;;) {
        fill<<<4, 256>>>(data, 256, 5);
        cudaDeviceSynchronize();
        pthread_testcancel();
      }
    }, nullptr);
    usleep(i * 1000);
    pthread_cancel(thread);
    void* result = nullptr;
    pthread_join(thread, &result);
    if (result != PTHREAD_CANCELED) std::printf("not cancelled\n");
  }
  std::printf("%d\n", read(data + 255));
}

static void unsupported();
static void broken_pipe() { // standard error leads nowhere
  int ends[2];
  if (pipe(ends) != 0) return;
  close(ends[0]);
  dup2(ends[1], STDERR_FILENO);
  unsupported();
}

static void error_number() {
  int changed = 0;
  const auto kept = [&](cudaError_t) { changed += errno != EDOM; errno = EDOM; };
  errno = EDOM;
  void* pointer = nullptr;
  kept(cudaMalloc(&pointer, 64));
  for (int i = 0; i < 3; ++i) {
    fill<<<4, 256>>>(static_cast<int*>(pointer), 16, 1);
    kept(cudaGetLastError());
    kept(cudaDeviceSynchronize());
  }
  kept(cudaMallocManaged(&pointer, 64));
  kept(cudaLaunchHostFunc(nullptr, [](void*) { usleep(100'000); }, nullptr));
  kept(cudaDeviceSynchronize());
  std::printf("%d\n", changed);
}

static void killed() {
  vector_add();
  std::fflush(stdout);
  usleep(600 * 1000);
  vector_add();
  std::fflush(stdout);
  raise(SIGKILL);
}

static void unsupported() {
  for (int i = 0; i < 2; ++i) {
    cudaArraySparseProperties properties = {};
    std::printf("%s\n", cudaGetErrorName(cudaArrayGetSparseProperties(&properties, nullptr)));
  }
  std::printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}

static void hello() {
  say_hello<<<1, 2>>>();
  CHECK(cudaDeviceSynchronize());
}

static void attributes() {
  cudaDeviceProp p;
  CHECK(cudaGetDeviceProperties(&p, 0));
  int grid = 0, block = 0, blocks = 0;
  CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, fill));
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill, 256, 0));
  std::printf("%d.%d %d %d %d %d\n", p.major, p.minor, p.multiProcessorCount, grid, block, blocks);
}

int main(int count, char** words) {
  struct { const char* name; void (*run)(); } const programs[] = {
      {"vector_add", vector_add}, {"streams", streams}, {"symbols", symbols}, {"copies", copies}, {"graphs", graphs},
      {"callbacks", callbacks}, {"memory", memory}, {"launches", launches}, {"two_threads", two_threads},
      {"default_stream", default_stream}, {"poll_memory", poll_memory}, {"poll_beside", poll_beside},
      {"run_by_hand", run_by_hand},
      {"told_by_a_thread", told_by_a_thread}, {"told_by_nobody", told_by_nobody}, {"spin_on_stream", spin_on_stream},
      {"other_thread_answers", other_thread_answers}, {"hang", hang}, {"fault", fault}, {"leave_queued", leave_queued}, {"tell", tell}, {"leave_running", leave_running}, {"leave_within", leave_within}, {"destructor", destructor},
      {"forked", forked}, {"forked_early", forked_early}, {"leave_in_handler", leave_in_handler},
      {"leave_beside_kernel", leave_beside_kernel}, {"cancelled", cancelled}, {"broken_pipe", broken_pipe},
      {"error_number", error_number}, {"killed", killed}, {"unsupported", unsupported}, {"hello", hello},
      {"attributes", attributes}, {"nothing", [] {}}};
  for (const auto& program : programs) {
    if (count > 1 && std::strcmp(words[1], program.name) == 0) {
      program.run();
      return 0;
    }
  }
  return 2;
}
