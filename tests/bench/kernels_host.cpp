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

void jacobi(const float* in, float* out, int n) {
  constexpr int tile = 16;
  static float cells[tile + 2][tile + 2];
  for (int by = 0; by < n; by += tile) {
    for (int bx = 0; bx < n; bx += tile) {
      for (int ly = 0; ly < tile + 2; ++ly) {
        int y = by + ly - 1;
        if (y < 0 || y >= n) continue;
        for (int lx = 0; lx < tile + 2; ++lx) {
          int x = bx + lx - 1;
          if (x >= 0 && x < n) cells[ly][lx] = in[y * n + x];
        }
      }
      for (int ly = 1; ly <= tile; ++ly) {
        int y = by + ly - 1;
        if (y == 0 || y == n - 1) continue;
        for (int lx = 1; lx <= tile; ++lx) {
          int x = bx + lx - 1;
          if (x == 0 || x == n - 1) continue;
          out[y * n + x] = 0.25f * (cells[ly][lx - 1] + cells[ly][lx + 1] + cells[ly - 1][lx] + cells[ly + 1][lx]);
        }
      }
    }
  }
}

void saxpy(int n, float a, const float* x, float* y) {
  for (int i = 0; i < n; ++i) y[i] = a * x[i] + y[i];
}

} // namespace host
