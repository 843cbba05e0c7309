#include "replay/engine/undefined_plan.h"

#include <algorithm>

#include "tracer/ptx/operands.h"

namespace deadheat::engine {

using ptx::Opcode;
using ptx::Operand;

namespace {

bool may_be_local(const ptx::Instruction& i) {
  using ptx::Modifier;
  for (Modifier m : {Modifier::global, Modifier::shared, Modifier::shared_cta, Modifier::shared_cluster})
    if (i.has(m)) return false;
  return true;
}

// Shifts by whole bytes take words apart and put them together; others are arithmetic.
bool multiplies(const ptx::Instruction& i) {
  if (i.opcode != Opcode::shl && i.opcode != Opcode::shr) return false;
  return i.operands.size() > 2 && i.operands[2].kind == Operand::Kind::integer && i.operands[2].bits % 8 != 0;
}

}  // namespace

Tracked tracked_memory(const ptx::Function& function, const ptx::Instruction& i, std::size_t address) {
  using ptx::Modifier;
  if (i.has(Modifier::const_)) return Tracked::no;
  if (!i.has(Modifier::param) && !i.has(Modifier::param_entry) && !i.has(Modifier::param_func)) return Tracked::memory;
  if (!function.entry) return Tracked::arguments;
  // In a kernel: the .param variables of its calls.
  const Operand& o = i.operands[address];
  const bool variable =
      !o.elements.empty() && o.elements[0].kind == Operand::Kind::symbol && o.elements[0].variable >= 0;
  return variable ? Tracked::arguments : Tracked::no;
}

bool loads_memory(const ptx::Function& function, const ptx::Instruction& i) {
  if (i.opcode == Opcode::tex || i.opcode == Opcode::tld4 || i.opcode == Opcode::suld) return true;
  return (i.opcode == Opcode::ld || i.opcode == Opcode::ldu) && i.operands.size() > 1 &&
         tracked_memory(function, i, 1) != Tracked::no;
}

bool loads_matrix(const ptx::Instruction& i) {
  return i.opcode == Opcode::ldmatrix || (i.opcode == Opcode::wmma && i.has(ptx::Modifier::load));
}

UndefinedFlow undefined_flow(const ptx::Instruction& i) {
  switch (i.opcode) {
    case Opcode::mov:
    case Opcode::and_:
    case Opcode::or_:
    case Opcode::xor_:
    case Opcode::not_:
    case Opcode::shl:
    case Opcode::shr:
    case Opcode::shf:
    case Opcode::bfe:
    case Opcode::bfi:
    case Opcode::prmt:
    case Opcode::lop3:
    case Opcode::selp:
    case Opcode::movmatrix:
    case Opcode::shfl: return UndefinedFlow::bits;
    case Opcode::cvt: {
      const bool integers = std::all_of(i.types.begin(), i.types.end(), [](ptx::Type t) {
        using ptx::Type;
        return t == Type::u8 || t == Type::s8 || t == Type::u16 || t == Type::s16 || t == Type::u32 || t == Type::s32 ||
               t == Type::u64 || t == Type::s64;
      });
      return integers && !i.has(ptx::Modifier::sat) ? UndefinedFlow::bits : UndefinedFlow::whole;
    }
    case Opcode::vote:
    case Opcode::match:
    case Opcode::redux:
    case Opcode::mma: return UndefinedFlow::lanes;
    case Opcode::wmma: return i.has(ptx::Modifier::mma) ? UndefinedFlow::lanes : UndefinedFlow::none;
    case Opcode::wgmma: return i.has(ptx::Modifier::mma_async) ? UndefinedFlow::lanes : UndefinedFlow::none;
    case Opcode::bar:
    case Opcode::barrier: return i.has(ptx::Modifier::red) ? UndefinedFlow::lanes : UndefinedFlow::none;
    case Opcode::activemask:
    case Opcode::elect:
    case Opcode::ldmatrix:
    case Opcode::stmatrix:
    case Opcode::mbarrier:
    // Memory, and what is passed through it.
    case Opcode::ld:
    case Opcode::ldu:
    case Opcode::st:
    case Opcode::discard:
    case Opcode::atom:
    case Opcode::red:
    case Opcode::tex:
    case Opcode::tld4:
    case Opcode::suld:
    case Opcode::sust:
    case Opcode::txq:
    case Opcode::suq:
    case Opcode::call:
    case Opcode::ret:
    case Opcode::bra:
    case Opcode::brx:
    case Opcode::cp: return UndefinedFlow::none;
    default: {
      const ptx::Type type = i.types.empty() ? ptx::Type::none : i.types[0];
      const bool pairs =
          type == ptx::Type::f16x2 || type == ptx::Type::bf16x2 || type == ptx::Type::u16x2 || type == ptx::Type::s16x2;
      return pairs && i.types.size() == 1 && i.opcode != Opcode::setp ? UndefinedFlow::halves : UndefinedFlow::whole;
    }
  }
}

bool decides_by(const ptx::Instruction& i, std::size_t n) {
  if (i.operands[n].kind == Operand::Kind::address) return true;
  switch (i.opcode) {
    case Opcode::atom: return n > 1 && !i.has(ptx::Modifier::exch) && !i.has(ptx::Modifier::cas);
    case Opcode::red: return n > 0;
    case Opcode::brx: return n == 0;
    case Opcode::call: return i.operands[n].kind == Operand::Kind::reg;
    default: return false;
  }
}

bool decides_by_guard(const ptx::Instruction& i) {
  switch (i.opcode) {
    case Opcode::bra:
    case Opcode::brx:
    case Opcode::call:
    case Opcode::ret:
    case Opcode::exit:
    case Opcode::trap:
    case Opcode::st:
    case Opcode::discard:
    case Opcode::sust:
    case Opcode::atom:
    case Opcode::red:
    case Opcode::bar:
    case Opcode::barrier:
    case Opcode::cp: return true;
    default: return false;
  }
}

namespace {

// Where in a function's result, or in the variable that a call's result goes to, an operand lies.
std::int64_t offset_of(const Operand& address) { return address.offset + address.elements[0].offset; }

const Operand* symbol_of(const ptx::Instruction& i, std::size_t n) {
  if (n >= i.operands.size() || i.operands[n].kind != Operand::Kind::address || i.operands[n].elements.empty())
    return nullptr;
  const Operand& base = i.operands[n].elements[0];
  return base.kind == Operand::Kind::symbol ? &base : nullptr;
}

// Whether a load takes what a function that was called has computed.
bool takes_result(const ptx::Function& function, const ptx::Instruction& load, const ResultsOf& results_of) {
  const Operand* from = symbol_of(load, 1);
  if (!from || from->variable < 0 || tracked_memory(function, load, 1) != Tracked::arguments) return false;
  const std::int64_t begin = offset_of(load.operands[1]);
  const std::int64_t elements = load.has(ptx::Modifier::v4) ? 4 : load.has(ptx::Modifier::v2) ? 2 : 1;
  const std::int64_t end = begin + elements * std::max(1u, ptx::bits(load.type()) / 8);
  for (const ptx::Statement& statement : function.body) {
    const ptx::Instruction* call = statement.instruction();
    if (!call || call->opcode != Opcode::call || call->operands.size() < 2) continue;
    const auto& to = call->operands[0].elements;
    if (to.empty() || to[0].variable != from->variable) continue;
    const std::set<std::int64_t>* results = results_of(call->operands[1].text);
    if (!results) continue;
    if (const auto at = results->lower_bound(begin); at != results->end() && *at < end) return true;
  }
  return false;
}

}  // namespace

UndefinedPlan plan_undefined(const ptx::Function& function, const ResultsOf& results_of) {
  using Kind = UndefinedPlan::Kind;
  UndefinedPlan plan;
  plan.kind.assign(function.registers.size(), Kind::none);
  plan.decides.assign(function.registers.size(), false);
  plan.wide.assign(function.registers.size(), false);
  auto raise = [&](ptx::RegisterId r, Kind kind, bool wide) {
    if (plan.kind[r] >= kind && plan.wide[r] >= wide) return false;
    plan.kind[r] = std::max(plan.kind[r], kind);
    plan.wide[r] = plan.wide[r] || wide;
    return plan.any = true;
  };
  auto destinations = [](const ptx::Instruction& i) { return ptx::destination_count(i); };
  auto each_instruction = [&](const auto& body) {
    for (const ptx::Statement& statement : function.body)
      if (const ptx::Instruction* i = statement.instruction()) body(*i);
  };
  for (bool changed = true; changed;) {
    changed = false;
    each_instruction([&](const ptx::Instruction& i) {
      Kind kind = Kind::none;
      bool wide = true;
      if (i.opcode == Opcode::call) { // registers that take results
        kind = Kind::moved;
      } else if (loads_memory(function, i) || loads_matrix(i) ||
                 (i.opcode == Opcode::atom && i.has(ptx::Modifier::exch))) {
        kind = i.opcode == Opcode::ld && takes_result(function, i, results_of) ? Kind::computed : Kind::moved;
      } else if (i.opcode == Opcode::wgmma && i.has(ptx::Modifier::mma_async)) { // reads memory itself
        kind = Kind::computed;
      } else if (const UndefinedFlow flow = undefined_flow(i); flow != UndefinedFlow::none) {
        for (std::size_t n = destinations(i); n < i.operands.size(); ++n)
          each_register(i.operands[n], [&](ptx::RegisterId r) { kind = std::max(kind, plan.kind[r]); });
        if (kind != Kind::none && (flow != UndefinedFlow::bits || multiplies(i))) kind = Kind::computed;
        wide = flow != UndefinedFlow::whole;
      }
      if (kind == Kind::none) return;
      for (std::size_t n = 0; n < destinations(i); ++n)
        each_register(i.operands[n], [&](ptx::RegisterId r) { changed |= raise(r, kind, wide); });
    });
  }
  if (!plan.any) return plan;
  each_instruction([&](const ptx::Instruction& i) {
    const Operand* to = i.opcode == Opcode::st ? symbol_of(i, 0) : nullptr;
    if (!to || to->variable >= 0 || function.results.empty() || to->text != function.results[0].name) return;
    bool computed = false;
    each_register(i.operands[1], [&](ptx::RegisterId r) { computed |= plan.kind[r] == Kind::computed; });
    if (computed) plan.results.insert(offset_of(i.operands[0]));
  });
  for (bool changed = true; changed;) {
    changed = false;
    auto decide = [&](ptx::RegisterId r) {
      if (plan.kind[r] == Kind::none || plan.decides[r]) return;
      plan.decides[r] = changed = true;
    };
    each_instruction([&](const ptx::Instruction& i) {
      if (i.guard && decides_by_guard(i)) decide(i.guard->reg);
      // What goes through local memory is named by the load that it came from first.
      if (i.opcode == Opcode::st && i.operands.size() > 1 && may_be_local(i)) each_register(i.operands[1], decide);
      if (i.opcode == Opcode::call && i.operands.size() > 2) each_register(i.operands[2], decide);
      bool wanted = false;
      if (undefined_flow(i) != UndefinedFlow::none)
        for (std::size_t n = 0; n < destinations(i); ++n)
          each_register(i.operands[n],
                        [&](ptx::RegisterId r) { wanted |= plan.decides[r] || plan.kind[r] == Kind::computed; });
      for (std::size_t n = 0; n < i.operands.size(); ++n)
        if (decides_by(i, n) || (wanted && n >= destinations(i))) each_register(i.operands[n], decide);
    });
  }
  return plan;
}

}  // namespace deadheat::engine
