#include "tracer/ptx/value_flow.h"

#include <algorithm>
#include <string_view>

#include "tracer/ptx/operands.h"

namespace deadheat::ptx {

namespace {

// Memory that an instruction names: all of a space, or a variable in it.
struct Memory {
  Space space = Space::generic;
  std::string_view variable; // empty: not known

  bool overlaps(const Memory& other, bool has_local) const {
    const bool same_space = space == other.space || (space == Space::generic && other.may_be_generic(has_local)) ||
                            (other.space == Space::generic && may_be_generic(has_local));
    return same_space && (variable.empty() || other.variable.empty() || variable == other.variable);
  }
  bool may_be_generic(bool has_local) const {
    return space == Space::generic || space == Space::global || space == Space::shared ||
           (space == Space::local && has_local);
  }
};

Memory memory_of(const Instruction& i) {
  using M = Modifier;
  Memory memory;
  if (i.has(M::global)) memory.space = Space::global;
  if (i.has(M::shared) || i.has(M::shared_cta) || i.has(M::shared_cluster)) memory.space = Space::shared;
  if (i.has(M::local)) memory.space = Space::local;
  if (i.has(M::param) || i.has(M::param_entry) || i.has(M::param_func)) memory.space = Space::param;
  if (i.has(M::const_)) memory.space = Space::constant;
  for (const Operand& operand : i.operands) {
    if (operand.kind != Operand::Kind::address || operand.elements.empty()) continue;
    if (operand.elements[0].kind == Operand::Kind::symbol) memory.variable = operand.elements[0].text;
    break;
  }
  return memory;
}

bool reads_memory(const Instruction& i) {
  return i.opcode == Opcode::ld || i.opcode == Opcode::ldu || i.opcode == Opcode::atom ||
         i.opcode == Opcode::ldmatrix || (i.opcode == Opcode::wmma && i.has(Modifier::load));
}

bool writes_memory(const Instruction& i) {
  return i.opcode == Opcode::st || i.opcode == Opcode::atom || i.opcode == Opcode::red || i.opcode == Opcode::discard ||
         i.opcode == Opcode::stmatrix || (i.opcode == Opcode::wmma && i.has(Modifier::store));
}

bool reads_carry(const Instruction& i) {
  return i.opcode == Opcode::addc || i.opcode == Opcode::subc || i.opcode == Opcode::madc;
}

// What it does with its operands goes neither to memory nor to another function. Any other may take them anywhere.
bool stays(const Instruction& i) {
  switch (i.opcode) {
    case Opcode::unknown:
    case Opcode::call:
    case Opcode::cp:
    case Opcode::mbarrier:
    case Opcode::multimem:
    case Opcode::sured:
    case Opcode::sust:
    case Opcode::suld:
    case Opcode::tcgen05:
    case Opcode::tensormap:
    case Opcode::clusterlaunchcontrol:
    case Opcode::wgmma: return false;
    default: return true;
  }
}

} // namespace

ValueFlow::ValueFlow(const Function& function) : function_(function), readers_(function.registers.size()) {
  has_local_ = std::any_of(function.variables.begin(), function.variables.end(),
                           [](const Variable& v) { return v.space == Space::local; });
  RegisterUse use;
  for (std::uint32_t s = 0; s < function.body.size(); ++s) {
    const Instruction* i = function.body[s].instruction();
    if (!i) continue;
    register_use(*i, use);
    for (const RegisterId r : use.reads)
      if (readers_[r].empty() || readers_[r].back() != s) readers_[r].push_back(s);
    if (reads_memory(*i)) loads_.push_back(s);
    if (reads_carry(*i)) carries_.push_back(s);
    has_local_ |= i->opcode == Opcode::alloca;
    copies_ |= i->opcode == Opcode::cp;
  }
}

ValueFlow::Reach ValueFlow::from(const std::vector<RegisterId>& values, Through through) const {
  Reach reach{RegisterSet(function_.registers.size()), false};
  std::vector<RegisterId> next;
  const auto add = [&](RegisterId r) {
    if (reach.registers.contains(r)) return;
    reach.registers.insert(r);
    next.push_back(r);
  };
  const auto add_results = [&](std::uint32_t statement) {
    for (const RegisterId r : register_use(*function_.body[statement].instruction()).writes) add(r);
  };
  std::vector<Memory> stored;
  const auto store = [&](const Memory& memory) {
    if (memory.space == Space::param) {
      reach.elsewhere = true;
      return;
    }
    const bool local = memory.space == Space::local || (memory.space == Space::generic && has_local_);
    reach.elsewhere |= copies_ && through == Through::memory;
    if (through == Through::registers || (through == Through::thread && !local)) return;
    if (std::any_of(stored.begin(), stored.end(), [&](const Memory& known) {
          return known.space == memory.space && known.variable == memory.variable;
        }))
      return;
    stored.push_back(memory);
    for (const std::uint32_t s : loads_)
      if (memory.overlaps(memory_of(*function_.body[s].instruction()), has_local_)) add_results(s);
  };
  for (const RegisterId r : values) add(r);
  for (const Variable& result : function_.results) // in a register
    reach.elsewhere |= result.space == Space::generic;
  while (!next.empty()) {
    const RegisterId r = next.back();
    next.pop_back();
    for (const std::uint32_t s : readers_[r]) {
      const Instruction& i = *function_.body[s].instruction();
      add_results(s);
      if (i.has(Modifier::cc))
        for (const std::uint32_t carried : carries_) add_results(carried);
      if (writes_memory(i)) store(memory_of(i));
      reach.elsewhere |= !stays(i);
    }
  }
  return reach;
}

} // namespace deadheat::ptx
