// What atomic operations make of values (PTX ISA 9.7.13.5): the device reports what was read and the operand.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace deadheat::device_log {

struct AtomicResult {
  bool wrote = true;
  std::optional<std::uint64_t> written;  // no value: of a kind that is not computed
};

struct AtomicOperation {
  enum class What : std::uint8_t {
    unknown,
    cas,
    exchange,
    bit_and,
    bit_or,
    bit_xor,
    increment,
    decrement,
    add,
    least,
    most
  };
  enum class Type : std::uint8_t { other, f16, bf16, f32, f64, is_signed, is_unsigned };
  What what = What::unknown;
  Type type = Type::other;
  std::uint64_t mask = 0;  // of an element's bits
};
// `opcode` in full: "atom.global.add.u32". bytes: of an element, up to 8.
AtomicOperation atomic_operation(const std::string& opcode, unsigned bytes);

AtomicResult atomic_result(const AtomicOperation& operation, std::uint64_t read, std::uint64_t operand,
                           std::uint64_t compared);

// The digest of a value of up to 8 bytes, as in access records.
std::uint32_t digest(std::uint64_t value, unsigned bytes);

}  // namespace deadheat::device_log
