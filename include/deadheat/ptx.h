// The PTX model: what a module of PTX text says, as types. One parser makes it (tracer/ptx/parse.h); the
// instrumenter, the engine and the site tables read it.
//
// Invariants:
//  - Lossless: every byte of the source text belongs to exactly one Token (its leading trivia or its text), every
//    token to exactly one node, so print(parse(text)) == text. Nodes that code adds have no tokens and are printed
//    from their structure.
//  - Modifiers are a set: `ld.global.acquire.gpu` and `ld.acquire.gpu.global` give equal Instructions. Types keep
//    their order (cvt.f32.s32 is not cvt.s32.f32).
//  - Unknown opcodes and modifiers are kept (Opcode::unknown, Modifier::unknown) with their text and operands.
//  - Names are resolved: a register operand is an index into Function::registers, unique across nested scopes; a symbol
//    operand says which of Function::variables it means. Registers of a range (%r<100>) are listed when first used.
//  - Labels are unique in a function: where nested scopes declare one name twice, Label::name and the operands and
//    targets that mean it are renamed ("LAB_WAIT$1"); tokens keep what was written.
//  - Every branch target is a label of the function; every register operand is declared.
//
// Thread-safety: plain values, immutable after parsing by convention. Views point into Module::text and Module::names,
// which a moved Module keeps alive (shared_ptr).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "deadheat/memory_model.h"

namespace deadheat::ptx {

// Fundamental types (PTX ISA 5.2) and the packed and narrow formats of cvt, mma and atom.
// clang-format off
enum class Type : std::uint8_t {
  none, b1, b8, b16, b32, b64, b128, u8, u16, u32, u64, s8, s16, s32, s64, f16, f16x2, bf16, bf16x2, tf32, f32,
  f32x2, f64, pred, u8x4, s8x4, u16x2, s16x2, e4m3, e5m2, e4m3x2, e5m2x2, e2m1, e2m1x2, e2m3, e2m3x2, e3m2, e3m2x2,
  ue8m0, ue8m0x2, s4, u4, s2, u2, texref, samplerref, surfref
};
// clang-format on
unsigned bits(Type type); // width in bits; 1 for pred and b1, 64 for the opaque references
std::string_view name(Type type);

// One line an opcode in ptx_opcodes.def, one a modifier in ptx_modifiers.def.
enum class Opcode : std::uint16_t {
  unknown,
#define DEADHEAT_PTX_OPCODE(id, text) id,
#include "deadheat/ptx_opcodes.def"
#undef DEADHEAT_PTX_OPCODE
};
enum class Modifier : std::uint16_t {
  unknown,
#define DEADHEAT_PTX_MODIFIER(id, text) id,
#include "deadheat/ptx_modifiers.def"
#undef DEADHEAT_PTX_MODIFIER
};
std::string_view name(Opcode opcode);
std::string_view name(Modifier modifier);

struct Token {
  std::string_view trivia; // white space and comments before it
  std::string_view text;
};

// A place in the user's source, from .loc (PTX ISA 11.5.3). Index 0 of Module::locations is "nowhere".
struct Location {
  std::uint32_t file = 0; // index into Module::files (by .file number); 0: none
  std::uint32_t line = 0, column = 0;
  std::string function; // function inlined here (from .loc's function_name); empty for the outermost
  std::uint32_t inlined_at = 0; // index of the location of the call this was inlined into; 0: not inlined
};

using RegisterId = std::uint32_t;

struct Operand {
  enum class Kind : std::uint8_t {
    reg, // %r1            reg
    special, // %tid.x         text
    integer, // 42, 0x2a       bits (two's complement, 64 bits)
    f32, // 0f3F800000     bits
    f64, // 0d…, 1.0       bits
    symbol, // variable, function or parameter, + offset    text (the name alone), offset, variable
    label, // branch target, .branchtargets or .callprototype  text: unique name (Function::labels)
    address, // [base+offset]  elements[0] is reg, symbol or integer; offset. Tensor: [map, {c0,c1}]: further elements
    vector, // {a, b, c, d}   elements
    pair, // a|b            elements[0], elements[1]
    sink, // _
    list, // (a, b)         elements: argument and result lists of call
    tokens // anything else: text
  };
  // Of a reg, text also holds the selector of video instructions (%r1.h0). WARP_SZ is the integer 32.
  Kind kind = Kind::tokens;
  bool negated = false; // !%p or -%r
  RegisterId reg = 0;
  std::int32_t variable = -1; // of symbols: index into Function::variables; -1: parameter, module scope or function
  std::uint64_t bits = 0;
  std::int64_t offset = 0;
  std::string_view text; // as written, but of symbols and labels
  std::vector<Operand> elements;
};

struct Guard {
  RegisterId reg = 0;
  bool negated = false;
};

struct Instruction {
  Opcode opcode = Opcode::unknown;
  std::string_view opcode_text; // "atom" ; with all modifiers: full_opcode()
  std::vector<Modifier> modifiers; // sorted by value, so equal sets compare equal; types are not in it
  std::vector<std::string_view> modifier_texts; // as written, types too, in source order
  std::vector<Type> types; // in source order
  std::optional<Guard> guard;
  // In source order. Of call always: results (list, may be empty), callee, arguments (list, may be empty) and, where
  // written, the prototype or target list (label or symbol).
  std::vector<Operand> operands;
  std::uint32_t location = 0; // index into Module::locations
  std::uint32_t source_line = 0; // line of the PTX text, 1-based

  bool has(Modifier m) const;
  Type type() const { return types.empty() ? Type::none : types.front(); }
  std::string full_opcode() const; // "atom.global.add.u32", as written
};

// A variable or parameter declaration (PTX ISA 5.4). Parameters in registers (.func (.reg .b32 %a)) have Space::generic
// and a register of the same name.
struct Variable {
  enum class Linkage : std::uint8_t { none, extern_, visible, weak, common };
  std::string name;
  Space space = Space::generic;
  Type type = Type::none;
  std::uint32_t vector = 1; // .v2, .v4
  std::vector<std::uint64_t> dimensions; // of an array; 0 for an unsized one ([] )
  std::uint32_t align = 0; // bytes; natural alignment if not written
  std::uint64_t size = 0; // bytes; 0 for unsized arrays
  Linkage linkage = Linkage::none;
  bool opaque_reference = false; // texref, samplerref, surfref
  bool managed = false; // .attribute(.managed)
  bool pointer = false; // .ptr; pointee_space (generic if not written) and pointee_align tell the rest
  Space pointee_space = Space::generic;
  std::uint32_t pointee_align = 0;
  std::vector<std::uint8_t> initializer; // `size` bytes or empty (zero)
  struct Relocation { // initializer bytes that hold an address: symbol + addend, `bytes` wide at `offset`
    std::uint64_t offset = 0;
    std::uint32_t bytes = 8;
    std::string symbol;
    std::int64_t addend = 0;
    bool generic = false; // generic(symbol)
    std::uint32_t mask_shift = 0; // of mask(…) operators: right shift in bits; the bytes kept are `bytes`
  };
  std::vector<Relocation> relocations;
};

struct Register {
  std::string name; // "%r1"
  Type type = Type::none;
};

struct Label {
  std::string name;
};
struct ScopeBegin {};
struct ScopeEnd {};
// .reg, .local, .shared, .param, .loc, .pragma, .branchtargets, .calltargets, .callprototype …: name with its dot; an
// empty statement (a lone ';') has none. A directive that code adds gives its whole text: ".reg .b32 %x<4>;".
struct Directive {
  std::string_view name;
  std::string text = {}; // empty for parsed ones
  std::string label = {}; // of a labelled directive (prototypes, target lists): "prototype_0", unique
  std::vector<std::string> targets = {}; // .branchtargets (unique names), .calltargets
  std::vector<Variable> results = {}, params = {}; // .callprototype
};

struct Statement {
  std::variant<Instruction, Label, Directive, ScopeBegin, ScopeEnd> node;
  std::vector<Token> tokens; // empty for a node that code added
  const Instruction* instruction() const { return std::get_if<Instruction>(&node); }
};

struct Function {
  std::string name;
  bool entry = false;
  bool has_body = false;
  Variable::Linkage linkage = Variable::Linkage::none;
  std::vector<Variable> results, params;
  std::vector<Register> registers;
  std::vector<Variable> variables; // .local, .shared, .param, .const declared in the body, scopes included
  std::vector<Statement> body;
  std::map<std::string, std::uint32_t, std::less<>> labels; // unique name → index into body, labelled directives too
  std::optional<Dim3> maxntid, reqntid, reqnctapercluster;
  std::uint32_t minnctapersm = 0, maxnreg = 0, maxclusterrank = 0;
  bool explicitcluster = false, noreturn = false;
  std::vector<Token> head, tail; // tokens before the body's '{' (inclusive) and from '}' on
};

struct Module {
  std::shared_ptr<const std::string> text;
  std::shared_ptr<const std::deque<std::string>> names; // unique label names that are not in the text
  unsigned version = 0; // 90 for 9.0
  std::string target; // "sm_90a"
  bool debug = false; // .target says so: code that was not optimized, whose lines do not tell what was inlined
  unsigned address_size = 64;
  std::map<std::uint32_t, std::string> files; // .file number → path
  std::vector<Location> locations;
  std::vector<Variable> variables; // module scope
  std::vector<Function> functions; // declarations too (has_body false)
  // Module-scope pieces in source order: the token stream of directives and variables, and functions by index.
  struct Piece {
    std::vector<Token> tokens = {};
    std::int32_t function = -1;
    std::string text = {}; // of a piece that code added
  };
  std::vector<Piece> pieces;
  std::vector<Token> end; // trivia at the end of the text

  const Function* function(std::string_view name) const; // definition if there is one, else declaration
  const Variable* variable(std::string_view name) const;
};

} // namespace deadheat::ptx
