// Idioms of real kernels within a block: reductions, softmax, copies in stages, carved buffers, partial words, calls. In
// kernels named races_* two accesses are unordered, in those named ordered_* none are. corners.py reads the names.
#include "check.h"
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

__device__ int flag;
__device__ alignas(16) int data[1024];
__global__ void clear() {
  flag = 0;
  for (int& value : data) value = 0;
}

// ---- block reductions which use the scratch array twice

__device__ float warp_sum(float v) {
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  return v;
}
template <bool safe>
__device__ __noinline__ float block_sum(float v, float* scratch) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  v = warp_sum(v);
  if (safe) __syncthreads();
  if (lane == 0) scratch[warp] = v;
  __syncthreads();
  v = lane < blockDim.x / 32 ? scratch[lane] : 0.f;
  return warp_sum(v);
}
__global__ void races_norm(int* out) {
  __shared__ float scratch[32];
  const float x = threadIdx.x;
  const float mean = block_sum<false>(x, scratch) / blockDim.x;
  const float var = block_sum<false>((x - mean) * (x - mean), scratch) / blockDim.x;
  out[threadIdx.x] = int((x - mean) * rsqrtf(var + 1e-5f) * 100);
}
__global__ void ordered_norm(int* out) {
  __shared__ float scratch[32];
  const float x = threadIdx.x;
  const float mean = block_sum<true>(x, scratch) / blockDim.x;
  const float var = block_sum<true>((x - mean) * (x - mean), scratch) / blockDim.x;
  out[threadIdx.x] = int((x - mean) * rsqrtf(var + 1e-5f) * 100);
}
__global__ void ordered_norm_two_arrays(int* out) {
  __shared__ float a[32], b[32];
  const float x = threadIdx.x;
  const float mean = block_sum<false>(x, a) / blockDim.x;
  const float var = block_sum<false>((x - mean) * (x - mean), b) / blockDim.x;
  out[threadIdx.x] = int((x - mean) * rsqrtf(var + 1e-5f) * 100);
}
__global__ void races_broadcast(int* out) { // thread 0 writes the mean, the loop's next turn overwrites it
  __shared__ float mean;
  float sum = 0;
  for (int row = 0; row < 3; ++row) {
    if (threadIdx.x == 0) mean = row * 2.f; // @race
    __syncthreads();
    sum += mean; // @race
  }
  out[threadIdx.x] = int(sum);
}
__global__ void ordered_broadcast(int* out) {
  __shared__ float mean[2];
  float sum = 0;
  for (int row = 0; row < 5; ++row) {
    if (threadIdx.x == 0) mean[row % 2] = row * 2.f;
    __syncthreads();
    sum += mean[row % 2];
  }
  out[threadIdx.x] = int(sum);
}
__global__ void races_online_softmax(int* out) { // row maximum kept in shared memory and updated while others read it
  __shared__ float row_max[4];
  const int t = threadIdx.x, row = t / 32;
  if (t % 32 == 0) row_max[row] = -1e30f;
  __syncthreads();
  float sum = 0;
  for (int tile = 0; tile < 2; ++tile) {
    const float v = float((t * 7 + tile * 13) % 31);
    float m = v;
    for (int d = 16; d > 0; d /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, d));
    const float before = row_max[row]; // @race
    if (t % 32 == 0) row_max[row] = fmaxf(before, m); // @race
    __syncwarp();
    sum = sum * expf(before - row_max[row]) + expf(v - row_max[row]);
    __syncwarp();
  }
  out[t] = int(sum * 1000);
}
__global__ void ordered_online_softmax(int* out) {
  __shared__ float row_max[4];
  const int t = threadIdx.x, row = t / 32;
  if (t % 32 == 0) row_max[row] = -1e30f;
  __syncwarp();
  float sum = 0;
  for (int tile = 0; tile < 2; ++tile) {
    const float v = float((t * 7 + tile * 13) % 31);
    float m = v;
    for (int d = 16; d > 0; d /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, d));
    const float before = row_max[row];
    __syncwarp();
    if (t % 32 == 0) row_max[row] = fmaxf(before, m);
    __syncwarp();
    sum = sum * expf(before - row_max[row]) + expf(v - row_max[row]);
    __syncwarp();
  }
  out[t] = int(sum * 1000);
}

// ---- cp.async double and triple buffers

template <int stages, int keep, bool last_barrier>
__device__ void pipeline_gemm(int* out, const int* in) {
  __shared__ alignas(16) int tile[stages][256];
  const int t = threadIdx.x; // 64
  int next = 0;
  auto issue = [&] {
    if (next < 8) __pipeline_memcpy_async(&tile[next % stages][t * 4], &in[(next * 64 % 1024) + 0 * t + 4 * (t % 16)], 16);
    __pipeline_commit();
    ++next;
  };
  for (int s = 0; s < stages - 1; ++s) issue();
  int sum = 0;
  for (int k = 0; k < 8; ++k) {
    __pipeline_wait_prior(keep);
    __syncthreads();
    sum += tile[k % stages][(t * 4 + 77) % 256];
    if (last_barrier) __syncthreads();
    issue();
  }
  __pipeline_wait_prior(0);
  out[t] = sum;
}
__global__ void ordered_stages_three(int* out) { pipeline_gemm<3, 1, false>(out, data); }
__global__ void races_stages_three_off_by_one(int* out) { pipeline_gemm<3, 2, false>(out, data); }
__global__ void ordered_stages_two(int* out) { pipeline_gemm<2, 0, false>(out, data); }
__global__ void races_stages_two_off_by_one(int* out) { pipeline_gemm<2, 1, true>(out, data); }
__global__ void ordered_stages_four_early(int* out) { pipeline_gemm<4, 1, false>(out, data); }
template <bool barrier>
__device__ void prefetch_first(int* out) { // issues the next tile before the barrier: overwrites what others read
  __shared__ alignas(16) int tile[2][256];
  const int t = threadIdx.x;
  __pipeline_memcpy_async(&tile[0][t * 4], &data[t * 4], 16);
  __pipeline_commit();
  int sum = 0;
  for (int k = 0; k < 4; ++k) {
    __pipeline_memcpy_async(&tile[(k + 1) % 2][t * 4], &data[t * 4], 16);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    sum += tile[k % 2][(t * 4 + 77) % 256];
    if (barrier) __syncthreads();
  }
  __pipeline_wait_prior(0);
  out[t] = sum;
}
__global__ void races_prefetch_before_barrier(int* out) { prefetch_first<false>(out); }
__global__ void ordered_prefetch_after_barrier(int* out) { prefetch_first<true>(out); }
__global__ void races_wait_without_barrier(int* out) { // a thread's own wait covers only its own copies
  __shared__ alignas(16) int tile[256];
  const int t = threadIdx.x;
  __pipeline_memcpy_async(&tile[t * 4], &data[t * 4], 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  out[t] = tile[(t * 4 + 4) % 256];
}
__global__ void ordered_wait_own(int* out) {
  __shared__ alignas(16) int tile[256];
  const int t = threadIdx.x;
  __pipeline_memcpy_async(&tile[t * 4], &data[t * 4], 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  out[t] = tile[t * 4 + 3];
}
__global__ void races_zero_fill(int* out) { // zeros are written by the copy as well
  __shared__ alignas(16) int tile[256];
  const int t = threadIdx.x;
  tile[t * 4 + 3] = 5;
  __pipeline_memcpy_async(&tile[t * 4], &data[t * 4], 16, 12); // the header's line
  out[t] = tile[t * 4 + 3];
}
__global__ void ordered_ignore_source_bytes(int* out) { // source bytes that are left out are not read
  __shared__ alignas(16) int tile[256];
  const int t = threadIdx.x;
  __pipeline_memcpy_async(&tile[t * 4], &data[t * 4], 16, 12);
  __pipeline_commit();
  data[t * 4 + 3] = t;
  __pipeline_wait_prior(0);
  out[t] = tile[t * 4 + 3];
}

// ---- one buffer carved into several

extern __shared__ char dynamic[];
__global__ void races_carved(int* out) { // 64 threads: floats take 256 bytes, ints begin at 192
  float* a = reinterpret_cast<float*>(dynamic);
  int* b = reinterpret_cast<int*>(dynamic + 48 * 4);
  const int t = threadIdx.x;
  a[t] = t; // @race
  b[t] = t; // @race
  out[t] = 0;
}
__global__ void ordered_carved(int* out) {
  float* a = reinterpret_cast<float*>(dynamic);
  int* b = reinterpret_cast<int*>(dynamic + 64 * 4);
  unsigned char* c = reinterpret_cast<unsigned char*>(b + 64);
  const int t = threadIdx.x;
  a[t] = t;
  b[t] = t;
  c[t] = t;
  __syncthreads();
  out[t] = int(a[63 - t]) + b[63 - t] + c[63 - t];
}
__global__ void races_padding(int* out) { // rows of 33 in an array of rows of 32
  __shared__ int tile[33 * 32];
  const int x = threadIdx.x % 32, y = threadIdx.x / 32; // 64 threads
  for (int r = y; r < 31; r += 2) tile[r * 31 + x] = x; // @race
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];
}

// ---- bytes, half words, bits, vectors

__global__ void ordered_bytes_of_a_word(int* out) {
  __shared__ unsigned char bytes[64];
  __shared__ unsigned short halves[64];
  const int t = threadIdx.x;
  bytes[t] = t;
  halves[t] = t;
  __syncthreads();
  out[t] = bytes[63 - t] + halves[63 - t];
}
struct Fields { unsigned low : 4, high : 4; };
__global__ void races_bits_of_a_byte(int* out) {
  __shared__ Fields fields;
  const int t = threadIdx.x;
  if (t == 0) fields.low = 3; // @race
  if (t == 32) fields.high = 5; // @race
  __syncthreads();
  out[t] = fields.low;
}
struct Wide { unsigned short low : 8; unsigned short : 0; unsigned short high : 8; };
__global__ void ordered_bits_of_two_units(int* out) {
  __shared__ Wide fields;
  const int t = threadIdx.x;
  if (t == 0) fields.low = 3;
  if (t == 32) fields.high = 5;
  __syncthreads();
  out[t] = fields.low + fields.high;
}
__global__ void races_half2_tail(int* out) { // 65 halves: the last pair reaches past its end, into the neighbour's
  __half* values = reinterpret_cast<__half*>(data);
  const int t = threadIdx.x;
  if (t < 33) reinterpret_cast<__half2*>(values)[t] = __floats2half2_rn(t, t); // @race
  if (t == 63) values[65] = __float2half(1.f); // @race
  out[t] = 0;
}
__global__ void races_float4_tail(int* out) {
  const int t = threadIdx.x;
  const int n = 30;
  if (t < (n + 3) / 4) reinterpret_cast<int4*>(data)[t] = make_int4(t, t, t, t); // @race
  if (t >= 60 && t < 62) data[n + t - 60] = 9; // @race
  out[t] = 0;
}
__global__ void ordered_float4_tail(int* out) {
  const int t = threadIdx.x;
  const int n = 30;
  if (t < n / 4) reinterpret_cast<int4*>(data)[t] = make_int4(t, t, t, t);
  if (t >= 60 && t < 62) data[n / 4 * 4 + t - 60] = 9;
  out[t] = 0;
}
__global__ void races_packed_half_atomic(int* out) { // a packed atomic beside a plain store to one half of it
  __half2* values = reinterpret_cast<__half2*>(data);
  const int t = threadIdx.x;
  if (t == 0) atomicAdd(values, __floats2half2_rn(1.f, 1.f)); // @race
  if (t == 32) reinterpret_cast<__half*>(values)[1] = __float2half(2.f); // @race
  out[t] = 0;
}
__global__ void ordered_half_atomics(int* out) {
  const int t = threadIdx.x;
  atomicAdd(reinterpret_cast<__half*>(data) + t % 2, __float2half(1.f));
  out[t] = 0;
}

// ---- control flow

__global__ void ordered_barriers_of_result(int* out) {
  __shared__ int s[64];
  const int t = threadIdx.x;
  s[t] = t;
  const int any = __syncthreads_or(t == 5);
  int v = s[63 - t] + any;
  const int all = __syncthreads_and(t < 64);
  s[t] = v + all;
  const int count = __syncthreads_count(t % 3 == 0);
  out[t] = s[63 - t] + count;
}
__device__ int fold(const int* s, int n) { return n <= 1 ? s[0] : fold(s, n / 2) + fold(s + n / 2, n - n / 2); }
__global__ void races_recursion(int* out) {
  __shared__ int s[64];
  const int t = threadIdx.x;
  s[t] = t;
  if (t == 0) out[0] = fold(s, 64);
}
__global__ void ordered_recursion(int* out) {
  __shared__ int s[64];
  const int t = threadIdx.x;
  s[t] = t;
  __syncthreads();
  if (t == 0) out[0] = fold(s, 64);
}
__device__ __noinline__ void put(int* p, int v) { *p = v; } 
__device__ __noinline__ void add(int* p, int v) { *p += v; }
typedef void (*Step)(int*, int);
__device__ Step steps[2] = {put, add};
__global__ void races_function_pointer(int* out) {
  __shared__ int s[64];
  const int t = threadIdx.x;
  steps[0](&s[t], t);
  steps[1](&s[(t + 32) % 64], t);
  __syncthreads();
  out[t] = s[t];
}
__global__ void ordered_function_pointer(int* out) {
  __shared__ int s[64];
  const int t = threadIdx.x;
  steps[0](&s[t], t);
  __syncthreads();
  steps[1](&s[(t + 32) % 64], t);
  __syncthreads();
  out[t] = s[t];
}
template <class F> __device__ void each(F f) { for (int i = threadIdx.x; i < 128; i += blockDim.x) f(i); }
__global__ void races_lambda(int* out) {
  __shared__ int s[129];
  each([&](int i) { s[i] = i; }); // @race
  each([&](int i) { out[i % 64] = s[i + 1 < 128 ? i + 1 : 0]; }); // @race
}
__global__ void ordered_lambda(int* out) {
  __shared__ int s[128];
  each([&](int i) { s[i] = i; });
  __syncthreads();
  int sum = 0;
  each([&](int i) { sum += s[127 - i]; });
  out[threadIdx.x] = sum;
}
struct Base { __device__ virtual int value(const int* s) const { return s[threadIdx.x]; } };
struct Other : Base { __device__ int value(const int* s) const override { return s[63 - threadIdx.x]; } };
__global__ void races_virtual(int* out) {
  __shared__ int s[64];
  Base base; Other other;
  Base* what = threadIdx.x % 2 ? &base : static_cast<Base*>(&other);
  s[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = what->value(s);
}
__global__ void ordered_virtual(int* out) {
  __shared__ int s[64];
  Base base; Other other;
  Base* what = threadIdx.x % 2 ? &base : static_cast<Base*>(&other);
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = what->value(s);
}
__device__ int* generic_choice(int* a, int* b) { return threadIdx.x % 2 ? a : b; }
__global__ void races_generic(int* out) { // a generic pointer to shared or to global memory
  __shared__ int s[64];
  int* p = generic_choice(s, data);
  p[0] = threadIdx.x; // @race
  __syncthreads();
  out[threadIdx.x] = p[0];
}
__global__ void ordered_generic(int* out) {
  __shared__ int s[64];
  int* p = generic_choice(s, data);
  p[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = p[threadIdx.x] + (__isShared(p) ? 1 : 0);
}
__constant__ int table[4] = {1, 2, 3, 4};
__global__ void ordered_constant(int* out) { out[threadIdx.x] = table[threadIdx.x % 4]; }
__global__ void ordered_local_arrays(int* out) {
  int local[16];
  for (int i = 0; i < 16; ++i) local[(i * 5 + threadIdx.x) % 16] = i;
  int sum = 0;
  for (int i = 0; i < 16; ++i) sum += local[i] * i;
  out[threadIdx.x] = sum;
}
__global__ void races_ballot_is_no_barrier(int* out) {
  __shared__ int s[32];
  const int t = threadIdx.x;
  s[t % 32] = t; // @race
  const unsigned votes = __ballot_sync(~0u, t & 1);
  const unsigned same = __match_any_sync(~0u, t % 4);
  const unsigned sum = __reduce_add_sync(~0u, t);
  out[t] = s[(t + 1) % 32] + votes + same + sum; // @race
}
__global__ void ordered_alternating_halves(int* out) { // each warp its own part
  __shared__ int s[2][32];
  const int t = threadIdx.x, w = t / 32, l = t % 32;
  for (int i = 0; i < 4; ++i) {
    s[w][l] = t + i;
    __syncwarp();
    const int v = s[w][31 - l];
    __syncwarp();
    out[t] = v;
  }
}

int main() {
  int* out = zeros<int>(256);
  struct Case {
    void (*kernel)(int*);
    int blocks, threads, bytes;
  };
  const Case cases[] = {
      {races_norm, 1, 128}, {ordered_norm, 1, 128}, {ordered_norm_two_arrays, 1, 128}, {races_broadcast, 1, 64},
      {ordered_broadcast, 1, 64}, {races_online_softmax, 1, 128}, {ordered_online_softmax, 1, 128},
      {ordered_stages_three, 1, 64}, {races_stages_three_off_by_one, 1, 64}, {ordered_stages_two, 1, 64},
      {races_stages_two_off_by_one, 1, 64}, {ordered_stages_four_early, 1, 64}, {races_prefetch_before_barrier, 1, 64},
      {ordered_prefetch_after_barrier, 1, 64}, {races_wait_without_barrier, 1, 64}, {ordered_wait_own, 1, 64},
      {races_zero_fill, 1, 64}, {ordered_ignore_source_bytes, 1, 64}, {races_carved, 1, 64, 512}, {ordered_carved, 1, 64, 1024},
      {races_padding, 1, 64}, {ordered_bytes_of_a_word, 1, 64}, {races_bits_of_a_byte, 1, 64},
      {ordered_bits_of_two_units, 1, 64}, {races_half2_tail, 1, 64}, {races_float4_tail, 1, 64},
      {ordered_float4_tail, 1, 64}, {races_packed_half_atomic, 1, 64}, {ordered_half_atomics, 1, 64},
      {ordered_barriers_of_result, 1, 64}, {races_recursion, 1, 64}, {ordered_recursion, 1, 64},
      {races_function_pointer, 1, 64}, {ordered_function_pointer, 1, 64}, {races_lambda, 1, 64}, {ordered_lambda, 1, 64},
      {races_virtual, 1, 64}, {ordered_virtual, 1, 64}, {races_generic, 1, 64}, {ordered_generic, 1, 64},
      {ordered_constant, 1, 64}, {ordered_local_arrays, 1, 64}, {races_ballot_is_no_barrier, 1, 32},
      {ordered_alternating_halves, 1, 64},
  };
  CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
  for (const Case& one : cases) {
    clear<<<1, 1>>>();
    one.kernel<<<one.blocks, one.threads, one.bytes>>>(out);
    CHECK(cudaDeviceSynchronize());
  }
  std::printf("%zu cases\n", sizeof cases / sizeof cases[0]);
}
