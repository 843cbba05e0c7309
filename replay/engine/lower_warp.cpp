// Barriers and rendezvous of lanes (PTX ISA 9.7.13): a stop each, with operands in arg[] and answers in result[].
#include "replay/engine/lower_warp.h"
#include "replay/engine/access.h"
#include "replay/engine/lower.h"
#include "replay/engine/precision.h"
#include "replay/engine/undefined.h"

namespace deadheat::engine {

using llvm::Value;
using ptx::Modifier;
using ptx::Operand;
using ptx::Type;

namespace {

void set_argument(Builder& b, unsigned n, Value* v) {
  b.thread_store(offsetof(ThreadContext, arg) + 8 * n, b.ir.CreateZExtOrTrunc(v, b.i(64)));
}

Value* result(Builder& b, unsigned n, unsigned bits) {
  return b.ir.CreateTrunc(b.thread_load(offsetof(ThreadContext, result) + 8 * n, 64), b.i(bits));
}

void set_site(Builder& b) {
  b.thread_store(offsetof(ThreadContext, pending_site), b.constant(32, b.site ? b.site->id : no_site));
}

Value* full_mask(Builder& b) { return b.constant(64, 0xffffffffu); }

// Operand 0 may be d, p|q or _.
const Operand& first(const Operand& o) { return o.kind == Operand::Kind::pair ? o.elements[0] : o; }
const Operand* second(const Operand& o) { return o.kind == Operand::Kind::pair ? &o.elements[1] : nullptr; }

// Undefined bits of what the lane gives, and of what it gets back (undefined.h).
void give_undefined(Builder& b, const Operand& from, unsigned bits) {
  if (!b.undefined) return;
  Value* undefined = b.undefined->bits(from, bits);
  set_argument(b, 5, undefined ? undefined : static_cast<Value*>(b.constant(32, 0)));
}
void get_undefined(Builder& b, const Operand& to, unsigned bits) {
  if (!b.undefined) return;
  b.undefined->set(first(to), result(b, 2, bits));
  if (const Operand* p = second(to)) b.undefined->set(*p, result(b, 3, 1));
}

}  // namespace

void rendezvous(Builder& b, WarpOp op, Value* mask) {
  set_site(b);
  set_argument(b, 0, b.constant(64, std::uint64_t(op)));
  set_argument(b, 1, mask);
  b.stop(Step::warp);
}

void lower_bar(Builder& b, const ptx::Instruction& i) {
  const auto& o = i.operands;
  if (i.has(Modifier::warp)) {
    rendezvous(b, WarpOp::barrier, o.empty() ? full_mask(b) : b.read(o[0], 32));
    return;
  }
  if (i.has(Modifier::cluster)) return lower_cluster_barrier(b, i);
  if (b.in_regions()) return b.meet();
  bool red = i.has(Modifier::red);
  std::size_t at = red ? 1 : 0;
  if (o.size() <= at) return b.refuse("operands");
  std::size_t counts = o.size() - at - (red ? 1 : 0);  // barrier, and a thread count if written
  set_site(b);
  set_argument(b, 0, b.read(o[at], 32));
  set_argument(b, 1, counts > 1 ? b.read(o[at + 1], 32) : b.constant(32, 0));
  set_argument(b, 2, red ? b.read_predicate(o.back()) : static_cast<Value*>(b.constant(1, 0)));
  if (red) give_undefined(b, o.back(), 1);
  b.stop(Step::barrier);
  if (!red) return;
  const unsigned bits = i.has(Modifier::popc) ? 32 : 1;
  b.write(o[0], result(b, 0, bits));
  get_undefined(b, o[0], bits);
}

// shfl.sync.mode.b32 d|p, a, b, c, membermask
void lower_shfl(Builder& b, const ptx::Instruction& i) {
  const auto& o = i.operands;
  if (o.size() < 4) return b.refuse("operands");
  WarpOp op = i.has(Modifier::up)     ? WarpOp::shfl_up
              : i.has(Modifier::down) ? WarpOp::shfl_down
              : i.has(Modifier::bfly) ? WarpOp::shfl_bfly
                                      : WarpOp::shfl_idx;
  set_argument(b, 2, b.read(o[1], 32));
  set_argument(b, 3, b.read(o[2], 32));
  set_argument(b, 4, b.read(o[3], 32));
  give_undefined(b, o[1], 32);
  if (b.precision) { // taken along when the lanes meet
    set_argument(b, 6, b.precision->address_of(o[1]));
    set_argument(b, 7, b.precision->address_of(first(o[0])));
  }
  rendezvous(b, op, o.size() > 4 ? b.read(o[4], 32) : full_mask(b));
  b.write(first(o[0]), result(b, 0, 32));
  if (const Operand* p = second(o[0])) b.write(*p, result(b, 1, 1));
  get_undefined(b, o[0], 32);
}

void lower_vote(Builder& b, const ptx::Instruction& i) {
  const auto& o = i.operands;
  if (o.size() < 2) return b.refuse("operands");
  bool ballot = i.has(Modifier::ballot);
  WarpOp op = ballot                 ? WarpOp::vote_ballot
              : i.has(Modifier::all) ? WarpOp::vote_all
              : i.has(Modifier::any) ? WarpOp::vote_any
                                     : WarpOp::vote_uni;
  set_argument(b, 2, b.read_predicate(o[1]));
  give_undefined(b, o[1], 1);
  rendezvous(b, op, o.size() > 2 ? b.read(o[2], 32) : full_mask(b));
  b.write(o[0], result(b, 0, ballot ? 32 : 1));
  get_undefined(b, o[0], ballot ? 32 : 1);
}

void lower_match(Builder& b, const ptx::Instruction& i) {
  const auto& o = i.operands;
  if (o.size() < 3) return b.refuse("operands");
  set_argument(b, 2, b.read(o[1], ptx::bits(i.type())));
  give_undefined(b, o[1], ptx::bits(i.type()));
  rendezvous(b, i.has(Modifier::all) ? WarpOp::match_all : WarpOp::match_any, b.read(o[2], 32));
  b.write(first(o[0]), result(b, 0, 32));
  if (const Operand* p = second(o[0])) b.write(*p, result(b, 1, 1));
  get_undefined(b, o[0], 32);
}

void lower_redux(Builder& b, const ptx::Instruction& i) {
  const auto& o = i.operands;
  if (o.size() < 3) return b.refuse("operands");
  bool s = is_signed(i.type()), f = i.type() == Type::f32;
  WarpOp op = i.has(Modifier::add)    ? WarpOp::redux_add
              : f                     ? (i.has(Modifier::min) ? WarpOp::redux_min_f : WarpOp::redux_max_f)
              : i.has(Modifier::min)  ? (s ? WarpOp::redux_min_s : WarpOp::redux_min_u)
              : i.has(Modifier::max)  ? (s ? WarpOp::redux_max_s : WarpOp::redux_max_u)
              : i.has(Modifier::and_) ? WarpOp::redux_and
              : i.has(Modifier::or_)  ? WarpOp::redux_or
                                      : WarpOp::redux_xor;
  set_argument(b, 2, b.read(o[1], 32));
  if (f) set_argument(b, 3, b.constant(32, (i.has(Modifier::abs) ? 1 : 0) | (i.has(Modifier::NaN) ? 2 : 0)));
  give_undefined(b, o[1], 32);
  rendezvous(b, op, b.read(o[2], 32));
  b.write(o[0], result(b, 0, 32));
  get_undefined(b, o[0], 32);
}

void lower_activemask(Builder& b, const ptx::Instruction& i) {
  rendezvous(b, WarpOp::activemask, b.constant(64, 0));
  b.write(i.operands[0], result(b, 0, 32));
}

void lower_elect(Builder& b, const ptx::Instruction& i) {
  if (i.operands.size() < 2) return b.refuse("operands");
  rendezvous(b, WarpOp::elect, b.read(i.operands[1], 32));
  b.write(first(i.operands[0]), result(b, 0, 32));
  if (const Operand* p = second(i.operands[0])) b.write(*p, result(b, 1, 1));
}

}  // namespace deadheat::engine
