#include "replay/engine/region_probe.h"

#include <algorithm>
#include <limits>

#include "deadheat/address.h"
#include "tracer/ptx/operands.h"

namespace deadheat::engine {

using llvm::Value;
using ptx::Operand;

namespace {

constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t greatest = std::numeric_limits<std::int64_t>::max();
constexpr unsigned nothing_bytes = 64;
constexpr std::int64_t neighbours = 64; // bytes between accesses that are of one range

}  // namespace

std::string probe_name(std::size_t resume) { return "probe." + std::to_string(resume); }

// Steering: address registers, guards (of branches too), and whatever they are computed from.
ProbeNotes::ProbeNotes(const FunctionTables& tables, const std::vector<Site>& sites)
    : tables_(tables), steers_(tables.function->body.size(), false) {
  const auto& body = tables.function->body;
  std::vector<bool> wanted(tables.function->registers.size(), false);
  std::vector<ptx::RegisterUse> uses(body.size());
  for (std::uint32_t s = 0; s < body.size(); ++s) {
    const ptx::Instruction* i = body[s].instruction();
    if (!i) continue;
    ptx::register_use(*i, uses[s]);
    if (i->guard) wanted[i->guard->reg] = true;
    for (const Operand& o : i->operands)
      if (o.kind == Operand::Kind::address)
        for (const Operand& e : o.elements)
          if (e.kind == Operand::Kind::reg) wanted[e.reg] = true;
    if (i->opcode == ptx::Opcode::brx)
      for (auto r : uses[s].reads) wanted[r] = true;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const ptx::RegisterUse& use : uses) {
      if (std::none_of(use.writes.begin(), use.writes.end(), [&](auto r) { return wanted[r]; })) continue;
      for (auto r : use.reads)
        if (!wanted[r]) wanted[r] = changed = true;
    }
  }
  for (std::uint32_t s = 0; s < body.size(); ++s) {
    if (std::none_of(uses[s].writes.begin(), uses[s].writes.end(), [&](auto r) { return wanted[r]; })) continue;
    const ptx::Opcode opcode = body[s].instruction()->opcode;
    steers_[s] = opcode == ptx::Opcode::ld;
    const std::uint32_t site = tables.site[s];
    possible_ &= opcode != ptx::Opcode::atom && !(steers_[s] && site != no_site && sites[site].in_loop);
  }
}

ProbeNotes::ProbeNotes(const FunctionTables& tables, FootprintSlice slice, ProbeKind kind)
    : tables_(tables), kind_(kind), steers_(std::move(slice.steers)), kept_(std::move(slice.kept)) {}

llvm::AllocaInst* ProbeNotes::slot(Builder& b, std::int64_t initial) {
  llvm::BasicBlock& entry = b.ir.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilder<> at(&entry, entry.begin());
  llvm::AllocaInst* made = at.CreateAlloca(at.getInt64Ty());
  at.CreateStore(at.getInt64(std::uint64_t(initial)), made);
  return made;
}

// Nothing from the group's last access up to this one writes its base.
bool ProbeNotes::same_base(const Builder& b, const Group& group) const {
  if (group.block != b.ir.GetInsertBlock() || group.statement > b.statement) return false;
  for (std::uint32_t s = group.statement; s < b.statement; ++s)
    if (const ptx::Instruction* i = tables_.function->body[s].instruction()) {
      const ptx::RegisterUse use = ptx::register_use(*i);
      if (std::find(use.writes.begin(), use.writes.end(), ptx::RegisterId(group.base)) != use.writes.end())
        return false;
    }
  return true;
}

ProbeNotes::Group& ProbeNotes::group_of(Builder& b, const Access& a, RegionRange::Kind kind, std::uint8_t operation) {
  if (a.place.base_register >= 0)
    for (Group& g : groups_) {
      const RegionRange& range = ranges_[g.range];
      if (g.base != a.place.base_register || range.space != a.place.space || range.kind != kind ||
          range.operation != operation || !same_base(b, g))
        continue;
      // What lies between may be other blocks': as long as there is room, a range is what is touched.
      if (!kept_.empty() && ranges_.size() < max_region_ranges / 2 &&
          (a.place.displacement > range.end + neighbours ||
           a.place.displacement + std::int64_t(a.bytes) + neighbours < range.low))
        continue;
      g.statement = b.statement;
      return g;
    }
  if (ranges_.size() == max_region_ranges) {
    b.refuse("too many accesses to probe");
    return groups_.back();
  }
  groups_.push_back({b.ir.GetInsertBlock(), b.statement, a.place.base_register, ranges_.size(), {}});
  ranges_.push_back({.kind = kind, .space = a.place.space, .operation = operation, .low = greatest, .end = least});
  Value* base = a.place.base ? a.place.base : b.constant(64, 0);
  if (kind_ == ProbeKind::residues) base = fold(b, base);
  if (kind_ == ProbeKind::list) list(b, base);
  slots_.push_back(slot(b, greatest));
  slots_.push_back(slot(b, least));
  for (unsigned side = 0; side < 2; ++side) {
    llvm::AllocaInst* s = slots_[slots_.size() - 2 + side];
    auto* kept = b.ir.CreateLoad(b.i(64), s);
    b.ir.CreateStore(b.ir.CreateBinaryIntrinsic(side ? llvm::Intrinsic::smax : llvm::Intrinsic::smin, kept, base), s);
  }
  return groups_.back();
}

// In 32 bits and by a floating-point quotient, both of which are vectors' business; it is off by one at most.
Value* ProbeNotes::fold(Builder& b, Value* base) {
  auto& ir = b.ir;
  Value* folds = b.region_field(offsetof(RegionContext, folds), ir.getPtrTy());
  const std::uint64_t at = (ranges_.size() - 1) * sizeof(ProbeFold);
  auto field = [&](std::size_t offset, llvm::Type* type) {
    return b.entry_value("fold." + std::to_string(at + offset),
                         [&] { return b.context_load(folds, at + offset, type); });
  };
  Value* origin = field(offsetof(ProbeFold, origin), b.i(64));
  Value* inverse = field(offsetof(ProbeFold, inverse), ir.getDoubleTy());
  Value* modulus = field(offsetof(ProbeFold, modulus), b.i(32));
  Value* x = ir.CreateTrunc(ir.CreateSub(base, origin), b.i(32));
  Value* quotient = ir.CreateFPToSI(ir.CreateFMul(ir.CreateSIToFP(x, ir.getDoubleTy()), inverse), b.i(32));
  Value* rest = ir.CreateSub(x, ir.CreateMul(quotient, modulus));
  rest = ir.CreateSelect(ir.CreateICmpSLT(rest, b.constant(32, 0)), ir.CreateAdd(rest, modulus), rest);
  rest = ir.CreateSelect(ir.CreateICmpSGE(rest, modulus), ir.CreateSub(rest, modulus), rest);
  return ir.CreateZExt(rest, b.i(64));
}

void ProbeNotes::list(Builder& b, Value* base) {
  auto& ir = b.ir;
  Value* entries = b.region_field(offsetof(RegionContext, listed), ir.getPtrTy());
  Value* room = b.region_field(offsetof(RegionContext, listed_room), b.i(64));
  Value* counter = b.region_pointer(offsetof(RegionContext, listed_count));
  Value* count = b.context_load(counter, 0, b.i(64));
  Value* last = ir.CreateSub(room, b.constant(64, 1));
  Value* at = ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, count, last);
  Value* entry = ir.CreateGEP(ir.getInt8Ty(), entries, ir.CreateMul(at, b.constant(64, sizeof(ProbeList::Entry))));
  b.context_store(entry, offsetof(ProbeList::Entry, range), b.constant(64, ranges_.size() - 1));
  b.context_store(entry, offsetof(ProbeList::Entry, base), base);
  b.context_store(counter, 0, ir.CreateAdd(count, b.constant(64, 1)));
}

void ProbeNotes::note(Builder& b, const Access& a) {
  const bool whole = !kept_.empty();
  if (whole && a.place.space == Space::shared) return; // the block's own
  const bool combined = whole && a.commutes;
  const auto kind = combined               ? RegionRange::Kind::combined
                    : a.is_write           ? RegionRange::Kind::written
                    : steers_[b.statement] ? RegionRange::Kind::steers
                                           : RegionRange::Kind::read;
  Group& group = group_of(b, a, kind, combined ? a.commutes : std::uint8_t(0));
  if (b.refused()) return;
  RegionRange& range = ranges_[group.range];
  range.low = std::min(range.low, a.place.displacement);
  range.end = std::max(range.end, a.place.displacement + std::int64_t(a.bytes));
  const unsigned natural = alignment(a.bytes);
  const unsigned rest = unsigned(std::uint64_t(a.place.displacement) & (natural - 1));
  if (natural == 1 || !group.aligned.insert({natural, rest}).second) return;
  if (!misaligned_) misaligned_ = slot(b, 0);
  Value* bits = b.ir.CreateAnd(b.offset(a.place), b.constant(64, natural - 1));
  b.ir.CreateStore(b.ir.CreateOr(b.ir.CreateLoad(b.i(64), misaligned_), bits), misaligned_);
}

Value* ProbeNotes::load(Builder& b, llvm::Type* type, Value* pointer) {
  if (!steers_[b.statement]) return llvm::Constant::getNullValue(type);
  auto& ir = b.ir;
  const unsigned bytes = unsigned(b.unit.module.getDataLayout().getTypeStoreSize(type));
  if (!nothing_) {
    llvm::BasicBlock& entry = ir.GetInsertBlock()->getParent()->getEntryBlock();
    llvm::IRBuilder<> at(&entry, entry.begin());
    nothing_ = at.CreateAlloca(llvm::ArrayType::get(at.getInt8Ty(), nothing_bytes));
    at.CreateMemSet(nothing_, at.getInt8(0), nothing_bytes, llvm::MaybeAlign(1));
  }
  Value* where = ir.CreatePtrToInt(pointer, b.i(64));
  // In shared memory, or all valid; bytes that cross a granule of the shadow are misaligned, and noted as that.
  Value* in_arena = ir.CreateSub(where, b.constant(64, device_arena));
  Value* inside = ir.CreateICmpULT(in_arena, b.constant(64, device_arena_bytes));
  Value* exec = b.exec_context();
  Value* shadow =
      b.entry_value("shadow", [&] { return b.context_load(exec, offsetof(ExecContext, shadow), ir.getPtrTy()); });
  Value* granule = ir.CreateLShr(ir.CreateSelect(inside, in_arena, b.constant(64, 0)), 4);
  Value* valid = b.context_load(ir.CreateGEP(ir.getInt8Ty(), shadow, granule), 0, b.i(8));
  Value* end = ir.CreateAdd(ir.CreateAnd(where, b.constant(64, 15)), b.constant(64, bytes));
  Value* good = ir.CreateAnd(inside, ir.CreateICmpULE(end, ir.CreateZExt(valid, b.i(64))));
  Value* launch = b.launch_context();
  Value* total = ir.CreateZExt(
      b.entry_value("total_shared",
                    [&] { return b.context_load(launch, offsetof(LaunchContext, total_shared), b.i(32)); }),
      b.i(64));
  Value* in_shared = ir.CreateSub(where, ir.CreatePtrToInt(b.shared_base(), b.i(64)));
  good = ir.CreateOr(good, ir.CreateAnd(ir.CreateICmpULE(in_shared, total),
                                        ir.CreateICmpULE(ir.CreateAdd(in_shared, b.constant(64, bytes)), total)));
  // What could not be read is not known: as bad as a misaligned address.
  if (!misaligned_) misaligned_ = slot(b, 0);
  Value* bits = ir.CreateZExt(ir.CreateNot(good), b.i(64));
  ir.CreateStore(ir.CreateOr(ir.CreateLoad(b.i(64), misaligned_), bits), misaligned_);
  return ir.CreateAlignedLoad(type, ir.CreateSelect(good, pointer, nothing_), llvm::Align(1));
}

void ProbeNotes::finish(llvm::Function& f) {
  llvm::IRBuilder<> ir(f.getContext());
  auto* word = ir.getInt64Ty();
  auto* end = llvm::BasicBlock::Create(f.getContext(), "numbers", &f);
  for (llvm::BasicBlock& block : f)
    if (llvm::isa_and_nonnull<llvm::ReturnInst>(block.getTerminator())) {
      block.getTerminator()->eraseFromParent();
      llvm::BranchInst::Create(end, &block);
    }
  ir.SetInsertPoint(end);
  Value* all = f.getArg(f.arg_size() - 1);
  auto join = [&](std::size_t number, llvm::AllocaInst* mine, llvm::Intrinsic::ID how) {
    Value* at = ir.CreateConstGEP1_64(word, all, number);
    Value *a = ir.CreateLoad(word, at), *b = ir.CreateLoad(word, mine);
    ir.CreateStore(how ? ir.CreateBinaryIntrinsic(how, a, b) : ir.CreateOr(a, b), at);
  };
  for (std::size_t n = 0; n < slots_.size(); ++n)
    join(n, slots_[n], n % 2 ? llvm::Intrinsic::smax : llvm::Intrinsic::smin);
  if (misaligned_) join(slots_.size(), misaligned_, llvm::Intrinsic::not_intrinsic);
  ir.CreateRet(ir.getInt32(0));
}

void ProbeNotes::clear(llvm::IRBuilder<>& ir, Value* numbers) const {
  for (std::size_t n = 0; n < this->numbers(); ++n) {
    const std::int64_t initial = n == slots_.size() ? 0 : n % 2 ? least : greatest;
    ir.CreateStore(ir.getInt64(std::uint64_t(initial)), ir.CreateConstGEP1_64(ir.getInt64Ty(), numbers, n));
  }
}

}  // namespace deadheat::engine
