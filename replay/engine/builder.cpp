// The frame of a function's code: registers, entry block, stops and resumes. Operands and addresses: operands.cpp.
#include "replay/engine/builder.h"

#include <algorithm>

#include "replay/engine/image.h"
#include "replay/engine/lower.h"
#include "replay/engine/lower_tensor.h"
#include "replay/engine/lower_texture.h"
#include "replay/engine/precision.h"
#include "replay/engine/region_probe.h"
#include "replay/engine/texture.h"
#include "replay/engine/undefined.h"
#include "tracer/ptx/flow.h"
#include "tracer/ptx/operands.h"

namespace deadheat::engine {

using llvm::BasicBlock;
using llvm::Value;
using ptx::Operand;

llvm::Function* declare_function(Unit& unit, std::uint32_t function) {
  const ptx::Function& f = *unit.tables.functions[function].function;
  if (llvm::Function* known = unit.module.getFunction(f.name)) return known;
  auto& context = unit.module.getContext();
  auto* pointer = llvm::PointerType::getUnqual(context);
  auto* type = llvm::FunctionType::get(llvm::Type::getInt32Ty(context), {pointer, pointer}, false);
  auto* made = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, f.name, unit.module);
  made->setDoesNotThrow();
  made->addFnAttr("target-cpu", "x86-64-v3");
  return made;
}

Builder::Builder(Unit& u, std::uint32_t function_index, const RegionPlan* plan, ProbeNotes* probe)
    : ir(u.module.getContext()),
      unit(u),
      tables(u.tables.functions[function_index]),
      function(*tables.function),
      mode(u.mode),
      index_(function_index),
      plan_(plan),
      probe_(probe) {
  llvm::MDBuilder md(context());
  llvm::MDNode* domain = md.createAnonymousAliasScopeDomain("deadheat");
  llvm::MDNode* context_scope = md.createAnonymousAliasScope(domain, "context");
  llvm::MDNode* scopes[6] = {};
  for (Space s : {Space::global, Space::shared, Space::local, Space::param, Space::constant})
    scopes[unsigned(s)] = md.createAnonymousAliasScope(domain, "space");
  context_scope_ = llvm::MDNode::get(context(), {context_scope});
  std::vector<llvm::Metadata*> all;
  for (auto* s : scopes)
    if (s) all.push_back(s);
  context_noalias_ = llvm::MDNode::get(context(), all);
  space_noalias_[0] = llvm::MDNode::get(context(), {context_scope});
  for (unsigned s = 1; s < 6; ++s) {
    space_alias_[s] = llvm::MDNode::get(context(), {scopes[s]});
    std::vector<llvm::Metadata*> others{context_scope};
    for (unsigned o = 1; o < 6; ++o)
      if (o != s) others.push_back(scopes[o]);
    space_noalias_[s] = llvm::MDNode::get(context(), others);
  }
}

Builder::~Builder() = default;

void Builder::refuse(const std::string& why) {
  if (!refusal_.empty()) return;
  const ptx::Instruction* at = statement < function.body.size() ? function.body[statement].instruction() : nullptr;
  refusal_ = at ? at->full_opcode() + ": " + why : why;
}

// ---- layout of the frame

void Builder::lay_out_frame() {
  std::uint32_t offset = frame_header;
  params_offset_ = offset;
  if (!function.entry) {
    std::vector<ptx::Variable> all = function.params;
    all.insert(all.end(), function.results.begin(), function.results.end());
    std::vector<std::uint32_t> at = lay_out(all, offset);
    for (std::size_t n = 0; n < function.params.size(); ++n) param_offsets_[function.params[n].name] = at[n];
    for (std::size_t n = 0; n < function.results.size(); ++n)
      param_offsets_[function.results[n].name] = at[function.params.size() + n];
    for (const ptx::Variable& v : all)
      if (v.space == Space::generic) refuse("parameters in registers");
  }
  for (const ptx::Variable& v : function.variables) {
    if (v.space == Space::local || v.space == Space::param) {
      offset = align_up(offset, std::max(v.align, 1u));
      variable_offsets_.push_back(offset);
      offset += std::uint32_t(v.size);
    } else {
      variable_offsets_.push_back(0);
    }
  }
  frame_bytes_ = align_up(offset, 8);
  unit.cleared_bytes[index_] = frame_bytes_;
}

std::uint32_t Builder::frame_slot(std::uint32_t bytes) {
  frame_bytes_ = align_up(frame_bytes_, std::min(bytes, 16u));
  std::uint32_t at = frame_bytes_;
  frame_bytes_ += bytes;
  return at;
}

std::uint32_t Builder::texture_slot() {
  if (!texture_slot_) texture_slot_ = frame_slot(sizeof(TextureAccess));
  return texture_slot_;
}

std::uint32_t Builder::param_offset(std::string_view name, bool& found) const {
  const auto& offsets = function.entry ? unit.kernel.params : param_offsets_;
  auto it = offsets.find(name);
  found = it != offsets.end();
  return found ? it->second : 0;
}

// ---- registers (their classes: registers.cpp)

void Builder::make_slots() {
  const llvm::DataLayout& layout = unit.module.getDataLayout();
  // Only registers that are used: a range declares many that are not.
  std::vector<bool> used(slots_.size(), false);
  is_read_.assign(slots_.size(), false);
  ptx::RegisterUse e;
  for (const ptx::Statement& s : function.body)
    if (const ptx::Instruction* instruction = s.instruction()) {
      ptx::register_use(*instruction, e);
      for (auto r : e.reads) used[r] = is_read_[r] = true;
      for (auto r : e.writes) used[r] = true;
    }
  for (std::size_t r = 0; r < slots_.size(); ++r) {
    if (!used[r]) continue;
    Slot& slot = slots_[r];
    if (frame_homed_) {
      std::uint32_t bytes = std::uint32_t(layout.getTypeStoreSize(slot.type));
      slot.pointer = pointer_at(frame_, frame_slot(bytes));
    } else {
      slot.pointer = ir.CreateAlloca(slot.type);
    }
  }
}

llvm::Value* Builder::load_slot(const Slot& slot) {
  DEADHEAT_CHECK(slot.pointer);
  auto* load = ir.CreateLoad(slot.type, slot.pointer);
  if (frame_homed_) mark(load, Space::generic, true);
  return load;
}

void Builder::store_slot(const Slot& slot, Value* value) {
  DEADHEAT_CHECK(slot.pointer);
  auto* store = ir.CreateStore(value, slot.pointer);
  if (frame_homed_) mark(store, Space::generic, true);
}

std::uint32_t Builder::saved_offset(ptx::RegisterId reg) {
  Slot& slot = slots_[reg];
  if (slot.saved_at == 0)
    slot.saved_at = frame_slot(std::uint32_t(unit.module.getDataLayout().getTypeStoreSize(slot.type)));
  return slot.saved_at;
}

// ---- stops

bool Builder::can_stop_at(const ptx::Instruction& instruction, const Site* at) const {
  if (instruction.opcode == ptx::Opcode::call || instruction.opcode == ptx::Opcode::nanosleep) return true;
  if (!at) return false;
  if (is_matrix_access(instruction)) return true;
  if (is_texture_access(instruction)) return mode.control;
  switch (at->kind) {
    case SiteKind::barrier:
    case SiteKind::warp_barrier:
    case SiteKind::warp_value:
    case SiteKind::cluster_barrier:
    case SiteKind::mbarrier:
    case SiteKind::dependency:
    case SiteKind::async_wait: return true;
    case SiteKind::async_mbarrier_arrive:
    case SiteKind::bulk_copy: return mode.control || mode.record;
    case SiteKind::proxy_fence:
    case SiteKind::fence: return mode.control || mode.record || at->in_loop;
    case SiteKind::access: {
      bool strong = is_strong(at->ordering) || at->access == AccessKind::atomic;
      return mode.control || (strong && (mode.record || at->in_loop));
    }
    case SiteKind::async_copy: return mode.control;
    default: return false;
  }
}

bool Builder::always_stops_at(const ptx::Instruction& instruction, const Site* at) const {
  if (instruction.guard || !at) return false;
  if (is_matrix_access(instruction)) return true;
  switch (at->kind) {
    case SiteKind::barrier:
    case SiteKind::warp_barrier:
    case SiteKind::warp_value:
    case SiteKind::async_wait: return true;
    case SiteKind::fence: return mode.record;
    case SiteKind::access:  // generic ones may be local
      return mode.record && (is_strong(at->ordering) || at->access == AccessKind::atomic) &&
             (at->space == Space::global || at->space == Space::shared);
    default: return false;
  }
}

void Builder::find_unwritten(const ptx::Liveness& liveness) {
  const auto first = std::find_if(function.body.begin(), function.body.end(),
                                  [](const ptx::Statement& s) { return s.instruction() != nullptr; });
  if (first == function.body.end()) return;
  ptx::RegisterSet live = liveness.live_after(std::uint32_t(first - function.body.begin()));
  ptx::RegisterUse use;
  ptx::register_use(*first->instruction(), use);
  if (!first->instruction()->guard)
    for (auto r : use.writes) live.erase(r);
  for (auto r : use.reads) live.insert(r);
  unwritten_ = live.list();
}

void Builder::find_stops() {
  stops_ = unit.stops[index_] || plan_;
  const ptx::Flow flow(function);
  const ptx::Liveness liveness(function, flow);
  find_unwritten(liveness);
  if (!stops_) return;
  if (plan_) {
    for (const RegionPlan::Stop& stop : plan_->stops)
      points_.push_back({.statement = stop.statement,
                         .before = stop.is_virtual,
                         .always = !stop.is_virtual,
                         .live = {},
                         .save = {},
                         .recompute = {}});
    if (points_.empty()) return;
  }
  for (std::uint32_t s = 0; s < function.body.size() && !plan_; ++s) {
    const ptx::Instruction* instruction = function.body[s].instruction();
    if (!instruction) continue;
    const Site* at = tables.site[s] == no_site ? nullptr : &unit.tables.sites[tables.site[s]];
    if (can_stop_at(*instruction, at))
      points_.push_back({.statement = s,
                         .before = false,
                         .always = always_stops_at(*instruction, at),
                         .live = {},
                         .save = {},
                         .recompute = {}});
  }
  if (points_.empty()) return;
  // What must survive a stop: what is live behind the instruction, and what it reads, since it may still run.
  std::uint64_t live_registers = 0;
  ptx::RegisterUse use;
  liveness.sweep([&](std::uint32_t s, const ptx::RegisterSet& after) {
    StopPoint* point = find_point(s);
    if (!point) return;
    ptx::RegisterSet live = after;
    const ptx::Instruction& instruction = *function.body[s].instruction();
    ptx::register_use(instruction, use);
    if (point->before && !instruction.guard)
      for (auto r : use.writes) live.erase(r);
    if (instruction.opcode != ptx::Opcode::nanosleep) // it stops, and reads nothing
      for (auto r : use.reads) live.insert(r);
    for (auto r : live.list()) (plan_ && plan_->recompute[r] >= 0 ? point->recompute : point->live).push_back(r);
    live_registers += point->live.size();
  });
  frame_homed_ = live_registers > unit.saves_threshold && !plan_;
  if (!frame_homed_) find_saves(function, flow, points_);
}

StopPoint* Builder::find_point(std::uint32_t s) {
  auto point = std::lower_bound(points_.begin(), points_.end(), s,
                                [](const StopPoint& p, std::uint32_t at) { return p.statement < at; });
  return point == points_.end() || point->statement != s ? nullptr : &*point;
}

void Builder::save_and_return(Value* step, BasicBlock* next) {
  const StopPoint* point = find_point(statement);
  if (plan_) {
    if (!point)
      refuse("stops inside a region");
    else
      save_and_meet(*point, next);
    return;
  }
  DEADHEAT_CHECK(stops_ && point);
  if (!frame_homed_)
    for (ptx::RegisterId r : point->save)
      if (slots_[r].pointer) context_store(frame_, saved_offset(r), load_slot(slots_[r]));
  std::uint32_t number = std::uint32_t(resumes_.size() + 1);
  context_store(frame_, frame_resume, constant(32, number));
  ir.CreateRet(step);

  llvm::IRBuilderBase::InsertPointGuard guard(ir);
  BasicBlock* resume = new_block("resume");
  ir.SetInsertPoint(resume);
  if (!frame_homed_)
    for (ptx::RegisterId r : point->live)
      if (slots_[r].pointer) store_slot(slots_[r], context_load(frame_, saved_offset(r), slots_[r].type));
  ir.CreateBr(next);
  resumes_.push_back({number, resume});
}

void Builder::stop(Step step) {
  BasicBlock* next = new_block("resumed");
  save_and_return(constant(32, std::uint64_t(std::int64_t(step))), next);
  ir.SetInsertPoint(next);
}

void Builder::stop_with(Value* step, BasicBlock* again) { save_and_return(step, again); }

void Builder::stop_when(Value* condition, Step step, const std::function<void()>& before) {
  BasicBlock* stopping = new_block("stopping");
  BasicBlock* next = new_block("going");
  ir.CreateCondBr(condition, stopping, next, unlikely());
  ir.SetInsertPoint(stopping);
  if (before) before();
  save_and_return(constant(32, std::uint64_t(std::int64_t(step))), next);
  ir.SetInsertPoint(next);
}

void Builder::finish(std::int32_t step) {
  if (plan_) {
    const bool fault = step == std::int32_t(Step::fault);
    if (fault ? !mode.check : step != std::int32_t(Step::exited)) refuse("faults inside a region");
    ir.CreateRet(constant(32, fault ? faulted_bit : exited_bit));
    return;
  }
  ir.CreateRet(constant(32, std::uint64_t(std::int64_t(step))));
}

llvm::MDNode* Builder::unlikely() { return llvm::MDBuilder(context()).createBranchWeights(1, 2000); }

BasicBlock* Builder::new_block(const char* name) { return BasicBlock::Create(context(), name, llvm_function_); }

void Builder::when(Value* condition, const std::function<void()>& body, bool likely) {
  BasicBlock* taken = new_block("when");
  BasicBlock* next = new_block("then");
  ir.CreateCondBr(condition, taken, next, likely ? nullptr : unlikely());
  ir.SetInsertPoint(taken);
  body();
  if (!ir.GetInsertBlock()->getTerminator()) ir.CreateBr(next);
  ir.SetInsertPoint(next);
}

BasicBlock* Builder::label_block(std::string_view label) {
  auto it = labels_.find(label);
  if (it != labels_.end()) return it->second;
  BasicBlock* block = new_block("label");
  labels_.emplace(std::string(label), block);
  return block;
}

// ---- context

void Builder::mark(llvm::Instruction* access, Space space, bool context_access) {
  if (plan_) {
    tag_memory(access, context_access ? MemoryTag::context : unsigned(space));
    return;
  }
  if (context_access) {
    access->setMetadata(llvm::LLVMContext::MD_alias_scope, context_scope_);
    access->setMetadata(llvm::LLVMContext::MD_noalias, context_noalias_);
    return;
  }
  if (llvm::MDNode* scope = space_alias_[unsigned(space)])
    access->setMetadata(llvm::LLVMContext::MD_alias_scope, scope);
  access->setMetadata(llvm::LLVMContext::MD_noalias, space_noalias_[unsigned(space)]);
}

Value* Builder::pointer_at(Value* base, std::uint64_t offset) {
  return offset == 0 ? base : ir.CreateConstGEP1_64(ir.getInt8Ty(), base, offset);
}

Value* Builder::context_load(Value* base, std::uint64_t offset, llvm::Type* type) {
  auto* load = ir.CreateLoad(type, pointer_at(base, offset));
  mark(load, Space::generic, true);
  return load;
}

void Builder::context_store(Value* base, std::uint64_t offset, Value* value) {
  mark(ir.CreateStore(value, pointer_at(base, offset)), Space::generic, true);
}

Value* Builder::thread_load(std::size_t offset, unsigned bits) { return context_load(thread_, offset, i(bits)); }
void Builder::thread_store(std::size_t offset, Value* value) { context_store(thread_, offset, value); }

Value* Builder::entry_value(const std::string& name, const std::function<Value*()>& make) {
  auto it = entry_values_.find(name);
  if (it != entry_values_.end()) return it->second;
  llvm::IRBuilderBase::InsertPointGuard guard(ir);
  ir.SetInsertPoint(entry_);
  Value* value = make();
  entry_values_[name] = value;
  return value;
}

Value* Builder::block_context() {
  if (plan_) return region_field(offsetof(RegionContext, block), ir.getPtrTy());
  return entry_value("block", [&] { return context_load(thread_, offsetof(ThreadContext, block), ir.getPtrTy()); });
}
Value* Builder::launch_context() {
  Value* block = block_context();
  return entry_value("launch", [&] { return context_load(block, offsetof(BlockContext, launch), ir.getPtrTy()); });
}
Value* Builder::exec_context() {
  Value* launch = launch_context();
  return entry_value("exec", [&] { return context_load(launch, offsetof(LaunchContext, exec), ir.getPtrTy()); });
}
Value* Builder::shared_base() {
  Value* block = block_context();
  return entry_value("shared", [&] { return context_load(block, offsetof(BlockContext, shared), ir.getPtrTy()); });
}
Value* Builder::stack_base() {
  if (plan_) return frame_;
  return entry_value("stack", [&] { return context_load(thread_, offsetof(ThreadContext, stack), ir.getPtrTy()); });
}
Value* Builder::frame_base_offset() {
  Value* stack = stack_base();
  return entry_value("frame offset",
                     [&] { return ir.CreateSub(ir.CreatePtrToInt(frame_, i(64)), ir.CreatePtrToInt(stack, i(64))); });
}

Value* Builder::call_service(std::size_t offset, llvm::Type* result, llvm::ArrayRef<Value*> arguments) {
  Value* exec = exec_context();
  Value* services =
      entry_value("services", [&] { return context_load(exec, offsetof(ExecContext, services), ir.getPtrTy()); });
  Value* callee = context_load(services, offset, ir.getPtrTy());
  std::vector<llvm::Type*> types;
  for (Value* a : arguments) types.push_back(a->getType());
  auto* call = ir.CreateCall(llvm::FunctionType::get(result, types, false), callee, arguments);
  call->setDoesNotThrow();
  return call;
}

llvm::Constant* Builder::host_symbol(const void* address) {
  return unit.module.getOrInsertGlobal(image_name(address), ir.getInt8Ty());
}

Value* Builder::call_helper(const void* helper, llvm::Type* result, llvm::ArrayRef<Value*> arguments, bool pure) {
  std::vector<llvm::Type*> types;
  for (Value* a : arguments) types.push_back(a->getType());
  auto* call = ir.CreateCall(llvm::FunctionType::get(result, types, false), host_symbol(helper), arguments);
  call->setDoesNotThrow();
  if (pure) {
    call->setDoesNotAccessMemory();
    call->addFnAttr(llvm::Attribute::WillReturn);
  }
  return call;
}

void Builder::call_cold(const void* entry, llvm::ArrayRef<Value*> arguments) {
  std::vector<llvm::Type*> types;
  for (Value* a : arguments) types.push_back(a->getType());
  auto* call = ir.CreateCall(llvm::FunctionType::get(ir.getVoidTy(), types, false), host_symbol(entry), arguments);
  call->setCallingConv(llvm::CallingConv::PreserveAll);
  call->setDoesNotThrow();
}

// ---- the body

void Builder::lower_instruction(const ptx::Instruction& instruction) {
  if (undefined) undefined->before(instruction);
  if (precision) precision->before(instruction);
  lowering_of(instruction.opcode)(*this, instruction);
  if (undefined) undefined->after(instruction);
  if (precision) precision->after(instruction);
}

void Builder::lower_guarded(const ptx::Instruction& instruction) {
  std::string why = lowering_of(instruction.opcode) ? refusal_of(instruction) : "not supported";
  if (!why.empty()) {
    refuse(why);
    return;
  }
  if (!instruction.guard) {
    lower_instruction(instruction);
    return;
  }
  if (undefined) undefined->check_guard(instruction);
  Operand predicate;
  predicate.kind = Operand::Kind::reg;
  predicate.reg = instruction.guard->reg;
  predicate.negated = instruction.guard->negated;
  when(read_predicate(predicate), [&] { lower_instruction(instruction); });
}

void Builder::lower_statement(const ptx::Statement& s) {
  if (const auto* label = std::get_if<ptx::Label>(&s.node)) {
    BasicBlock* block = label_block(label->name);
    if (!ir.GetInsertBlock()->getTerminator()) ir.CreateBr(block);
    ir.SetInsertPoint(block);
    return;
  }
  const ptx::Instruction* instruction = s.instruction();
  if (!instruction) return;
  if (ir.GetInsertBlock()->getTerminator()) ir.SetInsertPoint(new_block("dead"));
  std::uint32_t number = tables.site[statement];
  site = number == no_site ? nullptr : &unit.tables.sites[number];
  if (probe_ && probe_->skips(statement)) return;
  if (plan_) before_statement();
  lower_guarded(*instruction);
}

std::string Builder::build() {
  if (plan_) {
    enter_regions();
  } else {
    llvm_function_ = declare_function(unit, index_);
    thread_ = llvm_function_->getArg(0);
    frame_ = llvm_function_->getArg(1);
    for (unsigned n = 0; n < 2; ++n) {
      llvm_function_->addParamAttr(n, llvm::Attribute::NonNull);
      llvm_function_->addParamAttr(n, llvm::Attribute::NoUndef);
    }
    entry_ = new_block("entry");
  }
  ir.SetInsertPoint(entry_);
  lay_out_frame();
  find_stops();
  classify_registers();
  make_slots();
  if (mode.written && !plan_) undefined = std::make_unique<Undefined>(*this);
  if (mode.precision && !plan_) precision = std::make_unique<Precision>(*this);
  start_ = new_block("start");
  ir.SetInsertPoint(start_);
  for (auto r : unwritten_)
    if (slots_[r].pointer) store_slot(slots_[r], llvm::Constant::getNullValue(slots_[r].type));
  if (undefined) undefined->begin();
  if (precision) precision->begin();
  for (statement = 0; statement < function.body.size() && !refused(); ++statement)
    lower_statement(function.body[statement]);
  if (refused()) return refusal_;
  if (!ir.GetInsertBlock()->getTerminator()) finish(function.entry ? std::int32_t(Step::exited) : returned);

  ir.SetInsertPoint(entry_);
  if (resumes_.empty()) {
    ir.CreateBr(start_);
  } else {
    BasicBlock* impossible = new_block("impossible");
    Value* where = plan_ ? resume_ : context_load(frame_, frame_resume, i(32));
    auto* dispatch = ir.CreateSwitch(where, impossible, unsigned(resumes_.size() + 1));
    dispatch->addCase(ir.getInt32(0), start_);
    for (auto [number, block] : resumes_) dispatch->addCase(ir.getInt32(number), block);
    ir.SetInsertPoint(impossible);
    ir.CreateUnreachable();
  }
  for (auto& block : *llvm_function_)
    if (!block.getTerminator()) {
      ir.SetInsertPoint(&block);
      ir.CreateUnreachable();
    }
  if (plan_) leave_regions();
  unit.frame_bytes[index_] = align_up(frame_bytes_, 16);
  unit.params_offset[index_] = params_offset_;
  return {};
}

}  // namespace deadheat::engine
