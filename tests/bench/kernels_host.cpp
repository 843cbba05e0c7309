#include "kernels_host.h"

namespace host {

void sgemm(const float* a, const float* b, float* c, int n) {
  constexpr int tile = 16;
  static float as[tile][tile], bs[tile][tile], sum[tile][tile];
  for (int by = 0; by < n; by += tile) {
    for (int bx = 0; bx < n; bx += tile) {
      for (auto& row : sum) {
        for (float& value : row) value = 0;
      }
      for (int k = 0; k < n; k += tile) {
        for (int y = 0; y < tile; ++y) {
          for (int x = 0; x < tile; ++x) {
            as[y][x] = a[(by + y) * n + k + x];
            bs[y][x] = b[(k + y) * n + bx + x];
          }
        }
        for (int y = 0; y < tile; ++y) {
          for (int x = 0; x < tile; ++x) {
            float value = sum[y][x];
            for (int i = 0; i < tile; ++i) value += as[y][i] * bs[i][x];
            sum[y][x] = value;
          }
        }
      }
      for (int y = 0; y < tile; ++y) {
        for (int x = 0; x < tile; ++x) c[(by + y) * n + bx + x] = sum[y][x];
      }
    }
  }
}

void reduce(const float* in, float* out, int n, int blocks) {
  float partial[256];
  for (int block = 0; block < blocks; ++block) {
    for (int thread = 0; thread < 256; ++thread) {
      float sum = 0;
      for (int i = block * 256 + thread; i < n; i += blocks * 256) sum += in[i];
      partial[thread] = sum;
    }
    for (int half = 128; half > 0; half /= 2) {
      for (int thread = 0; thread < half; ++thread) partial[thread] += partial[thread + half];
    }
    out[block] = partial[0];
  }
}

void histogram(const unsigned char* in, unsigned* bins, int n, int blocks) {
  unsigned local[256];
  for (int block = 0; block < blocks; ++block) {
    for (unsigned& bin : local) bin = 0;
    for (int thread = 0; thread < 256; ++thread) {
      for (int i = block * 256 + thread; i < n; i += blocks * 256) ++local[in[i]];
    }
    for (int bin = 0; bin < 256; ++bin) bins[bin] += local[bin];
  }
}

void embedding(const int* tokens, const float* gradient, float* table, int count, int channels) {
  for (int i = 0; i < count; ++i) {
    for (int c = 0; c < channels; ++c) table[tokens[i] * channels + c] += gradient[i * channels + c];
  }
}

} // namespace host
