// Block 0 copies by four, block 1 puts a closing mark on the rest. Rounding the number of vectors up makes the last of
// them cover the rest as well.
#include "check.h"

constexpr int count = 130, padded = 132;
#ifdef RACY
constexpr int vectors = (count + 3) / 4;
#else
constexpr int vectors = count / 4;
#endif

__global__ void copy(const float4* in, float* out) {
  unsigned t = threadIdx.x;
  if (blockIdx.x == 0) {
    if (t < vectors) reinterpret_cast<float4*>(out)[t] = in[t];  // @A
  } else {
    if (t < count % 4) out[count / 4 * 4 + t] = -1.0f;  // @B
  }
}

int main() {
  std::vector<int> whole = numbers(padded);
  float* in = to_device(std::vector<float>(whole.begin(), whole.end()));
  float* out = zeros<float>(padded);
  copy<<<2, 64>>>(reinterpret_cast<float4*>(in), out);
  report(out, count);
}
