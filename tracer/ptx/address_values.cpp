#include "tracer/ptx/address_values.h"

namespace deadheat::ptx {

AddressValues::Value AddressValues::of(RegisterId reg) {
  auto [at, fresh] = values_.try_emplace(reg);
  if (fresh) at->second.root = next_++;
  return at->second;
}

void AddressValues::executed(const Instruction& i) {
  using Kind = Operand::Kind;
  const bool add = i.opcode == Opcode::add || i.opcode == Opcode::sub, copy = i.opcode == Opcode::mov;
  if ((add || copy) && !i.guard && i.operands.size() == (add ? 3u : 2u) && i.operands[0].kind == Kind::reg &&
      i.operands[1].kind == Kind::reg && !i.operands[1].negated && (!add || i.operands[2].kind == Kind::integer) &&
      !i.has(Modifier::cc) && !i.has(Modifier::sat)) {
    const Type type = i.type(), held = function_.registers[i.operands[0].reg].type;
    const bool whole = (bits(type) == 32 || bits(type) == 64) && bits(held) == bits(type) &&
                       bits(function_.registers[i.operands[1].reg].type) == bits(type) && type != Type::f32 &&
                       type != Type::f64 && type != Type::f16x2 && type != Type::bf16x2;
    if (whole) {
      Value value = of(i.operands[1].reg);
      if (add) {
        const auto by = std::int64_t(i.operands[2].bits);
        value.offset += i.opcode == Opcode::sub ? -by : by;
      }
      values_[i.operands[0].reg] = value;
      return;
    }
  }
  register_use(i, use_);
  for (const RegisterId written : use_.writes) values_[written] = {next_++, 0};
}

}  // namespace deadheat::ptx
