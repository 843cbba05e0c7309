// Compiled for x86-64-v3, like the code that calls it.
#include "replay/engine/numeric.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace deadheat::engine::numeric {

namespace {

std::uint64_t bits_of(double d) {
  std::uint64_t u;
  std::memcpy(&u, &d, 8);
  return u;
}
std::uint32_t bits_of(float f) {
  std::uint32_t u;
  std::memcpy(&u, &f, 4);
  return u;
}
double double_of(std::uint64_t u) {
  double d;
  std::memcpy(&d, &u, 8);
  return d;
}
float float_of(std::uint32_t u) {
  float f;
  std::memcpy(&f, &u, 4);
  return f;
}

// One asm block each, so that nothing moves across the change of rounding mode.
template <unsigned mode>
struct Rounded {
  static constexpr unsigned control = 0x1f80u | mode << 13;
#define DEADHEAT_BINARY(name, type, instruction)                                                                 \
  static type name(type a, type b) {                                                                             \
    unsigned saved, wanted = control;                                                                            \
    asm volatile("vstmxcsr %[saved]\n vldmxcsr %[wanted]\n " instruction " %[b], %[a], %[a]\n vldmxcsr %[saved]" \
                 : [a] "+x"(a), [saved] "=m"(saved)                                                              \
                 : [b] "x"(b), [wanted] "m"(wanted));                                                            \
    return a;                                                                                                    \
  }
  DEADHEAT_BINARY(add32, float, "vaddss")
  DEADHEAT_BINARY(multiply32, float, "vmulss")
  DEADHEAT_BINARY(divide32, float, "vdivss")
  DEADHEAT_BINARY(add64, double, "vaddsd")
  DEADHEAT_BINARY(multiply64, double, "vmulsd")
  DEADHEAT_BINARY(divide64, double, "vdivsd")
#undef DEADHEAT_BINARY
#define DEADHEAT_FMA(name, type, instruction)                                                                    \
  static type name(type a, type b, type c) {                                                                     \
    unsigned saved, wanted = control;                                                                            \
    asm volatile("vstmxcsr %[saved]\n vldmxcsr %[wanted]\n " instruction " %[c], %[b], %[a]\n vldmxcsr %[saved]" \
                 : [a] "+x"(a), [saved] "=m"(saved)                                                              \
                 : [b] "x"(b), [c] "x"(c), [wanted] "m"(wanted));                                                \
    return a;                                                                                                    \
  }
  DEADHEAT_FMA(fma32, float, "vfmadd213ss")
  DEADHEAT_FMA(fma64, double, "vfmadd213sd")
#undef DEADHEAT_FMA
#define DEADHEAT_UNARY(name, to, from, constraint, instruction)                                 \
  static to name(from a) {                                                                      \
    unsigned saved, wanted = control;                                                           \
    to r;                                                                                       \
    asm volatile("vstmxcsr %[saved]\n vldmxcsr %[wanted]\n " instruction "\n vldmxcsr %[saved]" \
                 : [r] "=&x"(r), [saved] "=m"(saved)                                            \
                 : [a] constraint(a), [wanted] "m"(wanted));                                    \
    return r;                                                                                   \
  }
  DEADHEAT_UNARY(root32, float, float, "x", "vsqrtss %[a], %[a], %[r]")
  DEADHEAT_UNARY(root64, double, double, "x", "vsqrtsd %[a], %[a], %[r]")
  DEADHEAT_UNARY(narrow32, float, double, "x", "vcvtsd2ss %[a], %[a], %[r]")
  DEADHEAT_UNARY(signed32, float, std::int64_t, "r", "vxorps %[r], %[r], %[r]\n vcvtsi2ssq %[a], %[r], %[r]")
  DEADHEAT_UNARY(signed64, double, std::int64_t, "r", "vxorps %[r], %[r], %[r]\n vcvtsi2sdq %[a], %[r], %[r]")
#undef DEADHEAT_UNARY
  // Halved with the lost bit kept (sticky), then doubled exactly.
  static float unsigned32(std::uint64_t a) {
    if (!(a >> 63)) return signed32(std::int64_t(a));
    float half = signed32(std::int64_t(a >> 1 | (a & 1)));
    return half + half;
  }
  static double unsigned64(std::uint64_t a) {
    if (!(a >> 63)) return signed64(std::int64_t(a));
    double half = signed64(std::int64_t(a >> 1 | (a & 1)));
    return half + half;
  }
  static const void* operation(Operation o, bool is_double) {
    auto p = [](auto f) { return reinterpret_cast<const void*>(f); };
    switch (o) {
      case Operation::add: return is_double ? p(&add64) : p(&add32);
      case Operation::multiply: return is_double ? p(&multiply64) : p(&multiply32);
      case Operation::divide: return is_double ? p(&divide64) : p(&divide32);
      case Operation::fma: return is_double ? p(&fma64) : p(&fma32);
      case Operation::root: return is_double ? p(&root64) : p(&root32);
    }
    return nullptr;
  }
  static const void* integer(bool is_double, bool is_signed) {
    auto p = [](auto f) { return reinterpret_cast<const void*>(f); };
    if (is_signed) return is_double ? p(&signed64) : p(&signed32);
    return is_double ? p(&unsigned64) : p(&unsigned32);
  }
};

struct Shape {
  int exponent_bits, mantissa_bits;
  bool infinity, nan;
  double largest;
};
constexpr Shape shapes[] = {
    {5, 10, true, true, 65504.0},                // f16
    {8, 7, true, true, 3.3895313892515355e38},   // bf16
    {8, 10, true, true, 3.4011621342146535e38},  // tf32
    {4, 3, false, true, 448.0},                  // e4m3
    {5, 2, true, true, 57344.0},                 // e5m2
    {2, 3, false, false, 7.5},                   // e2m3
    {3, 2, false, false, 28.0},                  // e3m2
    {2, 1, false, false, 6.0},                   // e2m1
};

// magnitude >= 0, finite, in units of 2^0; `sticky`: a little more than that was meant.
std::uint32_t round_magnitude(double magnitude, bool sticky, bool negative, const Shape& shape, Rounding rounding,
                              bool& overflow) {
  int bias = (1 << (shape.exponent_bits - 1)) - 1;
  overflow = false;
  if (magnitude == 0 && !sticky) return 0;
  std::uint64_t m = bits_of(magnitude);
  int exponent = int(m >> 52) - 1023;
  std::uint64_t significand = (m & 0xfffffffffffffull) | (std::uint64_t(1) << 52);
  if ((m >> 52) == 0) {  // subnormal doubles and zero: below every format but through its sticky bit
    exponent = -1022;
    significand = m;
  }
  int lowest = 1 - bias;                // exponent of the smallest normal number
  int drop = 52 - shape.mantissa_bits;  // bits below the last one kept
  if (exponent < lowest) drop += lowest - exponent;
  std::uint64_t kept, rest, half;
  if (drop >= 63) {
    kept = 0;
    rest = 1;
    half = 2;  // far below half
  } else {
    kept = significand >> drop;
    rest = significand & ((std::uint64_t(1) << drop) - 1);
    half = std::uint64_t(1) << (drop - 1);
    if (sticky) {  // doubles the resolution
      rest = rest * 2 + 1;
      half *= 2;
    }
  }
  bool up = false;
  switch (rounding) {
    case Rounding::nearest: up = rest > half || (rest == half && (kept & 1)); break;
    case Rounding::away: up = rest >= half; break;
    case Rounding::up: up = rest != 0 && !negative; break;
    case Rounding::down: up = rest != 0 && negative; break;
    case Rounding::zero: break;
  }
  kept += up ? 1 : 0;
  // As bits: a carry out of the mantissa moves into the exponent by itself.
  std::uint64_t code = exponent < lowest ? kept : (std::uint64_t(exponent + bias - 1) << shape.mantissa_bits) + kept;
  std::uint64_t top = (std::uint64_t(1) << (shape.exponent_bits + shape.mantissa_bits)) - 1;  // all ones
  std::uint64_t last;  // code of the largest finite number
  if (shape.infinity)
    last = top - (std::uint64_t(1) << shape.mantissa_bits);
  else
    last = shape.nan ? top - 1 : top;
  if (code > last) overflow = true;
  return std::uint32_t(code > last ? last : code);
}

std::uint32_t place(std::uint32_t magnitude, bool negative, Format format) {
  const Shape& s = shapes[unsigned(format)];
  if (format == Format::tf32) return (negative ? 0x80000000u : 0) | magnitude << 13;
  return magnitude | std::uint32_t(negative) << (s.exponent_bits + s.mantissa_bits);
}

std::uint32_t infinity_of(Format format, bool negative) {
  const Shape& s = shapes[unsigned(format)];
  return place(((1u << s.exponent_bits) - 1) << s.mantissa_bits, negative, format);
}

std::uint32_t nan_of(Format format) {  // canonical (PTX ISA 9.7.9.21: cvt)
  switch (format) {
    case Format::f16:
    case Format::bf16: return 0x7fff;
    case Format::tf32: return 0x7fffe000;
    case Format::e4m3:
    case Format::e5m2: return 0x7f;
    case Format::e2m3: return 0x1f;  // no NaN: the largest number
    case Format::e3m2: return 0x1f;
    case Format::e2m1: return 0x7;
  }
  return 0;
}

std::uint32_t largest_of(Format format, bool negative) {
  bool overflow;
  const Shape& s = shapes[unsigned(format)];
  return place(round_magnitude(s.largest, false, false, s, Rounding::zero, overflow), negative, format);
}

std::uint32_t narrow_sticky(double value, bool sticky, std::uint32_t code) {
  Format format = Format(code & 255);
  Rounding rounding = Rounding(code >> 8 & 255);
  bool finite = code >> 16 & 1, relu = code >> 17 & 1;
  const Shape& s = shapes[unsigned(format)];
  if (value != value) return nan_of(format);
  bool negative = bits_of(value) >> 63;
  if (relu && negative) return 0;
  double magnitude = negative ? -value : value;
  if (magnitude == std::numeric_limits<double>::infinity()) {
    if (finite || !s.infinity) return largest_of(format, negative);
    return infinity_of(format, negative);
  }
  bool overflow;
  std::uint32_t m = round_magnitude(magnitude, sticky, negative, s, rounding, overflow);
  if (overflow && !finite && s.infinity) {
    bool to_largest = rounding == Rounding::zero || (rounding == Rounding::down && !negative) ||
                      (rounding == Rounding::up && negative);
    if (!to_largest) return infinity_of(format, negative);
  }
  return place(m, negative, format);
}

}  // namespace

const void* rounded(Operation o, bool is_double, Rounding r) {
  switch (r) {
    case Rounding::down: return Rounded<1>::operation(o, is_double);
    case Rounding::up: return Rounded<2>::operation(o, is_double);
    case Rounding::zero: return Rounded<3>::operation(o, is_double);
    default: return Rounded<0>::operation(o, is_double);
  }
}

const void* to_float_rounded(Rounding r) {
  auto p = [](auto f) { return reinterpret_cast<const void*>(f); };
  switch (r) {
    case Rounding::down: return p(&Rounded<1>::narrow32);
    case Rounding::up: return p(&Rounded<2>::narrow32);
    case Rounding::zero: return p(&Rounded<3>::narrow32);
    default: return p(&Rounded<0>::narrow32);
  }
}

const void* from_integer_rounded(bool is_double, bool is_signed, Rounding r) {
  switch (r) {
    case Rounding::down: return Rounded<1>::integer(is_double, is_signed);
    case Rounding::up: return Rounded<2>::integer(is_double, is_signed);
    case Rounding::zero: return Rounded<3>::integer(is_double, is_signed);
    default: return Rounded<0>::integer(is_double, is_signed);
  }
}

std::uint32_t narrow(double value, std::uint32_t code) { return narrow_sticky(value, false, code); }

std::uint32_t narrow_integer(std::int64_t value, std::uint32_t is_signed, std::uint32_t code) {
  bool negative = is_signed && value < 0;
  std::uint64_t magnitude = negative ? 0 - std::uint64_t(value) : std::uint64_t(value);
  // The top 53 bits are exact as a double; the rest is sticky.
  int extra = magnitude ? std::max(0, 11 - __builtin_clzll(magnitude)) : 0;
  std::uint64_t kept = magnitude >> extra;
  bool sticky = (kept << extra) != magnitude;
  double d = double(kept) * double(std::uint64_t(1) << extra);
  return narrow_sticky(negative ? -d : d, sticky, code);
}

float widen(std::uint32_t bits, std::uint32_t which) {
  Format format = Format(which);
  const Shape& s = shapes[which];
  if (format == Format::tf32) return float_of(bits);
  std::uint32_t mantissa = bits & ((1u << s.mantissa_bits) - 1);
  std::uint32_t exponent = bits >> s.mantissa_bits & ((1u << s.exponent_bits) - 1);
  bool negative = bits >> (s.mantissa_bits + s.exponent_bits) & 1;
  std::uint32_t all = (1u << s.exponent_bits) - 1;
  int bias = (1 << (s.exponent_bits - 1)) - 1;
  float sign = negative ? -1.0f : 1.0f;
  if (s.infinity && exponent == all)
    return mantissa ? float_of(0x7fffffffu) : sign * std::numeric_limits<float>::infinity();
  if (!s.infinity && s.nan && exponent == all && mantissa == (1u << s.mantissa_bits) - 1) return float_of(0x7fffffffu);
  int scale = (exponent ? int(exponent) : 1) - bias - s.mantissa_bits;
  std::uint32_t significand = mantissa | (exponent ? 1u << s.mantissa_bits : 0);
  double value = double(significand) * double_of(std::uint64_t(1023 + scale) << 52);
  return sign * float(value);
}

double fma_to_odd(double a, double b, double c) {
  double product = a * b;  // exact: callers have at most 24 bits each
  double sum = product + c;
  double back = sum - product;
  double error = (product - (sum - back)) + (c - back);
  if (error == error && error != 0 && !(bits_of(sum) & 1)) {
    bool away = (error > 0) == (sum > 0);
    return double_of(bits_of(sum) + (away ? 1 : ~std::uint64_t(0)));
  }
  return sum;
}

namespace {

// 2^f for |f| <= 0.5: series of exp(f ln 2); error below 1e-13.
double ex2_part(double f) {
  double t = f * 0.693147180559945309417;
  double p = 2.08767569878680989792e-9;  // 1/12!
  constexpr double c[] = {2.50521083854417187751e-8,
                          2.75573192239858906526e-7,
                          2.75573192239858906526e-6,
                          2.48015873015873015873e-5,
                          1.98412698412698412698e-4,
                          1.38888888888888888889e-3,
                          8.33333333333333333333e-3,
                          4.16666666666666666667e-2,
                          1.66666666666666666667e-1,
                          0.5,
                          1.0,
                          1.0};
  for (double k : c) p = std::fma(p, t, k);
  return p;
}

double power_of_two(int n) { return double_of(std::uint64_t(1023 + n) << 52); }

double ex2_double(double x) {  // |x| <= 1000
  double n = std::nearbyint(x);
  return ex2_part(x - n) * power_of_two(int(n));
}

// sin and cos of |x| reduced to [-pi/4, pi/4] and a quadrant.
double reduce(double x, int& quadrant) {
  constexpr double two_over_pi = 0.63661977236758134308;
  constexpr double high = 1.57079632679489655800, low = 6.12323399573676603587e-17;
  if (std::fabs(x) > 1e12) x = std::fmod(x, 6.28318530717958647693);  // exact; the input's own grain is coarser
  double n = std::nearbyint(x * two_over_pi);
  double r = std::fma(-n, high, x);
  r = std::fma(-n, low, r);
  quadrant = int(std::int64_t(n) & 3);
  return r;
}

double sine_part(double r) {
  double s = r * r;
  double p = 1.60590438368216145994e-10;  // 1/13!
  constexpr double c[] = {-2.50521083854417187751e-8, 2.75573192239858906526e-6, -1.98412698412698412698e-4,
                          8.33333333333333333333e-3, -1.66666666666666666667e-1};
  for (double k : c) p = std::fma(p, s, k);
  return std::fma(p * s, r, r);
}

double cosine_part(double r) {
  double s = r * r;
  double p = -1.14707455977297247139e-11;  // -1/14!
  constexpr double c[] = {2.08767569878680989792e-9,
                          -2.75573192239858906526e-7,
                          2.48015873015873015873e-5,
                          -1.38888888888888888889e-3,
                          4.16666666666666666667e-2,
                          -0.5,
                          1.0};
  for (double k : c) p = std::fma(p, s, k);
  return p;
}

}  // namespace

float ex2(float x) {
  if (!(x < 128.0f)) return x != x ? x : std::numeric_limits<float>::infinity();
  if (x < -151.0f) return 0.0f;
  return float(ex2_double(double(x)));
}

float lg2(float x) {
  if (x != x) return x;
  if (x == 0) return -std::numeric_limits<float>::infinity();
  if (x < 0) return std::numeric_limits<float>::quiet_NaN();
  if (x == std::numeric_limits<float>::infinity()) return x;
  std::uint64_t bits = bits_of(double(x));  // normal as a double
  int exponent = int(bits >> 52) - 1023;
  double m = double_of((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.41421356237309504880) {
    m *= 0.5;
    ++exponent;
  }
  double s = (m - 1.0) / (m + 1.0), t = s * s;
  double p = 1.0 / 17.0;
  constexpr double c[] = {1.0 / 15.0, 1.0 / 13.0, 1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0, 1.0};
  for (double k : c) p = std::fma(p, t, k);
  return float(std::fma(2.88539008177792681472 * s, p, double(exponent)));
}

float sine(float x) {
  if (!(std::fabs(x) < std::numeric_limits<float>::infinity())) return std::numeric_limits<float>::quiet_NaN();
  if (x == 0) return x;
  int q;
  double r = reduce(double(x), q);
  double v = q & 1 ? cosine_part(r) : sine_part(r);
  return float(q & 2 ? -v : v);
}

float cosine(float x) {
  if (!(std::fabs(x) < std::numeric_limits<float>::infinity())) return std::numeric_limits<float>::quiet_NaN();
  int q;
  double r = reduce(double(x), q);
  double v = q & 1 ? sine_part(r) : cosine_part(r);
  return float((q + 1) & 2 ? -v : v);
}

float tanh(float x) {
  if (x != x) return x;
  double a = std::fabs(double(x));
  if (a < 1e-4) return x;
  if (a > 20) return x < 0 ? -1.0f : 1.0f;
  double t = ex2_double(-2.88539008177792681472 * a);
  double v = (1.0 - t) / (1.0 + t);
  return float(x < 0 ? -v : v);
}

float rsqrt(float x) {
  if (x == 0)
    return bits_of(x) >> 31 ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  return float(1.0 / std::sqrt(double(x)));
}

double rsqrt64(double x) {
  if (x == 0)
    return bits_of(x) >> 63 ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  return 1.0 / std::sqrt(x);
}

namespace {
double flushed(double x) { return std::fabs(x) < std::numeric_limits<double>::min() ? std::copysign(0.0, x) : x; }
double high_word(double x) { return x != x ? x : double_of(bits_of(x) & 0xffffffff00000000ull); }
}  // namespace

double rcp_gross(double x) { return high_word(flushed(1.0 / flushed(high_word(x)))); }
double rsqrt_gross(double x) { return high_word(rsqrt64(flushed(high_word(x)))); }

double wide_ex2(double x) {
  if (x != x) return x;
  if (x >= 1024) return std::numeric_limits<double>::infinity();
  if (x < -1076) return 0;
  const double n = std::nearbyint(x), part = ex2_part(x - n);
  const int half = int(n) / 2; // in two factors, for subnormal results
  return part * power_of_two(half) * power_of_two(int(n) - half);
}

double wide_lg2(double x) {
  if (x != x || x < 0) return std::numeric_limits<double>::quiet_NaN();
  if (x == 0) return -std::numeric_limits<double>::infinity();
  if (x == std::numeric_limits<double>::infinity()) return x;
  const bool tiny = x < std::numeric_limits<double>::min();
  const std::uint64_t bits = bits_of(tiny ? x * 0x1p54 : x);
  int exponent = int(bits >> 52) - 1023 - (tiny ? 54 : 0);
  double m = double_of((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.41421356237309504880) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1.0) / (m + 1.0), t = s * s;
  double p = 1.0 / 21.0;
  for (int k = 19; k > 0; k -= 2) p = std::fma(p, t, 1.0 / k);
  return std::fma(2.88539008177792681472 * s, p, double(exponent));
}

double wide_sine(double x) {
  if (!(std::fabs(x) < std::numeric_limits<double>::infinity())) return std::numeric_limits<double>::quiet_NaN();
  if (x == 0) return x;
  int q;
  const double r = reduce(x, q), v = q & 1 ? cosine_part(r) : sine_part(r);
  return q & 2 ? -v : v;
}

double wide_cosine(double x) {
  if (!(std::fabs(x) < std::numeric_limits<double>::infinity())) return std::numeric_limits<double>::quiet_NaN();
  int q;
  const double r = reduce(x, q), v = q & 1 ? sine_part(r) : cosine_part(r);
  return (q + 1) & 2 ? -v : v;
}

double wide_tanh(double x) {
  if (x != x) return x;
  const double a = std::fabs(x);
  if (a < 1e-3) return std::fma(x * x * x, std::fma(x * x, 2.0 / 15.0, -1.0 / 3.0), x);
  if (a > 20) return x < 0 ? -1.0 : 1.0;
  const double t = ex2_double(-2.88539008177792681472 * a), v = (1.0 - t) / (1.0 + t);
  return x < 0 ? -v : v;
}

std::uint32_t find_nth_set(std::uint32_t mask, std::uint32_t base, std::int32_t offset) {
  if (offset == 0) return base < 32 && (mask >> base & 1) ? base : 0xffffffffu;
  std::int64_t step = offset > 0 ? 1 : -1;
  std::int32_t left = offset > 0 ? offset : -offset;
  for (std::int64_t at = std::int64_t(base); at >= 0 && at < 32; at += step)
    if (mask >> at & 1 && --left == 0) return std::uint32_t(at);
  return 0xffffffffu;
}

std::uint64_t carryless_product(std::uint64_t a, std::uint64_t b, std::uint32_t high) {
  unsigned __int128 product = 0;
  for (unsigned bit = 0; bit < 64; ++bit)
    if (b >> bit & 1) product ^= static_cast<unsigned __int128>(a) << bit;
  return std::uint64_t(high ? product >> 64 : product);
}

std::uint32_t to_power_of_two(float value, std::uint32_t up, std::uint32_t finite) {
  const std::uint32_t bits = bits_of(value) & 0x7fffffffu;
  if (bits > 0x7f800000) return 0xff; // NaN
  std::uint32_t exponent = bits >> 23; // 0 stands for 2^-127, which of floats is 0x00400000
  if (up && exponent < 0xff && (exponent ? bits & 0x7fffff : bits > 0x400000)) ++exponent;
  return finite && exponent == 0xff ? 0xfe : exponent;
}

}  // namespace deadheat::engine::numeric
