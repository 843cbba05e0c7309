// The parser behind tracer/ptx/parse.h: recursive descent over lexemes. Private to tracer/ptx.
//
// Split by what is parsed: parse_module.cpp (module, functions, sections), parse_variable.cpp (declarations,
// initializers, constant expressions), parse_body.cpp (statements, directives, instructions), parse_operand.cpp.
//
// Invariants: a parse_* method returns false after the first failure, which error() describes; recursion is bounded by
// max_expression_depth, max_list_depth; scopes nest at most max_scope_depth deep and use no recursion.
//
// Thread-safety: one parser, one text, one thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "deadheat/expected.h"
#include "deadheat/ptx.h"
#include "tracer/ptx/debug_info.h"
#include "tracer/ptx/lexer.h"
#include "tracer/ptx/parse.h"
#include "tracer/ptx/scopes.h"

namespace deadheat::ptx {

// The value of a constant expression (PTX ISA 4.5): 64 bits that are signed or unsigned, or a floating-point literal.
struct Constant {
  enum class Kind : std::uint8_t { s64, u64, f32, f64 };
  Kind kind = Kind::s64;
  std::uint64_t bits = 0;
};

class Parser {
 public:
  Parser(std::shared_ptr<const std::string> text, std::string_view origin, std::vector<Lexeme> lexemes);
  Expected<Module> run(const ParseOptions& options);

 private:
  static constexpr int max_expression_depth = 100;
  static constexpr int max_list_depth = 4;
  static constexpr std::uint32_t max_scope_depth = 256;
  static constexpr std::uint64_t max_initializer_bytes = std::uint64_t(256) << 20;  // of one module

  // The cursor.
  const Lexeme& peek(std::size_t ahead = 0) const;
  std::string_view view(const Lexeme& lexeme) const { return text_.substr(lexeme.begin, lexeme.end - lexeme.begin); }
  std::string_view word(std::size_t ahead = 0) const { return view(peek(ahead)); }
  std::string_view span(std::size_t first, std::size_t last) const; // text of lexemes [first, last), inner trivia too
  bool at(char mark, std::size_t ahead = 0) const;
  bool at(Lexeme::Kind kind, std::size_t ahead = 0) const { return peek(ahead).kind == kind; }
  bool at_word(std::string_view text) const { return word() == text; }
  bool accept(char mark);
  bool accept(std::string_view text);
  bool expect(char mark);
  bool fail(std::string_view expected) { return fail_at(next_, expected); } // always false; "expected …, found …"
  bool fail_at(std::size_t lexeme, std::string_view expected);
  Error error() const;
  std::vector<Token> tokens(std::size_t first, std::size_t last) const;

  // parse_module.cpp
  bool parse_module_item();
  bool parse_header_directive();
  bool parse_alias();
  void resolve_aliases();
  bool parse_file();
  bool parse_section();
  bool parse_function(Variable::Linkage linkage, std::size_t first);
  bool parse_performance_directives(Function& function);
  bool parse_dimensions(std::optional<Dim3>& dimensions);
  bool parse_signature_variables(std::vector<Variable>& variables, bool prototype);
  bool skip_balanced(); // from '{' to its '}'
  void name_inlined_functions();

  // parse_variable.cpp
  bool parse_variable_prefix(Variable& variable, bool& in_register);
  bool parse_declarator(Variable& variable);
  bool parse_variables(Variable::Linkage linkage, std::vector<Variable>& variables);
  bool parse_initializer(Variable& variable);
  bool parse_initializer_list(Variable& variable, std::vector<std::uint8_t>& bytes, std::size_t dimension,
                              std::uint64_t offset);
  bool parse_initializer_value(Variable& variable, std::vector<std::uint8_t>& bytes, std::uint64_t offset);
  bool parse_symbol_value(Variable& variable, Variable::Relocation& relocation);
  bool store(std::vector<std::uint8_t>& bytes, std::uint64_t offset, std::uint64_t value, unsigned width);
  bool parse_constant(Constant& constant, int depth = 0);
  bool parse_integer(std::uint64_t& value); // a constant expression that is an integer
  bool parse_count(std::uint32_t& value); // one number below 2^32
  bool parse_binary(Constant& left, int level, int depth);
  bool parse_unary(Constant& value, int depth);
  bool parse_number(Constant& constant);

  // parse_body.cpp
  bool parse_body(Function& function);
  bool parse_label(Function& function);
  bool parse_directive(Function& function);
  bool parse_registers();
  bool parse_location();
  bool parse_targets(Directive& directive);
  bool parse_prototype(Directive& directive);
  bool parse_instruction(Function& function);
  bool parse_opcode(Instruction& instruction);
  bool parse_guard(Instruction& instruction);
  bool parse_call(Instruction& instruction);
  void declare_label(Function& function, std::string_view name);
  bool resolve_labels(Function& function);
  void add(Function& function, std::variant<Instruction, Label, Directive, ScopeBegin, ScopeEnd> node,
           std::size_t first);

  // parse_operand.cpp
  bool parse_operand(Operand& operand, const Instruction& instruction, int depth = 0);
  bool parse_operand_list(Operand& operand, char close, const Instruction& instruction, int depth);
  bool parse_address(Operand& operand, const Instruction& instruction, int depth);
  bool parse_name(Operand& operand);
  void skip_operand();
  bool is_label_operand(const Instruction& instruction) const;

  struct LabelUse { // in body[statement]: an operand of an instruction or a target of a directive
    std::uint32_t statement = 0, operand = 0, scope = 0;
    std::size_t lexeme = 0;
  };
  struct LabelDeclaration {
    std::string_view name;
    std::uint32_t statement = 0, scope = 0;
  };
  struct LocationKey {
    std::uint32_t file, line, column, inlined_at;
    std::uint64_t offset;
    std::string_view function;
    friend bool operator==(const LocationKey&, const LocationKey&) = default;
  };
  struct LocationHash {
    std::size_t operator()(const LocationKey& key) const;
  };
  std::uint32_t intern_location(const LocationKey& key);

  std::shared_ptr<const std::string> owned_;
  std::string_view text_;
  std::string origin_;
  std::vector<Lexeme> lexemes_;
  std::size_t next_ = 0;
  bool failed_ = false; // what was expected where: made into an Error only at the end, operands are tried
  std::size_t failed_lexeme_ = 0;
  std::string expected_;
  Error error_; // a failure that no lexeme explains; overrides them
  Module module_;
  std::map<std::string_view, std::string_view, std::less<>> aliases_;
  std::shared_ptr<std::deque<std::string>> names_ = std::make_shared<std::deque<std::string>>();
  std::uint64_t initializer_bytes_ = 0;

  // Of the current function.
  Scopes scopes_;
  std::vector<std::uint32_t> scope_parents_, open_scopes_; // scopes are numbered in order, the body is 0
  std::vector<LabelUse> label_uses_;
  std::vector<LabelDeclaration> label_declarations_;
  std::unordered_set<std::string_view> declared_labels_;
  std::vector<std::string_view> declared_names_; // by the latest parse_variables
  std::uint32_t location_ = 0;
  std::unordered_map<std::uint64_t, std::uint32_t> latest_location_; // by hash of (file, line, column)

  // Of the module.
  std::unordered_map<LocationKey, std::uint32_t, LocationHash> location_numbers_;
  struct FunctionName { // the name of a location's function: a string in a section
    std::uint32_t location = 0;
    std::string_view label;
    std::uint64_t offset = 0;
  };
  std::vector<FunctionName> function_names_;
  struct SectionLabel {
    std::uint32_t section = 0;
    std::uint64_t offset = 0;
  };
  std::vector<std::string> section_bytes_;
  DebugSection debug_info_, debug_abbreviations_; // the last ones of their names
  std::unordered_map<std::string_view, SectionLabel> section_labels_;
};

} // namespace deadheat::ptx
