// Undefined bits in memory: shadows of what was written, loads, stores and atomic operations.
#include "replay/engine/undefined.h"

#include "replay/engine/cold_calls.h"
#include "replay/engine/lower.h"
#include "replay/engine/tensor_undefined.h"
#include "replay/engine/written.h"

namespace deadheat::engine {

using llvm::Value;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;
using Kind = UndefinedPlan::Kind;

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
  if (a.place.space == Space::param || a.place.space == Space::constant || a.bytes == 0) return;
  const ptx::Instruction* i = b_.function.body[b_.statement].instruction();
  if (!i || i->opcode == Opcode::cp) return; // the copy itself comes later
  if (i->opcode == Opcode::discard) return discard(a);
  if (a.bytes > 32) return;
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

void Undefined::discard(const Access& a) {
  Value* shadow = shadow_pointer(a, written_nowhere);
  b_.ir.CreateMemSet(shadow, b_.constant(8, 0), a.bytes, llvm::MaybeAlign(1));
  report(b_.ir.getTrue(), UndefinedUse::discard, b_.generic_address(a.place), a.bytes);
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

} // namespace deadheat::engine
