// C++ names, from their mangled form (Itanium C++ ABI, section 5.1).
//
// The C++ runtime's own demangler refuses names of more than 1024 characters, which templates of matrix
// multiplications have by the hundred: those are read here.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace deadheat::ptx {

// "softmax(float const*, float*)" from its mangled name; the name itself if it is not one. Without the namespaces that
// nvcc makes of a hash for names with internal linkage (_INTERNAL_4bdbfe0a_4_a_cu_::f), so that reports and
// suppressions stay the same from build to build.
std::string demangle(std::string_view name);

// The same for a name of any length, as libstdc++ writes it. None where it is not a mangled name, is one of data or
// uses a form that functions' names hardly have; or where it would be longer than 64 KB.
std::optional<std::string> demangled_name(std::string_view mangled);

// A demangled name of at most `most` characters, if leaving out arguments makes it so: of templates and functions, the
// innermost first ("Gemm<Tile<...>, 4>::run(...)"). The name itself where it does not.
std::string shortened(const std::string& name, std::size_t most);

// A mangled name as a line for people has it: demangled and shortened.
std::string brief_name(std::string_view mangled);

} // namespace deadheat::ptx
