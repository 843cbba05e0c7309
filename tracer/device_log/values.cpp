#include "tracer/device_log/values.h"

#include <algorithm>
#include <bit>
#include <string_view>

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

AtomicResult atomic_result(const std::string& opcode, unsigned bytes, std::uint64_t read, std::uint64_t operand,
                           std::uint64_t compared) {
  const std::uint64_t mask = bytes >= 8 ? ~std::uint64_t(0) : (std::uint64_t(1) << (8 * bytes)) - 1;
  read &= mask;
  operand &= mask;
  AtomicResult result;
  const std::string_view type = std::string_view(opcode).substr(opcode.rfind('.') + 1);
  if (has(opcode, "cas")) {
    result.wrote = read == (compared & mask);
    result.written = result.wrote ? operand : read;
    return result;
  }
  const bool add = has(opcode, "add"), least = has(opcode, "min"), most = has(opcode, "max");
  if (has(opcode, "exch")) {
    result.written = operand;
  } else if (has(opcode, "and")) {
    result.written = read & operand;
  } else if (has(opcode, "or")) {
    result.written = read | operand;
  } else if (has(opcode, "xor")) {
    result.written = read ^ operand;
  } else if (has(opcode, "inc")) {
    result.written = read >= operand ? 0 : read + 1;
  } else if (has(opcode, "dec")) {
    result.written = read == 0 || read > operand ? operand : read - 1;
  } else if (type == "f32" && (add || least || most)) {
    result.written = float_result<float, std::uint32_t>(add, least, read, operand);
  } else if (type == "f64" && (add || least || most)) {
    result.written = float_result<double, std::uint64_t>(add, least, read, operand);
  } else if (!type.empty() && (type[0] == 'u' || type[0] == 's' || type[0] == 'b') && (add || least || most)) {
    const auto order = [&](std::uint64_t v) {  // so that unsigned comparison is the type's
      return type[0] == 's' ? v ^ (mask ^ (mask >> 1)) : v;
    };
    const bool smaller = order(operand) < order(read);
    result.written = add ? (read + operand) & mask : smaller == least ? operand : read;
  }
  return result;
}

std::uint32_t digest(std::uint64_t value, unsigned bytes) {
  if (bytes < 8) return std::uint32_t(value);
  return (std::uint32_t(value) * 0x9e3779b1u) ^ std::uint32_t(value >> 32);
}

}  // namespace deadheat::device_log
