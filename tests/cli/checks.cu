// Memory and synchronization errors, one a word on the command line; with "right" behind it,
// the same without the error.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

struct Padded {
  char tag;
  int value;
};
struct alignas(16) Wide {
  double a;
  int b;
};

__global__ void sum(const int* in, int* out) {
  atomicAdd(out, in[threadIdx.x]);  // @unwritten
}
__global__ void one_half(short* data) { data[2 * threadIdx.x] = short(threadIdx.x); }
__global__ void both_halves(short* data) { data[2 * threadIdx.x] = data[2 * threadIdx.x + 1] = short(threadIdx.x); }
__global__ void widen(const int* in, int* out) {
  out[threadIdx.x] = in[threadIdx.x] + 1;  // @partly
}
__global__ void tile(int* out, int skip) {
  __shared__ int s[64];
  if (int(threadIdx.x) != skip) s[threadIdx.x] = int(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = s[63 - threadIdx.x] * 2;  // @tile
}
// Correct: padding is copied, bytes are taken out of words, buffers are cleared, copied to and filled by parts.
__global__ void pad(Padded* p, Wide* w, unsigned char* bytes) {
  p[threadIdx.x].tag = 'x';
  p[threadIdx.x].value = int(threadIdx.x);
  w[threadIdx.x].a = threadIdx.x;
  w[threadIdx.x].b = int(threadIdx.x);
  if (threadIdx.x % 4 != 3) bytes[threadIdx.x] = 1;
}
__global__ void copy(const Padded* p, Padded* q, const Wide* w, Wide* x, const unsigned* words, unsigned* low) {
  __shared__ Wide s[32];
  q[threadIdx.x] = p[threadIdx.x];
  s[threadIdx.x] = w[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = s[31 - threadIdx.x];
  if (threadIdx.x < 8) low[threadIdx.x] = words[threadIdx.x] & 0xffu;
}
__global__ void heap(int twice) {
  if (threadIdx.x) return;
  int* p = static_cast<int*>(malloc(64));
  p[0] = 1;
  free(p);
  if (twice) free(p);  // @heap
}
__global__ void heap_leak(int keep) {
  int* p = static_cast<int*>(malloc(64));  // @heap_leak
  p[0] = threadIdx.x;
  if (!keep) free(p);
}
__global__ void heap_unwritten(int* out, int fill) {
  int* p = static_cast<int*>(malloc(64));
  if (fill) p[threadIdx.x & 15] = 1;
  if (p[threadIdx.x & 15] > 0) out[threadIdx.x] = 1;  // @heap_unwritten
  free(p);
}
__global__ void heap_late(int* out, int early) {
  int* p = static_cast<int*>(malloc(64));
  p[0] = 1;
  if (early) out[0] = p[0];
  free(p);
  if (!early) out[0] = p[0];  // @heap_late
}
__global__ void wait_for_ever(volatile int* flag) {
  while (*flag == 0) {  // @deadlock
  }
}
__global__ void race_and_wait(const int* in, volatile int* flag, int* out) {
  __shared__ int tile[64];
  tile[threadIdx.x] = in[threadIdx.x];
  const int other = tile[63 - threadIdx.x];
  while (*flag == 0) {
  }
  out[threadIdx.x] = other;
}

__global__ void agree(int* out) { *out = 7; }

// Undefined values and what they come to decide.
__global__ void scatter(const int* in, int* out) {
  if (threadIdx.x == 0) out[in[0] & 63] = 1;  // @scatter
}
__global__ void choose(const int* in, int* out) {
  if (in[threadIdx.x] > 0) out[threadIdx.x] = 1;  // @choose
}
__global__ void shuffle(const int* in, int* out) {
  int sum = in[threadIdx.x];  // @shuffle
  for (int n = 16; n; n /= 2) sum += __shfl_down_sync(~0u, sum, n);
  if (threadIdx.x % 32 == 0) out[threadIdx.x / 32] = sum;
}
__global__ void pass_on(const int* in, int* out) {
  __shared__ int s[64];
  s[threadIdx.x] = in[threadIdx.x] + 1;  // @pass_on
  __syncthreads();
  out[threadIdx.x] = s[63 - threadIdx.x] + 1;
}
__global__ void vote(const int* in, int* out) {
  const bool some = in[threadIdx.x] > 3;  // @vote
  if (__any_sync(~0u, some)) out[threadIdx.x] = 1;
}
__global__ void ballot(const int* in, int* out) {
  out[threadIdx.x] = __popc(__ballot_sync(~0u, in[threadIdx.x] > 3));  // @ballot
}
__global__ void match(const int* in, int* out) {
  out[threadIdx.x] = int(__match_any_sync(~0u, in[threadIdx.x]));  // @match
}
__global__ void match_all(const int* in, int* out) {
  int all = 0;
  __match_all_sync(~0u, in[threadIdx.x], &all);  // @match_all
  if (all) out[threadIdx.x] = 1;
}
__global__ void reduce(const int* in, int* out) {
  out[threadIdx.x] = __reduce_add_sync(~0u, in[threadIdx.x]);  // @reduce
}
__global__ void reduce_or(const int* in, int* out) {
  out[threadIdx.x] = int(__reduce_or_sync(~0u, threadIdx.x == 0 ? 0xff00u : unsigned(in[threadIdx.x])));  // @reduce_or
}
__global__ void barrier_or(const int* in, int* out) {
  const bool some = in[threadIdx.x] > 3;  // @barrier_or
  if (__syncthreads_or(some)) out[threadIdx.x] = 1;
}
__global__ void barrier_count(const int* in, int* out) {
  out[threadIdx.x] = __syncthreads_count(in[threadIdx.x] > 3);  // @barrier_count
}
// Through functions that are called.
struct Pair {
  int first, second;
};
__device__ __noinline__ int times(int x, int y) { return x * y + 1; }
__device__ __noinline__ Pair turned(Pair p) { return {p.second, p.first}; }
__device__ __noinline__ void add_to(int* sum, int x) { *sum += x; }
__global__ void call(const int* in, int* out) {
  out[threadIdx.x] = times(3, in[threadIdx.x]);  // @call
}
__global__ void call_pair(const int* in, int* out) {
  const int x = in[threadIdx.x];  // @call_pair
  const Pair p = turned({1, x});
  if (p.first > 7) out[threadIdx.x] = p.second;
}
__global__ void call_pointer(const int* in, int* out) {
  int sum = 1;
  add_to(&sum, in[threadIdx.x]);  // @call_pointer
  out[threadIdx.x] = sum * 3;
}
// Through local memory, and what is not written there.
__global__ void keep(const int* in, int* out) {
  int kept[16];
  for (unsigned n = 0; n < 16; ++n) kept[(n + blockDim.x) % 16] = in[(threadIdx.x + n) % 64];  // @keep
  out[threadIdx.x] = kept[threadIdx.x % 16] + 1;
}
__global__ void local(int* out, int written) {
  int own[16];
  for (int n = 0; n < written; ++n) own[n] = n;
  out[threadIdx.x] = own[threadIdx.x % 16] + 1;  // @local
}
// Through matrices: a product of 16 rows, of which some are written, by ones; and a matrix that is moved.
__device__ unsigned place(const void* shared) { return unsigned(__cvta_generic_to_shared(shared)); }
__device__ void multiply(unsigned short (*rows)[16], float (&d)[4]) {
  unsigned a[4];
  const unsigned row = place(&rows[threadIdx.x % 16][threadIdx.x / 16 * 8]);
  // clang-format off
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(row));  // @matrix
  // clang-format on
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %8}, {%9, "
               "%9, %9, %9};"
               : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(0x3c003c00), "f"(0.f));
}
__global__ void matrix(int* out, int written, int used) {
  __shared__ alignas(16) unsigned short rows[16][16];
  for (int n = int(threadIdx.x); n < 16 * written; n += 32) rows[n / 16][n % 16] = 0x3c00;
  __syncthreads();
  float d[4];
  multiply(rows, d);
  for (int n = 0; n < 4; ++n) {
    const int row = int(threadIdx.x / 4) + n / 2 * 8;
    if (row < used && n % 2 == 0 && threadIdx.x % 4 == 0) out[row] = int(d[n]);
  }
}
__global__ void matrix_moved(int* out, int written) {
  __shared__ alignas(16) unsigned short rows[8][8], turned[8][8];
  for (int n = int(threadIdx.x); n < 8 * written; n += 32) rows[n / 8][n % 8] = 1;
  __syncthreads();
  unsigned a = 0;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(a) : "r"(place(rows[threadIdx.x % 8])));
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(a));
  asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(place(turned[threadIdx.x % 8])), "r"(a));
  __syncthreads();
  out[threadIdx.x] = turned[threadIdx.x / 8][threadIdx.x % 8] + turned[threadIdx.x / 8 + 4][threadIdx.x % 8];  // @matrix_moved
}
// The blocks of a cluster fill each other's shared memory.
__global__ void __cluster_dims__(2, 1, 1) remote(int* out, int skip) {
  __shared__ int s[32];
  auto cluster = cooperative_groups::this_cluster();
  int* other = cluster.map_shared_rank(s, cluster.block_rank() ^ 1);
  cluster.sync(); // it is there
  if (int(threadIdx.x) != skip || blockIdx.x == 1) other[threadIdx.x] = int(threadIdx.x);
  cluster.sync();
  out[blockIdx.x * 32 + threadIdx.x] = s[31 - threadIdx.x] * 2;  // @remote
}
__global__ void __cluster_dims__(2, 1, 1) read_remote(int* out, int skip) {
  __shared__ int s[32];
  auto cluster = cooperative_groups::this_cluster();
  if (int(threadIdx.x) != skip || blockIdx.x == 1) s[threadIdx.x] = int(threadIdx.x);
  cluster.sync();
  out[blockIdx.x * 32 + threadIdx.x] = cluster.map_shared_rank(s, cluster.block_rank() ^ 1)[threadIdx.x] + 1;  // @read_remote
  cluster.sync();
}
// Correct: what is not written is loaded, moved, even added, and then not used.
struct Maybe {
  int has, value;
};
__device__ int zeros[64];
__global__ void some(Maybe* all) { // of every third there is a value
  all[threadIdx.x].has = threadIdx.x % 3 == 0;
  if (threadIdx.x % 3 == 0) all[threadIdx.x].value = int(threadIdx.x);
}
__device__ void store_byte(unsigned char* byte, unsigned value) { // beside bytes that may be unwritten
  auto* word = reinterpret_cast<unsigned*>(reinterpret_cast<size_t>(byte) & ~size_t(3));
  const unsigned shift = unsigned(reinterpret_cast<size_t>(byte) & 3) * 8;
  unsigned old = *static_cast<volatile unsigned*>(word), seen;
  do {
    seen = old;
    old = atomicCAS(word, seen, (seen & ~(0xffu << shift)) | value << shift);
  } while (old != seen);
}
__global__ void careful(const Maybe* from, Maybe* to, int* out, unsigned char* bytes) {
  __shared__ volatile int s[64];
  const Maybe m = from[threadIdx.x];
  to[threadIdx.x] = m;
  const int value = m.value; // loaded by all
  int sum = m.has ? value : zeros[threadIdx.x];
  s[threadIdx.x] = sum;
  __syncwarp();
  for (int n = 16; n; n /= 2) { // lanes past the middle add what nobody wrote, and nobody looks
    const int other = s[threadIdx.x + n];
    __syncwarp();
    s[threadIdx.x] = sum += other;
    __syncwarp();
  }
  if (threadIdx.x == 0) out[0] = s[0];
  if (threadIdx.x < 6 && threadIdx.x != 3) store_byte(bytes + threadIdx.x, threadIdx.x);
}
// Correct: lanes without a value take part, and what they give changes nothing that is used.
__global__ void careful_lanes(const Maybe* from, int* out) {
  const Maybe m = from[threadIdx.x];
  const unsigned have = __ballot_sync(~0u, m.has);
  const unsigned large = __ballot_sync(~0u, m.value > 6) & have;
  const int settled = __any_sync(~0u, threadIdx.x == 5 || m.value > 6) + __all_sync(~0u, threadIdx.x != 5 && m.value > 6);
  const unsigned full = __reduce_or_sync(~0u, threadIdx.x == 0 ? ~0u : unsigned(m.value));
  const unsigned none = __reduce_and_sync(~0u, threadIdx.x == 1 ? 0u : unsigned(m.value));
  const unsigned same = __match_any_sync(~0u, m.has ? -1 : m.value) & have;
  const int whole = __reduce_add_sync(~0u, m.has ? m.value : 0);
  out[threadIdx.x] = m.has ? __popc(large) + settled + int(full) + int(none) + __popc(same) + whole : 0;
}
// Correct: values that are not there go through calls and local memory.
__device__ __noinline__ int value_or(Maybe m, int other) { return m.has ? m.value : other; }
__device__ __noinline__ Maybe half_of(const Maybe* all, int n) {
  Maybe m = all[n];
  m.has &= n < 16;
  return m;
}
__global__ void careful_calls(const Maybe* from, int* out) {
  Maybe own[8];
  for (unsigned n = 0; n < 8; ++n) own[(n + blockDim.x) % 8] = half_of(from, int((threadIdx.x + n) % 32));
  int sum = 0;
  for (unsigned n = 0; n < 8; ++n) sum += value_or(own[(n * 3 + threadIdx.x) % 8], 100);
  const int all = __syncthreads_or(threadIdx.x == 3 || from[threadIdx.x].value > 3);
  out[threadIdx.x] = sum + all;
}
// Barriers. There are 96 threads, or 64.
__global__ void counted(int count) {
  asm volatile("bar.sync 1, %0;" ::"r"(count) : "memory");  // @counted
}
__global__ void counts(int other) {
  asm volatile("bar.sync 1, %0;" ::"r"(threadIdx.x < 32 ? 64 : other) : "memory");  // @counts
}
__global__ void part(int every) {
  if (threadIdx.x % 64 / every % 2 == 0) asm volatile("bar.sync 1, 32;" ::: "memory");  // @part
  __syncthreads();
}
__global__ void numbered(int number) {
  asm volatile("bar.sync %0, 64;" ::"r"(number) : "memory");  // @numbered
}
__global__ void unrolled(int number) {
#pragma unroll
  for (int i = 0; i < 8; ++i) asm volatile("bar.sync %0, 64;" ::"r"(number + i) : "memory");  // @unrolled
}
__global__ void left_alone(unsigned leave) {
  if (threadIdx.x >= leave) return;
  asm volatile("bar.sync 1, 64;" ::: "memory");  // @left_alone
}

__global__ void weak_wait(int* flag) {
  for (int seen = 0; !seen;) asm volatile("ld.global.b32 %0, [%1];" : "=r"(seen) : "l"(flag));
}

template <class T> static T* device(int count) {
  T* pointer = nullptr;
  cudaMalloc(&pointer, count * sizeof(T));
  return pointer;
}

int main(int count, char** words) {
  const bool right = count > 2 && !std::strcmp(words[2], "right");
  auto is = [&](const char* name) { return count > 1 && !std::strcmp(words[1], name); };
  int *in = device<int>(64), *out = device<int>(64);
  int host[64] = {};
  if (is("unwritten")) {
    cudaMemset(out, 0, 64 * sizeof(int));
    if (right) cudaMemset(in, 0, 64 * sizeof(int));
    sum<<<1, 64>>>(in, out);
  }
  if (is("partly")) {
    if (right)
      both_halves<<<1, 64>>>(reinterpret_cast<short*>(in));
    else
      one_half<<<1, 64>>>(reinterpret_cast<short*>(in));
    widen<<<1, 64>>>(in, out);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
  }
  if (is("tile")) {
    tile<<<1, 64>>>(out, right ? -1 : 5);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
  }
  if (is("download")) {
    if (right) cudaMemcpy(out, host, 4, cudaMemcpyHostToDevice);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);  // @download
  }
  if (is("reused")) { // what was written belongs to the allocation before
    cudaMemset(out, 0, 64 * sizeof(int));
    cudaMemset(in, 0, 64 * sizeof(int));
    cudaFree(in);
    in = device<int>(64);
    if (right) cudaMemset(in, 0, 64 * sizeof(int));
    sum<<<1, 64>>>(in, out);
  }
  if (is("padding")) {
    Padded *p = device<Padded>(32), *q = device<Padded>(32);
    Wide *w = device<Wide>(32), *x = device<Wide>(32);
    unsigned char* bytes = device<unsigned char>(32);
    unsigned* low = device<unsigned>(8);
    pad<<<1, 32>>>(p, w, bytes);
    copy<<<1, 32>>>(p, q, w, x, reinterpret_cast<unsigned*>(bytes), low);
    Padded back[32];
    cudaMemcpy(back, q, sizeof back, cudaMemcpyDeviceToHost);
    int* halves = device<int>(128);
    cudaMemcpy(halves, in, 4, cudaMemcpyDeviceToDevice);
    cudaMemset(halves + 64, 0, 256);
    cudaMemcpy2D(in, 16, halves + 64, 16, 16, 16, cudaMemcpyDeviceToDevice);
    cudaMemset(out, 0, 4);
    sum<<<1, 64>>>(in, out);
  }
  struct Named {
    const char* name;
    void (*kernel)(const int*, int*);
  };
  for (auto [name, kernel] :
       {Named{"scatter", scatter}, Named{"choose", choose}, Named{"shuffle", shuffle}, Named{"pass_on", pass_on},
        Named{"vote", vote}, Named{"ballot", ballot}, Named{"match", match}, Named{"match_all", match_all},
        Named{"reduce", reduce}, Named{"reduce_or", reduce_or}, Named{"barrier_or", barrier_or},
        Named{"barrier_count", barrier_count}, Named{"call", call}, Named{"call_pair", call_pair},
        Named{"call_pointer", call_pointer}, Named{"keep", keep}})
    if (is(name)) {
      cudaMemset(out, 0, 64 * sizeof(int));
      if (right) cudaMemset(in, 0, 64 * sizeof(int));
      kernel<<<1, 64>>>(in, out);
      cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    }
  if (is("remote") || is("read_remote")) {
    (is("remote") ? remote : read_remote)<<<2, 32>>>(out, right ? -1 : 5);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
  }
  if (is("local") || is("matrix") || is("matrix_moved")) {
    if (is("local")) local<<<1, 32>>>(out, right ? 16 : 15);
    if (is("matrix")) matrix<<<1, 32>>>(out, right ? 16 : 12, 16);
    if (is("matrix_moved")) matrix_moved<<<1, 32>>>(out, right ? 8 : 7);
    cudaMemcpy(host, out, is("matrix") ? 64 : 128, cudaMemcpyDeviceToHost);
  }
  if (is("pinned")) {
    int* seen = nullptr;
    cudaMallocHost(&seen, sizeof host);
    if (right) cudaMemset(in, 0, 64 * sizeof(int));
    widen<<<1, 64>>>(in, seen);
  }
  if (is("careful")) {
    Maybe *from = device<Maybe>(32), *to = device<Maybe>(32), back[32];
    unsigned char *bytes = device<unsigned char>(8), seen[8];
    some<<<1, 32>>>(from);
    careful<<<1, 32>>>(from, to, out, bytes);
    careful_lanes<<<1, 32>>>(from, out + 32);
    matrix<<<1, 32>>>(in, 12, 12);
    careful_calls<<<1, 32>>>(from, in + 32);
    cudaMemcpy(host, in, 48, cudaMemcpyDeviceToHost);
    cudaMemcpy(host, in + 32, 128, cudaMemcpyDeviceToHost);
    cudaMemcpy(back, to, sizeof back, cudaMemcpyDeviceToHost);
    cudaMemcpy(host, out, 4, cudaMemcpyDeviceToHost);
    cudaMemcpy(host + 32, out + 32, 128, cudaMemcpyDeviceToHost);
    std::printf("%d %d\n", host[32], host[33]);
    cudaMemcpy(seen, bytes, sizeof seen, cudaMemcpyDeviceToHost);
    std::printf("%d\n", host[0]);
  }
  if (is("counted")) counted<<<1, 96>>>(right ? 96 : 48);
  if (is("counts")) counts<<<1, 64>>>(right ? 64 : 32);
  if (is("part")) part<<<1, 64>>>(right ? 32 : 1);
  if (is("numbered")) numbered<<<1, 64>>>(right ? 15 : 17);
  if (is("unrolled")) unrolled<<<1, 64>>>(right ? 1 : 17);
  if (is("left_alone")) left_alone<<<1, 64>>>(right ? 64 : 32);
  if (is("free")) {
    cudaFree(in + 1);  // @free_inside
    cudaFree(in);
    if (!right) cudaFree(in);  // @free_twice
    in = nullptr;
  }
  if (is("heap")) heap<<<1, 32>>>(!right);
  if (is("heap_leak")) heap_leak<<<1, 32>>>(!right);
  if (is("heap_unwritten")) heap_unwritten<<<1, 32>>>(out, right);
  if (is("heap_late")) heap_late<<<1, 1>>>(out, right);
  if (is("launch")) {
    tile<<<1, 2048>>>(out, -1);  // @launch
    if (right) std::printf("%s\n", cudaGetErrorName(cudaGetLastError()));
  }
  if (is("heap_leak")) {
    cudaFree(in);
    cudaFree(out);
  }
  if (is("leak")) {
    cudaFree(in);
    if (right) cudaFree(out);
  }
  if (is("weak_wait")) {
    cudaMemset(in, right, 4);
    weak_wait<<<1, 1>>>(in);
  }
  if (is("deadlock")) {
    cudaMemset(in, right, 4);
    wait_for_ever<<<1, 1>>>(in);
  }
  if (is("race_read_and_wait")) {
    int seen = 0;
    cudaMemset(in, 0, 4);
    agree<<<2, 1>>>(out);
    cudaMemcpy(&seen, out, 4, cudaMemcpyDeviceToHost);
    wait_for_ever<<<1, 1>>>(in);
  }
  if (is("race_and_wait")) {
    cudaMemset(in, 0, 256);
    race_and_wait<<<1, 64>>>(in, in, out);
  }
  std::printf("sync %d\n", int(cudaDeviceSynchronize()));
}
