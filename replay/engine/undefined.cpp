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

// ---- results of instructions

Value* Undefined::all_or_none(Value* some, unsigned width) { return some ? b_.ir.CreateSExt(some, b_.i(width)) : some; }

Value* Undefined::whole(const ptx::Instruction& i, unsigned width) {
  Value* some = nullptr;
  for (std::size_t n = ptx::destination_count(i); n < i.operands.size(); ++n)
    if (Value* v = any(i.operands[n])) some = some ? b_.ir.CreateOr(some, v) : v;
  return all_or_none(some, width);
}

// Lanes of 16 bits that have nothing to do with each other.
Value* Undefined::halves(const ptx::Instruction& i) {
  auto& ir = b_.ir;
  Value* all = nullptr;
  for (std::size_t n = ptx::destination_count(i); n < i.operands.size(); ++n)
    if (Value* v = bits(i.operands[n], 32)) all = all ? ir.CreateOr(all, v) : v;
  if (!all) return nullptr;
  Value* low = ir.CreateSExt(ir.CreateICmpNE(ir.CreateTrunc(all, b_.i(16)), b_.constant(16, 0)), b_.i(16));
  Value* high = ir.CreateSExt(ir.CreateICmpUGT(all, b_.constant(32, 0xffff)), b_.i(16));
  return ir.CreateOr(ir.CreateZExt(low, b_.i(32)), ir.CreateShl(ir.CreateZExt(high, b_.i(32)), 16));
}

// and, or, xor, not, lop3: a bit that the other operand decides is defined.
Value* Undefined::bitwise(const ptx::Instruction& i, unsigned width) {
  auto& ir = b_.ir;
  const auto& o = i.operands;
  Value* all = nullptr;
  auto add = [&](Value* v) { all = all ? ir.CreateOr(all, v) : v; };
  const bool masks = i.opcode == Opcode::and_ || i.opcode == Opcode::or_;
  if (!masks || o.size() < 3) {
    for (std::size_t n = 1; n < o.size(); ++n)
      if (Value* v = bits(o[n], width)) add(v);
    return all;
  }
  Value *x = bits(o[1], width), *y = bits(o[2], width);
  auto matters = [&](const Operand& other) { // where the other operand leaves the bit open
    Value* v = b_.read(other, width);
    return i.opcode == Opcode::and_ ? v : ir.CreateNot(v);
  };
  if (x) add(ir.CreateAnd(x, matters(o[2])));
  if (y) add(ir.CreateAnd(y, matters(o[1])));
  if (x && y) add(ir.CreateAnd(x, y));
  return all;
}

// Shifts and fields at places that the program names; elsewhere all of the result is undefined if anything is.
Value* Undefined::extracted(const ptx::Instruction& i, unsigned width) {
  auto& ir = b_.ir;
  const auto& o = i.operands;
  auto is_constant = [&](std::size_t n) { return n < o.size() && o[n].kind == Operand::Kind::integer; };
  auto mask = [&](unsigned count) { return count >= width ? ~std::uint64_t(0) : (std::uint64_t(1) << count) - 1; };
  const bool sign = is_signed(i.type());
  switch (i.opcode) {
    case Opcode::shl:
    case Opcode::shr: {
      Value* v = bits(o[1], width);
      if (Value* amount = any(o[2])) {
        v = v ? ir.CreateICmpNE(v, b_.constant(width, 0)) : nullptr;
        return all_or_none(v ? ir.CreateOr(v, amount) : amount, width);
      }
      if (!v) return nullptr;
      Value* amount = b_.read(o[2], 32);
      Value* within = ir.CreateICmpULT(amount, b_.constant(32, width));
      Value* by = ir.CreateZExtOrTrunc(ir.CreateSelect(within, amount, b_.constant(32, width - 1)), b_.i(width));
      if (i.opcode == Opcode::shr && sign) return ir.CreateAShr(v, by);
      v = i.opcode == Opcode::shl ? ir.CreateShl(v, by) : ir.CreateLShr(v, by);
      return ir.CreateSelect(within, v, b_.constant(width, 0));
    }
    case Opcode::bfe: {
      if (!is_constant(2) || !is_constant(3)) break;
      Value* v = bits(o[1], width);
      const unsigned at = unsigned(o[2].bits & 0xff), count = unsigned(o[3].bits & 0xff);
      if (!v || at >= width || at + count > width || count == 0) break;
      if (!sign) return ir.CreateAnd(ir.CreateLShr(v, at), b_.constant(width, mask(count)));
      return ir.CreateAShr(ir.CreateShl(v, width - at - count), width - count);
    }
    case Opcode::bfi: {
      if (!is_constant(3) || !is_constant(4)) break;
      const unsigned at = unsigned(o[3].bits & 0xff), count = unsigned(o[4].bits & 0xff);
      if (at >= width || at + count > width) break;
      const std::uint64_t field = mask(count) << at;
      Value *inserted = bits(o[1], width), *into = bits(o[2], width);
      if (inserted) inserted = ir.CreateAnd(ir.CreateShl(inserted, at), b_.constant(width, field));
      if (into) into = ir.CreateAnd(into, b_.constant(width, ~field));
      return inserted && into ? ir.CreateOr(inserted, into) : inserted ? inserted : into;
    }
    case Opcode::prmt: {
      const bool generic = !i.has(Modifier::f4e) && !i.has(Modifier::b4e) && !i.has(Modifier::rc8) &&
                           !i.has(Modifier::ecl) && !i.has(Modifier::ecr) && !i.has(Modifier::rc16);
      if (!generic || !is_constant(3)) break;
      Value *low = bits(o[1], 32), *high = bits(o[2], 32);
      if (!low && !high) return nullptr;
      Value* both = b_.constant(64, 0);
      if (low) both = ir.CreateZExt(low, b_.i(64));
      if (high) both = ir.CreateOr(both, ir.CreateShl(ir.CreateZExt(high, b_.i(64)), 32));
      Value* all = b_.constant(32, 0);
      for (unsigned n = 0; n < 4; ++n) {
        const unsigned selector = unsigned(o[3].bits >> 4 * n & 15);
        Value* byte = ir.CreateTrunc(ir.CreateLShr(both, 8 * (selector & 7)), b_.i(8));
        if (selector & 8) byte = ir.CreateAShr(byte, 7); // its sign, eight times
        all = ir.CreateOr(all, ir.CreateShl(ir.CreateZExt(byte, b_.i(32)), 8 * n));
      }
      return all;
    }
    default: break;
  }
  return whole(i, width);
}

// selp takes one of its values; setp and set compare, and combine with a predicate.
Value* Undefined::compared(const ptx::Instruction& i) {
  auto& ir = b_.ir;
  const auto& o = i.operands;
  Value *x = any(o[1]), *y = any(o[2]);
  Value* either = x && y ? ir.CreateOr(x, y) : x ? x : y;
  const bool combined = i.has(Modifier::and_) || i.has(Modifier::or_);
  if (!either || !combined || o.size() < 4) {
    Value* third = o.size() > 3 ? any(o[3]) : nullptr;
    return either && third ? ir.CreateOr(either, third) : either ? either : third;
  }
  Value* c = b_.read_predicate(o[3]);
  Value* open = i.has(Modifier::and_) ? c : ir.CreateNot(c);
  Value* third = any(o[3]);
  if (!third) return ir.CreateAnd(either, open);
  return ir.CreateOr(ir.CreateAnd(either, open), third);
}

Value* Undefined::result(const ptx::Instruction& i) {
  auto& ir = b_.ir;
  const auto& o = i.operands;
  const unsigned width = i.type() == ptx::Type::pred ? 1 : std::max(ptx::bits(i.type()), 1u);
  switch (i.opcode) {
    case Opcode::mov: return bits(o[1], width);
    case Opcode::and_:
    case Opcode::or_:
    case Opcode::xor_:
    case Opcode::not_:
    case Opcode::lop3: return bitwise(i, width);
    case Opcode::shl:
    case Opcode::shr:
    case Opcode::bfe:
    case Opcode::bfi:
    case Opcode::prmt: return extracted(i, width);
    case Opcode::selp: {
      Value *x = bits(o[1], width), *y = bits(o[2], width), *p = any(o[3]);
      Value* v = nullptr;
      if (x || y) {
        Value* none = b_.constant(width, 0);
        v = ir.CreateSelect(b_.read_predicate(o[3]), x ? x : none, y ? y : none);
      }
      if (!p) return v;
      Value* all = all_or_none(p, width);
      return v ? ir.CreateOr(v, all) : all;
    }
    case Opcode::setp: return compared(i);
    case Opcode::cvt: {
      if (undefined_flow(i) != UndefinedFlow::bits || i.types.size() < 2) return whole(i, width);
      const unsigned from = ptx::bits(i.types[1]);
      Value* v = bits(o[1], from);
      if (!v) return nullptr;
      return is_signed(i.types[1]) ? ir.CreateSExtOrTrunc(v, b_.i(width)) : ir.CreateZExtOrTrunc(v, b_.i(width));
    }
    default: break;
  }
  if (undefined_flow(i) == UndefinedFlow::halves) return halves(i);
  return whole(i, width);
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

// ---- memory

Value* Undefined::shadow_pointer(const Access& a, std::uint64_t elsewhere) {
  auto& ir = b_.ir;
  const bool any_block =
      a.place.space == Space::generic ? b_.unit.kernel.info.reaches_cluster : b_.site && b_.site->shared_cluster;
  auto shared = [&](Value* offset) {
    Value* at = any_block ? b_.cluster_pointer(ir.CreateAnd(ir.CreateZExt(offset, b_.i(64)), 0xffffffffu))
                          : ir.CreateGEP(ir.getInt8Ty(), b_.shared_base(), offset);
    Value* launch = b_.launch_context();
    Value* behind = b_.entry_value("written shared", [&] {
      Value* total = b_.context_load(launch, offsetof(LaunchContext, total_shared), b_.i(32));
      return ir.CreateAnd(ir.CreateAdd(ir.CreateZExt(total, b_.i(64)), b_.constant(64, 63)), ~std::uint64_t(63));
    });
    return ir.CreateAdd(ir.CreatePtrToInt(at, b_.i(64)), behind);
  };
  if (a.place.space == Space::local) return stack_shadow(b_.host_pointer(a.place));
  Value* address = b_.offset(a.place);
  if (a.place.space == Space::shared) return ir.CreateIntToPtr(shared(address), ir.getPtrTy());
  Value* in_arena = ir.CreateSub(address, b_.constant(64, to_device(device_arena)));
  Value* inside = ir.CreateICmpULT(in_arena, b_.constant(64, device_arena_bytes));
  Value* at =
      ir.CreateSelect(inside, ir.CreateAdd(in_arena, b_.constant(64, written_shadow)), b_.constant(64, elsewhere));
  if (a.place.space == Space::generic) {
    Value* launch = b_.launch_context();
    Value* total = b_.entry_value(
        "total_shared", [&] { return b_.context_load(launch, offsetof(LaunchContext, total_shared), b_.i(32)); });
    Value* offset = ir.CreateSub(address, b_.constant(64, shared_window));
    Value* place = ir.CreateICmpULT(offset, ir.CreateZExt(total, b_.i(64)));
    if (any_block) { // of a legal access: inside the block that the upper bits name
      place = ir.CreateICmpULT(offset, b_.constant(64, window_bytes));
      offset = ir.CreateSelect(place, offset, b_.constant(64, 0));
    }
    at = ir.CreateSelect(place, shared(offset), at);
    Value* stack = ir.CreatePtrToInt(stack_shadow(b_.stack_base()), b_.i(64));
    at = ir.CreateSelect(is_local(a.place), ir.CreateAdd(stack, ir.CreateSub(address, b_.constant(64, local_window))),
                         at);
  }
  return ir.CreateIntToPtr(at, ir.getPtrTy());
}

// The shadow of a thread's stack lies behind it.
Value* Undefined::stack_shadow(Value* in_stack) {
  Value* bytes =
      b_.entry_value("stack_bytes", [&] { return b_.thread_load(offsetof(ThreadContext, stack_bytes), 32); });
  return b_.ir.CreateGEP(b_.ir.getInt8Ty(), in_stack, b_.ir.CreateZExt(bytes, b_.i(64)));
}

Value* Undefined::is_local(const Builder::Place& place) {
  if (place.space == Space::local) return b_.ir.getTrue();
  if (place.space != Space::generic) return nullptr;
  return b_.ir.CreateICmpULT(b_.ir.CreateSub(b_.offset(place), b_.constant(64, local_window)),
                             b_.constant(64, window_bytes));
}

void Undefined::access(const Access& a) {
  if (a.place.space == Space::param || a.place.space == Space::constant || a.bytes == 0 || a.bytes > 32) return;
  const ptx::Instruction* i = b_.function.body[b_.statement].instruction();
  if (!i || i->opcode == Opcode::cp) return; // the copy itself comes later
  if (a.is_atomic)
    atomic(*i, a);
  else if (a.is_write)
    store(*i, a);
  else if (loads_memory(b_.function, *i))
    load(*i, a);
}

void Undefined::load(const ptx::Instruction& i, const Access& a) {
  auto& ir = b_.ir;
  if (!plan_.any) return;
  const Operand& to = i.operands[0];
  Value* pointer = shadow_pointer(a, written_anywhere);
  Value* matters = nullptr;
  for (unsigned n = 0; n < a.elements; ++n) {
    const Operand& element = to.kind == Operand::Kind::vector ? to.elements[n] : to;
    llvm::IntegerType* type = b_.i(8 * a.element_bytes);
    Value* v = ir.CreateAlignedLoad(type, b_.pointer_at(pointer, n * a.element_bytes), llvm::Align(1));
    v = ir.CreateNot(v);
    if (decides(element)) {
      Value* some = ir.CreateICmpNE(v, b_.constant(8 * a.element_bytes, 0));
      matters = matters ? ir.CreateOr(matters, some) : some;
    }
    if (element.kind == Operand::Kind::reg && is_signed(i.type()) && width_of(element.reg) > 8 * a.element_bytes)
      v = ir.CreateSExt(v, b_.i(width_of(element.reg)));
    set(element, v);
  }
  // What comes as an argument or a result has been noted where it was loaded.
  if (matters && tracked_memory(b_.function, i, 1) == Tracked::memory) b_.when(matters, [&] { note_origin(a); }, false);
}

void Undefined::note_origin(const Access& a) {
  b_.thread_store(offsetof(ThreadContext, undefined_site), b_.constant(32, b_.site ? b_.site->id : no_site));
  b_.thread_store(offsetof(ThreadContext, undefined_bytes), b_.constant(32, a.bytes));
  b_.thread_store(offsetof(ThreadContext, undefined_address), b_.generic_address(a.place));
}

void Undefined::store(const ptx::Instruction& i, const Access& a) {
  auto& ir = b_.ir;
  Value* pointer = shadow_pointer(a, written_nowhere);
  std::vector<Value*> values(a.elements, nullptr);
  Value* some = nullptr;
  bool computed = false, tracked = false;
  if (i.opcode == Opcode::st && a.element_bytes && !i.has(Modifier::bulk)) {
    const Operand& from = i.operands[1];
    for (unsigned n = 0; n < a.elements; ++n) {
      const Operand& element = from.kind == Operand::Kind::vector ? from.elements[n] : from;
      values[n] = bits(element, std::max(ptx::bits(i.type()), 1u));
      if (!values[n]) continue;
      values[n] = ir.CreateZExtOrTrunc(values[n], b_.i(8 * a.element_bytes));
      tracked = true;
      each_register(element, [&](ptx::RegisterId r) { computed |= plan_.kind[r] == Kind::computed; });
      Value* v = ir.CreateICmpNE(values[n], b_.constant(8 * a.element_bytes, 0));
      some = some ? ir.CreateOr(some, v) : v;
    }
  }
  if (!tracked) {
    ir.CreateAlignedStore(llvm::Constant::getAllOnesValue(b_.i(8 * a.bytes)), pointer, llvm::Align(1));
    return;
  }
  for (unsigned n = 0; n < a.elements; ++n) {
    Value* ones = llvm::Constant::getAllOnesValue(b_.i(8 * a.element_bytes));
    ir.CreateAlignedStore(values[n] ? ir.CreateNot(values[n]) : ones, b_.pointer_at(pointer, n * a.element_bytes),
                          llvm::Align(1));
  }
  if (tracked_memory(b_.function, i, 0) != Tracked::memory) return;
  Value* kept = is_local(a.place); // there, copies keep their origin too
  if (computed || a.place.space == Space::local)
    report(some, UndefinedUse::result, b_.generic_address(a.place), a.bytes);
  else if (kept)
    report(ir.CreateAnd(some, kept), UndefinedUse::result, b_.generic_address(a.place), a.bytes);
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

void Undefined::load_words(const Access& a) {
  auto& ir = b_.ir;
  Value* written = ir.CreateAlignedLoad(b_.i(8 * a.bytes), shadow_pointer(a, written_anywhere), llvm::Align(1));
  Value* v = ir.CreateNot(written);
  ir.CreateAlignedStore(v, in_table(0), llvm::Align(4));
  b_.when(ir.CreateICmpNE(v, b_.constant(8 * a.bytes, 0)), [&] { note_origin(a); }, false);
}

void Undefined::store_words(const Access& a, const Operand& fragment) {
  auto& ir = b_.ir;
  Value* v = ir.CreateAlignedLoad(b_.i(8 * a.bytes), in_table(offsetof(TensorUndefined, out)), llvm::Align(4));
  ir.CreateAlignedStore(ir.CreateNot(v), shadow_pointer(a, written_nowhere), llvm::Align(1));
  bool computed = false;
  each_register(fragment, [&](ptx::RegisterId r) { computed |= plan_.kind[r] == Kind::computed; });
  if (!computed) return;
  report(ir.CreateICmpNE(v, b_.constant(8 * a.bytes, 0)), UndefinedUse::result, b_.generic_address(a.place), a.bytes);
}

void Undefined::atomic(const ptx::Instruction& i, const Access& a) {
  auto& ir = b_.ir;
  const bool has_result = i.opcode == Opcode::atom;
  const Operand& value = i.operands[has_result ? 2 : 1];
  const unsigned width = 8 * a.element_bytes;
  // Reads and writes with one pointer: what is not tracked must read as ones, which is what is written there.
  Value *from = shadow_pointer(a, written_anywhere), *to = shadow_pointer(a, written_nowhere);
  const bool exchange = i.has(Modifier::exch), compare = i.has(Modifier::cas);
  Value* some = nullptr;
  for (unsigned n = 0; n < a.elements; ++n) {
    const Operand& element = value.kind == Operand::Kind::vector && a.elements > 1 ? value.elements[n] : value;
    Value* v =
        ir.CreateNot(ir.CreateAlignedLoad(b_.i(width), b_.pointer_at(from, n * a.element_bytes), llvm::Align(1)));
    Value* stored = exchange ? bits(element, width) : nullptr;
    Value* ones = llvm::Constant::getAllOnesValue(b_.i(width));
    ir.CreateAlignedStore(stored ? ir.CreateNot(stored) : ones, b_.pointer_at(to, n * a.element_bytes), llvm::Align(1));
    if (has_result) {
      const Operand& result = i.operands[0];
      set(result.kind == Operand::Kind::vector && a.elements > 1 ? result.elements[n] : result, exchange ? v : nullptr);
    }
    if (exchange) continue;
    if (compare) {
      // What is expected of memory counts as far as it is defined; behind the swap both are known.
      if (Value* expected = bits(element, width)) v = ir.CreateAnd(v, ir.CreateNot(expected));
      set(element, nullptr);
    }
    v = ir.CreateICmpNE(v, b_.constant(width, 0));
    some = some ? ir.CreateOr(some, v) : v;
  }
  // Cooperative groups clear their bits in the system's part of shared memory, whatever it holds.
  if (b_.unit.kernel.info.reserved_shared && a.place.space != Space::global) return;
  if (some) report(some, UndefinedUse::atomic, b_.generic_address(a.place), a.bytes);
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
