// From the PTX model back to text (tracer/ptx/parse.h).
#include <cstdio>

#include "tracer/ptx/parse.h"

namespace deadheat::ptx {
namespace {

void append(std::string& out, const std::vector<Token>& tokens) {
  for (const Token& token : tokens) {
    out += token.trivia;
    out += token.text;
  }
}

void append_hex(std::string& out, const char* prefix, std::uint64_t bits, int digits) {
  char text[24];
  std::snprintf(text, sizeof text, "%s%0*llX", prefix, digits, static_cast<unsigned long long>(bits));
  out += text;
}

void append_offset(std::string& out, std::int64_t offset) {
  if (offset != 0) out += "+" + std::to_string(offset);  // PTX writes [%rd1+-8]
}

void append_operands(std::string& out, const std::vector<Operand>& operands, std::size_t first, const Function& f);

void append_operand(std::string& out, const Operand& operand, const Function& f) {
  using Kind = Operand::Kind;
  switch (operand.kind) {
    case Kind::reg: {
      if (operand.negated) out += operand.text.starts_with('-') ? '-' : '!';
      const std::string& name = f.registers[operand.reg].name;
      out += name;
      std::size_t dot = operand.text.find('.');
      if (dot != std::string_view::npos && name.find('.') == std::string::npos) out += operand.text.substr(dot);
      break;
    }
    case Kind::integer: out += std::to_string(std::int64_t(operand.bits)); break;
    case Kind::f32: append_hex(out, "0f", operand.bits & 0xffffffffu, 8); break;
    case Kind::f64: append_hex(out, "0d", operand.bits, 16); break;
    case Kind::symbol:
      if (operand.negated) out += '-';
      out += operand.text;
      append_offset(out, operand.offset);
      break;
    case Kind::address:
      out += '[';
      if (!operand.elements.empty()) append_operand(out, operand.elements[0], f);
      append_offset(out, operand.offset);
      if (operand.elements.size() > 1) out += ", ";
      append_operands(out, operand.elements, 1, f);
      out += ']';
      break;
    case Kind::vector:
      out += '{';
      append_operands(out, operand.elements, 0, f);
      out += '}';
      break;
    case Kind::list:
      out += '(';
      append_operands(out, operand.elements, 0, f);
      out += ')';
      break;
    case Kind::pair:
      append_operand(out, operand.elements[0], f);
      out += '|';
      append_operand(out, operand.elements[1], f);
      break;
    case Kind::sink: out += '_'; break;
    case Kind::special:
    case Kind::label:
    case Kind::tokens: out += operand.text; break;
  }
}

void append_operands(std::string& out, const std::vector<Operand>& operands, std::size_t first, const Function& f) {
  for (std::size_t i = first; i < operands.size(); ++i) {
    if (i != first) out += ", ";
    append_operand(out, operands[i], f);
  }
}

void append_call(std::string& out, const std::vector<Operand>& operands, const Function& f) {
  bool separate = false;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    // Empty lists are written only where a later operand needs one before it.
    bool empty = operands[i].kind == Operand::Kind::list && operands[i].elements.empty();
    if (empty && (i == 0 || i + 1 == operands.size())) continue;
    if (separate) out += ", ";
    append_operand(out, operands[i], f);
    separate = true;
  }
}

void append_instruction(std::string& out, const Instruction& i, const Function& f) {
  if (i.guard) {
    out += i.guard->negated ? "@!" : "@";
    out += f.registers[i.guard->reg].name;
    out += ' ';
  }
  out += i.full_opcode();
  if (!i.operands.empty()) out += ' ';
  if (i.opcode == Opcode::call) {
    append_call(out, i.operands, f);
  } else {
    append_operands(out, i.operands, 0, f);
  }
  out += ';';
}

void append_body_statement(std::string& out, const Statement& statement, const Function& function) {
  if (!statement.tokens.empty()) {
    append(out, statement.tokens);
  } else {
    out += std::holds_alternative<Label>(statement.node) ? "\n" : "\n\t";
    out += print(statement, function);
  }
}

void append_dimensions(std::string& out, const char* name, const std::optional<Dim3>& d) {
  if (!d) return;
  out +=
      std::string(" ") + name + " " + std::to_string(d->x) + ", " + std::to_string(d->y) + ", " + std::to_string(d->z);
}

void append_signature(std::string& out, const std::vector<Variable>& variables) {
  out += '(';
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (i != 0) out += ", ";
    out += print(variables[i]);
  }
  out += ')';
}

std::string_view linkage_text(Variable::Linkage linkage) {
  switch (linkage) {
    case Variable::Linkage::none: return "";
    case Variable::Linkage::extern_: return ".extern ";
    case Variable::Linkage::visible: return ".visible ";
    case Variable::Linkage::weak: return ".weak ";
    case Variable::Linkage::common: return ".common ";
  }
  return "";
}

std::string_view space_text(Space space) {
  switch (space) {
    case Space::generic: return ".reg";
    case Space::global: return ".global";
    case Space::shared: return ".shared";
    case Space::local: return ".local";
    case Space::param: return ".param";
    case Space::constant: return ".const";
  }
  return "";
}

}  // namespace

std::string print(const Operand& operand, const Function& function) {
  std::string out;
  append_operand(out, operand, function);
  return out;
}

std::string print(const Instruction& instruction, const Function& function) {
  std::string out;
  append_instruction(out, instruction, function);
  return out;
}

std::string print(const Statement& statement, const Function& function) {
  std::string out;
  if (!statement.tokens.empty()) {
    append(out, statement.tokens);
  } else if (const Instruction* instruction = statement.instruction()) {
    append_instruction(out, *instruction, function);
  } else if (const Label* label = std::get_if<Label>(&statement.node)) {
    out = label->name + ":";
  } else if (const Directive* directive = std::get_if<Directive>(&statement.node)) {
    out = directive->text;
  } else {
    out = std::holds_alternative<ScopeBegin>(statement.node) ? "{" : "}";
  }
  return out;
}

std::string print(const Variable& v) {
  std::string out(space_text(v.space));
  if (v.managed) out += " .attribute(.managed)";
  if (v.align != 0 && v.space != Space::generic && !v.pointer) out += " .align " + std::to_string(v.align);
  if (v.vector != 1) out += " .v" + std::to_string(v.vector);
  out += " .";
  out += name(v.type);
  if (v.pointer) {
    out += " .ptr";
    if (v.pointee_space != Space::generic) out += " " + std::string(space_text(v.pointee_space));
    if (v.pointee_align != 0) out += " .align " + std::to_string(v.pointee_align);
  }
  out += " " + v.name;
  for (std::uint64_t d : v.dimensions) out += d == 0 ? "[]" : "[" + std::to_string(d) + "]";
  return out;
}

std::string print_head(const Function& f) {
  std::string out(linkage_text(f.linkage));
  out += f.entry ? ".entry " : ".func ";
  if (!f.results.empty()) {
    append_signature(out, f.results);
    out += ' ';
  }
  out += f.name;
  if (!f.params.empty() || f.entry) append_signature(out, f.params);
  append_dimensions(out, ".maxntid", f.maxntid);
  append_dimensions(out, ".reqntid", f.reqntid);
  append_dimensions(out, ".reqnctapercluster", f.reqnctapercluster);
  if (f.minnctapersm) out += " .minnctapersm " + std::to_string(f.minnctapersm);
  if (f.maxnreg) out += " .maxnreg " + std::to_string(f.maxnreg);
  if (f.maxclusterrank) out += " .maxclusterrank " + std::to_string(f.maxclusterrank);
  if (f.explicitcluster) out += " .explicitcluster";
  if (f.noreturn) out += " .noreturn";
  return out;
}

std::string print(const Function& function) {
  std::string out;
  if (function.head.empty()) {
    out += "\n" + print_head(function) + (function.has_body ? "\n{" : ";");
  } else {
    append(out, function.head);
  }
  for (const Statement& statement : function.body) append_body_statement(out, statement, function);
  if (function.tail.empty() && function.has_body) out += "\n}\n";
  append(out, function.tail);
  return out;
}

std::string print(const Module& module) {
  std::string out;
  if (module.text) out.reserve(module.text->size() + 1024);
  for (const Module::Piece& piece : module.pieces) {
    append(out, piece.tokens);
    out += piece.text;
    if (piece.function >= 0) out += print(module.functions[std::size_t(piece.function)]);
  }
  append(out, module.end);
  return out;
}

// Members of the model that need code.

bool Instruction::has(Modifier m) const {
  for (Modifier modifier : modifiers) {
    if (modifier == m) return true;
  }
  return false;
}

std::string Instruction::full_opcode() const {
  std::string out(opcode_text);
  for (std::string_view text : modifier_texts) {
    out += '.';
    out += text;
  }
  return out;
}

const Function* Module::function(std::string_view name) const {
  const Function* declaration = nullptr;
  for (const Function& f : functions) {
    if (f.name != name) continue;
    if (f.has_body) return &f;
    declaration = &f;
  }
  return declaration;
}

const Variable* Module::variable(std::string_view name) const {
  for (const Variable& v : variables) {
    if (v.name == name) return &v;
  }
  return nullptr;
}

}  // namespace deadheat::ptx
