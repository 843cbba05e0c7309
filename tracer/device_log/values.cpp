#include "tracer/device_log/values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "deadheat/digest.h"

namespace deadheat::device_log {

namespace {

bool has(std::string_view opcode, std::string_view word) {
  for (std::size_t at = opcode.find(word); at != std::string_view::npos; at = opcode.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if (at > 0 && opcode[at - 1] == '.' && (end == opcode.size() || opcode[end] == '.')) return true;
  }
  return false;
}

template <typename Float, typename Bits>
std::uint64_t float_result(bool add, bool least, std::uint64_t a, std::uint64_t b) {
  const Float x = std::bit_cast<Float>(Bits(a)), y = std::bit_cast<Float>(Bits(b));
  return std::bit_cast<Bits>(add ? x + y : least ? std::min(x, y) : std::max(x, y));
}

// f16 and bf16, of which two may lie in a word. Sums are exact as doubles (f16), or rounded so little that rounding
// twice is rounding once (bf16: 53 bits are more than 2 * 8 + 2).
struct Half {
  unsigned mantissa = 10;
  int least_exponent = -14;

  double wide(std::uint32_t bits) const {
    const unsigned exponent = bits >> mantissa & ((1u << (15 - mantissa)) - 1);
    const double fraction = bits & ((1u << mantissa) - 1), one = std::ldexp(1.0, int(mantissa));
    double value = exponent ? std::ldexp(one + fraction, int(exponent) - 1) : fraction;
    if (exponent == (1u << (15 - mantissa)) - 1)
      value = fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    value = std::ldexp(value, least_exponent - int(mantissa));
    return bits & 0x8000 ? -value : value;
  }
  std::uint32_t narrow(double value) const {  // to nearest, ties to even
    if (std::isnan(value)) return 0x7fff;
    const std::uint32_t sign = std::signbit(value) ? 0x8000 : 0, infinity = ((1u << (15 - mantissa)) - 1) << mantissa;
    value = std::fabs(value);
    if (std::isinf(value)) return sign | infinity;
    const int exponent = value == 0 ? least_exponent : std::max(std::ilogb(value), least_exponent);
    const double steps = std::nearbyint(std::ldexp(value, int(mantissa) - exponent));
    const std::uint32_t bits = std::uint32_t(steps) + (std::uint32_t(exponent - least_exponent) << mantissa);
    return sign | std::min(bits, infinity);
  }
  std::uint32_t result(bool add, bool least, std::uint32_t a, std::uint32_t b) const {
    const double x = wide(a), y = wide(b);
    return narrow(add ? x + y : least ? std::fmin(x, y) : std::fmax(x, y));
  }
};
constexpr Half f16{}, bf16{7, -126};

}  // namespace

AtomicOperation atomic_operation(const std::string& opcode, unsigned bytes) {
  using What = AtomicOperation::What;
  static constexpr std::pair<const char*, What> words[] = {
      {"cas", What::cas},     {"exch", What::exchange}, {"and", What::bit_and},   {"or", What::bit_or},
      {"xor", What::bit_xor}, {"inc", What::increment}, {"dec", What::decrement}, {"add", What::add},
      {"min", What::least},   {"max", What::most},
  };
  AtomicOperation made;
  made.mask = bytes >= 8 ? ~std::uint64_t(0) : (std::uint64_t(1) << (8 * bytes)) - 1;
  for (const auto& [word, what] : words) {
    if (!has(opcode, word)) continue;
    made.what = what;
    break;
  }
  using Type = AtomicOperation::Type;
  const std::string_view type = std::string_view(opcode).substr(opcode.rfind('.') + 1);
  if (type == "f32")
    made.type = Type::f32;
  else if (type == "f64")
    made.type = Type::f64;
  else if (type == "f16" || type == "f16x2")
    made.type = Type::f16;
  else if (type == "bf16" || type == "bf16x2")
    made.type = Type::bf16;
  else if (!type.empty() && type[0] == 's')
    made.type = Type::is_signed;
  else if (!type.empty() && (type[0] == 'u' || type[0] == 'b'))
    made.type = Type::is_unsigned;
  return made;
}

AtomicResult atomic_result(const AtomicOperation& operation, std::uint64_t read, std::uint64_t operand,
                           std::uint64_t compared) {
  using What = AtomicOperation::What;
  using Type = AtomicOperation::Type;
  const std::uint64_t mask = operation.mask;
  read &= mask;
  operand &= mask;
  AtomicResult result;
  switch (operation.what) {
    case What::cas:
      result.wrote = read == (compared & mask);
      result.written = result.wrote ? operand : read;
      break;
    case What::exchange: result.written = operand; break;
    case What::bit_and: result.written = read & operand; break;
    case What::bit_or: result.written = read | operand; break;
    case What::bit_xor: result.written = read ^ operand; break;
    case What::increment: result.written = read >= operand ? 0 : read + 1; break;
    case What::decrement: result.written = read == 0 || read > operand ? operand : read - 1; break;
    case What::add:
    case What::least:
    case What::most: {
      const bool add = operation.what == What::add, least = operation.what == What::least;
      if (operation.type == Type::f32) {
        result.written = float_result<float, std::uint32_t>(add, least, read, operand);
      } else if (operation.type == Type::f64) {
        result.written = float_result<double, std::uint64_t>(add, least, read, operand);
      } else if (operation.type == Type::f16 || operation.type == Type::bf16) {
        const Half& half = operation.type == Type::f16 ? f16 : bf16;
        std::uint64_t written = 0;
        for (unsigned at = 0; at < 32 && (mask >> at & 0xffff); at += 16) {
          const std::uint32_t a = read >> at & 0xffff, b = operand >> at & 0xffff;
          written |= std::uint64_t(half.result(add, least, a, b)) << at;
        }
        result.written = written;
      } else if (operation.type != Type::other) {
        const std::uint64_t flip = operation.type == Type::is_signed ? mask ^ (mask >> 1) : 0;
        const bool smaller = (operand ^ flip) < (read ^ flip);  // in the type's order
        result.written = add ? (read + operand) & mask : smaller == least ? operand : read;
      }
      break;
    }
    case What::unknown: break;
  }
  return result;
}

std::uint32_t digest(std::uint64_t value, unsigned bytes) { return deadheat::digest(&value, bytes < 8 ? 4 : 8); }

}  // namespace deadheat::device_log
