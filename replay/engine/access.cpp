#include "replay/engine/access.h"

#include "deadheat/address.h"
#include "deadheat/digest.h"
#include "replay/engine/cold_calls.h"
#include "replay/engine/region_probe.h"
#include "replay/engine/spin.h"
#include "replay/engine/undefined.h"

namespace deadheat::engine {

using llvm::Value;

namespace {

Value* quantum_used_up(Builder& b) {
  Value* left = b.context_load(b.exec_context(), offsetof(ExecContext, quantum), b.i(64));
  b.context_store(b.exec_context(), offsetof(ExecContext, quantum), b.ir.CreateSub(left, b.constant(64, 1)));
  return b.ir.CreateICmpSLE(left, b.constant(64, 0));
}

// Names the pending operation and stops. `address` is evaluated in the stopping path only.
void set_pending(Builder& b, Value* address) {
  b.thread_store(offsetof(ThreadContext, pending_site), b.constant(32, b.site ? b.site->id : no_site));
  b.thread_store(offsetof(ThreadContext, pending_address), address ? address : b.constant(64, 0));
}

void count_visible(Builder& b) {
  Value* n = b.context_load(b.exec_context(), offsetof(ExecContext, visible), b.i(64));
  b.context_store(b.exec_context(), offsetof(ExecContext, visible), b.ir.CreateAdd(n, b.constant(64, 1)));
}

Value* site_marked(Builder& b) {
  Value* launch = b.launch_context();
  Value* marks = b.entry_value(
      "site_stop", [&] { return b.context_load(launch, offsetof(LaunchContext, site_stop), b.ir.getPtrTy()); });
  return b.ir.CreateICmpNE(b.context_load(marks, b.site->id, b.i(8)), b.constant(8, 0));
}

}  // namespace

void before_access(Builder& b, const ptx::Operand& address, Space space, bool strong) {
  if (may_be_visible(space)) before_access(b, [&] { return b.place(address, space); }, strong);
}

void before_access(Builder& b, const std::function<Builder::Place()>& place, bool strong) {
  if (!b.site) return;
  bool always = b.mode.record && strong;
  if (!b.mode.control && !always) return;
  Builder::Place p = place();
  if (!may_be_visible(p.space)) return;
  auto body = [&] {
    auto pend = [&] { set_pending(b, b.generic_address(place())); };
    if (b.mode.control) {
      Value* used = quantum_used_up(b);
      if (always) {
        pend();
        b.stop(Step::visible);
      } else {
        b.stop_when(b.ir.CreateOr(used, site_marked(b)), Step::visible, pend);
      }
      count_visible(b);
    } else {
      pend();
      b.stop(Step::visible);
    }
  };
  Value* visible = b.is_visible(p);
  if (visible)
    b.when(visible, body);
  else
    body();
}

void before_fence(Builder& b) {
  if (!b.site) return;
  if (b.mode.control) {
    Value* used = quantum_used_up(b);
    auto pend = [&] { set_pending(b, nullptr); };
    if (b.mode.record) {
      pend();
      b.stop(Step::visible);
    } else {
      b.stop_when(b.ir.CreateOr(used, site_marked(b)), Step::visible, pend);
    }
    count_visible(b);
  } else if (b.mode.record) {
    set_pending(b, nullptr);
    b.stop(Step::visible);
  }
}

namespace {

void check_each(Builder& b, const Access& a) {
  const Space space = a.place.space;
  auto& ir = b.ir;
  Value* address = b.offset(a.place);
  Value* aligned = nullptr;
  const unsigned natural = alignment(a.bytes);
  if (natural > 1) aligned = ir.CreateICmpEQ(ir.CreateAnd(address, b.constant(64, natural - 1)), b.constant(64, 0));
  auto both = [&](Value* x, Value* y) { return x ? ir.CreateAnd(x, y) : y; };
  Value* good = nullptr;
  auto in_global = [&](Value* where) -> Value* {
    Value* in_arena = ir.CreateSub(where, b.constant(64, to_device(device_arena)));
    Value* inside = ir.CreateICmpULT(in_arena, b.constant(64, device_arena_bytes));
    Value* exec = b.exec_context();
    Value* shadow =
        b.entry_value("shadow", [&] { return b.context_load(exec, offsetof(ExecContext, shadow), b.ir.getPtrTy()); });
    // Outside the arena look at granule 0, which exists, and let `inside` decide.
    Value* granule = ir.CreateLShr(ir.CreateSelect(inside, in_arena, b.constant(64, 0)), 4);
    Value* valid = b.context_load(ir.CreateGEP(ir.getInt8Ty(), shadow, granule), 0, b.i(8));
    Value* fits;
    if (a.bytes <= 16) {
      Value* end = ir.CreateAdd(ir.CreateAnd(where, b.constant(64, 15)), b.constant(64, a.bytes));
      fits = ir.CreateICmpULE(end, ir.CreateZExt(valid, b.i(64)));
    } else {
      const unsigned granules = natural / 16;
      Value* first = ir.CreateAnd(granule, b.constant(64, ~std::uint64_t(granules - 1))); // as of an aligned address
      Value* all = b.context_load(ir.CreateGEP(ir.getInt8Ty(), shadow, first), 0, b.i(8 * granules));
      fits = ir.CreateICmpEQ(
          all, llvm::ConstantInt::get(all->getType(), llvm::APInt::getSplat(8 * granules, llvm::APInt(8, 16))));
    }
    return ir.CreateAnd(inside, fits);
  };
  auto limit = [&](std::size_t offset, Value* base, const char* name) {
    return ir.CreateZExt(b.entry_value(name, [&] { return b.context_load(base, offset, b.i(32)); }), b.i(64));
  };
  if (space == Space::shared || space == Space::local) {
    Value* end = ir.CreateAdd(address, b.constant(64, a.bytes));
    Value* total = space == Space::shared
                       ? limit(offsetof(LaunchContext, total_shared), b.launch_context(), "total_shared")
                       : limit(offsetof(ThreadContext, stack_bytes), b.thread(), "stack_bytes");
    good = both(aligned, ir.CreateICmpULE(end, total));
  } else {
    // Generic addresses in windows take the slow way, which knows them all.
    good = both(aligned, in_global(address));
  }
  llvm::BasicBlock* slow = b.new_block("slow_check");
  llvm::BasicBlock* next = b.new_block("checked");
  if (space == Space::generic) {
    // In the shared window: as for .shared, so that generic pointers to shared memory stay fast.
    llvm::BasicBlock* other = b.new_block("window_check");
    ir.CreateCondBr(good, next, other);
    ir.SetInsertPoint(other);
    Value* inside = ir.CreateSub(address, b.constant(64, shared_window));
    Value* end = ir.CreateAdd(inside, b.constant(64, a.bytes));
    Value* total = limit(offsetof(LaunchContext, total_shared), b.launch_context(), "total_shared");
    Value* fits = ir.CreateAnd(ir.CreateICmpULT(inside, b.constant(64, window_bytes)), ir.CreateICmpULE(end, total));
    ir.CreateCondBr(both(aligned, fits), next, slow);
  } else {
    ir.CreateCondBr(good, next, slow, llvm::MDBuilder(b.context()).createBranchWeights(2000, 1));
  }
  ir.SetInsertPoint(slow);
  Value* thread = b.in_regions() ? b.region_field(offsetof(RegionContext, who), ir.getPtrTy()) : b.thread();
  Value* answer =
      b.in_regions() ? b.region_pointer(offsetof(RegionContext, legal)) : b.pointer_at(b.frame(), frame_legal);
  b.call_cold(reinterpret_cast<const void*>(&deadheat_cold_check),
              {thread, b.constant(32, b.site ? b.site->id : no_site), b.generic_address(a.place),
               b.constant(32, a.bytes | (a.is_write ? 0x80000000u : 0)), answer});
  Value* legal = b.context_load(answer, 0, b.i(32));
  llvm::BasicBlock* fault = b.new_block("fault");
  ir.CreateCondBr(ir.CreateICmpEQ(legal, b.constant(32, 0)), fault, next);
  ir.SetInsertPoint(fault);
  b.finish(std::int32_t(Step::fault));
  ir.SetInsertPoint(next);
  if (b.undefined) b.undefined->access(a);
}

}  // namespace

void check_access(Builder& b, const Access& a) {
  if (!b.mode.check) return;
  Space space = a.place.space;
  if (b.undefined && space == Space::local && !a.place.wide_base) b.undefined->access(a);
  if (space == Space::param || space == Space::constant || !a.place.wide_base) return;
  if (b.in_regions()) {
    if (space == Space::local) return b.refuse("local memory in a region");
    if (b.probe()) return b.probe()->note(b, a);
    return b.when(b.ir.CreateNot(b.is_fast()), [&] { check_each(b, a); });
  }
  check_each(b, a);
}

Value* digest(Builder& b, llvm::ArrayRef<Value*> written) {
  auto& ir = b.ir;
  // The bytes in order, as 32-bit words.
  std::vector<Value*> words;
  Value* partial = nullptr;
  unsigned filled = 0;
  for (Value* v : written) {
    unsigned width = v->getType()->getIntegerBitWidth();
    if (width >= 32) {
      for (unsigned at = 0; at < width; at += 32) words.push_back(ir.CreateTrunc(ir.CreateLShr(v, at), b.i(32)));
      continue;
    }
    Value* wide = ir.CreateShl(ir.CreateZExt(v, b.i(32)), filled);
    partial = partial ? ir.CreateOr(partial, wide) : wide;
    filled += width;
    if (filled == 32) {
      words.push_back(partial);
      partial = nullptr;
      filled = 0;
    }
  }
  if (partial) words.push_back(partial);
  Value* h = nullptr;
  for (Value* w : words) h = h ? ir.CreateXor(ir.CreateMul(h, b.constant(32, digest_multiplier)), w) : w;
  return h ? h : b.constant(32, 0);
}

void log_access(Builder& b, const Access& a, llvm::ArrayRef<Value*> written) {
  if (!b.mode.record || !b.site || !may_be_visible(a.place.space)) return;
  auto& ir = b.ir;
  auto body = [&] {
    Value* cursor = b.context_load(b.thread(), offsetof(ThreadContext, log_cursor), ir.getPtrTy());
    Value* d = written.empty() ? nullptr : digest(b, written);
    b.context_store(cursor, offsetof(LogEntry, address), b.generic_address(a.place));
    Value* tail = b.constant(64, b.site->id);
    if (d) tail = ir.CreateOr(tail, ir.CreateShl(ir.CreateZExt(d, b.i(64)), 32));
    b.context_store(cursor, offsetof(LogEntry, site), tail);
    Value* next = b.pointer_at(cursor, sizeof(LogEntry));
    b.context_store(b.thread(), offsetof(ThreadContext, log_cursor), next);
    Value* end = b.context_load(b.thread(), offsetof(ThreadContext, log_end), ir.getPtrTy());
    b.when(
        ir.CreateICmpEQ(next, end),
        [&] { b.call_cold(reinterpret_cast<const void*>(&deadheat_cold_log_full), {b.thread()}); }, false);
  };
  if (Value* visible = b.is_visible(a.place))
    b.when(visible, body);
  else
    body();
}

void report_strong(Builder& b, const Access& a, llvm::ArrayRef<Value*> read, llvm::ArrayRef<Value*> written,
                   Value* wrote) {
  if (!b.mode.record || !b.site || !may_be_visible(a.place.space)) return;
  auto body = [&] {
    for (unsigned n = 0; n < a.elements; ++n) {
      Value* address = b.ir.CreateAdd(b.generic_address(a.place), b.constant(64, n * a.element_bytes));
      auto as64 = [&](llvm::ArrayRef<Value*> values) -> Value* {
        return n < values.size() ? b.ir.CreateZExtOrTrunc(values[n], b.i(64)) : b.constant(64, 0);
      };
      b.call_service(offsetof(Services, strong), b.ir.getVoidTy(),
                     {b.thread(), b.constant(32, b.site->id), address, as64(read), as64(written),
                      wrote ? b.ir.CreateZExt(wrote, b.i(32)) : b.constant(32, written.empty() ? 0 : 1)});
    }
  };
  if (Value* visible = b.is_visible(a.place))
    b.when(visible, body);
  else
    body();
}

namespace {

// The same as engine::spin_value of the bytes.
Value* spin_value(Builder& b, llvm::ArrayRef<Value*> elements) {
  auto& ir = b.ir;
  constexpr unsigned word_bits = 8 * spin_word_bytes;
  Value* mixed = nullptr;
  for (Value* element : elements)
    for (unsigned at = 0; at < element->getType()->getIntegerBitWidth(); at += word_bits) {
      Value* word = ir.CreateZExtOrTrunc(at ? ir.CreateLShr(element, at) : element, b.i(word_bits));
      mixed = mixed ? ir.CreateXor(ir.CreateMul(mixed, b.constant(word_bits, spin_multiplier)), word) : word;
    }
  return mixed;
}

} // namespace

void after_strong(Builder& b, const Access* a, llvm::ArrayRef<Value*> read, Value* wrote) {
  if (!b.site || !b.site->in_loop || b.in_regions()) return;  // regions: nothing in a loop waits for others
  auto& ir = b.ir;
  if (a && !may_be_visible(a->place.space)) return;
  if (a && !read.empty()) {
    Value* address = b.generic_address(a->place);
    Value* value = spin_value(b, read);
    Value* same_site =
        ir.CreateICmpEQ(b.thread_load(offsetof(ThreadContext, spin_site), 32), b.constant(32, b.site->id));
    Value* same_place = ir.CreateICmpEQ(b.thread_load(offsetof(ThreadContext, spin_address), 64), address);
    Value* same_value = ir.CreateICmpEQ(b.thread_load(offsetof(ThreadContext, spin_value), 64), value);
    Value* unchanged = ir.CreateAnd(ir.CreateAnd(same_site, same_place), same_value);
    if (wrote) unchanged = ir.CreateAnd(unchanged, ir.CreateNot(wrote));
    b.thread_store(offsetof(ThreadContext, spin_site),
                   wrote ? ir.CreateSelect(wrote, b.constant(32, no_site), b.constant(32, b.site->id))
                         : b.constant(32, b.site->id));
    b.thread_store(offsetof(ThreadContext, spin_address), address);
    b.thread_store(offsetof(ThreadContext, spin_value), value);
    b.stop_when(unchanged, Step::spin, [&] { set_pending(b, address); });
  }
  if (a && a->commutes) b.thread_store(offsetof(ThreadContext, spin_site), b.constant(32, no_site));
  if (!b.mode.control) stop_when_used_up(b);
}

void stop_when_used_up(Builder& b) {
  b.stop_when(quantum_used_up(b), Step::spin, [&] { set_pending(b, nullptr); });
}

}  // namespace deadheat::engine
