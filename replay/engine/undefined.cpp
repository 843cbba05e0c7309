#include "replay/engine/undefined.h"

#include "replay/engine/cold_calls.h"
#include "replay/engine/lower.h"
#include "replay/engine/tensor_undefined.h"
#include "replay/engine/written.h"
#include "tracer/ptx/operands.h"

namespace deadheat::engine {

using llvm::Value;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;
using Kind = UndefinedPlan::Kind;

namespace {

// What functions that are called compute of what they return; of those that call themselves nothing is known.
const std::set<std::int64_t>* results_of(Unit& unit, std::string_view name) {
  const auto found = unit.tables.by_name.find(name);
  if (found == unit.tables.by_name.end()) return nullptr;
  const auto [at, fresh] = unit.computed_results.try_emplace(found->second);
  const ptx::Function& function = *unit.tables.functions[found->second].function;
  if (fresh && function.has_body)
    at->second = plan_undefined(function, [&](std::string_view f) { return results_of(unit, f); }).results;
  return &at->second;
}

}  // namespace

Undefined::Undefined(Builder& builder)
    : b_(builder),
      plan_(plan_undefined(builder.function, [&](std::string_view f) { return results_of(builder.unit, f); })) {
  slot_.assign(plan_.kind.size(), 0);
  if (!plan_.any) return;
  if (!map_written_shadow()) {
    b_.refuse("the address range of the shadow of written bytes is taken");
    return;
  }
  const std::size_t registers = b_.slots_.size();
  for (std::size_t r = 0; r < registers; ++r) {
    if (plan_.kind[r] == Kind::none || !b_.slots_[r].pointer) continue;
    Builder::Slot slot;
    slot.type = b_.i(plan_.wide[r] ? width_of(ptx::RegisterId(r)) : 1);
    if (b_.frame_homed_)
      slot.pointer = b_.pointer_at(
          b_.frame_, b_.frame_slot(std::uint32_t(b_.unit.module.getDataLayout().getTypeStoreSize(slot.type))));
    else
      slot.pointer = b_.ir.CreateAlloca(slot.type);
    slot_[r] = std::uint32_t(b_.slots_.size());
    b_.slots_.push_back(slot);
  }
  // A shadow changes when its register does: where the one is saved, so is the other.
  for (StopPoint& point : b_.points_)
    for (auto* list : {&point.live, &point.save})
      for (std::size_t n = 0, count = list->size(); n < count; ++n)
        if (const ptx::RegisterId r = (*list)[n]; slot_[r]) list->push_back(slot_[r]);
}

void Undefined::begin() {
  for (std::uint32_t slot : slot_)
    if (slot) b_.store_slot(b_.slots_[slot], llvm::Constant::getNullValue(b_.slots_[slot].type));
}

unsigned Undefined::width_of(ptx::RegisterId r) const {
  const ptx::Type type = b_.function.registers[r].type;
  return type == ptx::Type::pred ? 1 : std::max(ptx::bits(type), 1u);
}

// ---- shadows of registers

Value* Undefined::bits(const Operand& o, unsigned width) {
  auto& ir = b_.ir;
  if (o.kind == Operand::Kind::reg) {
    if (!slot_[o.reg]) return nullptr;
    Value* v = b_.load_slot(b_.slots_[slot_[o.reg]]);
    return plan_.wide[o.reg] ? ir.CreateZExtOrTrunc(v, b_.i(width)) : ir.CreateSExt(v, b_.i(width));
  }
  if (o.kind != Operand::Kind::vector || o.elements.empty()) return nullptr;
  const unsigned each = width / unsigned(o.elements.size());
  Value* all = nullptr;
  for (std::size_t n = 0; n < o.elements.size(); ++n) {
    Value* v = bits(o.elements[n], each);
    if (!v) continue;
    v = ir.CreateShl(ir.CreateZExt(v, b_.i(width)), each * n);
    all = all ? ir.CreateOr(all, v) : v;
  }
  return all;
}

Value* Undefined::any(const Operand& o) {
  Value* some = nullptr;
  each_register(o, [&](ptx::RegisterId r) {
    if (!slot_[r]) return;
    Value* v = b_.load_slot(b_.slots_[slot_[r]]);
    v = b_.ir.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType()));
    some = some ? b_.ir.CreateOr(some, v) : v;
  });
  return some;
}

void Undefined::set(const Operand& to, Value* v) {
  auto& ir = b_.ir;
  if (to.kind == Operand::Kind::vector) {
    const unsigned each = v ? v->getType()->getIntegerBitWidth() / unsigned(to.elements.size()) : 0;
    for (std::size_t n = 0; n < to.elements.size(); ++n)
      set(to.elements[n], v ? ir.CreateTrunc(ir.CreateLShr(v, each * n), b_.i(each)) : nullptr);
    return;
  }
  if (to.kind == Operand::Kind::pair) {
    for (const Operand& element : to.elements) set(element, v);
    return;
  }
  if (to.kind != Operand::Kind::reg || !slot_[to.reg]) return;
  const Builder::Slot& slot = b_.slots_[slot_[to.reg]];
  if (!v)
    v = llvm::Constant::getNullValue(slot.type);
  else if (plan_.wide[to.reg])
    v = ir.CreateZExtOrTrunc(v, slot.type);
  else
    v = ir.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType()));
  b_.store_slot(slot, v);
}

bool Undefined::decides(const Operand& o) const {
  bool found = false;
  each_register(o, [&](ptx::RegisterId r) { found |= plan_.decides[r]; });
  return found;
}

// ---- around an instruction

void Undefined::check_guard(const ptx::Instruction& i) {
  if (!plan_.any || !i.guard || !slot_[i.guard->reg] || !decides_by_guard(i)) return;
  Operand guard;
  guard.kind = Operand::Kind::reg;
  guard.reg = i.guard->reg;
  report(any(guard), UndefinedUse::branch, nullptr, 0);
}

void Undefined::before(const ptx::Instruction& i) {
  results_.clear();
  if (!plan_.any) return;
  for (std::size_t n = 0; n < i.operands.size(); ++n)
    if (decides_by(i, n))
      if (Value* v = any(i.operands[n])) {
        const UndefinedUse use = i.operands[n].kind == Operand::Kind::address          ? UndefinedUse::address
                                 : i.opcode == Opcode::brx || i.opcode == Opcode::call ? UndefinedUse::branch
                                                                                       : UndefinedUse::operand;
        report(v, use, nullptr, 0);
      }
  const bool own = loads_memory(b_.function, i) || loads_matrix(i) || i.opcode == Opcode::atom ||
                   i.opcode == Opcode::shfl || i.opcode == Opcode::movmatrix || i.opcode == Opcode::call ||
                   undefined_flow(i) == UndefinedFlow::lanes; // set where they happen
  if (own) return;
  const bool flows = undefined_flow(i) != UndefinedFlow::none;
  for (std::size_t n = 0; n < ptx::destination_count(i) && n < i.operands.size(); ++n) {
    bool wanted = false;
    each_register(i.operands[n], [&](ptx::RegisterId r) { wanted |= slot_[r] != 0; });
    if (!wanted) continue;
    const Operand &to = i.operands[n], *from = i.operands.size() > 1 ? &i.operands[1] : nullptr;
    if (i.opcode == Opcode::mov && to.kind == Operand::Kind::vector && from->kind == Operand::Kind::vector &&
        to.elements.size() == from->elements.size()) {
      for (std::size_t e = 0; e < to.elements.size(); ++e)
        results_.push_back({to.elements[e], bits(from->elements[e], std::max(ptx::bits(i.type()), 1u))});
      continue;
    }
    results_.push_back({to, flows ? result(i) : nullptr});
  }
}

void Undefined::after(const ptx::Instruction&) {
  if (b_.ir.GetInsertBlock()->getTerminator()) return;
  for (const auto& [to, v] : results_) set(to, v);
  results_.clear();
}

// ---- calls

void Undefined::clear(Value* to, Value* bytes) {
  b_.ir.CreateMemSet(stack_shadow(to), b_.constant(8, 0), bytes, llvm::MaybeAlign(16));
}

void Undefined::copy(Value* to, Value* from, std::uint64_t bytes) {
  b_.ir.CreateMemCpy(stack_shadow(to), llvm::MaybeAlign(1), stack_shadow(from), llvm::MaybeAlign(1), bytes);
}

void Undefined::pass(const Operand& from, Value* to, unsigned width) {
  Value* v = bits(from, width);
  Value* ones = llvm::Constant::getAllOnesValue(b_.i(width));
  b_.ir.CreateAlignedStore(v ? b_.ir.CreateNot(v) : ones, stack_shadow(to), llvm::Align(1));
}

void Undefined::take(const Operand& to, Value* from, unsigned width) {
  set(to, b_.ir.CreateNot(b_.ir.CreateAlignedLoad(b_.i(width), stack_shadow(from), llvm::Align(1))));
}

void Undefined::define(Value* to, unsigned bytes) {
  b_.ir.CreateMemSet(stack_shadow(to), b_.constant(8, 255), bytes, llvm::MaybeAlign(1));
}

// ---- matrices

void Undefined::begin_matrix() {
  if (!table_) table_ = b_.frame_slot(sizeof(TensorUndefined));
  b_.ir.CreateMemSet(in_table(0), b_.constant(8, 0), sizeof(TensorUndefined), llvm::MaybeAlign(4));
  b_.thread_store(offsetof(ThreadContext, arg) + 8 * tensor_undefined_argument,
                  b_.ir.CreatePtrToInt(in_table(0), b_.i(64)));
}

void Undefined::matrix_source(unsigned word, const Operand& reg, unsigned words) {
  if (Value* v = bits(reg, 32 * words)) b_.ir.CreateAlignedStore(v, in_table(4 * word), llvm::Align(4));
}

void Undefined::matrix_result(const Operand& reg, unsigned word, unsigned words) {
  set(reg,
      b_.ir.CreateAlignedLoad(b_.i(32 * words), in_table(offsetof(TensorUndefined, out) + 4 * word), llvm::Align(4)));
}

void Undefined::report(Value* condition, UndefinedUse use, Value* address, unsigned bytes) {
  b_.when(
      condition,
      [&] {
        b_.call_cold(
            reinterpret_cast<const void*>(&deadheat_cold_undefined),
            {b_.thread(), b_.constant(32, b_.site ? b_.site->id : no_site), b_.constant(32, std::uint64_t(use)),
             address ? address : b_.constant(64, 0), b_.constant(32, bytes)});
      },
      false);
}

}  // namespace deadheat::engine
