// Running the lanes of a warp, and what becomes of each where it stops.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <utility>

#include "deadheat/address.h"
#include "replay/device/control.h"
#include "replay/device/holds.h"
#include "replay/device/machine.h"
#include "replay/device/mbarrier.h"
#include "replay/device/record.h"
#include "replay/device/watch.h"

namespace deadheat::device {

using engine::Step;
using engine::ThreadContext;

namespace {

// Strong operations in loops that a thread may perform before others of its block get their turn.
constexpr std::int64_t plain_quantum = 1024;
constexpr std::uint32_t turns_of_a_warp = 1024;
// Of warps that use up their turns while others of the block wait; odd, as an mbarrier's phases alternate.
constexpr std::uint32_t slices_between_looks = 17;
// Who takes turns in step may be in each other's way for ever (two locks, taken by trying, in either order), and lanes
// that try again and again keep those waiting who stand behind them. Of a block that has had so many turns of strong
// operations alone, slices are of different lengths, and every other time one lane goes ahead.
constexpr std::uint32_t turns_in_step = 1 << 14;
constexpr std::uint32_t most_alone = 64; // turns
constexpr std::int64_t no_quantum = std::int64_t(1) << 60;
constexpr std::uint32_t no_site = ~std::uint32_t(0);

constexpr std::uint32_t round_up_to_warps(std::uint32_t threads) {
  return (threads + warp_lanes - 1) / warp_lanes * warp_lanes;
}

// A number that tells nothing of those before it.
std::uint32_t any_number(std::uint32_t of) { return std::uint32_t((of + 1) * 0x9e3779b97f4a7c15u >> 40); }

bool is_reached(const Block& block, const Barrier& barrier) {
  return barrier.expected ? barrier.counted >= barrier.expected : barrier.arrived >= block.live;
}

} // namespace

[[gnu::always_inline]] inline Step Machine::resume(Block& block, ThreadContext& thread, std::int64_t quantum) {
  exec_.quantum = quantum;
  const bool record = block.launch->request.mode.record;
  if (record) recorder_->lend(thread);
  current_ = &thread;
  if (watch_) [[unlikely]] {
    exec_.quantum = 0; // it stops before its next operation
    watch_->before(*this, block, thread, control_ ? decision_ : exec_.visible);
  }
  const Step step = Step(block.launch->request.code->entry(&thread, thread.stack));
  if (watch_) [[unlikely]]
    watch_->after(*this, block, thread, step);
  current_ = nullptr;
  if (record) recorder_->take_back(thread);
  return step;
}

// Resumes one lane that is ready, and marks where it stopped.
[[gnu::always_inline]] inline void Machine::take_lane(Block& block, std::uint32_t warp, std::uint32_t lane,
                                                      std::int64_t quantum) {
  ThreadContext& thread = block.threads[warp * warp_lanes + lane];
  if (block.named) [[unlikely]]
    quantum = holds_->quantum(block, thread, quantum);
  const Step step = resume(block, thread, quantum);
  if (block.named) [[unlikely]]
    detour_ |= holds_->resumed(block, thread);
  WarpState& state = block.warps[warp];
  const std::uint32_t bit = 1u << lane;
  if (!control_) { // what most stops are
    if (step == Step::barrier) {
      state.ready &= ~bit;
      state.arriving |= bit;
      return;
    }
    if (step == Step::warp) {
      state.ready &= ~bit;
      state.at_warp |= bit;
      return;
    }
    if (step == Step::exited) {
      state.ready &= ~bit;
      state.exiting |= bit;
      return;
    }
  }
  stopped(block, warp, lane, thread, step);
}

// Calls `run`, which runs code of the launch; better code is compiled once it has run for long enough.
template <typename Run> [[gnu::always_inline]] inline void Machine::improving(Launch& launch, const Run& run) {
  engine::KernelCode& code = *launch.request.code;
  if (!code.improve || !options_.improves_code) return run();
  const auto begin = std::chrono::steady_clock::now();
  run();
  code.ran(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

void Machine::run_warp(Block& block, std::uint32_t warp) {
  improving(*block.launch, [&] { run_lanes(block, warp); });
}

void Machine::run_lanes(Block& block, std::uint32_t warp) {
  WarpState& state = block.warps[warp];
  const engine::Mode& mode = block.launch->request.mode;
  // One turn less each time that the others look: else they may find the same phase of an mbarrier every time.
  std::uint32_t fewer = block.used_up / slices_between_looks;
  const bool out_of_step = block.turns > turns_in_step;
  const bool by_turns = mode.record || mode.control;
  if (out_of_step) { // others hold what these need
    fewer += any_number(block.turns) % (turns_of_a_warp / 8);
    if (by_turns) fewer += turns_of_a_warp * 7 / 8;
  }
  fewer = std::min(fewer, turns_of_a_warp - 1);
  std::int64_t quantum = by_turns ? no_quantum : plain_quantum - fewer;
  if (mode.control && options_.budget) quantum = std::int64_t(options_.budget);
  std::uint32_t performed = no_site; // since others could look
  for (std::uint32_t turns = 0;;) {
    while (state.ready) {
      take_lane(block, warp, std::uint32_t(__builtin_ctz(state.ready)), quantum);
      if (detour_ || fault_) [[unlikely]] {
        settle(block, warp);
        return;
      }
    }
    settle(block, warp);
    if (state.ready) continue;
    if (const std::uint32_t site = std::exchange(performed, no_site); site != no_site && makes_way(block, site)) return;
    if (state.ready) continue; // those who looked came to the barrier that these wait at
    if (state.visible) {
      if (++turns > turns_of_a_warp - fewer || over_budget())
        return; // its bit of ready_warps stays: it goes on at its next turn
      ++block.turns;
      if (!out_of_step) {
        performed = perform_visible(block, warp);
      } else if (any_number(block.turns) % 2) { // nobody looks behind either
        perform_visible(block, warp);
      } else {
        go_ahead_alone(block, warp);
      }
      continue;
    }
    if (state.at_warp && resolve(block, warp)) continue;
    break;
  }
  block.ready_warps &= ~(1u << warp);
}

// Warps that go on and on may do so until those go on that wait for them. These look as soon as a strong write is
// performed (waiting.cpp), but at mbarriers only when nobody else goes on: here they do in between.
void Machine::used_up_its_turns(Block& block) {
  if (!block.launch->request.mode.record && !block.launch->request.mode.control) block.turns += turns_of_a_warp;
  const auto waits = [](const WarpState& state) { return state.parked != 0; };
  if (std::none_of(block.warps.begin(), block.warps.begin() + block.warps_count, waits)) return;
  if (++block.used_up % slices_between_looks) return;
  for (std::uint32_t w = 0; w < block.warps_count; ++w) {
    std::uint64_t woken = 0;
    for (std::uint32_t m = block.warps[w].parked; m; m &= m - 1)
      woken += wake_if_changed(block, w * warp_lanes + std::uint32_t(__builtin_ctz(m)));
    if (woken) run_warp(block, w);
    if (detour_ || fault_) return;
  }
}

void Machine::run_to_stop(Block& block, std::uint32_t warp, std::uint32_t lane) {
  while (block.warps[warp].ready >> lane & 1 && !detour_ && !fault_) take_lane(block, warp, lane, no_quantum);
  settle(block, warp);
}

// The lanes that have stopped before the lowest site perform it, one after another.
std::uint32_t Machine::perform_visible(Block& block, std::uint32_t warp) {
  WarpState& state = block.warps[warp];
  const ThreadContext* lanes = block.threads + warp * warp_lanes;
  std::uint32_t site = ~0u, group = 0;
  for (std::uint32_t m = state.visible; m; m &= m - 1) {
    const std::uint32_t lane = std::uint32_t(__builtin_ctz(m)), at = lanes[lane].pending_site;
    if (at > site) continue;
    group = at < site ? 1u << lane : group | 1u << lane;
    site = at;
  }
  perform_visible(block, warp, site, group);
  return site;
}

// One of the lanes that have stopped, for a while. Nobody else looks meanwhile: who waits for a lock would have it each
// time that it is given back.
void Machine::go_ahead_alone(Block& block, std::uint32_t warp) {
  const WarpState& state = block.warps[warp];
  const std::uint32_t number = any_number(block.turns) / 2;
  std::uint32_t rest = state.visible;
  for (std::uint32_t n = number % std::uint32_t(std::popcount(rest)); n > 0; --n) rest &= rest - 1;
  const std::uint32_t lane = std::uint32_t(std::countr_zero(rest));
  const ThreadContext& thread = block.threads[warp * warp_lanes + lane];
  for (std::uint32_t left = 1 + number / warp_lanes % most_alone; left > 0 && (state.visible >> lane & 1); --left) {
    ++block.turns;
    perform_visible(block, warp, thread.pending_site, 1u << lane);
    run_to_stop(block, warp, lane);
    if (detour_ || fault_) return;
  }
}

void Machine::perform_visible(Block& block, std::uint32_t warp, std::uint32_t site, std::uint32_t group) {
  WarpState& state = block.warps[warp];
  state.visible &= ~group;
  if (recording(block)) recorder_->perform(site, group, block.launch->request.sites->flags_of(site));
  for (; group; group &= group - 1) {
    const std::uint32_t lane = std::uint32_t(__builtin_ctz(group));
    state.ready |= 1u << lane;
    ++turns_, ++performed_;
    take_lane(block, warp, lane, no_quantum);
    if (detour_ || fault_) [[unlikely]] {
      state.visible |= group & (group - 1);
      if (recording(block)) recorder_->not_performed(group & (group - 1));
      return;
    }
  }
}

Step Machine::run_lane(Block& block, std::uint32_t warp, std::uint32_t lane, std::int64_t operations) {
  WarpState& state = block.warps[warp];
  const std::uint32_t bit = 1u << lane;
  ThreadContext& thread = block.threads[warp * warp_lanes + lane];
  if ((state.visible | state.before_visible) & bit && recording(block))
    recorder_->perform(thread.pending_site, bit, block.launch->request.sites->flags_of(thread.pending_site));
  // The operation that it stopped before is performed whatever the quantum says.
  std::int64_t quantum = std::max<std::int64_t>(operations - ((state.visible | state.before_visible) & bit ? 1 : 0), 0);
  state.visible &= ~bit;
  state.before_visible &= ~bit;
  state.ready |= bit;
  ++turns_;
  choose_stops(block);
  if (block.named) quantum = holds_->quantum(block, thread, quantum);
  Step step;
  improving(*block.launch, [&] { step = resume(block, thread, quantum); });
  if (block.named) [[unlikely]]
    detour_ |= holds_->resumed(block, thread);
  stopped(block, warp, lane, thread, step);
  settle(block, warp);
  if (state.at_warp) resolve(block, warp);
  return step;
}

void Machine::stopped(Block& block, std::uint32_t warp, std::uint32_t lane, ThreadContext& thread, Step step) {
  WarpState& state = block.warps[warp];
  const std::uint32_t bit = 1u << lane;
  const LaunchRequest& request = block.launch->request;
  if (step == Step::visible) {
    if (block.named && holds_->reached(block, thread) == Holds::Action::hold) {
      state.ready &= ~bit;
      state.held |= bit;
      detour_ = true;
      if (control_) control_->not_ready(block, thread.linear);
      return;
    }
    if (control_) {
      state.before_visible |= bit;
    } else if (request.sites->flags_of(thread.pending_site) & SiteTable::stops) {
      state.ready &= ~bit;
      state.visible |= bit;
    } else if (over_budget()) [[unlikely]] {
      detour_ = true; // nothing is held: only to get out
    }
    return; // a weak access goes on at once
  }
  if (step == Step::spin && control_ && thread.pending_address == 0) return;
  state.ready &= ~bit;
  if (control_) control_->not_ready(block, thread.linear);
  switch (step) {
    case Step::exited: state.exiting |= bit; break;
    case Step::barrier: state.arriving |= bit; break;
    case Step::warp: state.at_warp |= bit; break;
    case Step::visible: break; // handled above
    case Step::mbarrier:
    case Step::spin: {
      if (thread.pending_address == 0) {
        state.yielded |= bit;
        break;
      }
      state.parked |= bit;
      ++spins_;
      if (control_) {
        control_->parked(block, thread.linear);
        break;
      }
      note_awaited(block, thread);
      break;
    }
    case Step::async_wait: state.waiting_copy |= bit; break;
    case Step::cluster: state.at_cluster |= bit; break;
    case Step::dependency: state.at_dependency |= bit; break;
    case Step::fault:
      if (!fault_) faulted_block_ = recording(block) ? &block : nullptr;
      take_fault(thread);
      break;
  }
}

// Have lanes accessed memory so since the last settle()?
bool Machine::accessed_weakly(const engine::Mode& mode) {
  if (mode.record) return recorder_->accessed_weakly();
  const std::uint64_t visible = exec_.visible - std::exchange(settled_visible_, exec_.visible);
  return visible > performed_ - std::exchange(settled_performed_, performed_);
}

void Machine::settle(Block& block, std::uint32_t warp) {
  WarpState& state = block.warps[warp];
  if (block.turns && accessed_weakly(block.launch->request.mode)) block.turns -= (block.turns + 7) / 8;
  if (block.launch->request.mode.record) flush(block, warp);
  if (const std::uint32_t lanes = state.exiting) {
    state.exiting = 0;
    exited(block, warp, lanes);
  }
  if (const std::uint32_t lanes = state.arriving) {
    state.arriving = 0;
    if (recording(block)) say_arrive(block, warp, lanes);
    arrive(block, warp, lanes);
  }
  if (state.waiting_copy) copy_waits(block, warp);
  if (state.at_cluster) [[unlikely]]
    settle_cluster(block, warp);
  if (state.at_dependency) [[unlikely]]
    settle_dependency(block, warp);
}

// ---- barriers of a block

void Machine::exited(Block& block, std::uint32_t warp, std::uint32_t lanes) {
  WarpState& state = block.warps[warp];
  state.live &= ~lanes;
  block.live -= std::uint32_t(__builtin_popcount(lanes));
  if (block.launch->request.mode.record) state.exited_unsaid |= lanes;
  ++progress_;
  if (watch_) watch_->exited(block, warp, lanes);
  if (block.named) holds_->exited(block, warp, lanes);
  if (!block.async.empty())
    for (std::uint32_t m = lanes; m; m &= m - 1) {
      const std::uint32_t thread = warp * warp_lanes + std::uint32_t(__builtin_ctz(m));
      perform_rest(block, thread);
      if (control_) control_->copies_performed(block, thread, 0, true);
    }
  if (block.live == 0 && recording(block)) check_warpgroups(block);
  if (block.used_barriers) check_barriers(block, warp);
  if (block.cluster) cluster_exited(block, warp, lanes);
  if (block.cluster && recording(block)) say_exits(block);
}

void Machine::leave(Block& block, std::uint32_t warp, std::uint32_t lanes) {
  WarpState& state = block.warps[warp];
  lanes &= state.live;
  state.ready &= ~lanes;
  if (!state.ready) block.ready_warps &= ~(1u << warp);
  if (lanes) exited(block, warp, lanes);
}

// Lanes of the warp have exited: nobody waits for them any more.
void Machine::check_barriers(Block& block, std::uint32_t warp) {
  for (std::uint32_t used = block.used_barriers; used; used &= used - 1) {
    const std::uint32_t b = std::uint32_t(__builtin_ctz(used));
    Barrier& barrier = block.barriers[b];
    if (!barrier.arrived) continue;
    if (barrier.whole_warp(warp, block.warps[warp].live)) count_warp(block, barrier, warp);
    if (is_reached(block, barrier)) complete(block, b);
  }
}

// Counts the arrivals of a warp: all lanes at the same barrier at once, where they agree.
void Machine::arrive(Block& block, std::uint32_t warp, std::uint32_t lanes) {
  const ThreadContext* threads = block.threads + warp * warp_lanes;
  while (lanes) {
    const ThreadContext& first = threads[__builtin_ctz(lanes)];
    std::uint32_t same = 0;
    for (std::uint32_t m = lanes; m; m &= m - 1) {
      const ThreadContext& t = threads[__builtin_ctz(m)];
      if (t.arg[0] == first.arg[0] && t.arg[1] == first.arg[1] && t.pending_site == first.pending_site) same |= m & -m;
    }
    lanes &= ~same;
    arrive_together(block, warp, same, first);
  }
}

void Machine::arrive_together(Block& block, std::uint32_t warp, std::uint32_t lanes, const ThreadContext& first) {
  const std::uint32_t number = std::uint32_t(first.arg[0]) % max_barriers;
  std::uint32_t count = std::uint32_t(first.arg[1]);
  const std::uint8_t flags = block.launch->request.sites->flags_of(first.pending_site);
  Barrier& barrier = block.barriers[number];
  // Operands a and b of barrier (PTX ISA 9.7.13.1).
  if (first.arg[0] >= max_barriers) [[unlikely]]
    sync_error(block, first, "barrier " + std::to_string(std::uint32_t(first.arg[0])) + ": there are barriers 0 to 15");
  if (count % warp_lanes || count > round_up_to_warps(block.threads_count)) [[unlikely]]
    sync_error(block, first,
               "a barrier's thread count is " + std::to_string(count) +
                   (count % warp_lanes ? ", no multiple of the warp size" : ", more threads than the block has"));
  if (count % warp_lanes) count = 0; // said; what follows is as good as any
  block.used_barriers |= 1u << number;
  if (barrier.arrived == 0) {
    barrier.expected = count;
    barrier.site = first.pending_site;
    barrier.mixed = flags & SiteTable::arrive_only;
  } else {
    if (barrier.expected != count) sync_error(block, first, "threads arrive at a barrier with different thread counts");
    if (barrier.site != first.pending_site || flags & SiteTable::arrive_only) barrier.mixed = true;
  }
  barrier.arrived += std::uint32_t(__builtin_popcount(lanes));
  block.warps[warp].at_barrier |= lanes;
  if (flags & SiteTable::arrive_only && watch_) watch_->arrived(block, warp, lanes, number, barrier.phase);
  if (barrier.expected) {
    barrier.partial[warp] |= lanes;
    if (barrier.whole_warp(warp, block.warps[warp].live)) count_warp(block, barrier, warp);
  } else {
    take(block, barrier, warp, lanes);
  }
  if (is_reached(block, barrier)) complete(block, number);
}

void Machine::count_warp(Block& block, Barrier& barrier, std::uint32_t warp) {
  const std::uint32_t lanes = barrier.partial[warp];
  barrier.partial[warp] = 0;
  barrier.counted += warp_lanes;
  take(block, barrier, warp, lanes);
}

// Lanes whose arrival counts: those that only arrive have waited for the others of their warp, and go on.
void Machine::take(Block& block, Barrier& barrier, std::uint32_t warp, std::uint32_t lanes) {
  const ThreadContext* threads = block.threads + warp * warp_lanes;
  const SiteTable& sites = *block.launch->request.sites;
  std::uint32_t pass = 0;
  for (std::uint32_t m = lanes; m; m &= m - 1) {
    const ThreadContext& t = threads[__builtin_ctz(m)];
    const std::uint8_t flags = sites.flags_of(t.pending_site);
    if (flags & SiteTable::arrive_only) pass |= m & -m;
    if (!(flags & (SiteTable::red_popc | SiteTable::red_and | SiteTable::red_or))) continue;
    const bool predicate = t.arg[2] & 1;
    barrier.popc += predicate;
    barrier.all &= predicate;
    barrier.any |= predicate;
  }
  barrier.waiting[warp] |= lanes & ~pass;
  if (!pass) return;
  ++exec_.changes;
  block.warps[warp].at_barrier &= ~pass;
  make_ready(block, warp, pass);
}

// barrier.aligned and bar: the lanes of a warp execute the same one (PTX ISA 9.7.13.1).
void Machine::check_aligned(Block& block, const Barrier& barrier) {
  const std::vector<Site>& sites = *block.launch->request.sites->sites;
  for (std::uint32_t w = 0; w < block.warps_count; ++w) {
    const ThreadContext* threads = block.threads + w * warp_lanes;
    std::uint32_t site = ~0u;
    for (std::uint32_t m = barrier.waiting[w]; m; m &= m - 1) {
      const ThreadContext& t = threads[__builtin_ctz(m)];
      if (site == ~0u) site = t.pending_site;
      if (t.pending_site == site || t.pending_site >= sites.size() || !sites[t.pending_site].aligned) continue;
      sync_error(block, t, not_aligned);
      break;
    }
  }
}

// Nobody can go on, and some lanes of a warp are at a barrier with a count, others not. Where it is an aligned one,
// that is what is wrong (PTX ISA 9.7.13.1): it is said, and the warp counts.
std::uint64_t Machine::force_barriers(Launch& launch) {
  const std::vector<Site>& sites = *launch.request.sites->sites;
  std::uint64_t forced = 0;
  for (auto& block : launch.resident)
    for (std::uint32_t used = block->used_barriers; used; used &= used - 1) {
      const std::uint32_t b = std::uint32_t(__builtin_ctz(used));
      Barrier& barrier = block->barriers[b];
      for (std::uint32_t w = 0; w < block->warps_count; ++w) {
        if (!barrier.partial[w]) continue;
        const ThreadContext& t = block->threads[w * warp_lanes + std::uint32_t(__builtin_ctz(barrier.partial[w]))];
        if (t.pending_site >= sites.size() || !sites[t.pending_site].aligned) continue;
        sync_error(*block, t, "only some lanes of a warp are at an aligned barrier, in divergent code");
        count_warp(*block, barrier, w);
        ++forced;
        if (is_reached(*block, barrier)) complete(*block, b);
      }
    }
  return forced;
}

// bar.red: what undefined predicates leave open of its results. One that defined predicates settle is defined.
void Machine::pass_undefined(Block& block, const Barrier& barrier) {
  constexpr std::uint8_t reduces = SiteTable::red_popc | SiteTable::red_and | SiteTable::red_or;
  const SiteTable& sites = *block.launch->request.sites;
  const ThreadContext* origin = nullptr;
  bool yes = false, no = false;
  auto each = [&](auto&& body) {
    for (std::uint32_t w = 0; w < block.warps_count; ++w)
      for (std::uint32_t m = barrier.waiting[w]; m; m &= m - 1) {
        ThreadContext& t = block.threads[w * warp_lanes + std::uint32_t(__builtin_ctz(m))];
        if (const std::uint8_t f = sites.flags_of(t.pending_site) & reduces) body(t, f);
      }
  };
  each([&](ThreadContext& t, std::uint8_t) {
    if (!(t.arg[5] & 1))
      (t.arg[2] & 1 ? yes : no) = true;
    else if (!origin)
      origin = &t;
  });
  each([&](ThreadContext& t, std::uint8_t f) {
    const bool settled = f & SiteTable::red_popc ? false : f & SiteTable::red_and ? no : yes;
    t.result[2] = origin && !settled ? ~std::uint64_t(0) : 0;
    if (!t.result[2] || t.arg[5] & 1) return;
    t.take_undefined(*origin);
  });
}

void Machine::complete(Block& block, std::uint32_t number) {
  Barrier& barrier = block.barriers[number];
  if (recording(block)) {
    say_exits(block);
    say_barrier(block, number, barrier, whole_block_met(block, barrier));
  }
  if (watch_) watch_->barrier_complete(block, number, barrier);
  if (block.named) holds_->met(block, barrier.waiting);
  const SiteTable& sites = *block.launch->request.sites;
  if (barrier.mixed) check_aligned(block, barrier);
  const bool red =
      sites.flags_of(barrier.site) & (SiteTable::red_popc | SiteTable::red_and | SiteTable::red_or) || barrier.mixed;
  if (red && block.launch->request.mode.written) pass_undefined(block, barrier);
  for (std::uint32_t w = 0; w < block.warps_count; ++w) {
    const std::uint32_t lanes = barrier.waiting[w];
    if (!lanes) continue;
    barrier.waiting[w] = 0;
    for (std::uint32_t m = red ? lanes : 0; m; m &= m - 1) {
      ThreadContext& t = block.threads[w * warp_lanes + std::uint32_t(__builtin_ctz(m))];
      const std::uint8_t f = sites.flags_of(t.pending_site);
      t.result[0] = f & SiteTable::red_popc ? barrier.popc : f & SiteTable::red_and ? barrier.all : barrier.any;
    }
    block.warps[w].at_barrier &= ~lanes;
    make_ready(block, w, lanes);
  }
  block.turns = 0;
  barrier.arrived = barrier.counted = barrier.popc = barrier.any = 0;
  barrier.all = 1;
  barrier.mixed = false;
  for (std::uint32_t w = 0; barrier.expected && w < block.warps_count;
       ++w) { // who waits for its warp is of the next phase
    if (!barrier.partial[w]) continue;
    barrier.arrived += std::uint32_t(__builtin_popcount(barrier.partial[w]));
    barrier.site = block.threads[w * warp_lanes + std::uint32_t(__builtin_ctz(barrier.partial[w]))].pending_site;
    barrier.mixed = true; // of one site or not: nobody has looked
  }
  ++barrier.phase;
  ++progress_;
}

} // namespace deadheat::device
