// PTX text to deadheat/ptx.h and back (PTX ISA 7.0 to 9.0, as nvcc, NVRTC and Triton write it).
//
// Invariants: print(*parse(text, origin)) == text, byte for byte. Parsing takes time and memory linear in the text,
// with bounded recursion, whatever the text says. Operands and initializers that name a function's alias (.alias) name
// the function. Opcodes, modifiers, directives and special registers that are not
// known are kept, never fatal; malformed text is an Error "origin:line:column: expected …".
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "deadheat/expected.h"
#include "deadheat/ptx.h"

namespace deadheat::ptx {

struct ParseOptions {
  // Of code that was compiled with -G: tell of accesses to the thread's stack frame, too, what was inlined there
  // (debug_info.h). They are most of it, and nobody asks but after an error at one.
  bool locate_stack_accesses = false;
};
// `origin` names the text in errors: a file name, "kernel.cu (PTX for sm_90)".
Expected<Module> parse(std::string text, std::string_view origin, const ParseOptions& options = {});

// The module's text: of parsed nodes their tokens, of nodes without tokens their canonical form. A function is printed
// from its structure up to its '{' when its `head` has no tokens, and so is its end when its `tail` has none.
std::string print(const Module& module);
std::string print(const Function& function);

// Canonical forms, from structure alone: one line, no indentation, ';' at the end.
std::string print(const Instruction& instruction, const Function& function);
std::string print(const Operand& operand, const Function& function);
std::string print(const Statement& statement, const Function& function);  // tokens if it has any
std::string print(const Variable& variable);       // "param .b32 x" without linkage and ';': ".param .b32 x"
std::string print_head(const Function& function);  // ".visible .entry k(…) .maxntid 128, 1, 1"

}  // namespace deadheat::ptx
