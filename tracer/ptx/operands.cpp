#include "tracer/ptx/operands.h"

namespace deadheat::ptx {
namespace {

// Opcodes whose first operand is read although it is no address. All others write it (PTX ISA 9.7, by section).
bool has_no_result(const Instruction& i) {
  switch (i.opcode) {
    case Opcode::bra:
    case Opcode::brx:
    case Opcode::ret:
    case Opcode::exit:
    case Opcode::trap:
    case Opcode::brkpt:
    case Opcode::fence:
    case Opcode::membar:
    case Opcode::nanosleep:
    case Opcode::pmevent:
    case Opcode::setmaxnreg:
    case Opcode::griddepcontrol:
    case Opcode::stackrestore:
    case Opcode::prefetch:
    case Opcode::prefetchu:
    case Opcode::discard:
    case Opcode::applypriority:
    case Opcode::st:
    case Opcode::red:
    case Opcode::stmatrix:
    case Opcode::sust:
    case Opcode::sured:
    case Opcode::cp:
    case Opcode::tensormap: return true;
    case Opcode::bar:
    case Opcode::barrier: return !i.has(Modifier::red);
    case Opcode::wmma: return i.has(Modifier::store);
    case Opcode::wgmma: return !i.has(Modifier::mma_async);
    case Opcode::multimem: return !i.has(Modifier::ld_reduce);
    case Opcode::tcgen05: return !i.has(Modifier::ld);
    case Opcode::clusterlaunchcontrol: return i.has(Modifier::try_cancel);
    default: return false;
  }
}

void collect(const Operand& operand, std::vector<RegisterId>& registers) {
  if (operand.kind == Operand::Kind::reg) registers.push_back(operand.reg);
  for (const Operand& element : operand.elements) collect(element, registers);
}

}  // namespace

std::size_t destination_count(const Instruction& instruction) {
  if (instruction.operands.empty() || has_no_result(instruction)) return 0;
  return instruction.operands[0].kind == Operand::Kind::address ? 0 : 1;
}

bool reads_destination(const Instruction& instruction) {
  if (instruction.opcode == Opcode::wgmma) return instruction.has(Modifier::mma_async);
  if (instruction.opcode == Opcode::unknown) return true;
  return !instruction.opcode_text.empty() && instruction.opcode_text[0] == 'v' && !instruction.operands.empty() &&
         instruction.operands[0].text.find('.') != std::string_view::npos;
}

void register_use(const Instruction& instruction, RegisterUse& use) {
  use.reads.clear();
  use.writes.clear();
  if (instruction.guard) use.reads.push_back(instruction.guard->reg);
  std::size_t results = destination_count(instruction);
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
    collect(instruction.operands[i], i < results ? use.writes : use.reads);
  }
  if (results != 0 && reads_destination(instruction)) {
    use.reads.insert(use.reads.end(), use.writes.begin(), use.writes.end());
  }
}

RegisterUse register_use(const Instruction& instruction) {
  RegisterUse use;
  register_use(instruction, use);
  return use;
}

}  // namespace deadheat::ptx
