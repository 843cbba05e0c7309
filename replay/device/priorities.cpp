#include "replay/device/priorities.h"

#include <algorithm>

namespace deadheat::device {

namespace {

// splitmix64 (Steele, Lea, Flood 2014)
std::uint64_t mix(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

constexpr std::uint64_t standing = std::uint64_t(1) << 63; // priorities of who has not fallen are above
constexpr std::uint64_t changed = std::uint64_t(1) << 62;  // and of who fell at change points, above this
constexpr std::uint32_t nowhere = ~0u;

} // namespace

Priorities::Priorities(const Schedule& schedule) : seed_(mix(schedule.seed)), order_(schedule.order), floor_(changed) {
  std::uint64_t state = seed_;
  for (std::uint32_t n = 1; n < schedule.depth; ++n) {
    state = mix(state);
    changes_.push_back(state % std::max<std::uint64_t>(schedule.steps, 1));
  }
  std::sort(changes_.begin(), changes_.end());
}

Priorities::Key Priorities::key(const Agent& a) {
  return {std::uint8_t(a.kind), a.operation, a.block, a.thread, a.copy};
}

Agent Priorities::agent(const Block& block, std::uint32_t thread) {
  Agent a;
  a.kind = Agent::Kind::thread;
  a.operation = block.launch->request.operation;
  a.block = block.index;
  a.thread = thread;
  return a;
}

std::uint64_t Priorities::of(const Agent& a) const {
  if (!fallen_.empty())
    if (auto found = fallen_.find(key(a)); found != fallen_.end()) return found->second;
  if (order_ != Schedule::Order::random) {
    // Operation, block, thread: 20, 32 and 10 bits; the order of the default is that of their complements.
    std::uint64_t operation = ~std::uint64_t(a.operation), block = ~std::uint64_t(a.block);
    bool stalled = a.kind == Agent::Kind::async_copy; // at its latest moment
    if (order_ == Schedule::Order::reversed) operation = a.operation, block = a.block;
    if (order_ == Schedule::Order::permuted) block = mix(seed_ ^ a.block) >> 32;
    if (order_ == Schedule::Order::stalled_warps && a.kind == Agent::Kind::thread)
      stalled |= mix(mix(seed_ ^ a.block) ^ a.thread / warp_lanes) % 4 == 0;
    const std::uint64_t rank = (operation & 0xfffff) << 42 | (block & 0xffffffff) << 10 | (~a.thread & 1023);
    return stalled ? changed | rank >> 2 : rank | standing; // above those that gave way
  }
  std::uint64_t z = mix(seed_ ^ std::uint64_t(a.kind) << 60 ^ a.operation);
  z = mix(z ^ a.block);
  z = mix(z ^ (std::uint64_t(a.copy) << 32 | a.thread));
  return z | standing;
}

void Priorities::add(Block& block, std::uint32_t thread) {
  heap_.push_back({of(agent(block, thread)), &block, block.launch->request.operation, block.index, thread});
  std::push_heap(heap_.begin(), heap_.end());
}

void Priorities::forget(const Launch& launch) {
  std::erase_if(heap_, [&](const Entry& e) { return e.operation == launch.request.operation; });
  std::make_heap(heap_.begin(), heap_.end());
}

bool Priorities::best(Block*& block, std::uint32_t& thread, std::uint64_t& priority) {
  while (!heap_.empty()) {
    const Entry& top = heap_.front();
    const bool holds = top.block->index == top.index && top.thread < top.block->position.size() &&
                       top.block->position[top.thread] != nowhere && of(agent(*top.block, top.thread)) == top.priority;
    if (holds) {
      block = top.block;
      thread = top.thread;
      priority = top.priority;
      return true;
    }
    std::pop_heap(heap_.begin(), heap_.end());
    const Entry stale = heap_.back();
    heap_.pop_back();
    // It can go on, but has fallen since.
    if (stale.block->index == stale.index && stale.thread < stale.block->position.size() &&
        stale.block->position[stale.thread] != nowhere)
      add(*stale.block, stale.thread);
  }
  return false;
}

void Priorities::fall(const Agent& a, std::uint64_t to) { fallen_[key(a)] = to; }

void Priorities::passed(std::uint64_t now, const Agent& running) {
  for (; next_change_ < changes_.size() && changes_[next_change_] <= now; ++next_change_)
    fall(running, changed + (changes_.size() - next_change_));
}

void Priorities::gives_way(const Agent& a) { fall(a, --floor_); }

std::int64_t Priorities::until_change(std::uint64_t now) const {
  if (next_change_ == changes_.size()) return std::int64_t(1) << 60;
  return std::int64_t(std::max<std::uint64_t>(changes_[next_change_], now + 1) - now);
}

} // namespace deadheat::device
