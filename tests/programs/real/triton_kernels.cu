// PTX that Triton gives for sm_80 (../triton_kernels.py), loaded as a library and checked against the host: vector
// addition, softmax, layer norm, scan, matrix product and flash attention; the last two for sm_90 as well, where
// warpgroups multiply. Says so and ends where there is no such PTX.
// Mutants: TRITON_FOLDER names the folder of its PTX, triton beside the program.
#include <cuda_fp16.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "agree.h"

using namespace agree;

#ifndef TRITON_FOLDER
#define TRITON_FOLDER "triton"
#endif

class Kernel {
 public:
  explicit Kernel(const std::string& name) {
    const char* elsewhere = std::getenv("TRITON_FOLDER");
    const std::string path = std::string(elsewhere ? elsewhere : TRITON_FOLDER) + "/" + name;
    std::ifstream launch(path + ".launch"), ptx(path + ".ptx");
    std::string entry;
    if (!(launch >> entry >> threads_ >> shared_ >> scratch_) || !ptx) {
      std::printf("skipped: no %s.ptx from Triton\n", path.c_str());
      std::exit(77);
    }
    std::stringstream text;
    text << ptx.rdbuf();
    CHECK(cudaLibraryLoadData(&library_, text.str().c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    CHECK(cudaLibraryGetKernel(&kernel_, library_, entry.c_str()));
    CHECK(cudaFuncSetAttribute(kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_));
  }
  ~Kernel() { cudaLibraryUnload(library_); }

  template <class... Arguments>
  void operator()(dim3 grid, Arguments... arguments) const {
    void* none = nullptr;  // what Triton adds: scratch memory that these kernels do not use
    std::vector<void*> all{&arguments...};
    all.insert(all.end(), scratch_, &none);
    CHECK(cudaLaunchKernel(reinterpret_cast<void*>(kernel_), grid, dim3(threads_), all.data(), shared_, nullptr));
    CHECK(cudaDeviceSynchronize());
  }

 private:
  cudaLibrary_t library_ = nullptr;
  cudaKernel_t kernel_ = nullptr;
  int threads_ = 0, shared_ = 0, scratch_ = 0;
};

std::vector<float> reals(std::size_t count, std::uint64_t seed) {
  std::vector<float> all = values<float>(count, -200, 200, seed);
  for (float& x : all) x /= 100;
  return all;
}

void vector_add(int size) {
  std::vector<float> a = reals(size, 1), b = reals(size, 2), sum(size);
  for (int i = 0; i < size; ++i) sum[i] = a[i] + b[i];
  Array<float> device_a(a), device_b(b), out(size);
  static const Kernel kernel("vector_add");
  kernel(dim3((size + 255) / 256), device_a.data(), device_b.data(), out.data(), size);
  equal("vector_add", size, out.host(), sum);
}

void rows(int columns) {
  constexpr int count = 5;
  std::vector<float> x = reals(count * columns, 3), weight = reals(columns, 4), bias = reals(columns, 5), soft(x), norm(x);
  std::vector<int> whole = values<int>(count * columns, -50, 50, 6), sums(whole);
  for (int r = 0; r < count; ++r) {
    double most = -1e30, total = 0, mean = 0, variance = 0;
    for (int c = 0; c < columns; ++c) {
      float value = x[r * columns + c];
      most = std::max<double>(most, value), mean += value / columns;
    }
    for (int c = 0; c < columns; ++c) {
      float value = x[r * columns + c];
      total += std::exp(value - most), variance += (value - mean) * (value - mean) / columns;
      if (c > 0) sums[r * columns + c] += sums[r * columns + c - 1];
    }
    for (int c = 0; c < columns; ++c) {
      float value = x[r * columns + c];
      soft[r * columns + c] = static_cast<float>(std::exp(value - most) / total);
      norm[r * columns + c] = static_cast<float>((value - mean) / std::sqrt(variance + 1e-5) * weight[c] + bias[c]);
    }
  }
  Array<float> device(x), device_weight(weight), device_bias(bias), out(x.size());
  Array<int> device_whole(whole), out_whole(whole.size());
  static const Kernel softmax("softmax"), layer_norm("layer_norm"), scan("scan");
  softmax(dim3(count), device.data(), out.data(), columns);
  near("softmax", columns, out.host(), soft, 1e-5);
  layer_norm(dim3(count), device.data(), device_weight.data(), device_bias.data(), out.data(), columns);
  near("layer_norm", columns, out.host(), norm, 1e-4);
  scan(dim3(count), device_whole.data(), out_whole.data(), columns);
  equal("scan", columns, out_whole.host(), sums);
}

std::vector<__half> halves(const std::vector<float>& from) { return std::vector<__half>(from.begin(), from.end()); }

void matmul(int m, int n, int k, bool warpgroups = false) {
  std::vector<__half> a = halves(reals(m * k, 7)), b = halves(reals(k * n, 8));
  std::vector<float> product(m * n);
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int l = 0; l < k; ++l) sum += static_cast<double>(__half2float(a[i * k + l])) * __half2float(b[l * n + j]);
      product[i * n + j] = static_cast<float>(sum);
    }
  }
  Array<__half> device_a(a), device_b(b);
  Array<float> out(m * n);
  static const Kernel kernel("matmul"), kernel_90("matmul_90");
  const int tile = warpgroups ? 64 : 32;
  const dim3 grid((m + tile - 1) / tile, (n + tile - 1) / tile);
  (warpgroups ? kernel_90 : kernel)(grid, device_a.data(), device_b.data(), out.data(), m, n, k);
  near(warpgroups ? "matmul_90" : "matmul", m, out.host(), product, 1e-3);
}

void attention(int length, int depth = 32) {
  const float scale = 1 / std::sqrt(static_cast<float>(depth));
  std::vector<__half> q = halves(reals(length * depth, 9)), k = halves(reals(length * depth, 10)), v = halves(reals(length * depth, 11));
  std::vector<float> expected(length * depth);
  for (int i = 0; i < length; ++i) {
    std::vector<double> power(length);
    double most = -1e30, total = 0;
    for (int j = 0; j < length; ++j) {
      double score = 0;
      for (int d = 0; d < depth; ++d) score += static_cast<double>(__half2float(q[i * depth + d])) * __half2float(k[j * depth + d]);
      power[j] = score * scale;
      most = std::max(most, power[j]);
    }
    for (double& p : power) total += p = std::exp(p - most);
    for (int d = 0; d < depth; ++d) {
      double sum = 0;
      for (int j = 0; j < length; ++j) sum += power[j] / total * __half2float(v[j * depth + d]);
      expected[i * depth + d] = static_cast<float>(sum);
    }
  }
  Array<__half> device_q(q), device_k(k), device_v(v);
  Array<float> out(length * depth);
  static const Kernel kernel("attention"), kernel_90("attention_90"); // the latter for a depth of 64, 64 rows a block
  const bool warpgroups = depth == 64;
  const dim3 grid(warpgroups ? (length + 63) / 64 : (length + 31) / 32);
  (warpgroups ? kernel_90 : kernel)(grid, device_q.data(), device_k.data(), device_v.data(), out.data(), length, scale);
  near(warpgroups ? "attention_90" : "attention", length, out.host(), expected, 5e-3);
}

int main() {
  for (int size : {1, 255, 256, 2000}) vector_add(size);
  for (int columns : {1, 33, 200, 256}) rows(columns);
  matmul(32, 32, 32);
  matmul(50, 70, 45);
  matmul(1, 1, 1);
  attention(32);
  attention(77);
  attention(1);
  matmul(64, 64, 64, true);
  matmul(80, 144, 176, true);
  attention(80, 64);
  attention(160, 64);
  return conclude();
}
