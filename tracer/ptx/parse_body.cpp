// Function bodies: statements, directives, instructions, labels (PTX ISA 4.3, 9.7, 11.5).
#include <algorithm>

#include "tracer/ptx/names.h"
#include "tracer/ptx/parser.h"

namespace deadheat::ptx {

void Parser::add(Function& function, std::variant<Instruction, Label, Directive, ScopeBegin, ScopeEnd> node,
                 std::size_t first) {
  function.body.push_back({std::move(node), tokens(first, next_)});
}

bool Parser::parse_body(Function& function) {
  scope_parents_.assign(1, 0);
  open_scopes_.assign(1, 0);
  label_uses_.clear();
  label_declarations_.clear();
  declared_labels_.clear();
  for (;;) {
    std::size_t first = next_;
    if (accept('{')) {
      if (open_scopes_.size() > max_scope_depth) return fail_at(first, "scopes nested less deeply");
      std::uint32_t scope = std::uint32_t(scope_parents_.size());
      scope_parents_.push_back(open_scopes_.back());
      open_scopes_.push_back(scope);
      scopes_.enter();
      add(function, ScopeBegin{}, first);
    } else if (accept('}')) {
      if (open_scopes_.size() == 1) {
        function.tail = tokens(first, next_);
        return resolve_labels(function);
      }
      open_scopes_.pop_back();
      scopes_.leave();
      add(function, ScopeEnd{}, first);
    } else if (accept(';')) {
      add(function, Directive{}, first);
    } else if (at(Lexeme::Kind::dotted)) {
      if (!parse_directive(function)) return false;
    } else if (at(Lexeme::Kind::identifier) && at(':', 1)) {
      if (!parse_label(function)) return false;
    } else if (at(Lexeme::Kind::identifier) || at('@')) {
      if (!parse_instruction(function)) return false;
    } else {
      return fail(at(Lexeme::Kind::end) ? "'}'" : "an instruction, a directive or a label");
    }
  }
}

void Parser::declare_label(Function& function, std::string_view name) {
  label_declarations_.push_back({name, std::uint32_t(function.body.size()), open_scopes_.back()});
  declared_labels_.insert(name);
}

bool Parser::parse_label(Function& function) {
  std::size_t first = next_;
  std::string_view name = word();
  next_ += 2;
  declare_label(function, name);
  if (at_word(".branchtargets") || at_word(".calltargets") || at_word(".callprototype")) {
    Directive directive;
    directive.name = word();
    directive.label = name;
    bool prototype = at_word(".callprototype");
    ++next_;
    if (prototype ? !parse_prototype(directive) : !parse_targets(directive)) return false;
    add(function, std::move(directive), first);
    return true;
  }
  add(function, Label{std::string(name)}, first);
  return true;
}

bool Parser::parse_targets(Directive& directive) {
  do {
    if (!at(Lexeme::Kind::identifier)) return fail("a label");
    if (directive.name == ".branchtargets") {
      // The statement is added after its targets: its index is the number of statements so far, known to the caller.
      label_uses_.push_back(
          {label_declarations_.back().statement, std::uint32_t(directive.targets.size()), open_scopes_.back(), next_});
    }
    directive.targets.emplace_back(word());
    ++next_;
  } while (accept(','));
  return expect(';');
}

// .callprototype [(result)] _ [(params)] directives ;
bool Parser::parse_prototype(Directive& directive) {
  if (at('(') && !parse_signature_variables(directive.results, true)) return false;
  if (!at(Lexeme::Kind::identifier)) return fail("'_'");
  ++next_;
  if (at('(') && !parse_signature_variables(directive.params, true)) return false;
  Function ignored;
  return parse_performance_directives(ignored) && expect(';');
}

bool Parser::parse_directive(Function& function) {
  std::size_t first = next_;
  Directive directive;
  directive.name = word();
  if (directive.name == ".loc") {
    if (!parse_location()) return false;
  } else if (directive.name == ".reg") {
    if (!parse_registers()) return false;
  } else if (find_space(directive.name.substr(1))) {
    std::size_t before = function.variables.size();
    if (!parse_variables(Variable::Linkage::none, function.variables)) return false;
    for (std::size_t i = before; i < function.variables.size(); ++i) {
      scopes_.declare_variable(declared_names_[i - before], std::uint32_t(i));
    }
  } else {
    // .pragma and what later versions add: up to ';'.
    while (!at(';')) {
      if (at(Lexeme::Kind::end) || at('{') || at('}')) return fail("';'");
      ++next_;
    }
    ++next_;
  }
  add(function, std::move(directive), first);
  return true;
}

// .reg [.v2|.v4] .type name, name<100>; (PTX ISA 5.1.1, 5.4.6)
bool Parser::parse_registers() {
  ++next_;
  Variable variable;
  bool in_register = true;
  if (!parse_variable_prefix(variable, in_register)) return false;
  std::uint8_t vector = std::uint8_t(variable.vector);
  do {
    if (!at(Lexeme::Kind::identifier)) return fail("a register name");
    std::string_view name = word();
    ++next_;
    if (accept('<')) {
      std::uint32_t count = 0;
      if (!parse_count(count) || !expect('>')) return false;
      scopes_.declare_range(name, count, variable.type, vector);
    } else {
      scopes_.declare_register(name, variable.type, vector);
    }
  } while (accept(','));
  return expect(';');
}

std::size_t Parser::LocationHash::operator()(const LocationKey& key) const {
  std::uint64_t h = std::hash<std::string_view>()(key.function);
  for (std::uint64_t part : {std::uint64_t(key.file), std::uint64_t(key.line), std::uint64_t(key.column),
                             std::uint64_t(key.inlined_at), key.offset}) {
    h = (h ^ part) * 0x9e3779b97f4a7c15ull;
    h ^= h >> 32;
  }
  return h;
}

std::uint32_t Parser::intern_location(const LocationKey& key) {
  auto [entry, added] = location_numbers_.try_emplace(key, std::uint32_t(module_.locations.size()));
  if (added) {
    Location location;
    location.file = key.file;
    location.line = key.line;
    location.column = key.column;
    location.inlined_at = key.inlined_at;
    module_.locations.push_back(std::move(location));
    if (!key.function.empty()) function_names_.push_back({entry->second, key.function, key.offset});
  }
  return entry->second;
}

// .loc file line column [, function_name label[+n], inlined_at file line column] (PTX ISA 11.5.3). The place that
// inlined_at names is the latest .loc of this function at that place. Line 0 is none: the compiler made one instruction
// of several lines' or moved it. It counts as of the line before it, in what was inlined elsewhere as of the call.
bool Parser::parse_location() {
  ++next_;
  LocationKey key{};
  if (!parse_count(key.file) || !parse_count(key.line) || !parse_count(key.column)) return false;
  auto place_key = [](std::uint32_t file, std::uint32_t line, std::uint32_t column) {
    return (std::uint64_t(file) << 48) ^ (std::uint64_t(line) << 16) ^ column;
  };
  while (accept(',')) {
    if (accept("function_name")) {
      if (!at(Lexeme::Kind::identifier)) return fail("a label");
      key.function = word();
      ++next_;
      if (accept('+') && !parse_integer(key.offset)) return false;
    } else if (accept("inlined_at")) {
      std::uint32_t file = 0, line = 0, column = 0;
      if (!parse_count(file) || !parse_count(line) || !parse_count(column)) return false;
      auto call = latest_location_.find(place_key(file, line, column));
      key.inlined_at = call != latest_location_.end() ? call->second : intern_location({file, line, column, 0, 0, {}});
    } else {
      return fail("function_name or inlined_at");
    }
  }
  const bool none = key.line == 0;
  if (none && key.inlined_at != 0 && module_.locations[location_].inlined_at != key.inlined_at) {
    location_ = key.inlined_at;
  } else if (!none || location_ == 0) {
    location_ = intern_location(key);
  }
  latest_location_[place_key(key.file, key.line, key.column)] = location_;
  return true;
}

bool Parser::parse_guard(Instruction& instruction) {
  if (!accept('@')) return true;
  Guard guard;
  guard.negated = accept('!');
  ScopedName name = at(Lexeme::Kind::identifier) ? scopes_.find(word()) : ScopedName{};
  if (name.kind != ScopedName::Kind::reg) return fail("a declared predicate register");
  guard.reg = name.id;
  ++next_;
  instruction.guard = guard;
  return true;
}

bool Parser::parse_opcode(Instruction& instruction) {
  if (!at(Lexeme::Kind::identifier)) return fail("an opcode");
  instruction.opcode_text = word();
  instruction.opcode = find_opcode(word());
  ++next_;
  std::size_t count = 0;
  while (at(Lexeme::Kind::dotted, count)) ++count;
  instruction.modifier_texts.reserve(count);
  for (; at(Lexeme::Kind::dotted); ++next_) {
    std::string_view text = word().substr(1);
    instruction.modifier_texts.push_back(text);
    if (std::optional<Type> type = find_type(text)) {
      instruction.types.push_back(*type);
    } else {
      instruction.modifiers.push_back(find_modifier(text));
    }
  }
  std::sort(instruction.modifiers.begin(), instruction.modifiers.end());
  return true;
}

bool Parser::parse_instruction(Function& function) {
  std::size_t first = next_;
  Instruction instruction;
  instruction.location = location_;
  if (!parse_guard(instruction)) return false;
  instruction.source_line = peek().line;
  if (!parse_opcode(instruction)) return false;
  if (instruction.opcode == Opcode::call) {
    if (!parse_call(instruction)) return false;
  } else {
    if (!at(';')) {
      do {
        Operand operand;
        std::size_t start = next_;
        if (!parse_operand(operand, instruction)) {
          if (instruction.opcode != Opcode::unknown) return false;
          failed_ = false; // operands of unknown instructions are kept as text when they have an unknown form
          next_ = start;
          skip_operand();
          operand = Operand{};
          operand.text = span(start, next_);
        }
        if (operand.kind == Operand::Kind::label) {
          label_uses_.push_back({std::uint32_t(function.body.size()), std::uint32_t(instruction.operands.size()),
                                 open_scopes_.back(), start});
        }
        instruction.operands.push_back(std::move(operand));
      } while (accept(','));
    }
  }
  if (!expect(';')) return false;
  if (instruction.opcode == Opcode::call && instruction.operands.size() == 4 &&
      instruction.operands[3].kind == Operand::Kind::label) {
    label_uses_.push_back({std::uint32_t(function.body.size()), 3, open_scopes_.back(), next_ - 2});
  }
  add(function, std::move(instruction), first);
  return true;
}

// call [(result),] callee [, (arguments)] [, prototype or targets]  (PTX ISA 9.7.12.5)
bool Parser::parse_call(Instruction& instruction) {
  Operand results, callee, arguments;
  results.kind = arguments.kind = Operand::Kind::list;
  if (at('(')) {
    if (!parse_operand(results, instruction) || !expect(',')) return false;
  }
  if (!at(Lexeme::Kind::identifier)) return fail("a function name or a register");
  if (!parse_operand(callee, instruction)) return false;
  bool more = accept(',');
  if (more && at('(')) {
    if (!parse_operand(arguments, instruction)) return false;
    more = accept(',');
  }
  instruction.operands.push_back(std::move(results));
  instruction.operands.push_back(std::move(callee));
  instruction.operands.push_back(std::move(arguments));
  if (more) {
    if (!at(Lexeme::Kind::identifier)) return fail("a prototype or a target list");
    Operand target;
    target.text = word();
    // A prototype or .calltargets list of this function, else a call table: a variable that holds function addresses.
    bool declared = declared_labels_.count(target.text) != 0;
    target.kind = declared ? Operand::Kind::label : Operand::Kind::symbol;
    ++next_;
    instruction.operands.push_back(std::move(target));
  }
  return true;
}

// Binds label uses to declarations by scope. Where a name is declared once, it means that one; where nested scopes
// declare it again (inline assembly that the compiler repeated), declarations after the first get a name of their own.
bool Parser::resolve_labels(Function& function) {
  struct Named {
    std::uint32_t count = 0, first = 0; // index into label_declarations_
  };
  std::unordered_map<std::string_view, Named> by_name;
  for (std::uint32_t i = 0; i < label_declarations_.size(); ++i) {
    Named& named = by_name[label_declarations_[i].name];
    if (named.count++ == 0) named.first = i;
  }
  std::unordered_map<std::string_view, std::uint32_t> suffixes;
  std::unordered_map<std::uint64_t, std::string_view> in_scope; // (scope, first declaration) → unique name
  for (std::uint32_t i = 0; i < label_declarations_.size(); ++i) {
    LabelDeclaration& declaration = label_declarations_[i];
    const Named& named = by_name[declaration.name];
    std::string_view unique = declaration.name;
    if (named.first != i) {
      std::string renamed;
      do {
        renamed = std::string(declaration.name) + "$" + std::to_string(++suffixes[declaration.name]);
      } while (by_name.count(renamed));
      unique = names_->emplace_back(std::move(renamed));
      Statement& statement = function.body[declaration.statement];
      if (auto* label = std::get_if<Label>(&statement.node)) label->name = unique;
      if (auto* directive = std::get_if<Directive>(&statement.node)) directive->label = unique;
    }
    if (named.count > 1) {
      if (!in_scope.emplace((std::uint64_t(declaration.scope) << 32) | named.first, unique).second) {
        error_ = {"label '" + std::string(declaration.name) + "' is declared twice in one scope",
                  place(text_, origin_, std::size_t(declaration.name.data() - text_.data()))};
        return false;
      }
    }
    function.labels.emplace(unique, declaration.statement);
  }
  for (const LabelUse& use : label_uses_) {
    Statement& statement = function.body[use.statement];
    auto* instruction = std::get_if<Instruction>(&statement.node);
    std::string_view name = view(lexemes_[use.lexeme]);
    auto named = by_name.find(name);
    if (named == by_name.end()) return fail_at(use.lexeme, "a label of this function");
    if (named->second.count == 1) continue;
    std::uint32_t scope = use.scope;
    for (;;) {
      auto found = in_scope.find((std::uint64_t(scope) << 32) | named->second.first);
      if (found != in_scope.end()) {
        if (instruction) {
          instruction->operands[use.operand].text = found->second;
        } else {
          std::get<Directive>(statement.node).targets[use.operand] = found->second;
        }
        break;
      }
      if (scope == 0) return fail_at(use.lexeme, "a label of this scope");
      scope = scope_parents_[scope];
    }
  }
  return true;
}

} // namespace deadheat::ptx
