// The parts of Builder that make regions: the function of one thread, and what a stop keeps.
#include <functional>
#include <map>

#include "replay/engine/builder.h"
#include "replay/engine/lower.h"
#include "replay/engine/regions.h"
#include "tracer/ptx/operands.h"

namespace deadheat::engine {

using llvm::BasicBlock;
using llvm::Value;

Value* Builder::thread() {
  if (plan_) refuse("needs a thread's context");
  return thread_;
}

// u32 regions(RegionContext*, linear, x, y, z, resume, fast); of probes also i64*, their numbers
void Builder::enter_regions() {
  auto* word = i(32);
  std::vector<llvm::Type*> arguments{ir.getPtrTy(), word, word, word, word, word, word};
  if (probe_) arguments.push_back(ir.getPtrTy());
  auto* type = llvm::FunctionType::get(word, arguments, false);
  llvm_function_ =
      llvm::Function::Create(type, probe_ ? llvm::GlobalValue::InternalLinkage : llvm::GlobalValue::ExternalLinkage,
                             probe_ ? function.name + ".probe" : function.name, unit.module);
  llvm_function_->setDoesNotThrow();
  llvm_function_->addFnAttr("target-cpu", "x86-64-v3");
  thread_ = llvm_function_->getArg(0);
  linear_ = llvm_function_->getArg(1);
  for (unsigned n = 0; n < 3; ++n) index_of_[n] = llvm_function_->getArg(2 + n);
  resume_ = llvm_function_->getArg(5);
  entry_ = new_block("entry");
  ir.SetInsertPoint(entry_);
  fast_ = ir.CreateICmpNE(llvm_function_->getArg(6), constant(32, 0));
  Value* stacks = region_field(offsetof(RegionContext, stacks), ir.getPtrTy());
  Value* bytes = region_field(offsetof(RegionContext, stack_bytes), i(32));
  frame_ = ir.CreateGEP(ir.getInt8Ty(), stacks, ir.CreateZExt(ir.CreateMul(linear_, bytes), i(64)));
  word_of_.assign(function.registers.size(), -1);
}

// At the header of a loop that is a stop, come from outside: the stop. At its back edge: what the loop wrote is saved
// whether the branch is taken or not, so that the store needs no mask; who does not take it will not read it.
void Builder::before_statement() {
  if (const StopPoint* point = find_point(statement); point && point->before) stop_when(fast_, Step::visible);
  if (const StopPoint* point = back_edge(statement))
    when(fast_, [&] {
      const ptx::RegisterSet& written = plan_->stops[std::size_t(point - points_.data())].written;
      for (ptx::RegisterId r : point->live)
        if (slots_[r].pointer && written.contains(r)) save(r);
    });
}

const StopPoint* Builder::back_edge(std::uint32_t at) const {
  for (std::size_t n = 0; n < points_.size(); ++n)
    for (std::uint32_t branch : plan_->stops[n].back)
      if (branch == at) return &points_[n];
  return nullptr;
}

bool Builder::branch_back(std::string_view label) {
  const StopPoint* point = plan_ ? back_edge(statement) : nullptr;
  if (!point) return false;
  BasicBlock* met = new_block("met");
  ir.CreateCondBr(fast_, met, label_block(label));
  ir.SetInsertPoint(met);
  ir.CreateRet(constant(32, std::uint64_t(2) << (point - points_.data())));
  return true;
}

void Builder::leave_regions() {
  // Whatever the entry block loads is the launch's and stays.
  auto* none = llvm::MDNode::get(context(), {});
  for (llvm::Instruction& instruction : *entry_)
    if (auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction))
      load->setMetadata(llvm::LLVMContext::MD_invariant_load, none);
  // A register that a thread has not written holds nothing, not what the thread before it left.
  ir.SetInsertPoint(entry_->getTerminator());
  for (const Slot& slot : slots_)
    if (slot.pointer) ir.CreateStore(llvm::UndefValue::get(slot.type), slot.pointer);
}

Value* Builder::region_field(std::size_t offset, llvm::Type* type) {
  return entry_value("region." + std::to_string(offset), [&] { return context_load(thread_, offset, type); });
}

Value* Builder::special_of_thread(std::string_view name) {
  if (name == "%laneid") return ir.CreateAnd(linear_, constant(32, 31));
  if (name == "%warpid") return ir.CreateLShr(linear_, 5);
  return index_of_[name.back() - 'x'];
}

// ---- what a stop keeps

llvm::Type* Builder::saved_type(ptx::RegisterId reg) const {
  llvm::Type* type = slots_[reg].type;
  if (!type->isIntegerTy() || type->getIntegerBitWidth() >= 32) return type;
  return llvm::Type::getInt32Ty(type->getContext());
}

std::uint32_t Builder::saved_word(ptx::RegisterId reg) {
  if (word_of_[reg] < 0) {
    word_of_[reg] = std::int32_t(saved_words_);
    const unsigned bytes = unsigned(unit.module.getDataLayout().getTypeStoreSize(saved_type(reg)));
    saved_words_ += bytes / 4;
    if (plan_->stride[reg] && bytes <= 8 && guesses_.size() < max_guesses) guesses_.push_back(reg);
  }
  return std::uint32_t(word_of_[reg]);
}

std::int32_t Builder::guess_of(ptx::RegisterId reg) const {
  for (std::size_t n = 0; n < guesses_.size(); ++n)
    if (guesses_[n] == reg) return std::int32_t(n);
  return -1;
}

Value* Builder::saved_element(llvm::IRBuilder<>& at, Value* saved, ptx::RegisterId reg, Value* linear) {
  Value* array = at.CreateConstGEP1_64(at.getInt8Ty(), saved, std::uint64_t(saved_word(reg)) * saved_stride);
  return at.CreateInBoundsGEP(saved_type(reg), array, at.CreateZExt(linear, at.getInt64Ty()));
}

void tag_memory(llvm::Instruction* access, unsigned tag) {
  llvm::LLVMContext& context = access->getContext();
  auto* number = llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), tag));
  access->setMetadata("deadheat.memory", llvm::MDNode::get(context, {number}));
}

void resolve_tags(llvm::Module& module) {
  llvm::LLVMContext& context = module.getContext();
  const unsigned kind = context.getMDKindID("deadheat.memory");
  std::map<unsigned, std::vector<llvm::Instruction*>> accesses;
  for (llvm::Function& f : module)
    for (llvm::BasicBlock& block : f)
      for (llvm::Instruction& instruction : block)
        if (const llvm::MDNode* tag = instruction.getMetadata(kind)) {
          const auto* number = llvm::mdconst::extract<llvm::ConstantInt>(tag->getOperand(0));
          accesses[unsigned(number->getZExtValue())].push_back(&instruction);
        }
  llvm::MDBuilder md(context);
  llvm::MDNode* domain = md.createAnonymousAliasScopeDomain("deadheat");
  std::map<unsigned, llvm::Metadata*> scopes;
  for (const auto& [tag, list] : accesses)
    if (tag != unsigned(Space::generic)) scopes[tag] = md.createAnonymousAliasScope(domain, "memory");
  for (const auto& [tag, list] : accesses) {
    std::vector<llvm::Metadata*> others;
    for (const auto& [other, scope] : scopes)
      if (other != tag && (tag != unsigned(Space::generic) || other >= MemoryTag::context)) others.push_back(scope);
    llvm::MDNode* noalias = llvm::MDNode::get(context, others);
    for (llvm::Instruction* access : list) {
      access->setMetadata(kind, nullptr);
      if (auto own = scopes.find(tag); own != scopes.end())
        access->setMetadata(llvm::LLVMContext::MD_alias_scope, llvm::MDNode::get(context, {own->second}));
      access->setMetadata(llvm::LLVMContext::MD_noalias, noalias);
    }
  }
}

void Builder::save(ptx::RegisterId reg) {
  saved_word(reg);
  if (probe_) return;
  Value* v = load_slot(slots_[reg]);
  if (v->getType() != saved_type(reg)) v = ir.CreateZExt(v, saved_type(reg));
  Value* saved = region_field(offsetof(RegionContext, saved), ir.getPtrTy());
  tag_memory(ir.CreateStore(v, saved_element(ir, saved, reg, linear_)), MemoryTag::saved + saved_word(reg));
}

void Builder::restore(ptx::RegisterId reg) {
  llvm::Type* type = saved_type(reg);
  Value* saved = region_field(offsetof(RegionContext, saved), ir.getPtrTy());
  auto slow = [&]() -> Value* {
    auto* load = ir.CreateLoad(type, saved_element(ir, saved, reg, linear_));
    tag_memory(load, MemoryTag::saved + saved_word(reg));
    return load;
  };
  saved_word(reg);
  const std::int32_t guess = guess_of(reg);
  Value* v;
  if (guess < 0) {
    v = slow();
  } else {
    BasicBlock *by_guess = new_block("guessed"), *by_load = new_block("loaded"), *next = new_block("restored");
    ir.CreateCondBr(fast_, by_guess, by_load);
    ir.SetInsertPoint(by_guess);
    Value* bases = region_field(offsetof(RegionContext, bases), ir.getPtrTy());
    auto* base = ir.CreateLoad(type, pointer_at(bases, 8 * std::uint64_t(guess)));
    tag_memory(base, MemoryTag::guesses);
    Value* guessed = base;
    if (std::int64_t stride = *plan_->stride[reg]; stride != 0) {
      // The machine has seen that no sum in the row leaves the signed range.
      Value* x = ir.CreateSExt(index_of_[0], type);
      if (type->getIntegerBitWidth() == 32) x = index_of_[0];
      guessed = ir.CreateAdd(
          base, ir.CreateMul(x, llvm::ConstantInt::get(type, std::uint64_t(stride), true), "", false, true), "", false,
          true);
    }
    ir.CreateBr(next);
    BasicBlock* guess_end = ir.GetInsertBlock();
    ir.SetInsertPoint(by_load);
    Value* loaded = slow();
    ir.CreateBr(next);
    ir.SetInsertPoint(next);
    auto* phi = ir.CreatePHI(type, 2);
    phi->addIncoming(guessed, guess_end);
    phi->addIncoming(loaded, by_load);
    v = phi;
  }
  if (type != slots_[reg].type) v = ir.CreateTrunc(v, slots_[reg].type);
  store_slot(slots_[reg], v);
}

// Runs the definitions of `wanted`, and of what they need, again.
void Builder::recompute(const std::vector<ptx::RegisterId>& wanted) {
  std::vector<bool> done(function.registers.size(), false);
  const std::uint32_t statement_before = statement;
  const Site* site_before = site;
  ptx::RegisterUse use;
  std::function<void(ptx::RegisterId)> make = [&](ptx::RegisterId reg) {
    if (done[reg]) return;
    done[reg] = true;
    const auto at = std::uint32_t(plan_->recompute[reg]);
    const ptx::Instruction& instruction = *function.body[at].instruction();
    const ptx::RegisterUse uses = ptx::register_use(instruction);
    for (auto r : uses.reads) make(r);
    statement = at;
    site = nullptr;
    lowering_of(instruction.opcode)(*this, instruction);
  };
  for (auto r : wanted) make(r);
  statement = statement_before;
  site = site_before;
}

void Builder::save_and_meet(const StopPoint& point, BasicBlock* next) {
  const auto number = std::uint32_t(&point - points_.data());
  for (ptx::RegisterId r : point.before ? point.live : point.save)
    if (slots_[r].pointer) save(r);
  ir.CreateRet(constant(32, std::uint64_t(2) << number));

  llvm::IRBuilderBase::InsertPointGuard guard(ir);
  BasicBlock* resume = new_block("resume");
  ir.SetInsertPoint(resume);
  for (ptx::RegisterId r : point.live)
    if (slots_[r].pointer) restore(r);
  recompute(point.recompute);
  ir.CreateBr(next);
  resumes_.push_back({number + 1, resume});
}

void Builder::meet() { stop(Step::barrier); }

}  // namespace deadheat::engine
