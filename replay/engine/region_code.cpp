#include "replay/engine/region_code.h"

#include <functional>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <llvm/Transforms/Utils/Cloning.h>
#pragma GCC diagnostic pop

#include "replay/engine/region_probe.h"

namespace deadheat::engine {

using llvm::BasicBlock;
using llvm::Value;

namespace {

constexpr unsigned most_threads = 1024;  // of a block, and of each of its axes

// u32 fast(RegionContext*): all threads of the block from one stop to where they stop next. Or its probe.
class FastBuilder {
 public:
  FastBuilder(Unit& unit, Builder& body) : unit_(unit), body_(body), ir_(unit.module.getContext()) {}

  void build(std::uint32_t resume, const std::vector<std::uint16_t>& needs) {
    auto* word = ir_.getInt32Ty();
    const ProbeNotes* probe = body_.probe();
    llvm::Type* result = probe ? ir_.getVoidTy() : word;
    function_ = llvm::Function::Create(llvm::FunctionType::get(result, {ir_.getPtrTy()}, false),
                                       llvm::GlobalValue::ExternalLinkage,
                                       probe ? probe_name(resume) : fast_name(resume), unit_.module);
    function_->setDoesNotThrow();
    function_->addFnAttr("target-cpu", "x86-64-v3");
    context_ = function_->getArg(0);
    ir_.SetInsertPoint(BasicBlock::Create(ir_.getContext(), "entry", function_));
    Value* reached = ir_.CreateAlloca(word);
    ir_.CreateStore(ir_.getInt32(0), reached);
    Value* numbers = nullptr;
    if (probe) {
      numbers = ir_.CreateAlloca(llvm::ArrayType::get(ir_.getInt64Ty(), probe->numbers()));
      probe->clear(ir_, numbers);
    }
    Value* extent[3];
    for (unsigned n = 0; n < 3; ++n) {
      auto* load = field(offsetof(RegionContext, extent) + 4 * n, word);
      load->setMetadata(
          llvm::LLVMContext::MD_range,
          llvm::MDBuilder(ir_.getContext()).createRange(llvm::APInt(32, 1), llvm::APInt(32, most_threads + 1)));
      extent[n] = load;
    }
    Value* saved = field(offsetof(RegionContext, saved), ir_.getPtrTy());
    Value* bases = field(offsetof(RegionContext, bases), ir_.getPtrTy());
    Value* at = field(offsetof(RegionContext, at), ir_.getPtrTy());

    llvm::CallInst* call = nullptr;
    loop(extent[2], [&](Value* z) {
      loop(extent[1], [&](Value* y) {
        Value* row = ir_.CreateMul(ir_.CreateAdd(ir_.CreateMul(z, extent[1], "", true, true), y, "", true, true),
                                   extent[0], "", true, true);
        for (std::uint16_t guess : needs) {
          const ptx::RegisterId reg = body_.guesses()[guess];
          auto* base = ir_.CreateLoad(body_.saved_type(reg), body_.saved_element(ir_, saved, reg, row));
          tag_memory(base, MemoryTag::saved + body_.saved_word(reg));
          auto* keep = ir_.CreateStore(base, ir_.CreateConstGEP1_64(ir_.getInt8Ty(), bases, 8 * std::uint64_t(guess)));
          tag_memory(keep, MemoryTag::guesses);
        }
        loop(extent[0], [&](Value* x) {
          Value* linear = ir_.CreateAdd(row, x, "", true, true);
          std::vector<Value*> arguments{context_, linear, x, y, z, ir_.getInt32(resume), ir_.getInt32(1)};
          if (probe) arguments.push_back(numbers);
          call = ir_.CreateCall(body_.built(), arguments);
          if (probe) return;
          auto* where =
              ir_.CreateStore(call, ir_.CreateInBoundsGEP(word, at, ir_.CreateZExt(linear, ir_.getInt64Ty())));
          tag_memory(where, MemoryTag::positions);
          ir_.CreateStore(ir_.CreateOr(ir_.CreateLoad(word, reached), call), reached);
        });
      });
    });
    calls_.push_back(call);
    if (!probe) {
      ir_.CreateRet(ir_.CreateLoad(word, reached));
      return;
    }
    Value* found = field(offsetof(RegionContext, ranges), ir_.getPtrTy());
    for (std::size_t n = 0; n < probe->numbers(); ++n) {
      auto at = [&](Value* base) { return ir_.CreateConstGEP1_64(ir_.getInt64Ty(), base, n); };
      ir_.CreateStore(ir_.CreateLoad(ir_.getInt64Ty(), at(numbers)), at(found));
    }
    ir_.CreateRetVoid();
  }

  // Once all are built, and the function of one thread has its metadata.
  void inline_calls() {
    for (llvm::CallInst* call : calls_) {
      llvm::InlineFunctionInfo info;
      const llvm::InlineResult result = llvm::InlineFunction(*call, info);
      DEADHEAT_CHECK(result.isSuccess());
    }
  }

 private:
  llvm::LoadInst* field(std::size_t offset, llvm::Type* type) {
    auto* load = ir_.CreateLoad(type, ir_.CreateConstGEP1_64(ir_.getInt8Ty(), context_, offset));
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(ir_.getContext(), {}));
    return load;
  }

  // for (u32 n = 0; n != end; ++n) body(n), where end is at least 1
  void loop(Value* end, const std::function<void(Value*)>& body) {
    BasicBlock* before = ir_.GetInsertBlock();
    BasicBlock* inside = BasicBlock::Create(ir_.getContext(), "loop", function_);
    BasicBlock* after = BasicBlock::Create(ir_.getContext(), "after", function_);
    ir_.CreateBr(inside);
    ir_.SetInsertPoint(inside);
    auto* n = ir_.CreatePHI(ir_.getInt32Ty(), 2);
    n->addIncoming(ir_.getInt32(0), before);
    body(n);
    Value* next = ir_.CreateAdd(n, ir_.getInt32(1), "", true, true);
    n->addIncoming(next, ir_.GetInsertBlock());
    ir_.CreateCondBr(ir_.CreateICmpNE(next, end), inside, after);
    ir_.SetInsertPoint(after);
  }

  Unit& unit_;
  Builder& body_;
  llvm::IRBuilder<> ir_;
  llvm::Function* function_ = nullptr;
  Value* context_ = nullptr;
  std::vector<llvm::CallInst*> calls_;
};

}  // namespace

std::string fast_name(std::size_t resume) { return "fast." + std::to_string(resume); }

std::optional<RegionCode> build_regions(Unit& unit, const RegionPlan& plan) {
  const std::uint32_t kernel = unit.kernel.kernel;
  const FunctionTables& tables = unit.tables.functions[kernel];
  Builder body(unit, kernel, &plan);
  if (!body.build().empty()) return std::nullopt;
  std::optional<ProbeNotes> notes;
  std::optional<Builder> probing;
  if (unit.mode.check) {
    notes.emplace(tables, unit.tables.sites);
    // Local memory is a frame's, which probes would have to write.
    if (!notes->possible() || plan.needs_frame) return std::nullopt;
    probing.emplace(unit, kernel, &plan, &*notes);
    if (!probing->build().empty()) return std::nullopt;
    notes->finish(*probing->built());
    // Both read and save the same registers, in the same order.
    DEADHEAT_CHECK(probing->saved_words() == body.saved_words() && probing->guesses() == body.guesses());
  }

  RegionCode code;
  code.saved_words = body.saved_words();
  code.frame_bytes = plan.needs_frame ? unit.frame_bytes[kernel] : 0;
  for (ptx::RegisterId reg : body.guesses())
    code.guesses.push_back({.offset = body.saved_word(reg) * saved_stride,
                            .bytes = unsigned(unit.module.getDataLayout().getTypeStoreSize(body.saved_type(reg))),
                            .stride = *plan.stride[reg]});
  auto numbers = [&](const std::vector<ptx::RegisterId>& registers,
                     const std::function<bool(ptx::RegisterId)>& choose) {
    std::vector<std::uint16_t> list;
    for (ptx::RegisterId r : registers)
      if (const std::int32_t guess = body.guess_of(r); guess >= 0 && choose(r)) list.push_back(std::uint16_t(guess));
    return list;
  };
  auto all = [](ptx::RegisterId) { return true; };
  FastBuilder fast(unit, body);
  fast.build(0, {});
  std::optional<FastBuilder> probes;
  if (probing) {
    probes.emplace(unit, *probing);
    probes->build(0, {});
    code.ranges = notes->ranges();
  }
  for (std::size_t n = 0; n < plan.stops.size(); ++n) {
    const StopPoint& point = body.points()[n];
    RegionStop stop;
    stop.needs = numbers(point.live, all);
    if (point.before) {
      const ptx::RegisterSet& written = plan.stops[n].written;
      stop.changes = stop.needs;
      stop.changes_inside =
          plan.stops[n].reentered ? stop.needs : numbers(point.live, [&](auto r) { return written.contains(r); });
    } else {
      stop.site = tables.site[plan.stops[n].statement];
      stop.changes = stop.changes_inside = numbers(point.save, all);
    }
    fast.build(std::uint32_t(n + 1), stop.needs);
    if (probes) probes->build(std::uint32_t(n + 1), stop.needs);
    code.stops.push_back(std::move(stop));
  }
  fast.inline_calls();
  if (probes) {
    probes->inline_calls();
    probing->built()->eraseFromParent();
  }
  resolve_tags(unit.module);
  return code;
}

std::optional<std::vector<RegionRange>> build_footprint(Unit& unit, const FootprintSlice& slice,
                                                        const std::vector<ProbeKind>& kinds) {
  const std::uint32_t kernel = unit.kernel.kernel;
  const RegionPlan no_stops;
  std::optional<std::vector<RegionRange>> ranges;
  for (std::size_t n = 0; n < kinds.size(); ++n) {
    ProbeNotes notes(unit.tables.functions[kernel], slice, kinds[n]);
    Builder probing(unit, kernel, &no_stops, &notes);
    if (!probing.build().empty()) return std::nullopt;
    notes.finish(*probing.built());
    FastBuilder probe(unit, probing);
    probe.build(n, {});
    probe.inline_calls();
    probing.built()->eraseFromParent();
    ranges = notes.ranges();
  }
  resolve_tags(unit.module);
  return ranges;
}

}  // namespace deadheat::engine
