// Memory and synchronization errors, one a word on the command line; with "right" behind it,
// the same without the error.
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
__global__ void half(short* data) { data[2 * threadIdx.x] = short(threadIdx.x); }
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
__global__ void wait_for_ever(volatile int* flag) {
  while (*flag == 0) {  // @deadlock
  }
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
      half<<<1, 64>>>(reinterpret_cast<short*>(in));
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
  if (is("free")) {
    cudaFree(in + 1);  // @free_inside
    cudaFree(in);
    if (!right) cudaFree(in);  // @free_twice
    in = nullptr;
  }
  if (is("heap")) heap<<<1, 32>>>(!right);
  if (is("launch")) {
    tile<<<1, 2048>>>(out, -1);  // @launch
    if (right) std::printf("%s\n", cudaGetErrorName(cudaGetLastError()));
  }
  if (is("leak")) {
    cudaFree(in);
    if (right) cudaFree(out);
  }
  if (is("deadlock")) {
    cudaMemset(in, right, 4);
    wait_for_ever<<<1, 1>>>(in);
  }
  std::printf("sync %d\n", int(cudaDeviceSynchronize()));
}
