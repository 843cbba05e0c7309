// The same algorithms with the same tiling as kernels.cu, in plain C++: what engine_bench compares with.
#pragma once

namespace host {
void sgemm(const float* a, const float* b, float* c, int n);
void reduce(const float* in, float* out, int n, int blocks);
void histogram(const unsigned char* in, unsigned* bins, int n, int blocks);
void embedding(const int* tokens, const float* gradient, float* table, int count, int channels);
void jacobi(const float* in, float* out, int n);
void saxpy(int n, float a, const float* x, float* y);
} // namespace host
