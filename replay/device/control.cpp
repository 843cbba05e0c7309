#include "replay/device/control.h"

#include <algorithm>
#include <numeric>

#include "replay/device/machine.h"

namespace deadheat::device {

using engine::Step;
using engine::ThreadContext;

namespace {
constexpr std::size_t looks_a_stop = 4;   // parked threads looked at when an agent stopped
constexpr std::int64_t fair_quantum = 64;
} // namespace

Control::Control(const Schedule& schedule) : schedule_(schedule), state_(schedule.seed * 2 + 1) {
  std::sort(schedule_.absent.begin(), schedule_.absent.end());
  if (schedule.kind == Schedule::Kind::priorities) priorities_.emplace(schedule);
  if (schedule.kind != Schedule::Kind::uniform) return;
  std::sort(schedule_.sites.begin(), schedule_.sites.end());
  for (const ThreadCount& c : schedule.counts) {
    left_[{c.operation, c.block, c.thread}] = c.count;
    all_left_ += c.count;
  }
}

std::uint64_t Control::random() { // splitmix64 (Steele, Lea, Flood 2014)
  std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// Geometric, by inversion of its distribution function in integers and a table-free logarithm: the same everywhere.
std::int64_t Control::draw_quantum() {
  if (schedule_.quantum == 0) return 0;
  // The sum of halves: floor(mean * ln 2 * number of leading zeros) is geometric in steps of a halving; the remainder
  // is uniform inside the step.
  const std::uint64_t r = random();
  const std::uint64_t halvings = r ? std::uint64_t(__builtin_clzll(r)) : 64;
  const std::uint64_t step = std::max<std::uint64_t>(1, schedule_.quantum * std::uint64_t(693) / 1000);
  return std::int64_t(halvings * step + random() % step + 1);
}

// ---- who is runnable

void Control::ready(Block& block, std::uint32_t warp, std::uint32_t lanes) {
  if (block.position.size() != block.threads_count) block.position.assign(block.threads_count, nowhere);
  for (; lanes; lanes &= lanes - 1) {
    const std::uint32_t thread = warp * warp_lanes + std::uint32_t(__builtin_ctz(lanes));
    if (block.position[thread] != nowhere) continue;
    block.position[thread] = std::uint32_t(runnable_.size());
    runnable_.push_back({&block, thread});
    if (priorities_) priorities_->add(block, thread);
  }
}

void Control::not_ready(Block& block, std::uint32_t thread) {
  const std::uint32_t at = block.position[thread];
  if (at == nowhere) return;
  const Thread last = runnable_.back();
  runnable_[at] = last;
  last.block->position[last.thread] = at;
  runnable_.pop_back();
  block.position[thread] = nowhere;
  if (!block.warps[thread / warp_lanes].ready) block.ready_warps &= ~(1u << thread / warp_lanes);
}

void Control::parked(Block& block, std::uint32_t thread) { parked_.push_back({&block, thread}); }

void Control::copies_committed(Block& block, std::uint32_t thread, std::uint32_t group) {
  copies_.push_back({&block, thread, group});
}

void Control::copies_performed(Block& block, std::uint32_t thread, std::uint32_t keep_groups, bool all) {
  if (copies_.empty() || block.async.empty()) return;
  const std::uint32_t groups = block.async[thread].groups;
  const std::uint32_t below = all ? ~0u : groups - std::min(groups, keep_groups);
  const std::size_t erased = std::erase_if(copies_, [&](const Copy& c) {
    return c.block == &block && c.thread == thread && c.group < below && (all || c.group < AsyncQueue::own_groups);
  });
  if (chooser_ && erased) chooser_->beyond("asynchronous copies that nobody waits for");
}

void Control::copy_performed(Block& block, std::uint32_t thread, std::uint32_t group) {
  std::erase_if(copies_, [&](const Copy& c) { return c.block == &block && c.thread == thread && c.group == group; });
}

void Control::begun(Machine& machine, Launch& launch) {
  if (!launch.request.cooperative)
    launch.max_resident =
        std::max(std::clamp(resident_threads / launch.threads, 1u, launch.max_resident), launch.cluster_blocks);
  if (schedule_.kind == Schedule::Kind::uniform) {
    launch.marked = launch.request.sites->stop;
    for (const SiteName& s : schedule_.sites)
      if (s.module == launch.request.module && s.site < launch.marked.size()) launch.marked[s.site] = 1;
    launch.context.site_stop = launch.marked.data();
  }
  admit_blocks(machine, launch);
  if (!chooser_) return;
  if (launch.next_block < launch.blocks) chooser_->beyond("more blocks than run at a time");
  const SiteTable& sites = *launch.request.sites;
  if (sites.asynchronous) chooser_->beyond("bulk copies, arrivals of copies and dependent launches");
  if (sites.frees) chooser_->beyond("kernels that free memory"); // which malloc gives out again
  if (sites.counted) chooser_->beyond("mbarriers that are polled, or that count bytes");
  if (sites.opaque) chooser_->beyond("instructions that are not modelled");
}

// The nth block that gets its place on the device.
std::uint64_t Control::nth_block(const Launch& launch, std::uint64_t n) const {
  if (schedule_.order == Schedule::Order::reversed) return launch.blocks - 1 - n;
  if (schedule_.order != Schedule::Order::permuted) return n;
  std::uint64_t stride = schedule_.seed * 2654435761u % launch.blocks; // any that has no factor in common
  while (std::gcd(stride, launch.blocks) != 1) ++stride;
  return (n * (stride % launch.blocks) + schedule_.seed) % launch.blocks;
}

void Control::admit_blocks(Machine& machine, Launch& launch) {
  while (machine.can_admit(launch)) {
    if (schedule_.order == Schedule::Order::random || launch.clustered)
      machine.admit_next(launch);
    else
      machine.admit(launch, nth_block(launch, launch.next_block++));
    if (!schedule_.absent.empty() && !launch.clustered) leave_at_once(machine, launch, *launch.resident.back());
  }
}

void Control::leave_at_once(Machine& machine, Launch& launch, Block& block) {
  const std::uint32_t operation = launch.request.operation;
  auto from = std::lower_bound(schedule_.absent.begin(), schedule_.absent.end(), Absent{operation, block.index, 0});
  for (; from != schedule_.absent.end() && from->operation == operation && from->block == block.index; ++from) {
    const bool all = from->thread == Absent::every_thread;
    const std::uint32_t end = all ? block.threads_count : std::min(from->thread + 1, block.threads_count);
    for (std::uint32_t t = all ? 0 : from->thread; t < end; ++t) {
      not_ready(block, t);
      machine.leave(block, t / warp_lanes, 1u << t % warp_lanes);
    }
  }
  if (block.live == 0) {
    machine.retire(launch, &block);
    machine.note_progress();
  }
}

void Control::ended(const Launch& launch) {
  auto of_launch = [&](const Block* block) { return block->launch == &launch; };
  for (std::size_t i = 0; i < runnable_.size();) {
    if (of_launch(runnable_[i].block))
      not_ready(*runnable_[i].block, runnable_[i].thread);
    else
      ++i;
  }
  std::erase_if(parked_, [&](const Thread& t) { return of_launch(t.block); });
  std::erase_if(copies_, [&](const Copy& c) { return of_launch(c.block); });
  if (priorities_) priorities_->forget(launch);
  if (current_launch_ == &launch) current_ = {}, current_launch_ = nullptr;
}

// Threads whose value has changed since they parked.
void Control::look_again(Machine& machine, bool all) {
  const std::size_t count = all ? parked_.size() : std::min(parked_.size(), looks_a_stop);
  for (std::size_t i = 0; i < count && !parked_.empty(); ++i) {
    if (look_ >= parked_.size()) look_ = 0;
    const Thread t = parked_[look_];
    WarpState& state = t.block->warps[t.thread / warp_lanes];
    const bool gone = !(state.parked >> t.thread % warp_lanes & 1); // woken by other means
    if (!gone && !machine.wake_if_changed(*t.block, t.thread)) {
      ++look_;
      continue;
    }
    parked_[look_] = parked_.back();
    parked_.pop_back();
  }
}
// ---- who goes on

// The decision behind which agents are drawn at random (control.h); ~0: there is none.
std::uint64_t Control::fair_from(const Machine& machine) const {
  const auto& list = schedule_.switches;
  const bool random = schedule_.kind == Schedule::Kind::random; // is fair
  if (!machine.budget() || random || driven() || next_switch_ < list.size()) return ~std::uint64_t(0);
  return (list.empty() ? 0 : list.back().step) + machine.budget() / 4; // which counts turns besides
}

std::uint32_t Control::step(Machine& machine, const std::vector<std::uint32_t>& operations) {
  if (driven() && !parked_.empty()) look_again(machine, true);
  if (forced_stop_ && !parked_.empty()) look_again(machine, false);
  Choice usual, chosen;
  bool has_usual = false;
  auto find_usual = [&] {
    if (current_.block && current_.block->position[current_.thread] != nowhere) {
      usual.kind = Agent::Kind::thread;
      usual.thread = current_;
      return has_usual = true;
    }
    has_usual = find_default(machine, operations, usual);
    if (!has_usual && !parked_.empty()) {
      look_again(machine, true);
      has_usual = find_default(machine, operations, usual);
    }
    if (!has_usual && !copies_.empty()) {
      usual.kind = Agent::Kind::async_copy;
      usual.copy = 0;
      has_usual = true;
    }
    return has_usual;
  };
  const std::uint64_t number = machine.visible() + forced_;
  std::int64_t quantum = endless;
  bool departs = false;
  const bool walks = schedule_.kind == Schedule::Kind::uniform;
  const std::uint64_t last_unfair = fair_from(machine);
  const bool fair = number > last_unfair;
  if (chooser_ || schedule_.kind == Schedule::Kind::random || priorities_ || walks || fair) {
    find_usual();
    if (priorities_ && current_.block) {
      Choice running;
      running.thread = current_;
      priorities_->passed(number, agent_of(running));
      if (gave_way_) priorities_->gives_way(agent_of(running));
    }
    if (chooser_      ? !choose_driven(machine, operations, chosen, quantum)
        : fair        ? !draw(operations, chosen)
        : walks       ? !walk(operations, chosen, quantum)
        : priorities_ ? !highest(operations, chosen)
                      : !draw(operations, chosen))
      return nobody;
    departs = !has_usual || chosen.kind != usual.kind ||
              (chosen.kind == Agent::Kind::thread
                   ? chosen.thread.block != usual.thread.block || chosen.thread.thread != usual.thread.thread
                   : chosen.kind != Agent::Kind::operation || chosen.operation != usual.operation);
    if (fair)
      quantum = fair_quantum;
    else if (!walks && !chooser_)
      quantum = priorities_ ? priorities_->until_change(number) : draw_quantum();
  } else {
    const auto& list = schedule_.switches;
    find_usual();
    while (next_switch_ < list.size() && list[next_switch_].step < number) ++next_switch_; // could not be repeated
    if (next_switch_ < list.size() && list[next_switch_].step == number) {
      departs = find(machine, operations, list[next_switch_].agent, chosen);
      ++next_switch_;
    }
    if (!departs) {
      if (!has_usual) return nobody;
      chosen = usual;
    }
    if (next_switch_ < list.size()) quantum = std::int64_t(list[next_switch_].step - number);
  }
  if (!fair) quantum = std::int64_t(std::min(std::uint64_t(quantum), last_unfair - number + 1));
  machine.set_decision(number);
  if (departs) {
    ++switched_;
    departures_.add({number, agent_of(chosen)});
  }
  if (chosen.kind == Agent::Kind::operation) {
    ++forced_;
    forced_stop_ = true;
    current_ = {};
    return chosen.operation;
  }
  run(machine, chosen, quantum);
  return 0;
}

void Control::run(Machine& machine, const Choice& choice, std::int64_t quantum) {
  if (choice.kind == Agent::Kind::async_copy) {
    const Copy copy = copies_[choice.copy];
    copies_[choice.copy] = copies_.back();
    copies_.pop_back();
    machine.perform_copy_group(*copy.block, copy.thread, copy.group);
    if (driven()) machine.settle(*copy.block, copy.thread / warp_lanes); // its thread may wait for it
    ++forced_;
    return; // whoever ran goes on by default
  }
  current_ = choice.thread;
  current_launch_ = current_.block->launch;
  Block& block = *current_.block;
  const std::uint32_t warp = current_.thread / warp_lanes, lane = current_.thread % warp_lanes;
  forced_stop_ = gave_way_ = false;
  for (;;) {
    const std::uint64_t before = machine.visible();
    const Step step = machine.run_lane(block, warp, lane, quantum);
    if (step != Step::visible && block.position[current_.thread] != nowhere && !machine.faulted() &&
        step == Step::spin) {
      gave_way_ = true;
      return; // its quantum ended in a loop
    }
    if (step != Step::visible) {
      forced_stop_ = true;
      ++forced_;
      break;
    }
    // Recorded code stops before every strong operation; that alone is no decision.
    quantum -= std::int64_t(machine.visible() - before);
    machine.set_decision(machine.visible() + forced_);
    if (quantum <= 0 || machine.over_budget()) return;
    if (schedule_.kind == Schedule::Kind::uniform && at_interesting(current_)) return;
  }
  if (block.live == 0) {
    Launch& launch = *block.launch;
    current_ = {};
    machine.retire(launch, &block);
    machine.note_progress();
    admit_blocks(machine, launch);
  }
}

} // namespace deadheat::device
