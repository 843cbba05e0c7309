#include "tracer/ptx/rewrite.h"

#include <deque>
#include <optional>
#include <utility>

#include "tracer/ptx/operands.h"
#include "tracer/ptx/parse.h"

namespace deadheat::ptx {

bool count_may_be_zero(const Function& f, const Instruction& i) {
  if (i.opcode != Opcode::mbarrier || !i.has(Modifier::init) || i.operands.size() != 2) return false;
  const Operand& count = i.operands[1];
  if (count.kind != Operand::Kind::reg) return count.kind != Operand::Kind::integer || count.bits == 0;
  bool constant = false, other = false;  // definitions
  each_instruction(f, [&](std::size_t, const Instruction& definition) {
    for (const RegisterId written : register_use(definition).writes) {
      if (written != count.reg) continue;
      const bool moved = definition.opcode == Opcode::mov && definition.operands.size() == 2 &&
                         definition.operands[1].kind == Operand::Kind::integer && definition.operands[1].bits != 0;
      (moved ? constant : other) = true;
    }
  });
  return other || !constant;
}

std::string hidden_count(const Function& f, const Instruction& i, const std::string& to) {
  // Grids have fewer than 2^31 blocks along x: 0, which an assembler does not know.
  return "\n\tmov.u32 " + to + ", %ctaid.x;\n\tshr.u32 " + to + ", " + to + ", 31;\n\tadd.u32 " + to + ", " + to +
         ", " + print(i.operands[1], f) + ";";
}

std::string assemblable(const Statement& statement, const Function& f) {
  const Instruction* i = statement.instruction();
  if (!i || !count_may_be_zero(f, *i)) return print(statement, f);
  const std::string guard = i->guard ? (i->guard->negated ? "@!" : "@") + f.registers[i->guard->reg].name + " " : "";
  return "\n\t{\n\t.reg .b32 %dh_count;" + hidden_count(f, *i, "%dh_count") + "\n\t" + guard + i->full_opcode() + " " +
         print(i->operands[0], f) + ", %dh_count;\n\t}";
}

namespace {

std::string print_assemblable(const Function& function) {
  std::deque<std::string> texts;
  std::optional<Function> changed;
  each_instruction(function, [&](std::size_t s, const Instruction& i) {
    if (!count_may_be_zero(function, i)) return;
    if (!changed) changed = function;
    texts.push_back(assemblable(function.body[s], function));
    changed->body[s].tokens = {{"", texts.back()}};
  });
  return print(changed ? *changed : function);
}

}  // namespace

std::string print_with(const Module& module, const std::string& added) {
  std::size_t last = 0;
  for (std::size_t p = 0; p < module.pieces.size(); ++p) {
    if (module.pieces[p].function >= 0) last = p;
  }
  std::string text;
  for (std::size_t p = 0; p < module.pieces.size(); ++p) {
    const Module::Piece& piece = module.pieces[p];
    for (const Token& token : piece.tokens) {
      text += token.trivia;
      text += token.text;
    }
    text += piece.text;
    if (piece.function >= 0) text += print_assemblable(module.functions[std::size_t(piece.function)]);
    if (p == last) text += added;
  }
  for (const Token& token : module.end) {
    text += token.trivia;
    text += token.text;
  }
  return text;
}

Function clone_head(const Function& original, std::string name) {
  Function f;
  f.name = std::move(name);
  f.entry = original.entry;
  f.linkage = original.entry ? Variable::Linkage::visible : Variable::Linkage::none;
  f.results = original.results;
  f.params = original.params;
  f.maxntid = original.maxntid;
  f.reqntid = original.reqntid;
  f.reqnctapercluster = original.reqnctapercluster;
  f.maxclusterrank = original.maxclusterrank;
  f.explicitcluster = original.explicitcluster;
  f.noreturn = original.noreturn;
  // Whatever block the original may be launched with, registers must be found for.
  if (f.entry && !f.maxntid && !f.reqntid) f.maxntid = Dim3{1024, 1, 1};
  return f;
}

std::string linear_indices(const std::string& block, const std::string& thread, const std::string& scratch_0,
                           const std::string& scratch_1) {
  std::string text;
  auto index = [&](const std::string& to, const std::string& at, const std::string& extent) {
    text += "\n\tmov.u32 " + scratch_0 + ", %" + at + ".z;";
    for (const char* axis : {".y", ".x"}) {
      text += "\n\tmov.u32 " + scratch_1 + ", %" + extent + axis + ";";
      text += "\n\tmul.lo.u32 " + scratch_0 + ", " + scratch_0 + ", " + scratch_1 + ";";
      text += "\n\tmov.u32 " + scratch_1 + ", %" + at + axis + ";";
      text += "\n\tadd.u32 " + (axis[1] == 'x' ? to : scratch_0) + ", " + scratch_0 + ", " + scratch_1 + ";";
    }
  };
  index(block, "ctaid", "nctaid");
  index(thread, "tid", "ntid");
  return text;
}

}  // namespace deadheat::ptx
