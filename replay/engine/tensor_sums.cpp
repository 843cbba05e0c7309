#include "replay/engine/tensor_sums.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "replay/engine/numeric.h"
#include "replay/engine/tensor_numbers.h"

namespace deadheat::engine {

namespace {

constexpr std::uint32_t nan_f32 = 0x7fffffff, nan_f16 = 0x7fff;
constexpr std::uint64_t nan_f64 = 0xfff8000000000000;
constexpr int kept_bits = 25; // below the largest exponent

float as_float(std::uint64_t bits) { return std::bit_cast<float>(std::uint32_t(bits)); }
std::uint32_t float_bits(float f) { return std::isnan(f) ? nan_f32 : std::bit_cast<std::uint32_t>(f); }
float half_value(std::uint64_t bits) {
  return numeric::widen(std::uint32_t(bits & 0xffff), std::uint32_t(numeric::Format::f16));
}
std::uint32_t half_bits(double value) {
  if (std::isnan(value)) return nan_f16;
  return numeric::narrow(value, numeric::Narrowing{numeric::Format::f16}.code());
}

// The element of a product that c was added to, from float, in d's type.
std::uint32_t in_type(TensorType d, std::uint32_t sum) { return d == TensorType::f16 ? half_bits(as_float(sum)) : sum; }

struct Operands {
  const TensorOp& op;
  const std::uint64_t *a, *b, *c;
  std::uint64_t* d;

  template <typename F>  // f(row, column) gives d
  void each(F&& f) {
    for (unsigned i = 0; i < op.m; ++i)
      for (unsigned j = 0; j < op.n; ++j) d[i * op.n + j] = f(i, j);
  }
};

void multiply_floats(Operands o) {
  const TensorOp& op = o.op;
  bool eight = op.a == TensorType::e4m3 || op.a == TensorType::e5m2;
  auto factors = [&](const std::uint64_t* stored, unsigned count, TensorType type) {
    std::vector<Number> numbers(count);
    for (unsigned n = 0; n < count; ++n) {
      std::uint64_t bits = stored[n];
      if (eight) {
        auto format = type == TensorType::e4m3 ? numeric::Format::e4m3 : numeric::Format::e5m2;
        bits = half_bits(numeric::widen(std::uint32_t(bits), std::uint32_t(format)));
      }
      numbers[n] = take_apart(eight ? TensorType::f16 : type, bits);
    }
    if (!eight) return numbers;
    // Blocks are made of the lower and of the upper pairs of each four.
    std::vector<Number> in_order(count);
    for (unsigned n = 0; n < count; ++n) {
      unsigned k = n % op.k, half = k / (op.k / 2), q = k % (op.k / 2);
      in_order[n] = numbers[n - k + q / 2 * 4 + half * 2 + q % 2];
    }
    return in_order;
  };
  std::vector<Number> a = factors(o.a, op.m * op.k, op.a), b = factors(o.b, op.n * op.k, op.b);
  int fraction = layout_of(eight ? TensorType::f16 : op.a).fraction;
  unsigned block = op.k;
  if (eight) block = op.k / 2;
  if (op.kind == TensorKind::wmma && op.a == TensorType::tf32) block = 4;
  bool half = op.c == TensorType::f16 && op.d == TensorType::f16;
  TensorType sums = half ? TensorType::f16 : TensorType::f32;
  FloatLayout layout = layout_of(sums);
  o.each([&](unsigned i, unsigned j) -> std::uint64_t {
    std::uint64_t c = o.c[i * op.n + j];
    if (!half && op.c == TensorType::f16) c = float_bits(half_value(c));
    std::uint64_t sum = eight ? 0 : c;
    for (unsigned k = 0; k < op.k; k += block) {
      BlockSum s = add_block(&a[i * op.k + k], &b[j * op.k + k], block, 2 * fraction, take_apart(sums, sum),
                             layout.fraction, kept_bits);
      sum = pack(s, layout.fraction, layout.exponent, half);
    }
    if (eight && half) return half_bits(half_value(sum) + half_value(c));
    if (eight) sum = float_bits(as_float(sum) + as_float(c));
    return half ? sum : in_type(op.d, std::uint32_t(sum));
  });
}

// mma.m8n8k4 of f16, which later GPUs run on their scalar units: the compiler's order.
std::uint32_t volta_sum(const TensorOp& op, const float* a, const float* b, std::uint64_t c) {
  if (op.d == TensorType::f16) {
    float low = std::fma(a[1], b[1], a[0] * b[0]), high = std::fma(a[3], b[3], a[2] * b[2]);
    return half_bits(half_value(c) + low + high);
  }
  float sum = 0;
  for (unsigned k = 0; k < 4; ++k) sum = std::fma(a[k], b[k], sum);
  return float_bits((op.c == TensorType::f16 ? half_value(c) : as_float(c)) + sum);
}

void multiply_volta(Operands o) {
  o.each([&](unsigned i, unsigned j) -> std::uint64_t {
    float a[4], b[4];
    for (unsigned k = 0; k < 4; ++k) {
      a[k] = half_value(o.a[i * 4 + k]);
      b[k] = half_value(o.b[j * 4 + k]);
    }
    return volta_sum(o.op, a, b, o.c[i * o.op.n + j]);
  });
}

void multiply_doubles(Operands o) {
  using Fma = double (*)(double, double, double);
  auto rounding = numeric::Rounding(o.op.rounding);
  Fma fma = rounding == numeric::Rounding::nearest
                ? nullptr
                : reinterpret_cast<Fma>(const_cast<void*>(numeric::rounded(numeric::Operation::fma, true, rounding)));
  o.each([&](unsigned i, unsigned j) -> std::uint64_t {
    double sum = std::bit_cast<double>(o.c[i * o.op.n + j]);
    for (unsigned k = 0; k < o.op.k; ++k) {
      double x = std::bit_cast<double>(o.a[i * o.op.k + k]), y = std::bit_cast<double>(o.b[j * o.op.k + k]);
      sum = fma ? fma(x, y, sum) : std::fma(x, y, sum);
    }
    return std::isnan(sum) ? nan_f64 : std::bit_cast<std::uint64_t>(sum);
  });
}

std::int64_t integer(TensorType type, std::uint64_t stored) {
  switch (type) {
    case TensorType::s8: return std::int8_t(stored);
    case TensorType::s4: return std::int64_t(stored << 60) >> 60;
    default: return std::int64_t(stored);
  }
}

void multiply_integers(Operands o) {
  const TensorOp& op = o.op;
  o.each([&](unsigned i, unsigned j) -> std::uint64_t {
    std::int64_t sum = std::int32_t(o.c[i * op.n + j]);
    for (unsigned k = 0; k < op.k; ++k) {
      std::uint64_t x = o.a[i * op.k + k], y = o.b[j * op.k + k];
      if (op.a == TensorType::b1)
        sum += std::int64_t(op.bit_and ? x & y : x ^ y);
      else
        sum += integer(op.a, x) * integer(op.b, y);
    }
    if (op.satfinite) sum = std::clamp<std::int64_t>(sum, INT32_MIN, INT32_MAX);
    return std::uint32_t(sum);
  });
}

}  // namespace

void multiply_matrices(const TensorOp& op, const std::uint64_t* a, const std::uint64_t* b, const std::uint64_t* c,
                       std::uint64_t* d) {
  Operands o{op, a, b, c, d};
  switch (op.a) {
    case TensorType::f64: return multiply_doubles(o);
    case TensorType::s8:
    case TensorType::u8:
    case TensorType::s4:
    case TensorType::u4:
    case TensorType::b1: return multiply_integers(o);
    case TensorType::f16:
      if (op.kind == TensorKind::mma && op.m == 8) return multiply_volta(o);
      return multiply_floats(o);
    default: return multiply_floats(o);
  }
}

}  // namespace deadheat::engine
