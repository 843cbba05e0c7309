// What compiled code in Mode::precision calls: shadow_step.h.
#include <array>

#include "replay/engine/shadow_step.h"

namespace deadheat::engine {

namespace {

Shadows* shadows_of(const ThreadContext* thread) { return thread->block->launch->exec->shadows; }

std::uint64_t placed(const ThreadContext* thread, std::uint64_t where) {
  return Shadows::place(thread->block->launch->module, where);
}
std::uint64_t number_of(const ThreadContext* thread) {
  return std::uint64_t(thread->block->linear) << 16 | thread->linear;
}

// A thread has added to the address: which of a launch's places that is. Blocks use the same host memory one after the
// other for what they share; what is a thread's own has one order.
void accumulated(const ThreadContext* thread, std::uint64_t place, std::uint64_t address, bool atomic) {
  const BlockContext& block = *thread->block;
  if (address - reinterpret_cast<std::uint64_t>(thread->stack) < thread->stack_bytes) return;
  const std::uint64_t offset = address - reinterpret_cast<std::uint64_t>(block.shared);
  if (offset < block.launch->total_shared)
    address = std::uint64_t(1) << 63 | std::uint64_t(block.linear) << 24 | offset;
  shadows_of(thread)->accumulated(place, address, std::uint32_t(block.launch->gridid), number_of(thread), atomic);
}

// Two lanes of an element that is a pair, or one.
template <typename F>
void each_lane(const ShadowStep& step, F&& body) {
  for (unsigned lane = 0; lane < step.lanes; ++lane) body(lane, lane * width_of(step.to));
}

} // namespace

extern "C" {

void deadheat_shadow_step(ThreadContext* thread, std::uint64_t step, std::uint64_t where,
                          const ShadowOperand* operands) {
  if (Shadows* shadows = shadows_of(thread))
    shadow_step(*shadows, ShadowStep::from_code(step), placed(thread, where), operands);
}

void deadheat_shadow_load(ThreadContext* thread, void* from, std::uint32_t width, std::uint64_t bits,
                          RegisterShadow* to) {
  if (Shadows* shadows = shadows_of(thread)) shadows->load(*to, reinterpret_cast<std::uint64_t>(from), width, bits);
}

void deadheat_shadow_store(ThreadContext* thread, void* to, std::uint32_t width, std::uint64_t bits,
                           RegisterShadow* from, std::uint64_t where) {
  Shadows* shadows = shadows_of(thread);
  if (!shadows) return;
  const std::uint64_t address = reinterpret_cast<std::uint64_t>(to);
  if (from)
    for (unsigned n = 0; n < 2; ++n) { // what was loaded from here comes back as a sum
      Shadow& lane = from->lane[n];
      const std::uint64_t at = address + (n ? width_of(lane.kind) / 8 : 0);
      if (!lane.added || (lane.origin[0] != at && lane.origin[1] != at)) continue;
      const std::uint64_t place = placed(thread, where);
      accumulated(thread, place, at, false);
      lane.sum = place;
    }
  shadows->store(address, width, from, bits);
}

void deadheat_shadow_copy(ThreadContext* thread, void* to, void* from, std::uint32_t bytes) {
  if (Shadows* shadows = shadows_of(thread))
    shadows->copy(reinterpret_cast<std::uint64_t>(to), reinterpret_cast<std::uint64_t>(from), bytes);
}

void deadheat_shadow_atomic(ThreadContext* thread, std::uint64_t code, std::uint64_t where, void* to,
                            std::uint64_t stored, const ShadowOperand* o) {
  Shadows* shadows = shadows_of(thread);
  if (!shadows) return;
  ShadowStep step = ShadowStep::from_code(code);
  const std::uint64_t address = reinterpret_cast<std::uint64_t>(to), place = placed(thread, where);
  const std::uint64_t old_bits = o[0].bits;
  RegisterShadow old;
  shadows->load(old, address, step.width, old_bits);
  RegisterShadow now;
  bool restarted = false;
  if (step.op == ShadowOp::copy) {
    shadows->store(address, step.width, o[1].shadow, stored);
  } else if (step.op == ShadowOp::select) { // the swap took place, or what was there is there still
    if (old_bits == o[1].bits) deadheat_shadow_store(thread, to, step.width, stored, o[2].shadow, where);
  } else if (step.op == ShadowOp::restart) {
    if (any_lane(&old, old_bits)) shadows->restart();
    shadows->forget(address, step.width / 8);
  } else {
    ++shadows->steps;
    each_lane(step, [&](unsigned lane, unsigned at) {
      std::array<Shadow, 2> s{read_lane(&old, old_bits, at, step.to, restarted),
                              read_lane(o[1].shadow, o[1].bits, at, step.to, restarted)};
      now.lane[lane] = combine(step, s.data(), stored >> at, place);
      if (step.op != ShadowOp::add) return;
      accumulated(thread, place, address + at / 8, true);
      now.lane[lane].sum = place;
    });
    if (restarted) shadows->restart();
    shadows->store(address, step.width, &now, stored);
  }
  if (o[0].shadow) *o[0].shadow = old;
}

} // extern "C"

} // namespace deadheat::engine
