// mbarrier objects, bulk copies, clusters, dependent launches (PTX ISA 9.7.9.25.4, 9.7.13.3, 9.7.13.15, 9.7.13.16).
// What they do is the machine's business: compiled code gathers operands, calls a service and stops where it must.
#include "deadheat/address.h"
#include "replay/engine/access.h"
#include "replay/engine/lower.h"

namespace deadheat::engine {

using llvm::Value;
using ptx::Modifier;
using ptx::Operand;

namespace {

Value* site_number(Builder& b) { return b.constant(32, b.site ? b.site->id : no_site); }

void set_argument(Builder& b, unsigned n, Value* v) {
  b.thread_store(offsetof(ThreadContext, arg) + 8 * n, b.ir.CreateZExtOrTrunc(v, b.i(64)));
}

Value* mbarrier_service(Builder& b, std::uint32_t what, Value* address, Value* operand) {
  return b.call_service(offsetof(Services, mbarrier), b.i(64),
                        {b.thread(), site_number(b), b.constant(32, what), address, operand});
}

constexpr std::uint32_t number(MbarrierOp op) { return std::uint32_t(op); }

// mbarrier.test_wait, mbarrier.try_wait: waitComplete, [addr], state | phaseParity {, suspendTimeHint}
void lower_wait(Builder& b, const ptx::Instruction& i) {
  const auto& o = i.operands;
  if (o.size() < 3) return b.refuse("operands");
  const bool parity = i.has(Modifier::parity);
  const Space space = b.space_of(i);
  std::uint32_t what = number(MbarrierOp::test);
  if (parity) what |= number(MbarrierOp::parity);
  if (i.has(Modifier::try_wait)) what |= number(MbarrierOp::blocking);
  if (b.site && b.site->in_loop) what |= number(MbarrierOp::in_loop);
  auto test = [&](std::uint32_t how) {
    Value* phase = parity ? b.ir.CreateZExt(b.read(o[2], 32), b.i(64)) : b.read(o[2], 64);
    Value* answer = mbarrier_service(b, how, b.generic_address(b.place(o[1], space)), phase);
    b.write(o[0], b.ir.CreateTrunc(answer, b.i(1)));
    return answer;
  };
  before_access(b, o[1], space, true);
  Value* suspends = b.ir.CreateICmpEQ(test(what), b.constant(64, 2));
  b.when(
      suspends,
      [&] {
        b.stop(Step::mbarrier);
        test(what | number(MbarrierOp::again));
      },
      false);
}

// BulkArgument::bulk_reduction; 0: not known.
std::uint64_t reduction_code(const ptx::Instruction& i) {
  struct Line {
    Modifier modifier;
    BulkReduction op;
  };
  static constexpr Line lines[] = {{Modifier::add, BulkReduction::add}, {Modifier::min, BulkReduction::min},
                                   {Modifier::max, BulkReduction::max}, {Modifier::inc, BulkReduction::inc},
                                   {Modifier::dec, BulkReduction::dec}, {Modifier::and_, BulkReduction::and_},
                                   {Modifier::or_, BulkReduction::or_}, {Modifier::xor_, BulkReduction::xor_}};
  for (const Line& line : lines)
    if (i.has(line.modifier)) return 1 + std::uint64_t(line.op) + (std::uint64_t(i.type()) << 8);
  return 0;
}

} // namespace

void lower_mbarrier(Builder& b, const ptx::Instruction& i) {
  const auto& o = i.operands;
  if (i.has(Modifier::pending_count)) { // of a state: bits 20 to 39, as the machine packs them (mbarrier.h)
    if (o.size() < 2) return b.refuse("operands");
    Value* count = b.ir.CreateAnd(b.ir.CreateLShr(b.read(o[1], 64), 20), b.constant(64, 0xfffff));
    return b.write(o[0], b.ir.CreateTrunc(count, b.i(32)));
  }
  if (i.has(Modifier::test_wait) || i.has(Modifier::try_wait)) return lower_wait(b, i);
  const Space space = b.space_of(i);
  const bool arrives = i.has(Modifier::arrive) || i.has(Modifier::arrive_drop);
  // Arrivals may have no result: mbarrier.arrive.shared::cluster _, [addr].
  const std::size_t at = arrives && !o.empty() && o[0].kind != Operand::Kind::address ? 1 : 0;
  if (o.size() <= at) return b.refuse("operands");
  before_access(b, o[at], space, true);
  Value* operand = b.constant(64, 0);
  std::uint32_t what = 0;
  auto read = [&](std::size_t n) { return b.ir.CreateZExt(b.read(o[n], 32), b.i(64)); };
  if (arrives) {
    what = number(i.has(Modifier::arrive_drop) ? MbarrierOp::arrive_drop : MbarrierOp::arrive);
    if (i.has(Modifier::noComplete)) what |= number(MbarrierOp::no_complete);
    operand = b.constant(64, 1);
    if (o.size() > at + 1)
      operand = i.has(Modifier::expect_tx) ? b.ir.CreateOr(operand, b.ir.CreateShl(read(at + 1), 32)) : read(at + 1);
  } else if (i.has(Modifier::inval)) {
    what = number(MbarrierOp::inval);
  } else {
    if (o.size() < 2) return b.refuse("operands");
    what = number(i.has(Modifier::init)        ? MbarrierOp::init
                  : i.has(Modifier::expect_tx) ? MbarrierOp::expect_tx
                                               : MbarrierOp::complete_tx);
    operand = read(1);
  }
  Value* state = mbarrier_service(b, what, b.generic_address(b.place(o[at], space)), operand);
  if (at) b.write(o[0], state);
}

void lower_async_arrive(Builder& b, const ptx::Instruction& i) {
  if (i.operands.empty()) return b.refuse("operands");
  const Space space = b.space_of(i);
  before_access(b, i.operands[0], space, true);
  const std::uint32_t what =
      number(MbarrierOp::async_arrive) | (i.has(Modifier::noinc) ? number(MbarrierOp::no_increment) : 0);
  mbarrier_service(b, what, b.generic_address(b.place(i.operands[0], space)), b.constant(64, 1));
}

// cp.async.bulk.dst.src.completion [dst], [src], size {, [mbar]} {, ctaMask} {, cache-policy}; the same for reductions.
void lower_bulk(Builder& b, const ptx::Instruction& i) {
  if (i.has(Modifier::prefetch)) return;
  if (i.has(Modifier::tensor)) {
    const std::uint64_t operation = i.has(Modifier::reduce) ? reduction_code(i) & 0xff : 0;
    if (i.has(Modifier::reduce) && !operation) return b.refuse("operation");
    return lower_box(b, i, operation);
  }
  const auto& o = i.operands;
  const bool mbarrier = i.has(Modifier::mbarrier_complete_tx_bytes), multicast = i.has(Modifier::multicast_cluster);
  if (o.size() < 3u + mbarrier + multicast) return b.refuse("operands");
  Space spaces[2] = {Space::generic, Space::generic}; // destination, source
  std::size_t found = 0;
  for (std::string_view word : i.modifier_texts)
    if (found < 2 && (word == "global" || word.starts_with("shared")))
      spaces[found++] = word == "global" ? Space::global : Space::shared;
  if (found != 2) return b.refuse("state spaces");
  before_access(b, o[0], spaces[0], true);
  set_argument(b, bulk_destination, b.generic_address(b.place(o[0], spaces[0])));
  set_argument(b, bulk_source, b.generic_address(b.place(o[1], spaces[1])));
  set_argument(b, bulk_bytes, b.read(o[2], 32));
  set_argument(b, bulk_mbarrier, mbarrier ? b.generic_address(b.place(o[3], Space::shared)) : b.constant(64, 0));
  set_argument(b, bulk_targets, multicast ? b.read(o[4], 16) : static_cast<Value*>(b.constant(64, 0)));
  const std::uint64_t reduction = i.has(Modifier::reduce) ? reduction_code(i) : 0;
  if (i.has(Modifier::reduce) && !reduction) return b.refuse("operation");
  set_argument(b, bulk_reduction, b.constant(64, reduction));
  b.call_service(offsetof(Services, bulk_copy), b.ir.getVoidTy(), {b.thread(), site_number(b)});
}

// st.async.completion{.vec}.type [a], b, [mbar] and red.async.op.type [a], b, [mbar]: bulk copies of a value.
void lower_async_store(Builder& b, const ptx::Instruction& i) {
  const auto& o = i.operands;
  if (o.size() < 3) return b.refuse("operands");
  const unsigned width = std::max(ptx::bits(i.type()), 8u);
  const bool vector = o[1].kind == Operand::Kind::vector;
  const std::size_t count = vector ? o[1].elements.size() : 1;
  if (count * width > 128) return b.refuse("operands");
  before_access(b, o[0], Space::shared, true);
  set_argument(b, bulk_destination, b.generic_address(b.place(o[0], Space::shared)));
  set_argument(b, bulk_source, b.constant(64, bulk_no_source));
  set_argument(b, bulk_bytes, b.constant(32, count * width / 8));
  set_argument(b, bulk_mbarrier, b.generic_address(b.place(o[2], Space::shared)));
  set_argument(b, bulk_targets, b.constant(64, 0));
  Value* all = b.constant(128, 0);
  for (std::size_t n = 0; n < count; ++n) {
    Value* v = b.read(vector ? o[1].elements[n] : o[1], width);
    all = b.ir.CreateOr(all, b.ir.CreateShl(b.ir.CreateZExt(v, b.i(128)), width * n));
  }
  set_argument(b, bulk_value, b.ir.CreateTrunc(all, b.i(64)));
  set_argument(b, bulk_value + 1, b.ir.CreateTrunc(b.ir.CreateLShr(all, 64), b.i(64)));
  const std::uint64_t reduction = i.opcode == ptx::Opcode::red ? reduction_code(i) : 0;
  if (i.opcode == ptx::Opcode::red && !reduction) return b.refuse("operation");
  set_argument(b, bulk_reduction, b.constant(64, reduction));
  b.call_service(offsetof(Services, bulk_copy), b.ir.getVoidTy(), {b.thread(), site_number(b)});
}

// st.bulk [a], size, 0: weak stores of 8 bytes each, visible operations one by one (9.7.9.13).
void lower_bulk_store(Builder& b, const ptx::Instruction& i) {
  auto& ir = b.ir;
  const auto& o = i.operands;
  if (o.size() < 2) return b.refuse("operands");
  const Space space = b.space_of(i);
  if (!b.place(o[0], space).wide_base) return b.refuse("local memory");
  const std::uint32_t slot = b.frame_slot(8);
  auto at = [&] { return b.context_load(b.frame(), slot, b.i(64)); };
  auto word = [&] {
    Builder::Place place = b.place(o[0], space);
    place.base = place.base ? ir.CreateAdd(place.base, at()) : at();
    return place;
  };
  b.context_store(b.frame(), slot, b.constant(64, 0));
  llvm::BasicBlock *next = b.new_block("fill"), *body = b.new_block("fill_word"), *done = b.new_block("filled");
  ir.CreateBr(next);
  ir.SetInsertPoint(next);
  ir.CreateCondBr(ir.CreateICmpULT(at(), b.read(o[1], 64)), body, done);
  ir.SetInsertPoint(body);
  before_access(b, word, false);
  Access a;
  a.place = word();
  a.bytes = a.element_bytes = 8;
  a.is_write = true;
  check_access(b, a);
  Value* zero = b.constant(64, 0);
  log_access(b, a, {zero});
  b.store(zero, b.host_pointer(a.place), a.place.space);
  b.context_store(b.frame(), slot, ir.CreateAdd(at(), b.constant(64, 8)));
  ir.CreateBr(next);
  ir.SetInsertPoint(done);
}

void lower_cluster_barrier(Builder& b, const ptx::Instruction& i) {
  b.thread_store(offsetof(ThreadContext, pending_site), site_number(b));
  set_argument(b, 0, b.constant(64, i.has(Modifier::wait) ? 1 : 0));
  set_argument(b, 1, b.constant(64, i.has(Modifier::relaxed) ? 1 : 0));
  b.stop(Step::cluster);
}

// mapa d, a, rank: the address in the block of that rank that `a` has in this one; the window's bits stay (9.7.9.23).
void lower_mapa(Builder& b, const ptx::Instruction& i) {
  if (i.operands.size() < 3) return b.refuse("operands");
  auto& ir = b.ir;
  Value* a = b.read(i.operands[1], 64);
  Value* rank = b.read(i.operands[2], 32);
  Value* own = ir.CreateICmpEQ(rank, b.special("%cluster_ctarank", 32));
  Value* number = ir.CreateSelect(own, b.constant(32, 0), ir.CreateAdd(rank, b.constant(32, 1)));
  Value* high = ir.CreateShl(ir.CreateZExt(ir.CreateAnd(number, b.constant(32, 255)), b.i(64)), cluster_shift);
  const std::uint64_t rank_bits = (window_bytes - 1) & ~cluster_offset_mask;
  b.write(i.operands[0], ir.CreateOr(ir.CreateAnd(a, b.constant(64, ~rank_bits)), high));
}

void lower_getctarank(Builder& b, const ptx::Instruction& i) {
  if (i.operands.size() < 2) return b.refuse("operands");
  auto& ir = b.ir;
  Value* number = ir.CreateAnd(ir.CreateLShr(b.read(i.operands[1], 64), cluster_shift), b.constant(64, 255));
  number = ir.CreateTrunc(number, b.i(32));
  Value* own = ir.CreateICmpEQ(number, b.constant(32, 0));
  b.write(i.operands[0],
          ir.CreateSelect(own, b.special("%cluster_ctarank", 32), ir.CreateSub(number, b.constant(32, 1))));
}

void lower_griddepcontrol(Builder& b, const ptx::Instruction& i) {
  b.thread_store(offsetof(ThreadContext, pending_site), site_number(b));
  set_argument(b, 0, b.constant(64, i.has(Modifier::wait) ? 1 : 0));
  b.stop(Step::dependency);
}

} // namespace deadheat::engine
