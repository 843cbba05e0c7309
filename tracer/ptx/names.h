// From PTX words to the enumerators of deadheat/ptx.h; the other direction is in that header (name()).
//
// Thread-safety: pure functions over tables built once.
#pragma once

#include <optional>
#include <string_view>

#include "deadheat/ptx.h"

namespace deadheat::ptx {

Opcode find_opcode(std::string_view word);             // "ld"; unknown if there is none
Modifier find_modifier(std::string_view word);         // "global", without the dot; unknown if there is none
std::optional<Type> find_type(std::string_view word);  // "f32", without the dot
std::optional<Space> find_space(
    std::string_view word);  // of declarations: "global", "shared", "local", "param", "const"

}  // namespace deadheat::ptx
