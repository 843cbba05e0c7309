// Branches, calls, exits (PTX ISA 9.7.12), and the runtime's functions that programs call by name.
#include "deadheat/trace.h"
#include "replay/engine/access.h"
#include "replay/engine/lower.h"
#include "replay/engine/precision.h"
#include "replay/engine/undefined.h"

namespace deadheat::engine {

using llvm::BasicBlock;
using llvm::Value;
using ptx::Operand;

void lower_bra(Builder& b, const ptx::Instruction& i) {
  if (!b.branch_back(i.operands[0].text)) b.ir.CreateBr(b.label_block(i.operands[0].text));
}

void lower_brx(Builder& b, const ptx::Instruction& i) {
  if (i.operands.size() < 2) return b.refuse("operands");
  auto list = b.function.labels.find(i.operands[1].text);
  const ptx::Directive* targets =
      list == b.function.labels.end() ? nullptr : std::get_if<ptx::Directive>(&b.function.body[list->second].node);
  if (!targets) return b.refuse("target list");
  BasicBlock* outside = b.new_block("outside");
  auto* sw = b.ir.CreateSwitch(b.read(i.operands[0], 32), outside, unsigned(targets->targets.size()));
  for (std::size_t n = 0; n < targets->targets.size(); ++n)
    sw->addCase(b.ir.getInt32(std::uint32_t(n)), b.label_block(targets->targets[n]));
  b.ir.SetInsertPoint(outside);
  b.ir.CreateUnreachable();
}

void lower_ret(Builder& b, const ptx::Instruction&) {
  b.finish(b.function.entry ? std::int32_t(Step::exited) : returned);
}

void lower_exit(Builder& b, const ptx::Instruction&) { b.finish(std::int32_t(Step::exited)); }

namespace {

void fault(Builder& b, trace::MemoryError::Kind kind, const char* text) {
  Value* message = text ? b.host_symbol(text) : static_cast<Value*>(llvm::ConstantPointerNull::get(b.ir.getPtrTy()));
  b.call_service(
      offsetof(Services, fault), b.ir.getVoidTy(),
      {b.thread(), b.constant(32, b.site ? b.site->id : no_site), b.constant(32, std::uint64_t(kind)), message});
  b.finish(std::int32_t(Step::fault));
}

Value* copy_loop_free(Builder& b, Value* to, Value* from, std::uint64_t bytes) {
  // Arguments are a few words: copied by the largest pieces that fit.
  for (std::uint64_t at = 0; at < bytes;) {
    std::uint64_t piece = bytes - at >= 8 ? 8 : bytes - at >= 4 ? 4 : bytes - at >= 2 ? 2 : 1;
    Value* v = b.load(b.i(unsigned(piece) * 8), b.pointer_at(from, at), Space::local);
    b.store(v, b.pointer_at(to, at), Space::local);
    at += piece;
  }
  if (b.precision) b.precision->copy(to, from, bytes);
  if (b.undefined) b.undefined->copy(to, from, bytes);
  return to;
}

// The value of one argument of a call to a provided function: .param variables of the frame, registers, constants.
Value* argument(Builder& b, const Operand& o, unsigned bits) {
  if (o.kind == Operand::Kind::symbol && o.variable >= 0)
    return b.load(b.i(bits), b.pointer_at(b.frame(), b.variable_offset(std::uint32_t(o.variable))), Space::local);
  return b.read(o, bits);
}

void set_result(Builder& b, const ptx::Instruction& i, Value* v) {
  if (i.operands[0].elements.empty()) return;
  const Operand& o = i.operands[0].elements[0];
  if (o.kind == Operand::Kind::symbol && o.variable >= 0) {
    Value* to = b.pointer_at(b.frame(), b.variable_offset(std::uint32_t(o.variable)));
    b.store(v, to, Space::local);
    if (b.undefined) b.undefined->define(to, v->getType()->getIntegerBitWidth() / 8);
  } else {
    b.write(o, v);
    if (b.undefined) b.undefined->set(o, nullptr);
  }
}

bool call_provided(Builder& b, const ptx::Instruction& i, std::string_view name) {
  const auto& args = i.operands[2].elements;
  if (name == "vprintf" && args.size() >= 2) {
    set_result(b, i,
               b.call_service(offsetof(Services, print), b.i(32),
                              {b.thread(), argument(b, args[0], 64), argument(b, args[1], 64)}));
  } else if (name == "malloc" && !args.empty()) {
    set_result(b, i,
               b.call_service(offsetof(Services, allocate), b.i(64),
                              {b.thread(), b.constant(32, b.site ? b.site->id : no_site), argument(b, args[0], 64)}));
  } else if (name == "free" && !args.empty()) {
    Value* given = argument(b, args[0], 64);
    b.when(b.ir.CreateICmpNE(given, b.constant(64, 0)),
           [&] { before_access(b, [&] { return Builder::Place{Space::global, argument(b, args[0], 64)}; }, false); });
    b.call_service(offsetof(Services, release), b.ir.getVoidTy(),
                   {b.thread(), b.constant(32, b.site ? b.site->id : no_site), argument(b, args[0], 64)});
  } else if (name == "__assertfail") {
    // void __assertfail(message, file, u32 line, function, char size): the machine reads the texts from these
    // addresses.
    for (std::size_t n = 0; n < args.size() && n < 4; ++n)
      b.thread_store(offsetof(ThreadContext, arg) + 8 * n,
                     b.ir.CreateZExt(argument(b, args[n], n == 2 ? 32 : 64), b.i(64)));
    fault(b, trace::MemoryError::Kind::assertion, nullptr);
  } else if (name == "cudaDeviceSynchronize") {
    set_result(b, i, b.constant(32, 0));
  } else {
    return false;
  }
  return true;
}

}  // namespace

void lower_trap(Builder& b, const ptx::Instruction& i) {
  if (i.opcode == ptx::Opcode::brkpt) return;
  fault(b, trace::MemoryError::Kind::trap, nullptr);
}

void lower_nanosleep(Builder& b, const ptx::Instruction&) { stop_when_used_up(b); }

// stacksave, stackrestore, alloca (PTX ISA 9.7.16): local memory on top of the frame.
void lower_alloca(Builder& b, const ptx::Instruction& i) {
  Value* used = b.thread_load(offsetof(ThreadContext, stack_used), 32);
  if (i.opcode == ptx::Opcode::stacksave) return b.write(i.operands[0], b.ir.CreateZExt(used, b.i(64)));
  if (i.opcode == ptx::Opcode::stackrestore)
    return b.thread_store(offsetof(ThreadContext, stack_used), b.read(i.operands[0], 32));
  std::uint64_t align = i.operands.size() > 2 ? std::max<std::uint64_t>(i.operands[2].bits, 16) : 16;
  Value* start = b.ir.CreateAnd(b.ir.CreateAdd(used, b.constant(32, align - 1)), b.constant(32, ~(align - 1)));
  Value* size =
      b.ir.CreateAnd(b.ir.CreateAdd(b.read(i.operands[1], 32), b.constant(32, 15)), b.constant(32, ~std::uint64_t(15)));
  Value* end = b.ir.CreateAdd(b.ir.CreateZExt(start, b.i(64)), b.ir.CreateZExt(size, b.i(64)));
  Value* limit = b.ir.CreateZExt(b.thread_load(offsetof(ThreadContext, stack_bytes), 32), b.i(64));
  b.when(b.ir.CreateICmpUGT(end, limit), [&] { fault(b, trace::MemoryError::Kind::stack_overflow, nullptr); }, false);
  b.thread_store(offsetof(ThreadContext, stack_used), b.ir.CreateTrunc(end, b.i(32)));
  if (b.undefined)
    b.undefined->clear(b.ir.CreateGEP(b.ir.getInt8Ty(), b.stack_base(), b.ir.CreateZExt(start, b.i(64))),
                       b.ir.CreateZExt(size, b.i(64)));
  b.write(i.operands[0], b.ir.CreateZExt(start, b.i(64)));
}

void lower_call(Builder& b, const ptx::Instruction& i) {
  auto& ir = b.ir;
  const Operand& callee = i.operands[1];
  const auto& results = i.operands[0].elements;
  const auto& arguments = i.operands[2].elements;
  bool direct = callee.kind == Operand::Kind::symbol;
  std::uint32_t index = 0;
  std::vector<ptx::Variable> signature;
  std::size_t result_count = 0;
  if (direct) {
    auto it = b.unit.tables.by_name.find(callee.text);
    if (it == b.unit.tables.by_name.end() || !b.unit.tables.functions[it->second].function->has_body) {
      if (!call_provided(b, i, callee.text)) b.refuse("function " + std::string(callee.text) + " has no body");
      return;
    }
    index = it->second;
    const ptx::Function& f = *b.unit.tables.functions[index].function;
    signature = f.params;
    signature.insert(signature.end(), f.results.begin(), f.results.end());
    result_count = f.results.size();
  } else {
    const ptx::Directive* prototype = nullptr;
    if (i.operands.size() > 3) {
      auto at = b.function.labels.find(i.operands[3].text);
      if (at != b.function.labels.end()) prototype = std::get_if<ptx::Directive>(&b.function.body[at->second].node);
    }
    if (prototype && !prototype->targets.empty()) {  // .calltargets: any of them tells the signature
      auto it = b.unit.tables.by_name.find(prototype->targets[0]);
      if (it == b.unit.tables.by_name.end()) return b.refuse("call target");
      const ptx::Function& f = *b.unit.tables.functions[it->second].function;
      signature = f.params;
      signature.insert(signature.end(), f.results.begin(), f.results.end());
      result_count = f.results.size();
    } else if (prototype) {
      signature = prototype->params;
      signature.insert(signature.end(), prototype->results.begin(), prototype->results.end());
      result_count = prototype->results.size();
    } else {
      return b.refuse("indirect call without a prototype");
    }
  }
  if (arguments.size() + result_count > signature.size() || results.size() > result_count)
    return b.refuse("arguments do not match the function");
  std::uint32_t end = frame_header;
  std::vector<std::uint32_t> offsets = lay_out(signature, end);
  auto callee_offset = [&](bool result, std::size_t n) {
    return offsets[result ? signature.size() - result_count + n : n];
  };

  // What is called, and how large its frame is.
  Value* descriptor = nullptr;
  Value* frame_bytes;
  if (direct) {
    auto* size = b.unit.module.getGlobalVariable(frame_bytes_name(index), true);
    if (!size)
      size = new llvm::GlobalVariable(b.unit.module, b.i(32), false, llvm::GlobalValue::InternalLinkage,
                                      b.constant(32, 0), frame_bytes_name(index));
    frame_bytes = ir.CreateLoad(b.i(32), size);
  } else {
    auto descriptor_of = [&]() -> Value* {
      Value* pointer = b.read(callee, 64);
      Value* d = ir.CreateIntToPtr(pointer, ir.getPtrTy());
      return b.pointer_at(d, number(b.mode) * sizeof(FunctionDescriptor));
    };
    b.when(
        ir.CreateICmpEQ(b.read(callee, 64), b.constant(64, 0)),
        [&] { fault(b, trace::MemoryError::Kind::trap, "call through a null function pointer"); }, false);
    descriptor = descriptor_of();
    b.when(
        ir.CreateIsNull(b.context_load(descriptor, offsetof(FunctionDescriptor, entry), ir.getPtrTy())),
        [&] { fault(b, trace::MemoryError::Kind::trap, "call through a pointer to no function"); }, false);
    frame_bytes = b.context_load(descriptor, offsetof(FunctionDescriptor, frame_bytes), b.i(32));
  }

  // A frame for it on top of the stack.
  Value* used = b.thread_load(offsetof(ThreadContext, stack_used), 32);
  used = ir.CreateAnd(ir.CreateAdd(used, b.constant(32, 15)), b.constant(32, ~std::uint64_t(15)));
  Value* top = ir.CreateAdd(used, frame_bytes);
  b.when(
      ir.CreateICmpUGT(top, b.thread_load(offsetof(ThreadContext, stack_bytes), 32)),
      [&] { fault(b, trace::MemoryError::Kind::stack_overflow, nullptr); }, false);
  b.thread_store(offsetof(ThreadContext, stack_used), top);
  b.context_store(b.frame(), frame_callee, used);
  auto callee_frame = [&]() -> Value* {
    Value* at = b.context_load(b.frame(), frame_callee, b.i(32));
    return ir.CreateGEP(ir.getInt8Ty(), b.stack_base(), ir.CreateZExt(at, b.i(64)));
  };
  Value* frame = callee_frame();
  b.context_store(frame, frame_resume, b.constant(32, 0));
  if (b.undefined) b.undefined->clear(frame, ir.CreateZExt(frame_bytes, b.i(64)));
  for (std::size_t n = 0; n < arguments.size(); ++n) {
    const Operand& o = arguments[n];
    Value* to = b.pointer_at(frame, callee_offset(false, n));
    if (o.kind == Operand::Kind::symbol && o.variable >= 0 &&
        b.function.variables[std::size_t(o.variable)].space == Space::param) {
      std::uint64_t bytes = std::min(signature[n].size, b.function.variables[std::size_t(o.variable)].size);
      copy_loop_free(b, to, b.pointer_at(b.frame(), b.variable_offset(std::uint32_t(o.variable))), bytes);
    } else {
      Value* bits = b.read(o, unsigned(signature[n].size) * 8);
      b.store(bits, to, Space::local);
      if (b.precision) b.precision->store(o, to, bits);
      if (b.undefined) b.undefined->pass(o, to, unsigned(signature[n].size) * 8);
    }
  }

  // The call is made again when the thread goes on inside it.
  BasicBlock* again = b.new_block("call");
  BasicBlock* done = b.new_block("returned");
  BasicBlock* stopped = b.new_block("stopped_in_call");
  ir.CreateBr(again);
  ir.SetInsertPoint(again);
  llvm::FunctionType* type = llvm::FunctionType::get(b.i(32), {ir.getPtrTy(), ir.getPtrTy()}, false);
  llvm::CallInst* call;
  if (direct) {
    call = ir.CreateCall(declare_function(b.unit, index), {b.thread(), callee_frame()});
  } else {
    Value* pointer = ir.CreateIntToPtr(b.read(callee, 64), ir.getPtrTy());
    Value* entry = b.context_load(b.pointer_at(pointer, number(b.mode) * sizeof(FunctionDescriptor)),
                                  offsetof(FunctionDescriptor, entry), ir.getPtrTy());
    call = ir.CreateCall(type, entry, {b.thread(), callee_frame()});
  }
  call->setDoesNotThrow();
  ir.CreateCondBr(ir.CreateICmpEQ(call, b.constant(32, std::uint64_t(std::int64_t(returned)))), done, stopped);
  ir.SetInsertPoint(stopped);
  if (!direct || b.unit.stops[index])
    b.stop_with(call, again);
  else
    ir.CreateRet(call);
  ir.SetInsertPoint(done);
  b.thread_store(offsetof(ThreadContext, stack_used), b.context_load(b.frame(), frame_callee, b.i(32)));
  frame = callee_frame();
  for (std::size_t n = 0; n < results.size(); ++n) {
    const Operand& o = results[n];
    Value* from = b.pointer_at(frame, callee_offset(true, n));
    const ptx::Variable& v = signature[signature.size() - result_count + n];
    if (o.kind == Operand::Kind::symbol && o.variable >= 0)
      copy_loop_free(b, b.pointer_at(b.frame(), b.variable_offset(std::uint32_t(o.variable))), from,
                     std::min(v.size, b.function.variables[std::size_t(o.variable)].size));
    else if (o.kind != Operand::Kind::sink) {
      Value* bits = b.load(b.i(unsigned(v.size) * 8), from, Space::local);
      b.write(o, bits);
      if (b.precision) b.precision->load(o, from, bits);
      if (b.undefined) b.undefined->take(o, from, unsigned(v.size) * 8);
    }
  }
}

}  // namespace deadheat::engine
