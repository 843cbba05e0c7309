// Small structs as one number, for services whose arguments are integers.
//
// `walk(f)` calls f(field, bits) for each field, lowest bits first; at most 32 bits a field, 64 in all.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <type_traits>

namespace deadheat::engine {

template <typename Walk>
std::uint64_t pack_fields(Walk&& walk) {
  std::uint64_t code = 0;
  unsigned at = 0;
  walk([&](auto field, unsigned bits) {
    code |= std::uint64_t(field) << at;
    at += bits;
  });
  return code;
}

template <typename Walk>
void unpack_fields(std::uint64_t code, Walk&& walk) {
  walk([&](auto& field, unsigned bits) {
    field = static_cast<std::remove_reference_t<decltype(field)>>(code & ((std::uint64_t(1) << bits) - 1));
    code >>= bits;
  });
}

} // namespace deadheat::engine
