#include "tracer/device_log/values.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>

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

std::uint32_t digest(std::uint64_t value, unsigned bytes) {
  if (bytes < 8) return std::uint32_t(value);
  return (std::uint32_t(value) * 0x9e3779b1u) ^ std::uint32_t(value >> 32);
}

}  // namespace deadheat::device_log
