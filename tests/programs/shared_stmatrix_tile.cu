// Each warp transposes a tile by stmatrix.trans into shared memory, from which all threads copy it out by columns of
// the whole block. Without the barrier a thread copies what another warp has not stored yet.
#include "check.h"

constexpr int warps = 2, side = 16;

__global__ void transpose(const unsigned short* in, unsigned short* out) {
  __shared__ __align__(16) unsigned short tile[warps][side][side];
  unsigned t = threadIdx.x, warp = t / 32, lane = t % 32;
  // Four 8×8 matrices; of each, lane l has elements 2·(l % 4) and the next of row l / 4.
  const unsigned short* mine = in + warp * side * side;
  unsigned r[4];
  for (unsigned q = 0; q < 4; ++q) {
    unsigned at = (q / 2 * 8 + lane / 4) * side + q % 2 * 8 + lane % 4 * 2;
    r[q] = mine[at] | mine[at + 1] << 16;
  }
  // Lanes 8·q to 8·q + 7 say where the rows of matrix q go: transposed, (q % 2, q / 2).
  unsigned q = lane / 8;
  unsigned address =
      static_cast<unsigned>(__cvta_generic_to_shared(&tile[warp][q % 2 * 8 + lane % 8][q / 2 * 8]));
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};"
               ::"r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");  // @A
#ifndef RACY
  __syncthreads();
#endif
  for (unsigned i = 0; i < side * side * warps; i += warps * 32) {
    unsigned from = i + t;
    out[from] = tile[from % warps][from / warps / side][from / warps % side];  // @B
  }
}

int main() {
  std::vector<int> values = numbers(warps * side * side);
  std::vector<unsigned short> words(values.begin(), values.end());
  unsigned short *in = to_device(words), *out = zeros<unsigned short>(words.size());
  transpose<<<1, warps * 32>>>(in, out);
  std::vector<unsigned short> result = to_host(out, words.size());
  print_checksum(result.data(), result.size());
  int wrong = 0;
  for (unsigned i = 0; i < words.size(); ++i) {
    unsigned row = i / warps / side, column = i / warps % side;
    wrong += result[i] != words[i % warps * side * side + column * side + row];
  }
  std::printf("wrong %d\n", wrong);
}
