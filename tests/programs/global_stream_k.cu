// Stream-K: blocks share the flattened steps of all tiles, and go through theirs from the last tile to the first; who begins
// a tile adds what the others have left for it, behind a flag each. The flags of the first launch are still up in the
// second, unless each launch has an epoch of its own.
#include "check.h"

constexpr int tiles = 3, steps = 4, workers = 4, threads = 64;

__global__ void stream_k(const int* in, int* out, int* partial, int* flag, int epoch) {
  constexpr int total = tiles * steps, per = (total + workers - 1) / workers;
  const int begin = blockIdx.x * per;
  for (int end = min(begin + per, total); end > begin;) {
    const int tile = (end - 1) / steps, first = max(begin, tile * steps);
    int stop = end, sum = 0;
    for (int step = first; step < stop; ++step) sum += in[step * threads + threadIdx.x] * (step + 1);
    end = first;
    if (first > tile * steps) {
      partial[blockIdx.x * threads + threadIdx.x] = sum;  // @Partial
      __threadfence();
      __syncthreads();
      if (threadIdx.x == 0) atomicExch(&flag[blockIdx.x], epoch);
      continue;
    }
    for (int other = blockIdx.x + 1; stop < (tile + 1) * steps; ++other) {
      if (threadIdx.x == 0) {
        while (atomicAdd(&flag[other], 0) < epoch) {
        }
      }
      __syncthreads();
      __threadfence();
      sum += partial[other * threads + threadIdx.x];  // @Sum
      stop = min((other + 1) * per, (tile + 1) * steps);
    }
    out[tile * threads + threadIdx.x] = sum;
  }
}

int main() {
  int* in = to_device(numbers(tiles * steps * threads + threads));
  int *out = zeros<int>(tiles * threads), *partial = zeros<int>(workers * threads), *flag = zeros<int>(workers);
  stream_k<<<workers, threads>>>(in, out, partial, flag, 1);
#ifdef RACY
  stream_k<<<workers, threads>>>(in + threads, out, partial, flag, 1);
#else
  stream_k<<<workers, threads>>>(in + threads, out, partial, flag, 2);
#endif
  report(out, tiles * threads);
}
