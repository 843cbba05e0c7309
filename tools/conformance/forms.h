// Patterns of instructions, written out: instructions.txt says how.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace deadheat {

// All ways to take one alternative of each {a|b}; braces without a bar stand for themselves.
std::vector<std::string> alternatives(std::string_view pattern);

// The instruction with registers for its placeholders.
std::string with_registers(std::string_view form);

// A module whose only kernel holds the instruction.
std::string module_with(std::string_view instruction);

}  // namespace deadheat
