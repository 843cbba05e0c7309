// wgmma (PTX ISA 9.7.15): a product is a rendezvous of each warp of the warpgroup, at which the machine reads shared
// memory; its groups are committed and awaited as those of copies are. wgmma.fence orders accesses to registers, which
// have their order here.
#include "replay/engine/lower.h"
#include "replay/engine/lower_warp.h"
#include "replay/engine/undefined.h"
#include "replay/engine/warpgroup.h"

namespace deadheat::engine {

using llvm::Value;
using ptx::Instruction;
using ptx::Modifier;
using ptx::Operand;

namespace {

void set_argument(Builder& b, unsigned n, Value* v) {
  b.thread_store(offsetof(ThreadContext, arg) + 8 * n, b.ir.CreateZExtOrTrunc(v, b.i(64)));
}

std::uint32_t lane_at(Builder& b) {
  if (!b.warpgroup_at) b.warpgroup_at = b.frame_slot(sizeof(WarpgroupLane));
  return b.warpgroup_at;
}

void give(Builder& b, const std::vector<Operand>& registers, std::size_t words, std::size_t open_words) {
  Value* zero = b.constant(32, 0);
  for (std::size_t n = 0; n < registers.size(); ++n) {
    b.context_store(b.frame(), lane_at(b) + words + 4 * n, b.read(registers[n], 32));
    if (!b.undefined) continue;
    Value* open = b.undefined->bits(registers[n], 32);
    b.context_store(b.frame(), lane_at(b) + open_words + 4 * n, open ? open : zero);
  }
}

void get(Builder& b, const std::vector<Operand>& registers) {
  for (std::size_t n = 0; n < registers.size(); ++n) {
    const std::size_t word = lane_at(b) + 4 * n;
    b.write(registers[n], b.context_load(b.frame(), word + offsetof(WarpgroupLane, sums), b.i(32)));
    if (!b.undefined) continue;
    b.undefined->set(registers[n], b.context_load(b.frame(), word + offsetof(WarpgroupLane, open_sums), b.i(32)));
  }
}

void lower_product(Builder& b, const Instruction& i) {
  WarpgroupOp op;
  if (std::string why = describe_warpgroup(i, op); !why.empty()) return b.refuse(why);
  const auto& o = i.operands;
  give(b, o[0].elements, offsetof(WarpgroupLane, sums), offsetof(WarpgroupLane, open_sums));
  if (op.a_registers)
    give(b, o[1].elements, offsetof(WarpgroupLane, a), offsetof(WarpgroupLane, open_a));
  else
    set_argument(b, warpgroup_a, b.read(o[1], 64));
  set_argument(b, warpgroup_code, b.constant(64, op.code()));
  set_argument(b, warpgroup_lane, b.ir.CreatePtrToInt(b.pointer_at(b.frame(), lane_at(b)), b.i(64)));
  set_argument(b, warpgroup_b, b.read(o[2], 64));
  if (op.sparse) set_argument(b, warpgroup_metadata, b.read(o[3], 32));
  const Operand& scale = o[op.sparse ? 5 : 3];
  set_argument(b, warpgroup_adds,
               scale.kind == Operand::Kind::integer ? static_cast<Value*>(b.constant(64, scale.bits != 0))
                                                    : b.read_predicate(scale));
  rendezvous(b, WarpOp::warpgroup, b.constant(64, 0xffffffffu));
  get(b, o[0].elements);
}

} // namespace

void lower_warpgroup(Builder& b, const Instruction& i) {
  if (i.has(Modifier::fence)) return;
  if (i.has(Modifier::mma_async)) return lower_product(b, i);
  Value* site = b.constant(32, b.site ? b.site->id : no_site);
  if (i.has(Modifier::commit_group)) {
    b.call_service(offsetof(Services, async_commit), b.ir.getVoidTy(), {b.thread(), site});
    return;
  }
  if (!i.has(Modifier::wait_group) || i.operands.empty()) return b.refuse("operands");
  b.thread_store(offsetof(ThreadContext, pending_site), site);
  set_argument(b, 0, b.read(i.operands[0], 64));
  set_argument(b, 1, b.constant(64, 8));
  b.stop(Step::async_wait);
}

} // namespace deadheat::engine
