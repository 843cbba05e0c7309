// ld, st, fences, cp.async (PTX ISA 9.7.9, 9.7.13).
#include "deadheat/address.h"
#include "deadheat/proxy_fence.h"
#include "replay/engine/access.h"
#include "replay/engine/lower.h"
#include "replay/engine/precision.h"

namespace deadheat::engine {

using llvm::Value;
using ptx::Modifier;
using ptx::Operand;
using ptx::Type;

namespace {

unsigned element_count(const ptx::Instruction& i) {
  return i.has(Modifier::v8) ? 8 : i.has(Modifier::v4) ? 4 : i.has(Modifier::v2) ? 2 : 1;
}

bool strong_site(const Builder& b) {
  return b.site && b.site->kind == SiteKind::access &&
         (is_strong(b.site->ordering) || b.site->access == AccessKind::atomic);
}

Access access_of(Builder& b, const ptx::Instruction& i, const Operand& address, bool is_write) {
  Access a;
  a.place = b.place(address, b.space_of(i));
  a.elements = element_count(i);
  a.element_bytes = std::max(1u, ptx::bits(i.type()) / 8);
  a.bytes = a.elements * a.element_bytes;
  a.is_write = is_write;
  a.strong = strong_site(b);
  return a;
}

const Operand& element(const Operand& o, unsigned n) { return o.kind == Operand::Kind::vector ? o.elements[n] : o; }

}  // namespace

void lower_ld(Builder& b, const ptx::Instruction& i) {
  if (i.operands.size() < 2) return b.refuse("operands");
  const Operand& to = i.operands[0];
  const Operand& from = i.operands[1];
  Space space = b.space_of(i);
  bool strong = strong_site(b);
  before_access(b, from, space, strong);
  Access a = access_of(b, i, from, false);
  if (to.kind == Operand::Kind::vector && to.elements.size() < a.elements) return b.refuse("vector operand");
  check_access(b, a);
  Value* pointer = b.host_pointer(a.place);
  bool invariant = a.place.space == Space::param;
  std::vector<Value*> values;
  for (unsigned n = 0; n < a.elements; ++n)
    values.push_back(
        b.load(b.i(a.element_bytes * 8), b.pointer_at(pointer, n * a.element_bytes), a.place.space, invariant));
  for (unsigned n = 0; n < a.elements; ++n) {
    Value* v = values[n];
    if (i.type() == Type::pred || i.type() == Type::b1) v = b.ir.CreateTrunc(v, b.i(1));
    if (a.elements == 1 && to.kind == Operand::Kind::vector && to.elements.size() == 1)
      b.write(to.elements[0], v, is_signed(i.type()));
    else
      b.write(element(to, n), v, is_signed(i.type()));
  }
  if (b.precision)
    for (unsigned n = 0; n < a.elements; ++n)
      b.precision->load(element(to, n), b.pointer_at(pointer, n * a.element_bytes), values[n]);
  if (strong) {
    report_strong(b, a, values, {}, nullptr);
    after_strong(b, &a, values, nullptr);
  } else {
    log_access(b, a, {});
  }
}

void lower_st(Builder& b, const ptx::Instruction& i) {
  if (i.operands.size() < 2) return b.refuse("operands");
  if (i.has(Modifier::async)) return lower_async_store(b, i);
  if (i.has(Modifier::bulk)) return lower_bulk_store(b, i);
  const Operand& to = i.operands[0];
  const Operand& from = i.operands[1];
  Space space = b.space_of(i);
  bool strong = strong_site(b);
  before_access(b, to, space, strong);
  Access a = access_of(b, i, to, true);
  if (from.kind == Operand::Kind::vector && from.elements.size() < a.elements) return b.refuse("vector operand");
  std::vector<Value*> values;
  for (unsigned n = 0; n < a.elements; ++n) {
    const Operand& o = a.elements == 1 && from.kind == Operand::Kind::vector && from.elements.size() == 1
                           ? from.elements[0]
                           : element(from, n);
    Value* v = b.read(o, ptx::bits(i.type()));
    if (a.element_bytes * 8 != ptx::bits(i.type())) v = b.ir.CreateZExt(v, b.i(a.element_bytes * 8));
    values.push_back(v);
  }
  check_access(b, a);
  if (!strong) log_access(b, a, values);
  Value* pointer = b.host_pointer(a.place);
  for (unsigned n = 0; n < a.elements; ++n)
    b.store(values[n], b.pointer_at(pointer, n * a.element_bytes), a.place.space);
  if (b.precision)
    for (unsigned n = 0; n < a.elements; ++n)
      b.precision->store(element(from, n), b.pointer_at(pointer, n * a.element_bytes), values[n]);
  if (strong) {
    report_strong(b, a, {}, values, nullptr);
    after_strong(b, &a, {}, nullptr);
  }
}

// What it leaves whoever reads it next sees (ExecContext::discarded), so that a read that should not is no secret.
void lower_discard(Builder& b, const ptx::Instruction& i) {
  if (i.operands.empty()) return b.refuse("operands");
  before_access(b, i.operands[0], Space::global, false);
  Access a;
  a.place = b.place(i.operands[0], Space::global);
  a.bytes = ptx::discarded_bytes;
  a.is_write = true;
  check_access(b, a);
  log_access(b, a, {});
  Value* pointer = b.host_pointer(a.place);
  Value* exec = b.exec_context();
  Value* left =
      b.entry_value("discarded", [&] { return b.context_load(exec, offsetof(ExecContext, discarded), b.i(64)); });
  for (unsigned at = 0; at < a.bytes; at += 8) b.store(left, b.pointer_at(pointer, at), a.place.space);
}

// A fence orders nothing by itself in a sequential execution: it is a place to stop (PTX ISA 9.7.13.4). Of proxy fences
// those of the asynchronous proxy matter to what is modelled, and those that release or acquire.
void lower_fence(Builder& b, const ptx::Instruction&) {
  if (!b.site) return;
  const bool proxy = b.site->kind == SiteKind::proxy_fence && b.site->proxy == Proxy::async;
  if (b.site->kind != SiteKind::fence && !proxy && !one_way(*b.site)) return;
  before_fence(b);
  after_strong(b, nullptr, {}, nullptr);
}

// cp.async, its groups and waits (PTX ISA 9.7.9.25).
void lower_cp(Builder& b, const ptx::Instruction& i) {
  const bool group = i.has(Modifier::commit_group) || i.has(Modifier::wait_group) || i.has(Modifier::wait_all);
  if (i.has(Modifier::bulk) && !group) return lower_bulk(b, i);
  if (i.has(Modifier::mbarrier) && i.has(Modifier::arrive)) return lower_async_arrive(b, i);
  Value* site = b.constant(32, b.site ? b.site->id : no_site);
  if (i.has(Modifier::commit_group)) {
    b.call_service(offsetof(Services, async_commit), b.ir.getVoidTy(), {b.thread(), site});
    return;
  }
  if (i.has(Modifier::wait_group) || i.has(Modifier::wait_all)) {
    bool all = i.has(Modifier::wait_all);
    b.thread_store(offsetof(ThreadContext, pending_site), site);
    b.thread_store(offsetof(ThreadContext, arg), all ? b.constant(64, 0) : b.read(i.operands[0], 64));
    b.thread_store(offsetof(ThreadContext, arg) + 8,
                   b.constant(64, (all ? 1 : 0) | (i.has(Modifier::bulk) ? 2 : 0) | (i.has(Modifier::read) ? 4 : 0)));
    b.stop(Step::async_wait);
    return;
  }
  // [destination], [source], cp-size {, src-size | ignore-src} {, cache-policy}
  if (i.operands.size() < 3) return b.refuse("operands");
  before_access(b, i.operands[1], Space::global, false);
  unsigned bytes = unsigned(i.operands[2].bits);
  if (bytes != 4 && bytes != 8 && bytes != 16) return b.refuse("copy size");
  Value* source_bytes = b.constant(32, bytes);
  std::size_t last = i.operands.size() - (i.has(Modifier::L2_cache_hint) ? 1 : 0);
  if (last > 3) {
    const Operand& o = i.operands[3];
    bool predicate = o.kind == Operand::Kind::reg && b.function.registers[o.reg].type == Type::pred;
    source_bytes = predicate ? b.ir.CreateSelect(b.read_predicate(o), b.constant(32, 0), source_bytes) : b.read(o, 32);
  }
  Access to, from;
  to.place = b.place(i.operands[0], Space::shared);
  to.bytes = bytes;
  to.is_write = true;
  check_access(b, to);
  from.place = b.place(i.operands[1], Space::global);
  from.bytes = bytes;
  if (b.mode.check) // nothing is read, so nothing is checked, where source_bytes is 0
    b.when(b.ir.CreateICmpNE(source_bytes, b.constant(32, 0)), [&] { check_access(b, from); });
  if (b.probe()) return;
  b.call_service(offsetof(Services, async_copy), b.ir.getVoidTy(),
                 {b.thread(), site, b.offset(to.place), b.offset(from.place), b.constant(32, bytes), source_bytes});
}

} // namespace deadheat::engine
