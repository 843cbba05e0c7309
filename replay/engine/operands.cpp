// Operands and addresses of instructions as LLVM values (PTX ISA 6).
#include <cstring>

#include "deadheat/address.h"
#include "replay/engine/builder.h"
#include "replay/engine/lower.h"
#include "replay/engine/region_probe.h"

namespace deadheat::engine {

using llvm::Value;
using ptx::Operand;

Value* Builder::canonical_bits(Value* v) {
  bool wide = v->getType()->isDoubleTy();
  Value* bits = ir.CreateBitCast(v, i(wide ? 64 : 32));
  Value* nan = ir.CreateFCmpUNO(v, v);
  return ir.CreateSelect(nan, constant(wide ? 64 : 32, wide ? 0xfff8000000000000ull : 0x7fffffffull), bits);
}

Value* Builder::read(const Operand& o, unsigned bits) {
  switch (o.kind) {
    case Operand::Kind::reg: {
      const Slot& slot = slots_[o.reg];
      Value* v = load_slot(slot);
      if (slot.type->isIntegerTy()) {
        if (slot.raw) v = canonical_bits(ir.CreateBitCast(v, slot.type->getIntegerBitWidth() == 64 ? f64() : f32()));
      } else {
        v = slot.raw ? canonical_bits(v) : ir.CreateBitCast(v, i(slot.type->isDoubleTy() ? 64 : 32));
      }
      v = ir.CreateZExtOrTrunc(v, i(bits));
      if (o.negated) v = bits == 1 ? ir.CreateNot(v) : ir.CreateNeg(v);
      return v;
    }
    case Operand::Kind::integer:
      if (bits > 64) {  // sign-extended from 64 bits
        return llvm::ConstantInt::get(i(bits), o.bits, true);
      }
      return constant(bits, bits == 1 ? o.bits != 0 : o.bits);
    case Operand::Kind::f32: return constant(bits, o.bits);
    case Operand::Kind::f64:
      if (bits == 32) {  // a double written where a float is wanted
        double d;
        std::memcpy(&d, &o.bits, 8);
        float f = float(d);
        std::uint32_t b;
        std::memcpy(&b, &f, 4);
        return constant(32, b);
      }
      return constant(bits, o.bits);
    case Operand::Kind::special: return special(o.text, bits);
    case Operand::Kind::symbol: return ir.CreateZExtOrTrunc(symbol_address(o), i(bits));
    case Operand::Kind::vector: {  // packs, first element lowest
      if (o.elements.empty()) break;
      unsigned each = bits / unsigned(o.elements.size());
      Value* all = constant(bits, 0);
      for (std::size_t n = 0; n < o.elements.size(); ++n) {
        Value* element = ir.CreateZExt(read(o.elements[n], each), i(bits));
        all = ir.CreateOr(all, n == 0 ? element : ir.CreateShl(element, each * n));
      }
      return all;
    }
    default: break;
  }
  refuse("operand " + std::string(o.text));
  return constant(bits, 0);
}

Value* Builder::read_float(const Operand& o, ptx::Type type) {
  llvm::Type* want = type == ptx::Type::f64 ? f64() : f32();
  if (o.kind == Operand::Kind::reg) {
    const Slot& slot = slots_[o.reg];
    unsigned bits = type == ptx::Type::f64 ? 64 : 32;
    Value* v = load_slot(slot);
    if (v->getType() != want) {
      if (slot.type->isFloatingPointTy()) v = ir.CreateBitCast(v, i(slot.type->isDoubleTy() ? 64 : 32));
      v = ir.CreateBitCast(ir.CreateZExtOrTrunc(v, i(bits)), want);
    }
    return o.negated ? ir.CreateFNeg(v) : v;
  }
  Value* v = ir.CreateBitCast(read(o, type == ptx::Type::f64 ? 64 : 32), want);
  return v;
}

unsigned Builder::register_bits(const Operand& o) const {
  ptx::Type type = function.registers[o.reg].type;
  return type == ptx::Type::pred ? 1 : ptx::bits(type);
}

Value* Builder::read_predicate(const Operand& o) { return read(o, 1); }

void Builder::write(const Operand& to, Value* v, bool sign) {
  if (to.kind == Operand::Kind::sink) return;
  if (to.kind == Operand::Kind::vector) {  // unpacks
    unsigned each = v->getType()->getIntegerBitWidth() / unsigned(to.elements.size());
    for (std::size_t n = 0; n < to.elements.size(); ++n)
      write(to.elements[n], ir.CreateTrunc(ir.CreateLShr(v, each * n), i(each)));
    return;
  }
  if (to.kind != Operand::Kind::reg) {
    refuse("destination " + std::string(to.text));
    return;
  }
  const Slot& slot = slots_[to.reg];
  unsigned width = slot.type->isDoubleTy() ? 64 : slot.type->isFloatTy() ? 32 : slot.type->getIntegerBitWidth();
  v = sign ? ir.CreateSExtOrTrunc(v, i(width)) : ir.CreateZExtOrTrunc(v, i(width));
  if (!slot.type->isIntegerTy()) v = ir.CreateBitCast(v, slot.type);
  store_slot(slot, v);
}

void Builder::write_float(const Operand& to, Value* v) {
  if (to.kind == Operand::Kind::reg) {
    const Slot& slot = slots_[to.reg];
    if (slot.raw) {
      if (slot.type == v->getType()) {
        store_slot(slot, v);
        return;
      }
      if (slot.type->isIntegerTy() && slot.type->getIntegerBitWidth() == (v->getType()->isDoubleTy() ? 64u : 32u)) {
        store_slot(slot, ir.CreateBitCast(v, slot.type));
        return;
      }
    }
  }
  write(to, canonical_bits(v));
}

// ---- special registers (PTX ISA 10)

namespace {

struct ContextField {
  std::string_view name;
  enum class In { thread, block, launch } in;
  std::size_t offset;
  unsigned bits = 32;
};

constexpr std::size_t component(std::size_t base, unsigned n) { return base + 4 * n; }
using In = ContextField::In;
constexpr ContextField fields[] = {
    {"%tid.x", In::thread, component(offsetof(ThreadContext, tid), 0)},
    {"%tid.y", In::thread, component(offsetof(ThreadContext, tid), 1)},
    {"%tid.z", In::thread, component(offsetof(ThreadContext, tid), 2)},
    {"%laneid", In::thread, offsetof(ThreadContext, lane)},
    {"%warpid", In::thread, offsetof(ThreadContext, warp)},
    {"%ctaid.x", In::block, component(offsetof(BlockContext, ctaid), 0)},
    {"%ctaid.y", In::block, component(offsetof(BlockContext, ctaid), 1)},
    {"%ctaid.z", In::block, component(offsetof(BlockContext, ctaid), 2)},
    {"%smid", In::block, offsetof(BlockContext, smid)},
    {"%nsmid", In::block, offsetof(BlockContext, nsmid)},
    {"%ntid.x", In::launch, component(offsetof(LaunchContext, ntid), 0)},
    {"%ntid.y", In::launch, component(offsetof(LaunchContext, ntid), 1)},
    {"%ntid.z", In::launch, component(offsetof(LaunchContext, ntid), 2)},
    {"%nctaid.x", In::launch, component(offsetof(LaunchContext, nctaid), 0)},
    {"%nctaid.y", In::launch, component(offsetof(LaunchContext, nctaid), 1)},
    {"%nctaid.z", In::launch, component(offsetof(LaunchContext, nctaid), 2)},
    {"%nclusterid.x", In::launch, component(offsetof(LaunchContext, nclusterid), 0)},
    {"%nclusterid.y", In::launch, component(offsetof(LaunchContext, nclusterid), 1)},
    {"%nclusterid.z", In::launch, component(offsetof(LaunchContext, nclusterid), 2)},
    {"%cluster_nctaid.x", In::launch, component(offsetof(LaunchContext, cluster_nctaid), 0)},
    {"%cluster_nctaid.y", In::launch, component(offsetof(LaunchContext, cluster_nctaid), 1)},
    {"%cluster_nctaid.z", In::launch, component(offsetof(LaunchContext, cluster_nctaid), 2)},
    {"%dynamic_smem_size", In::launch, offsetof(LaunchContext, dynamic_shared)},
    {"%gridid", In::launch, offsetof(LaunchContext, gridid), 64},
    // Cooperative groups find the grid's workspace there (cooperative_groups/details/driver_abi.h).
    {"%envreg1", In::launch, offsetof(LaunchContext, grid_workspace) + 4},
    {"%envreg2", In::launch, offsetof(LaunchContext, grid_workspace)},
};

}  // namespace

bool Builder::is_read(const Operand& o) const {
  if (o.kind == Operand::Kind::reg) return is_read_[o.reg];
  if (o.kind == Operand::Kind::sink) return false;
  return true;
}

Value* Builder::special(std::string_view name, unsigned bits) {
  auto fit = [&](Value* v) { return ir.CreateZExtOrTrunc(v, i(bits)); };
  auto sr = [&](const char* other) { return special(other, 32); };
  auto derived = [&](const std::function<Value*()>& make) { return fit(entry_value(std::string(name), make)); };
  for (const ContextField& field : fields) {
    if (field.name != name) continue;
    if (field.in == In::thread && in_regions()) return fit(special_of_thread(name));
    Value* base = field.in == In::thread ? thread() : field.in == In::block ? block_context() : launch_context();
    Value* v = entry_value(std::string(name), [&] { return context_load(base, field.offset, i(field.bits)); });
    return fit(v);
  }
  if (name == "WARP_SZ" || name == "%warpsize") return constant(bits, 32);
  if (name == "%nwarpid") {
    Value *x = sr("%ntid.x"), *y = sr("%ntid.y"), *z = sr("%ntid.z");
    return derived(
        [&] { return ir.CreateLShr(ir.CreateAdd(ir.CreateMul(ir.CreateMul(x, y), z), constant(32, 31)), 5); });
  }
  if (name.starts_with("%lanemask_")) {
    Value* lane = sr("%laneid");
    std::string_view which = name.substr(10);
    return derived([&]() -> Value* {
      Value* eq = ir.CreateShl(constant(32, 1), lane);
      Value* lt = ir.CreateSub(eq, constant(32, 1));
      if (which == "eq") return eq;
      if (which == "lt") return lt;
      if (which == "le") return ir.CreateOr(lt, eq);
      if (which == "ge") return ir.CreateNot(lt);
      return ir.CreateNot(ir.CreateOr(lt, eq));
    });
  }
  for (const char* axis : {".x", ".y", ".z"}) {
    if (name == std::string("%clusterid") + axis || name == std::string("%cluster_ctaid") + axis) {
      Value* ctaid = special(std::string("%ctaid") + axis, 32);
      Value* extent = special(std::string("%cluster_nctaid") + axis, 32);
      bool of_grid = name.starts_with("%clusterid");
      return derived([&] { return of_grid ? ir.CreateUDiv(ctaid, extent) : ir.CreateURem(ctaid, extent); });
    }
  }
  if (name == "%cluster_ctarank") {
    Value *x = sr("%cluster_ctaid.x"), *y = sr("%cluster_ctaid.y"), *z = sr("%cluster_ctaid.z");
    Value *nx = sr("%cluster_nctaid.x"), *ny = sr("%cluster_nctaid.y");
    return derived([&] { return ir.CreateAdd(x, ir.CreateMul(nx, ir.CreateAdd(y, ir.CreateMul(ny, z)))); });
  }
  if (name == "%cluster_nctarank") {
    Value *x = sr("%cluster_nctaid.x"), *y = sr("%cluster_nctaid.y"), *z = sr("%cluster_nctaid.z");
    return derived([&] { return ir.CreateMul(ir.CreateMul(x, y), z); });
  }
  if (name == "%is_explicit_cluster") {
    Value* ranks = sr("%cluster_nctarank");
    return derived([&] { return ir.CreateZExt(ir.CreateICmpUGT(ranks, constant(32, 1)), i(32)); });
  }
  bool clock = name.starts_with("%clock"), timer = name.starts_with("%globaltimer");
  if (clock || timer) {
    Value* now = call_service(offsetof(Services, clock), i(64), {thread(), constant(32, timer ? 1 : 0)});
    if (name.ends_with("_hi")) now = ir.CreateLShr(now, 32);
    return fit(now);
  }
  // PTX ISA, special registers: the total leaves out the system's part, the aggregate does not. That part's own offsets
  // lie in its two halves.
  const KernelInfo& kernel = unit.kernel.info;
  auto shared_total = [&] {
    Value* base = launch_context();
    return entry_value("total_shared",
                       [&] { return context_load(base, offsetof(LaunchContext, total_shared), i(32)); });
  };
  if (name == "%total_smem_size") return fit(ir.CreateSub(shared_total(), constant(32, kernel.reserved_shared)));
  if (name == "%aggr_smem_size")
    return fit(ir.CreateAdd(shared_total(), constant(32, reserved_shared_bytes - kernel.reserved_shared)));
  const std::uint32_t reserved = align_up(kernel.static_shared, 16);
  if (name == "%reserved_smem_offset_begin" || name == "%reserved_smem_offset_0") return constant(bits, reserved);
  if (name == "%reserved_smem_offset_1") return constant(bits, reserved + reserved_shared_bytes / 2);
  if (name == "%reserved_smem_offset_end") return constant(bits, reserved + reserved_shared_bytes);
  if (name == "%reserved_smem_offset_cap") return constant(bits, reserved_shared_bytes);
  if (name.starts_with("%envreg") || name.starts_with("%pm") || name == "%current_graph_exec") return constant(bits, 0);
  refuse("special register " + std::string(name));
  return constant(bits, 0);
}

// ---- addresses

namespace {
unsigned low_mask_bits(Space space) {
  return space == Space::shared || space == Space::local || space == Space::param ? 32 : 64;
}
} // namespace

Space Builder::space_of(const ptx::Instruction& instruction) {
  using ptx::Modifier;
  if (instruction.has(Modifier::global)) return Space::global;
  if (instruction.has(Modifier::shared) || instruction.has(Modifier::shared_cta)) return Space::shared;
  if (instruction.has(Modifier::shared_cluster)) return Space::shared;
  if (instruction.has(Modifier::local)) return Space::local;
  if (instruction.has(Modifier::const_)) return Space::constant;
  if (instruction.has(Modifier::param) || instruction.has(Modifier::param_entry) ||
      instruction.has(Modifier::param_func))
    return Space::param;
  return Space::generic;
}

// What `mov` of a symbol gives: its address in its own space.
Value* Builder::symbol_address(const Operand& o) {
  if (o.variable >= 0) {
    const ptx::Variable& v = function.variables[std::size_t(o.variable)];
    if (v.space == Space::shared) {
      auto it = unit.kernel.shared.find(&v);
      DEADHEAT_CHECK(it != unit.kernel.shared.end());
      return constant(64, it->second + std::uint64_t(o.offset));
    }
    if (v.space == Space::local || v.space == Space::param)
      return ir.CreateAdd(frame_base_offset(),
                          constant(64, variable_offsets_[std::size_t(o.variable)] + std::uint64_t(o.offset)));
    return constant(64, unit.address_of(v.name) + std::uint64_t(o.offset));
  }
  bool found = false;
  std::uint32_t param = param_offset(o.text, found);
  if (found) {
    if (function.entry) return constant(64, param + std::uint64_t(o.offset));
    return ir.CreateAdd(frame_base_offset(), constant(64, param + std::uint64_t(o.offset)));
  }
  if (const ptx::Variable* v = unit.tables.module.variable(o.text)) {
    if (v->space == Space::shared) {
      auto it = unit.kernel.shared.find(v);
      DEADHEAT_CHECK(it != unit.kernel.shared.end());
      return constant(64, it->second + std::uint64_t(o.offset));
    }
    return constant(64, unit.address_of(v->name) + std::uint64_t(o.offset));
  }
  auto f = unit.tables.by_name.find(o.text);
  if (f != unit.tables.by_name.end()) return constant(64, reinterpret_cast<std::uint64_t>(unit.pointer_to(f->second)));
  refuse("unknown symbol " + std::string(o.text));
  return constant(64, 0);
}

Builder::Place Builder::place(const Operand& address, Space space) {
  Place p;
  p.space = space;
  p.displacement = address.offset;
  if (address.kind != Operand::Kind::address || address.elements.empty()) {
    // ld.param %r, name without brackets does not exist; anything else is malformed
    refuse("address operand");
    return p;
  }
  const Operand& base = address.elements[0];
  switch (base.kind) {
    case Operand::Kind::reg: {
      p.base_register = std::int32_t(base.reg);
      if (low_mask_bits(space) == 32) {
        // Offsets: 32 bits matter. Sign extension keeps base + displacement foldable and is exact for offsets < 2^31.
        p.base = ir.CreateSExt(read(base, 32), i(64));
      } else {
        p.base = read(base, 64);
      }
      break;
    }
    case Operand::Kind::symbol: {
      Operand symbol = base;
      std::int64_t extra = symbol.offset;
      symbol.offset = 0;
      p.displacement += extra;
      bool frame_memory = false;
      std::uint32_t at = 0;
      if (symbol.variable >= 0) {
        const ptx::Variable& v = function.variables[std::size_t(symbol.variable)];
        if (v.space == Space::local || v.space == Space::param) {
          frame_memory = true;
          at = variable_offsets_[std::size_t(symbol.variable)];
        }
      } else if (space == Space::param && !function.entry) {
        bool found = false;
        at = param_offset(symbol.text, found);
        frame_memory = found;
      }
      if (frame_memory) {
        p.space = Space::local;
        p.base = nullptr;
        p.wide_base = false; // relative to the frame
        p.displacement += at;
      } else {
        Value* a = symbol_address(symbol);
        if (auto* c = llvm::dyn_cast<llvm::ConstantInt>(a))
          p.displacement += std::int64_t(c->getZExtValue());
        else
          p.base = a;
        if (space == Space::generic) { // a variable named without its space: its generic address
          const ptx::Variable* v = symbol.variable >= 0 ? &function.variables[std::size_t(symbol.variable)]
                                                        : unit.tables.module.variable(symbol.text);
          if (v && v->space == Space::shared)
            p.space = Space::shared;
          else
            p.space = Space::global;
        }
      }
      break;
    }
    case Operand::Kind::integer: p.displacement += std::int64_t(base.bits); break;
    default: refuse("address operand");
  }
  if (space == Space::param && p.space == Space::param && !function.entry) p.space = Space::local;
  return p;
}

Value* Builder::offset(const Place& p) {
  Value* sum;
  if (!p.wide_base)
    sum = ir.CreateAdd(frame_base_offset(), constant(64, std::uint64_t(p.displacement)));
  else if (!p.base)
    sum = constant(64, std::uint64_t(p.displacement));
  else
    sum = p.displacement ? ir.CreateAdd(p.base, constant(64, std::uint64_t(p.displacement))) : p.base;
  if (low_mask_bits(p.space) == 32) sum = ir.CreateAnd(sum, constant(64, 0xffffffffu));
  return sum;
}

Value* Builder::generic_address(const Place& p) {
  Value* o = offset(p);
  switch (p.space) {
    case Space::shared: return ir.CreateAdd(o, constant(64, shared_window));
    case Space::local: return ir.CreateAdd(o, constant(64, local_window));
    case Space::param: return ir.CreateAdd(o, constant(64, param_window));
    default: return o;
  }
}

Value* Builder::is_visible(const Place& p) {
  if (p.space == Space::shared || p.space == Space::global || p.space == Space::constant) return nullptr;
  if (p.space != Space::generic) return ir.getFalse();
  // Of generic addresses all but those in the local and param windows.
  Value* a = offset(p);
  Value* window = ir.CreateAnd(a, constant(64, window_bit | (std::uint64_t(1) << 40) | (std::uint64_t(1) << 41)));
  return ir.CreateICmpULE(window, constant(64, window_bit));
}

Value* Builder::host_pointer(const Place& p) {
  auto* byte = ir.getInt8Ty();
  auto with_displacement = [&](Value* pointer) {
    return p.displacement ? ir.CreateGEP(byte, pointer, constant(64, std::uint64_t(p.displacement))) : pointer;
  };
  auto in_window = [&](Value* window) -> Value* {
    // Exactly what was checked; in regions the same, for no legal offset has more bits.
    if (mode.check && !in_regions()) return ir.CreateGEP(byte, window, offset(p));
    return with_displacement(p.base ? ir.CreateGEP(byte, window, p.base) : window);
  };
  switch (p.space) {
    case Space::shared:
      if (site && site->shared_cluster) return cluster_pointer(offset(p));
      return in_window(shared_base());
    case Space::local:
      if (!p.wide_base) return with_displacement(frame_);
      return in_window(stack_base());
    case Space::param: {
      Value* launch = launch_context();
      Value* params =
          entry_value("params", [&] { return context_load(launch, offsetof(LaunchContext, params), ir.getPtrTy()); });
      return in_window(params);
    }
    case Space::global:
    case Space::constant: {
      if (!p.base) return ir.CreateIntToPtr(constant(64, to_host(std::uint64_t(p.displacement))), ir.getPtrTy());
      Value* host = ir.CreateIntToPtr(ir.CreateAnd(p.base, constant(64, ~device_bit)), ir.getPtrTy());
      if (in_regions()) {
        // The same for every address of device memory, in terms that the loop vectorizer sees through. Memory that is
        // shared with the host has no bit to take away: fast code does not touch it.
        Value* origin = region_field(offsetof(RegionContext, origin), ir.getPtrTy());
        Value* device = ir.CreateGEP(byte, origin, ir.CreateSub(p.base, constant(64, device_bit)));
        host = ir.CreateSelect(fast_, device, host);
      }
      return with_displacement(host);
    }
    case Space::generic: {
      Value* a = offset(p);
      Value* windowed = ir.CreateICmpUGE(a, constant(64, window_bit));
      Value* launch = launch_context();
      Value* params =
          entry_value("params", [&] { return context_load(launch, offsetof(LaunchContext, params), ir.getPtrTy()); });
      Value* bit40 = ir.CreateICmpNE(ir.CreateAnd(a, constant(64, std::uint64_t(1) << 40)), constant(64, 0));
      Value* bit41 = ir.CreateICmpNE(ir.CreateAnd(a, constant(64, std::uint64_t(1) << 41)), constant(64, 0));
      Value* low = ir.CreateAnd(a, constant(64, 0xffffffffu));
      Value* inside;
      if (unit.kernel.info.reaches_cluster) {
        Value* base = ir.CreateSelect(bit41, params, stack_base());
        inside = ir.CreateSelect(ir.CreateOr(bit40, bit41), ir.CreateGEP(byte, base, low), cluster_pointer(low));
      } else {
        Value* base = ir.CreateSelect(bit41, params, ir.CreateSelect(bit40, stack_base(), shared_base()));
        inside = ir.CreateGEP(byte, base, low);
      }
      Value* outside = ir.CreateIntToPtr(ir.CreateAnd(a, constant(64, ~device_bit)), ir.getPtrTy());
      return ir.CreateSelect(windowed, inside, outside);
    }
  }
  return nullptr;
}

// Of an offset in the shared window: in the block that its upper bits name.
Value* Builder::cluster_pointer(Value* offset) {
  Value* block = block_context();
  Value* table = entry_value(
      "cluster", [&] { return context_load(block, offsetof(BlockContext, cluster_shared), ir.getPtrTy()); });
  Value* number = ir.CreateAnd(ir.CreateLShr(offset, cluster_shift), constant(64, 255));
  Value* base = context_load(ir.CreateGEP(ir.getPtrTy(), table, number), 0, ir.getPtrTy());
  return ir.CreateGEP(ir.getInt8Ty(), base, ir.CreateAnd(offset, constant(64, cluster_offset_mask)));
}

Value* Builder::load(llvm::Type* type, Value* pointer, Space space, bool invariant) {
  const bool noted = space == Space::global || space == Space::shared || space == Space::generic;
  if (probe_ && noted) return probe_->load(*this, type, pointer);
  auto* load = ir.CreateAlignedLoad(type, pointer, llvm::Align(1));
  mark(load, space, false);
  if (invariant) load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context(), {}));
  return load;
}

void Builder::store_unnoted(Value* value, Value* pointer, Space space) {
  if (probe_) return;
  mark(ir.CreateAlignedStore(value, pointer, llvm::Align(1)), space, false);
}

void Builder::store(Value* value, Value* pointer, Space space) {
  store_unnoted(value, pointer, space);
  if (space == Space::global || space == Space::shared || space == Space::generic) note_change(nullptr);
}

void Builder::note_change(Value* changed) {
  if (!mode.control) return;
  Value* by = changed ? ir.CreateZExt(changed, i(64)) : constant(64, 1);
  Value* count = context_load(exec_context(), offsetof(ExecContext, changes), i(64));
  context_store(exec_context(), offsetof(ExecContext, changes), ir.CreateAdd(count, by));
}

} // namespace deadheat::engine
