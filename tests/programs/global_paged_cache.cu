// Decoding with a paged cache: each sequence appends the key of its token to its last page, then reads all its pages.
// Sequences may share pages that are full; in the racy twin two share the one that they append to.
#include "check.h"

constexpr int page = 8, most_pages = 3, width = 16;

__global__ void decode(int* cache, const int* table, const int* lengths, const int* key, int* out) {
  __shared__ int score[page * most_pages];
  const int* pages = table + blockIdx.x * most_pages;
  int t = threadIdx.x, length = lengths[blockIdx.x];
  int* row = cache + (pages[length / page] * page + length % page) * width;
  if (t < width) row[t] = key[blockIdx.x * width + t];  // @Append
  __syncthreads();
  if (t <= length) {
    const int* cached = cache + (pages[t / page] * page + t % page) * width;
    int sum = 0;
#pragma unroll 1
    for (int i = 0; i < width; ++i) sum += (i + 1) * cached[i];  // @Read
    score[t] = sum;
  }
  __syncthreads();
  if (t > 0) return;
  int sum = 0;
  for (int i = 0; i <= length; ++i) sum += score[i] * (i + 1);
  out[blockIdx.x] = sum;
}

int main() {
#ifdef RACY
  constexpr int last = 4;
#else
  constexpr int last = 5;
#endif
  int* cache = to_device(numbers(6 * page * width));
  int* table = to_device(std::vector<int>{0, 1, 2, 3, 4, 0, 3, last, 0});
  int* lengths = to_device(std::vector<int>{19, 12, 12});
  int *key = to_device(numbers(3 * width)), *out = zeros<int>(3);
  decode<<<3, 32>>>(cache, table, lengths, key, out);
  report(out, 3);
}
