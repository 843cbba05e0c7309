// One generator of the synthetic kernel for all lowerings.
#include <bit>
#include <functional>

#include "lowering.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/MDBuilder.h>
#pragma GCC diagnostic pop

namespace lowering {

namespace {

using llvm::BasicBlock;
using llvm::Value;

class Builder {
 public:
  Builder(llvm::Module& module, Way way, const Services& services, llvm::Function* function)
      : ir_(module.getContext()), way_(way), services_(services), function_(function) {}

  void kernel(unsigned points) {
    begin(integer_registers + float_registers + 1);
    Value* seed = load(i32(), field(offsetof(Thread, seed)));
    for (unsigned r = 0; r < integer_registers; ++r) set(r, ir_.CreateMul(seed, i32(2 * r + 3)));
    Value* small = ir_.CreateUIToFP(ir_.CreateAnd(seed, i32(15)), ir_.getFloatTy());
    for (unsigned r = 0; r < float_registers; ++r) set_float(r, ir_.CreateFAdd(small, f32(float(r))));
    loop([&] {
      for (unsigned k = 0; k < points; ++k) {
        arithmetic(k);
        point();
      }
    });
    Value* sum = get(0);
    for (unsigned r = 1; r < integer_registers; ++r) sum = ir_.CreateXor(ir_.CreateMul(sum, i32(31)), get(r));
    for (unsigned r = 0; r < float_registers; ++r)
      sum = ir_.CreateXor(ir_.CreateMul(sum, i32(31)), ir_.CreateBitCast(get_float(r), i32()));
    store(sum, field(offsetof(Thread, result)));
    finish();
  }

  // register 0: depth, 1: a value live over everything, counter: the last.
  void nest() {
    begin(3);
    Value* depth = state_machine() ? load(i32(), at(frame_, frame_depth)) : function_->getArg(1);
    set(0, depth);
    set(1, ir_.CreateMul(load(i32(), field(offsetof(Thread, seed))), ir_.CreateAdd(depth, i32(7))));
    BasicBlock* inner = block("inner");
    BasicBlock* outer = block("outer");
    BasicBlock* last = block("last");
    ir_.CreateCondBr(ir_.CreateICmpEQ(depth, i32(0)), inner, outer);
    ir_.SetInsertPoint(inner);
    loop([&] {
      set(1, ir_.CreateAdd(ir_.CreateMul(get(1), i32(1664525)), i32(1013904223)));
      point();
    });
    store(get(1), field(offsetof(Thread, result)));
    ir_.CreateBr(last);
    ir_.SetInsertPoint(outer);
    call_nested();
    Value* inside = load(i32(), field(offsetof(Thread, result)));
    store(ir_.CreateXor(ir_.CreateMul(inside, i32(31)), get(1)), field(offsetof(Thread, result)));
    ir_.CreateBr(last);
    ir_.SetInsertPoint(last);
    finish();
  }

 private:
  // ---- small things
  llvm::IntegerType* i32() { return ir_.getInt32Ty(); }
  llvm::ConstantInt* i32(std::uint32_t v) { return ir_.getInt32(v); }
  Value* f32(float v) { return llvm::ConstantFP::get(ir_.getFloatTy(), v); }
  bool state_machine() const { return way_ == Way::saved || way_ == Way::framed; }
  BasicBlock* block(const char* name) { return BasicBlock::Create(ir_.getContext(), name, function_); }
  Value* at(Value* base, std::uint64_t offset) { return ir_.CreateConstInBoundsGEP1_64(ir_.getInt8Ty(), base, offset); }
  Value* field(std::size_t offset) { return at(thread_, offset); }
  Value* load(llvm::Type* type, Value* from) { return ir_.CreateLoad(type, from); }
  void store(Value* value, Value* to) { ir_.CreateStore(value, to); }
  Value* intrinsic(llvm::Intrinsic::ID id, llvm::ArrayRef<Value*> arguments, llvm::ArrayRef<llvm::Type*> types = {}) {
    return ir_.CreateIntrinsic(id, types, arguments);
  }
  template <typename F>
  Value* call_host(F* host, llvm::Type* result, llvm::ArrayRef<Value*> arguments) {
    std::vector<llvm::Type*> types;
    for (Value* a : arguments) types.push_back(a->getType());
    Value* address = ir_.CreateIntToPtr(ir_.getInt64(std::bit_cast<std::uint64_t>(host)), ir_.getPtrTy());
    auto* call = ir_.CreateCall(llvm::FunctionType::get(result, types, false), address, arguments);
    call->setDoesNotThrow();
    return call;
  }

  // ---- registers
  llvm::Type* type_of(unsigned r) {
    bool is_float = registers_.size() > 3 && r >= integer_registers && r < integer_registers + float_registers;
    return is_float ? ir_.getFloatTy() : static_cast<llvm::Type*>(i32());
  }
  Value* get(unsigned r) { return load(i32(), registers_[r]); }
  void set(unsigned r, Value* v) { store(v, registers_[r]); }
  Value* get_float(unsigned r) { return load(ir_.getFloatTy(), registers_[integer_registers + r]); }
  void set_float(unsigned r, Value* v) { store(v, registers_[integer_registers + r]); }
  unsigned counter() const { return unsigned(registers_.size()) - 1; }

  void arithmetic(unsigned k) {  // three instructions; floats stay small normal numbers
    unsigned a = k / 2 % 8, b = (k / 2 + 1 + k / 16 % 7) % 8;
    if (k % 2 == 0) {
      Value* v = ir_.CreateXor(ir_.CreateMul(get(a), i32(2 * k + 1)), get(b));
      set(a, ir_.CreateAdd(v, i32(k + 1)));
    } else {
      Value* v = ir_.CreateFMul(ir_.CreateFAdd(get_float(a), get_float(b)), f32(0.25f));
      set_float(a, ir_.CreateFAdd(v, f32(1.0f + float(k % 5))));
    }
  }

  void loop(const std::function<void()>& body) {
    set(counter(), load(i32(), field(offsetof(Thread, iterations))));
    BasicBlock* head = block("loop");
    BasicBlock* behind = block("behind");
    ir_.CreateBr(head);
    ir_.SetInsertPoint(head);
    body();
    Value* left = ir_.CreateSub(get(counter()), i32(1));
    set(counter(), left);
    ir_.CreateCondBr(ir_.CreateICmpSGT(left, i32(0)), head, behind);
    ir_.SetInsertPoint(behind);
  }

  // ---- the lowerings
  void begin(unsigned registers) {
    ir_.SetInsertPoint(block("entry"));
    thread_ = function_->getArg(0);
    if (state_machine()) frame_ = function_->getArg(1);
    registers_.resize(registers);
    for (unsigned r = 0; r < registers; ++r)
      registers_[r] = way_ == Way::framed ? at(frame_, frame_registers + 4 * r) : ir_.CreateAlloca(type_of(r));
    if (way_ == Way::coroutine) {
      Value* null = llvm::ConstantPointerNull::get(ir_.getPtrTy());
      suspend_ = block("suspend");
      cleanup_ = block("cleanup");
      Value* id = intrinsic(llvm::Intrinsic::coro_id, {i32(0), null, null, null});
      Value* size = intrinsic(llvm::Intrinsic::coro_size, {}, {ir_.getInt64Ty()});
      Value* memory = call_host(services_.allocate, ir_.getPtrTy(), {thread_, size});
      handle_ = intrinsic(llvm::Intrinsic::coro_begin, {id, memory});
      BasicBlock* resume = ir_.GetInsertBlock();
      ir_.SetInsertPoint(cleanup_);
      call_host(services_.release, ir_.getVoidTy(), {thread_, intrinsic(llvm::Intrinsic::coro_free, {id, handle_})});
      ir_.CreateBr(suspend_);
      ir_.SetInsertPoint(suspend_);
      Value* no_token = llvm::ConstantTokenNone::get(ir_.getContext());
      intrinsic(llvm::Intrinsic::coro_end, {handle_, ir_.getFalse(), no_token});
      ir_.CreateRet(handle_);
      ir_.SetInsertPoint(resume);
      suspend(block("start"), false);
    }
    exec_ = load(ir_.getPtrTy(), field(offsetof(Thread, exec)));
    if (state_machine()) {
      BasicBlock* start = block("start");
      entry_switch_ = ir_.CreateSwitch(load(i32(), at(frame_, frame_index)), start);
      ir_.SetInsertPoint(start);
    }
  }

  void suspend(BasicBlock* next, bool last) {
    Value* no_token = llvm::ConstantTokenNone::get(ir_.getContext());
    Value* which = intrinsic(llvm::Intrinsic::coro_suspend, {no_token, ir_.getInt1(last)});
    auto* cases = ir_.CreateSwitch(which, suspend_);
    cases->addCase(ir_.getInt8(0), next);
    cases->addCase(ir_.getInt8(1), cleanup_);
    ir_.SetInsertPoint(next);
  }

  // (c) and (c2): stops here; goes on at `next`.
  void stop(BasicBlock* next) {
    std::uint32_t index = entry_switch_->getNumCases() + 1;
    if (way_ == Way::saved)
      for (unsigned r = 0; r < registers_.size(); ++r)
        store(load(type_of(r), registers_[r]), at(frame_, frame_registers + 4 * r));
    store(i32(index), at(frame_, frame_index));
    ir_.CreateRet(i32(1));
    BasicBlock* resume = block("resume");
    entry_switch_->addCase(i32(index), resume);
    ir_.SetInsertPoint(resume);
    if (way_ == Way::saved)
      for (unsigned r = 0; r < registers_.size(); ++r)
        store(load(type_of(r), at(frame_, frame_registers + 4 * r)), registers_[r]);
    ir_.CreateBr(next);
    ir_.SetInsertPoint(next);
  }

  // Stops at the cold end of a branch; goes on at `next`.
  void stop_here(BasicBlock* next) {
    if (way_ == Way::coroutine) {
      suspend(next, false);
    } else if (way_ == Way::fiber) {
      call_host(services_.switch_out, ir_.getVoidTy(), {thread_});
      ir_.CreateBr(next);
      ir_.SetInsertPoint(next);
    } else {
      stop(next);
    }
  }

  // The quantum is volatile: each point pays for it in memory, whatever the lowering lets the optimiser see.
  void point() {
    if (way_ == Way::none) return;
    Value* left = ir_.CreateSub(ir_.CreateLoad(ir_.getInt64Ty(), exec_, true), ir_.getInt64(1));
    ir_.CreateStore(left, exec_, true);
    BasicBlock* cold = block("cold");
    BasicBlock* next = block("next");
    ir_.CreateCondBr(ir_.CreateICmpSLT(left, ir_.getInt64(0)), cold, next,
                     llvm::MDBuilder(ir_.getContext()).createBranchWeights(1, 2000));
    ir_.SetInsertPoint(cold);
    stop_here(next);
  }

  void call_nested() {
    Value* less = ir_.CreateSub(get(0), i32(1));
    BasicBlock* again = block("again");
    BasicBlock* stopped = block("stopped");
    BasicBlock* returned = block("returned");
    if (way_ == Way::none || way_ == Way::fiber) {
      ir_.CreateCall(function_, {thread_, less});
      ir_.CreateBr(returned);
      again->eraseFromParent();
      stopped->eraseFromParent();
      ir_.SetInsertPoint(returned);
      return;
    }
    Value* callee = nullptr;
    if (way_ == Way::coroutine) {
      callee = ir_.CreateCall(function_, {thread_, less});
    } else {
      callee = at(frame_, frame_bytes);
      store(i32(0), at(callee, frame_index));
      store(less, at(callee, frame_depth));
    }
    ir_.CreateBr(again);
    ir_.SetInsertPoint(again);
    Value* done = nullptr;
    if (way_ == Way::coroutine) {
      intrinsic(llvm::Intrinsic::coro_resume, {callee});
      done = intrinsic(llvm::Intrinsic::coro_done, {callee});
    } else {
      done = ir_.CreateICmpEQ(ir_.CreateCall(function_, {thread_, at(frame_, frame_bytes)}), i32(0));
    }
    ir_.CreateCondBr(done, returned, stopped);
    ir_.SetInsertPoint(stopped);
    stop_here(again);
    ir_.SetInsertPoint(returned);
    if (way_ == Way::coroutine) intrinsic(llvm::Intrinsic::coro_destroy, {callee});
  }

  void finish() {
    if (way_ == Way::coroutine) {
      suspend(block("never"), true);
      ir_.CreateUnreachable();
    } else if (state_machine()) {
      ir_.CreateRet(i32(0));
    } else {
      ir_.CreateRetVoid();
    }
  }

  llvm::IRBuilder<> ir_;
  Way way_;
  const Services& services_;
  llvm::Function* function_;
  Value* thread_ = nullptr;
  Value* frame_ = nullptr;
  Value* exec_ = nullptr;
  Value* handle_ = nullptr;
  BasicBlock* suspend_ = nullptr;
  BasicBlock* cleanup_ = nullptr;
  llvm::SwitchInst* entry_switch_ = nullptr;
  std::vector<Value*> registers_;
};

}  // namespace

Unit generate(Way way, unsigned points, const Services& services) {
  Unit unit{std::make_unique<llvm::LLVMContext>(), nullptr};
  auto& context = *unit.context;
  unit.module = std::make_unique<llvm::Module>("lowering", context);
  auto* pointer = llvm::PointerType::getUnqual(context);
  auto* i32 = llvm::Type::getInt32Ty(context);
  bool machine = way == Way::saved || way == Way::framed;
  llvm::Type* result = llvm::Type::getVoidTy(context);
  if (way == Way::coroutine) result = pointer;
  if (machine) result = i32;
  auto declare = [&](const char* name, std::vector<llvm::Type*> types) {
    auto* type = llvm::FunctionType::get(result, types, false);
    auto* f = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, name, *unit.module);
    f->setDoesNotThrow();
    f->addFnAttr("target-cpu", "x86-64-v3");
    if (way == Way::coroutine) f->setPresplitCoroutine();
    return f;
  };
  std::vector<llvm::Type*> kernel{pointer}, nest{pointer, i32};
  if (machine) kernel = nest = {pointer, pointer};
  Builder(*unit.module, way, services, declare("kernel", kernel)).kernel(points);
  Builder(*unit.module, way, services, declare("nest", nest)).nest();
  return unit;
}

}  // namespace lowering
