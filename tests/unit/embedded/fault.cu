// Faults in a kernel and prints what the calls after it return: 0 null page, 1 misaligned, 2 trap, 3 assertion, 4 far
// out of bounds.
#include <cuda_runtime.h>
#include <cassert>
#include <cstdio>
#include <cstdlib>
__global__ void bad(int k, int* p) {
  if (k == 0) *(int*)0x10 = 1;
  if (k == 1) *(int*)((char*)p + 1) = 1;
  if (k == 2) __trap();
  if (k == 3) assert(p == 0);
  if (k == 4) p[1 << 28] = 1;
}
__global__ void nop() {}
int main(int c, char** v) {
  int* p;
  cudaMalloc(&p, 64);
  int k = atoi(v[1]);
  bad<<<1, 1>>>(k, p);
  printf("%d: sync %d", k, cudaDeviceSynchronize());
  printf(" peek %d", cudaPeekAtLastError());
  printf(" get %d", cudaGetLastError());
  printf(" get %d", cudaGetLastError());
  nop<<<1, 1>>>();
  printf(" launch %d", cudaGetLastError());
  void* q;
  printf(" malloc %d free %d", cudaMalloc(&q, 4), cudaFree(p));
  int n;
  printf(" count %d getdev %d setdev %d", cudaGetDeviceCount(&n), cudaGetDevice(&n), cudaSetDevice(0));
  printf(" drv %d", cudaDriverGetVersion(&n));
  cudaStream_t s;
  printf(" stream %d", cudaStreamCreate(&s));
  printf(" host %d", cudaMallocHost(&q, 4));
  printf(" reset %d after %d\n", cudaDeviceReset(), cudaMalloc(&q, 4));
  return 0;
}
