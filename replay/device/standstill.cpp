#include "replay/device/standstill.h"

#include <xxhash.h>

#include <bit>

namespace deadheat::device {

namespace {

// Loops that change for a while (back off, count) are not looked at each round for ever.
constexpr std::uint64_t first_rounds = 8;
// The clock's bits, but for those that reading it moves.
constexpr unsigned first_bit = 10, last_bit = 62;

} // namespace

std::optional<Machine::SpinState> Machine::spin_state() const {
  SpinState state{.threads = 0, .changes = exec_.changes, .ticks = ticks_};
  for (const auto& launch : launches_) {
    if (!launch->request.mode.control) return {};
    for (const auto& block : launch->resident)
      for (std::uint32_t w = 0; w < block->warps_count; ++w)
        for (std::uint32_t lanes = block->warps[w].parked; lanes; lanes &= lanes - 1) {
          const engine::ThreadContext& t = block->threads[w * warp_lanes + std::uint32_t(__builtin_ctz(lanes))];
          const std::uint64_t standing[] = {
              launch->request.launch, block->index, t.linear,       t.stack_used, t.pending_site,
              t.pending_address,      t.spin_site,  t.spin_address, t.spin_value};
          state.threads = XXH3_64bits_withSeed(standing, sizeof standing, state.threads);
          state.threads = XXH3_64bits_withSeed(t.stack, t.stack_used, state.threads);
        }
  }
  return state;
}

bool Standstill::reached(Machine& machine, std::uint64_t seen) {
  const std::uint64_t round = round_++;
  if (round > first_rounds && !std::has_single_bit(round) && !std::has_single_bit(round - 1) && !passed_) {
    before_.reset();
    return false;
  }
  const std::optional<State> before = before_;
  const std::optional<Machine::SpinState> spin = machine.spin_state();
  before_.reset();
  if (!spin) return false;
  before_ = {*spin, machine.progress(), seen};
  const bool same = before && before->spin.threads == spin->threads && before->spin.changes == spin->changes &&
                    before->progress == before_->progress && before->seen == seen;
  if (!same) {
    passed_ = 0;
    return false;
  }
  if (spin->ticks == before->spin.ticks || passed_ > last_bit) return true;
  passed_ = passed_ ? passed_ : first_bit;
  const std::uint64_t ticks = std::uint64_t(1) << passed_++;
  machine.pass_time(ticks);
  before_->spin.ticks += ticks;
  return false;
}

} // namespace deadheat::device
