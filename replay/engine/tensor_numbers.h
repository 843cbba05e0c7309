// Numbers that tensor cores add: taken apart, shifted to one exponent, cut off, added and packed (tensor_sums.h says by
// what rules).
//
// Thread-safety: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "replay/engine/tensor.h"

namespace deadheat::engine {

struct FloatLayout {
  int fraction, exponent; // bits
};
inline FloatLayout layout_of(TensorType t) {
  switch (t) {
    case TensorType::f16: return {10, 5};
    case TensorType::bf16: return {7, 8};
    case TensorType::tf32: return {10, 8};
    case TensorType::e4m3: return {3, 4};
    case TensorType::e5m2: return {2, 5};
    default: return {23, 8};
  }
}

// A number taken apart: significand * 2^(exponent - fraction bits). Subnormals have the least exponent.
struct Number {
  std::int32_t significand = 0; // signed
  std::int32_t exponent = 0;
  bool negative = false, infinite = false, nan = false;
};

inline Number take_apart(TensorType type, std::uint64_t stored) {
  if (type == TensorType::tf32) stored >>= 13; // the lower bits are ignored
  FloatLayout l = layout_of(type);
  Number n;
  std::uint64_t fraction = stored & ((std::uint64_t(1) << l.fraction) - 1);
  int top = (1 << l.exponent) - 1, field = int(stored >> l.fraction) & top;
  n.negative = stored >> (l.fraction + l.exponent) & 1;
  const bool whole = type == TensorType::e4m3 && fraction != 7; // its largest exponent is one of numbers, too
  if (field == top && !whole) {
    n.nan = fraction != 0;
    n.infinite = fraction == 0;
    return n;
  }
  n.exponent = std::max(field, 1) - top / 2;
  std::int32_t magnitude = std::int32_t(fraction) | (field ? 1 << l.fraction : 0);
  n.significand = n.negative ? -magnitude : magnitude;
  return n;
}

// The sum of a block: mantissa * 2^(largest - kept), or something that is no number.
struct BlockSum {
  std::int64_t mantissa = 0;
  int largest = 0, kept = 0;
  bool nan = false, positive_infinity = false, negative_infinity = false;
};

// `kept`: bits below the largest exponent; `fraction`, `c_fraction`: of products and of the accumulator.
inline BlockSum add_block(const Number* a, const Number* b, unsigned count, int fraction, const Number& c,
                          int c_fraction, int kept) {
  constexpr int none = -100000;
  BlockSum s;
  s.kept = kept;
  s.nan = c.nan;
  auto infinity = [&](bool negative) { (negative ? s.negative_infinity : s.positive_infinity) = true; };
  if (c.infinite) infinity(c.negative);
  int largest = c.significand ? c.exponent : none;
  for (unsigned k = 0; k < count; ++k) {
    const Number &x = a[k], &y = b[k];
    if (x.nan || y.nan) {
      s.nan = true;
    } else if (x.infinite || y.infinite) {
      if ((!x.infinite && x.significand == 0) || (!y.infinite && y.significand == 0))
        s.nan = true;
      else
        infinity(x.negative != y.negative);
    } else if (x.significand && y.significand) {
      largest = std::max(largest, x.exponent + y.exponent);
    }
  }
  s.nan |= s.positive_infinity && s.negative_infinity;
  if (s.nan || s.positive_infinity || s.negative_infinity || largest == none) return s;
  s.largest = largest;
  auto add = [&](std::int64_t significand, int exponent, int bits) {
    int shift = exponent - bits - (largest - kept);
    std::int64_t magnitude = significand < 0 ? -significand : significand;
    magnitude = shift >= 0 ? magnitude << shift : shift > -64 ? magnitude >> -shift : 0;
    s.mantissa += significand < 0 ? -magnitude : magnitude;
  };
  for (unsigned k = 0; k < count; ++k)
    if (a[k].significand && b[k].significand)
      add(std::int64_t(a[k].significand) * b[k].significand, a[k].exponent + b[k].exponent, fraction);
  if (c.significand) add(c.significand, c.exponent, c_fraction);
  return s;
}

// Packs a magnitude * 2^scale, rounded to nearest even or cut off.
inline std::uint32_t pack(const BlockSum& s, int fraction, int exponent_bits, bool nearest) {
  std::uint32_t top = (1u << exponent_bits) - 1, infinite = top << fraction, sign = 1u << (fraction + exponent_bits);
  if (s.nan) return sign - 1;
  if (s.positive_infinity) return infinite;
  if (s.negative_infinity) return sign | infinite;
  if (s.mantissa == 0) return 0;
  bool negative = s.mantissa < 0;
  std::uint64_t m = negative ? std::uint64_t(-s.mantissa) : std::uint64_t(s.mantissa);
  int scale = s.largest - s.kept, bias = int(top / 2);
  int exponent = std::max(scale + 63 - __builtin_clzll(m), 1 - bias);
  int shift = scale - (exponent - fraction); // of m, to make the significand
  std::uint64_t significand = 0;
  if (shift >= 0) {
    significand = m << shift;
  } else if (shift > -64) {
    significand = m >> -shift;
    std::uint64_t rest = m & ((std::uint64_t(1) << -shift) - 1), half = std::uint64_t(1) << (-shift - 1);
    if (nearest && (rest > half || (rest == half && significand & 1))) ++significand;
  }
  if (significand == 0) return 0; // +0, whatever its sign was
  bool normal = significand >> fraction;
  std::uint64_t bits = normal ? (std::uint64_t(exponent + bias - 1) << fraction) + significand : significand;
  return std::uint32_t(std::min<std::uint64_t>(bits, infinite)) | (negative ? sign : 0);
}

} // namespace deadheat::engine
