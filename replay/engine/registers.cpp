// What kind of value each PTX register holds: declared types say little, since compilers keep floats in .b32.
#include <algorithm>

#include "replay/engine/builder.h"
#include "replay/engine/lower.h"
#include "tracer/ptx/operands.h"

namespace deadheat::engine {

using ptx::Operand;

namespace {

bool makes_float(const ptx::Instruction& i) {
  using ptx::Opcode;
  if (i.types.empty() || !is_float(i.types[0])) return false;
  switch (i.opcode) {
    case Opcode::add:
    case Opcode::sub:
    case Opcode::mul:
    case Opcode::fma:
    case Opcode::mad:
    case Opcode::div:
    case Opcode::rcp:
    case Opcode::sqrt:
    case Opcode::rsqrt:
    case Opcode::ex2:
    case Opcode::lg2:
    case Opcode::sin:
    case Opcode::cos:
    case Opcode::tanh:
    case Opcode::min:
    case Opcode::max:
    case Opcode::neg:
    case Opcode::abs:
    case Opcode::set: return true;
    case Opcode::cvt:  // from bf16 is a shift
      return i.types.size() > 1 && i.types[1] != ptx::Type::bf16;
    default: return false;
  }
}

bool is_copy(const ptx::Instruction& i) {
  using ptx::Opcode;
  return i.opcode == Opcode::mov || i.opcode == Opcode::selp || i.opcode == Opcode::slct;
}

bool is_nan_bits(std::uint64_t bits, unsigned width) {
  if (width == 32) return (bits & 0x7fffffffu) > 0x7f800000u;
  return (bits & 0x7fffffffffffffffull) > 0x7ff0000000000000ull;
}

}  // namespace

// Decides which registers are kept as float or double, and which are raw (see builder.h).
void Builder::classify_registers() {
  std::size_t n = function.registers.size();
  std::vector<std::int32_t> votes(n, 0);
  std::vector<std::uint8_t> computed(n, 0), moved(n, 0);
  std::vector<std::pair<ptx::RegisterId, ptx::RegisterId>> copies;  // destination, source
  auto width = [&](ptx::RegisterId r) { return ptx::bits(function.registers[r].type); };
  auto vote = [&](const Operand& o, ptx::Type type) {
    if (o.kind != Operand::Kind::reg) return;
    if (is_float(type) && ptx::bits(type) == width(o.reg))
      votes[o.reg] += 2;
    else
      votes[o.reg] -= 2;
  };
  ptx::RegisterUse e;
  for (const ptx::Statement& s : function.body) {
    const ptx::Instruction* i = s.instruction();
    if (!i || i->operands.empty()) continue;
    using ptx::Opcode;
    ptx::register_use(*i, e);
    bool copy = is_copy(*i) && i->operands[0].kind == Operand::Kind::reg;
    bool makes = makes_float(*i) && i->operands[0].kind == Operand::Kind::reg;
    for (ptx::RegisterId r : e.writes) {
      if (makes) {
        if (computed[r] == 0) computed[r] = 1;
      } else if (!copy)
        computed[r] = 2;  // bits from elsewhere
    }
    bool neutral = copy || i->opcode == Opcode::ld || i->opcode == Opcode::st || i->opcode == Opcode::shfl;
    if (neutral) {
      if (copy) {
        ptx::RegisterId to = i->operands[0].reg;
        std::size_t values = i->opcode == Opcode::mov ? 2 : 3;
        for (std::size_t k = 1; k < values && k < i->operands.size(); ++k) {
          const Operand& o = i->operands[k];
          if (o.kind == Operand::Kind::reg && width(o.reg) == width(to))
            copies.push_back({to, o.reg});
          else if (o.kind == Operand::Kind::f32 || o.kind == Operand::Kind::f64) {
            if (is_nan_bits(o.bits, width(to)) && o.kind == (width(to) == 32 ? Operand::Kind::f32 : Operand::Kind::f64))
              computed[to] = 2;
            else
              votes[to] += 1;
          } else if (o.kind == Operand::Kind::integer) {
            if (is_nan_bits(o.bits, width(to))) computed[to] = 2;
          } else {
            computed[to] = 2;
          }
        }
        if (i->opcode == Opcode::selp && i->operands.size() > 3) vote(i->operands[3], ptx::Type::pred);
      } else if (i->opcode == Opcode::ld || i->opcode == Opcode::st) {
        if (!i->types.empty() && is_float(i->types[0]))
          for (const Operand& o : i->operands) {
            if (o.kind == Operand::Kind::reg) votes[o.reg] += 1;
            for (const Operand& v : o.elements)
              if (o.kind == Operand::Kind::vector && v.kind == Operand::Kind::reg) votes[v.reg] += 1;
          }
      }
      continue;
    }
    for (std::size_t k = 0; k < i->operands.size(); ++k) {
      ptx::Type type = i->types.empty() ? ptx::Type::none : i->types[0];
      bool compares = i->opcode == Opcode::set || i->opcode == Opcode::cvt || i->opcode == Opcode::slct;
      if (compares && k > 0 && i->types.size() > 1) type = i->types.back();
      if (i->opcode == Opcode::atom || i->opcode == Opcode::red) type = ptx::Type::none;
      vote(i->operands[k], type);
      for (const Operand& v : i->operands[k].elements)
        vote(v, i->opcode == Opcode::setp || i->operands[k].kind == Operand::Kind::vector ? type : ptx::Type::none);
    }
  }
  for (int round = 0; round < 8; ++round) {  // copies spread both properties
    bool changed = false;
    for (auto [to, from] : copies) {
      if (computed[from] == 2 && computed[to] != 2) {
        computed[to] = 2;
        changed = true;
      }
      if (votes[to] == 0 && votes[from] != 0) {
        votes[to] = votes[from] > 0 ? 1 : -1;
        changed = true;
      }
      if (votes[from] == 0 && votes[to] != 0) {
        votes[from] = votes[to] > 0 ? 1 : -1;
        changed = true;
      }
    }
    if (!changed) break;
    if (round == 7)  // not settled: nothing that is copied to counts as computed
      for (auto [to, from] : copies) computed[to] = 2;
  }
  // A copy's source may have been left open (never written but by copies): such webs hold constants only.
  slots_.resize(n);
  for (std::size_t r = 0; r < n; ++r) {
    ptx::Type type = function.registers[r].type;
    unsigned w = type == ptx::Type::pred ? 1 : ptx::bits(type);
    bool as_float = votes[r] > 0 || (votes[r] == 0 && is_float(type));
    Slot& slot = slots_[r];
    if (w == 32 && as_float)
      slot.type = f32();
    else if (w == 64 && as_float)
      slot.type = f64();
    else
      slot.type = i(std::max(w, 1u));
    slot.raw = computed[r] == 1 && (w == 32 || w == 64);
  }
}

}  // namespace deadheat::engine
