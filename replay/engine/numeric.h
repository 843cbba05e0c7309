// Arithmetic that compiled code calls: directed rounding, narrow formats, and the approximate functions of PTX.
//
// Deterministic on every x86-64-v3 machine: built from correctly rounded operations only (add, multiply, fma, divide,
// square root, integer operations), never from libm functions whose last bit varies. Error bounds are those of the
// PTX ISA (section 9.7.3), with room to spare: intermediate results are doubles.
//
// Thread-safety: pure functions; MXCSR is restored. No exceptions.
#pragma once

#include <cstdint>

namespace deadheat::engine::numeric {

enum class Rounding : std::uint32_t { nearest = 0, down = 1, up = 2, zero = 3, away = 4 };  // 0..3: as in MXCSR
enum class Operation { add, multiply, divide, fma, root };

// The function for an operation in a directed rounding (not nearest): float (float…) or double (double…).
const void* rounded(Operation operation, bool is_double, Rounding rounding);
const void* to_float_rounded(Rounding rounding);                                      // float (double)
const void* from_integer_rounded(bool is_double, bool is_signed, Rounding rounding);  // float or double (i64)

// Narrow formats by name (PTX ISA 5.2.3).
enum class Format : std::uint32_t { f16, bf16, tf32, e4m3, e5m2, e2m3, e3m2, e2m1 };
// One argument says it all: what compiled code passes as a constant.
struct Narrowing {
  Format format;
  Rounding rounding = Rounding::nearest;
  bool finite = false;  // .satfinite
  bool relu = false;
  std::uint32_t code() const {
    return std::uint32_t(format) | std::uint32_t(rounding) << 8 | std::uint32_t(finite) << 16 |
           std::uint32_t(relu) << 17;
  }
};
std::uint32_t narrow(double value, std::uint32_t code);
// An integer given as a double and what that lost (exact sum), so that rounding happens once.
std::uint32_t narrow_integer(std::int64_t value, std::uint32_t is_signed, std::uint32_t code);
float widen(std::uint32_t bits, std::uint32_t format);

// fma with one rounding to bfloat16 (nearest), in float.
double fma_to_odd(double a, double b, double c); // rounded to odd: rounds correctly to any format of <= 51 bits later

float ex2(float x);
float lg2(float x);
float sine(float x);
float cosine(float x);
float tanh(float x);
float rsqrt(float x);
double rcp_gross(double x); // rcp.approx.ftz.f64: the high word only
double rsqrt_gross(double x); // rsqrt.approx.ftz.f64
double rsqrt64(double x); // rsqrt.approx.f64

// The same in double, within 1e-13 or so of the true value: for shadows (shadow.h).
double wide_ex2(double x);
double wide_lg2(double x);
double wide_sine(double x);
double wide_cosine(double x);
double wide_tanh(double x);

std::uint32_t find_nth_set(std::uint32_t mask, std::uint32_t base, std::int32_t offset); // fns (PTX ISA 9.7.1.21)

// Half of a product in GF(2)[x]: the lower 64 bits, or the upper ones (clmad).
std::uint64_t carryless_product(std::uint64_t a, std::uint64_t b, std::uint32_t high);

// ue8m0, a power of two without a sign: of |value|, down (.rz) or up (.rp); finite: infinity to the largest (9.7.9.21).
std::uint32_t to_power_of_two(float value, std::uint32_t up, std::uint32_t finite);

} // namespace deadheat::engine::numeric
