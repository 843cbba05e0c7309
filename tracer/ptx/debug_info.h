// What was inlined where in code that was compiled with -G. Its .loc name no inlined functions; the compiler puts them
// into .debug_info (DWARF 2 to 4, "Inlined Subroutines"), with labels of the code for addresses.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "deadheat/ptx.h"

namespace deadheat::ptx {

struct DebugSection { // .section (PTX ISA 11.5.1)
  std::string bytes; // up to where something stands that is no number, label or address; zeros for these two
  std::map<std::size_t, std::string_view> labels; // by offset: what stands there is the label's address
};

// A function that was inlined into the instructions between two labels, and into another such one, maybe.
struct InlinedFunction {
  static constexpr std::uint32_t none = ~std::uint32_t(0);
  std::uint32_t into = none; // index; always of an earlier one
  std::string_view begin, end; // labels
  std::string_view name; // mangled, where it is known
  std::uint32_t file = 0, line = 0; // where it is declared; file 0: not known
  std::uint32_t call_file = 0, call_line = 0, call_column = 0;
};

// Views point into the sections. Of what cannot be read, nothing from there on.
std::vector<InlinedFunction> inlined_functions(const DebugSection& info, const DebugSection& abbreviations);

// Gives the instructions' locations the functions that were inlined there. Between the labels there may be code of
// others, too (of instructions that lie apart, the first and the last are told): an instruction belongs to the
// innermost function whose file its .loc names, at the function's first line or behind it. Without `stack_accesses`
// accesses to the thread's stack frame, most of such code, stay as they are: nobody else has to do with it, and tables
// of their chains (sites.h) would take gigabytes.
void locate_inlined(Module& module, const std::vector<InlinedFunction>& inlined, bool stack_accesses);

} // namespace deadheat::ptx
