// Whom a schedule chooses: the default order, an agent that is named, one drawn by chance, by a walk or by priority.
#include <algorithm>

#include "replay/device/control.h"
#include "replay/device/machine.h"

namespace deadheat::device {

bool Control::find_default(Machine& machine, const std::vector<std::uint32_t>& operations, Choice& choice) const {
  choice.kind = Agent::Kind::thread;
  auto in_block = [&](Block* block, std::uint32_t from_warp) {
    const std::uint32_t above = block->ready_warps & ~((1u << from_warp) - 1);
    for (const std::uint32_t warps : {above, block->ready_warps & ~above})
      for (std::uint32_t left = warps; left; left &= left - 1) {
        const std::uint32_t warp = std::uint32_t(__builtin_ctz(left)), ready = block->warps[warp].ready;
        if (!ready) continue; // the bit may stay where no lane could leave a cluster's barrier
        choice.thread = {block, warp * warp_lanes + std::uint32_t(__builtin_ctz(ready))};
        return true;
      }
    return false;
  };
  if (!runnable_.empty()) {
    if (current_.block && in_block(current_.block, current_.thread / warp_lanes)) return true;
    const auto& launches = machine.launches();
    std::size_t first = 0;
    for (std::size_t i = 0; i < launches.size(); ++i)
      if (launches[i].get() == current_launch_) first = i;
    for (std::size_t n = 0; n < launches.size(); ++n) {
      const auto& blocks = launches[(first + n) % launches.size()]->resident;
      std::size_t start = 0;
      for (std::size_t i = 0; n == 0 && current_.block && i < blocks.size(); ++i)
        if (blocks[i].get() == current_.block) start = i;
      for (std::size_t i = 0; i < blocks.size(); ++i)
        if (in_block(blocks[(start + i) % blocks.size()].get(), 0)) return true;
    }
  }
  if (operations.empty()) return false;
  choice.kind = Agent::Kind::operation;
  choice.operation = operations.front();
  return true;
}

bool Control::find(const Machine& machine, const std::vector<std::uint32_t>& operations, const Agent& agent,
                   Choice& choice) const {
  choice.kind = agent.kind;
  if (agent.kind == Agent::Kind::operation) {
    choice.operation = agent.operation;
    return std::find(operations.begin(), operations.end(), agent.operation) != operations.end();
  }
  for (const auto& launch : machine.launches()) {
    if (launch->request.operation != agent.operation) continue;
    for (const auto& block : launch->resident) {
      if (block->index != agent.block || agent.thread >= block->threads_count) continue;
      if (agent.kind == Agent::Kind::thread) {
        choice.thread = {block.get(), agent.thread};
        return block->position[agent.thread] != nowhere;
      }
      for (choice.copy = 0; choice.copy < copies_.size(); ++choice.copy) {
        const Copy& c = copies_[choice.copy];
        if (c.block == block.get() && c.thread == agent.thread && c.group == agent.copy) return true;
      }
    }
  }
  return false;
}

// Any agent: threads and copies alike; operations together weigh an eighth of them, so that they come early among many.
bool Control::draw(const std::vector<std::uint32_t>& operations, Choice& choice) {
  const std::uint64_t inside = runnable_.size() + copies_.size();
  const std::uint64_t outside = operations.empty() ? 0 : std::max<std::uint64_t>(operations.size(), inside / 8);
  if (inside + outside == 0) return false;
  std::uint64_t n = below(inside + outside);
  if (n < runnable_.size()) {
    choice.kind = Agent::Kind::thread;
    choice.thread = runnable_[n];
  } else if (n < inside) {
    choice.kind = Agent::Kind::async_copy;
    choice.copy = n - runnable_.size();
  } else {
    choice.kind = Agent::Kind::operation;
    choice.operation = operations[(n - inside) % operations.size()];
  }
  return true;
}

bool Control::at_interesting(const Thread& t) const {
  const std::uint32_t warp = t.thread / warp_lanes, bit = 1u << t.thread % warp_lanes;
  if (!(t.block->warps[warp].before_visible & bit)) return false;
  const SiteName site{t.block->launch->request.module, t.block->threads[t.thread].pending_site};
  return std::binary_search(schedule_.sites.begin(), schedule_.sites.end(), site);
}

void Control::mean_another() {
  meant_.reset();
  if (!all_left_) return;
  std::uint64_t n = below(all_left_);
  for (const auto& [name, count] : left_) {
    if (n < count) {
      meant_ = name;
      return;
    }
    n -= count;
  }
}

// The walk's next step: somebody who is not at an interesting operation, or the one who is meant.
bool Control::walk(const std::vector<std::uint32_t>& operations, Choice& choice, std::int64_t& quantum) {
  auto name_of = [](const Thread& t) { return Name{t.block->launch->request.operation, t.block->index, t.thread}; };
  if (!meant_) mean_another();
  const std::size_t count = runnable_.size(), start = count ? below(count) : 0;
  const Thread* meant = nullptr;
  choice.kind = Agent::Kind::thread;
  quantum = endless;
  for (std::size_t n = 0; n < count; ++n) {
    const Thread& t = runnable_[(start + n) % count];
    if (!at_interesting(t)) {
      choice.thread = t;
      return true;
    }
    if (meant_ && name_of(t) == *meant_) meant = &t;
  }
  const std::uint64_t outside = copies_.size() + operations.size();
  if (outside && (!count || below(outside + 1))) { // who is meant may wait for these
    const std::uint64_t n = below(outside);
    choice.kind = n < copies_.size() ? Agent::Kind::async_copy : Agent::Kind::operation;
    if (n < copies_.size())
      choice.copy = n;
    else
      choice.operation = operations[n - copies_.size()];
    return true;
  }
  if (!count) return false;
  choice.thread = meant ? *meant : runnable_[start]; // the one who is meant waits for somebody here
  quantum = 1;
  if (auto left = left_.find(name_of(choice.thread)); left != left_.end() && left->second) {
    --left->second;
    --all_left_;
  }
  meant_.reset();
  return true;
}

// By priority. Operations have theirs too: they begin when nobody above them can go on.
bool Control::highest(const std::vector<std::uint32_t>& operations, Choice& choice) {
  std::uint64_t most = 0;
  bool any = priorities_->best(choice.thread.block, choice.thread.thread, most);
  choice.kind = Agent::Kind::thread;
  auto offer = [&](const Agent& agent) {
    const std::uint64_t priority = priorities_->of(agent);
    if (any && priority <= most) return false;
    any = true;
    most = priority;
    choice.kind = agent.kind;
    return true;
  };
  for (std::size_t n = 0; n < copies_.size(); ++n)
    if (offer(agent_of_copy(copies_[n]))) choice.copy = n;
  for (std::uint32_t operation : operations)
    if (offer({.kind = Agent::Kind::operation, .operation = operation})) choice.operation = operation;
  return any;
}

Agent Control::agent_of_copy(const Copy& copy) const {
  return {.kind = Agent::Kind::async_copy,
          .operation = copy.block->launch->request.operation,
          .block = copy.block->index,
          .thread = copy.thread,
          .copy = copy.group};
}

Agent Control::agent_of(const Choice& choice) const {
  if (choice.kind == Agent::Kind::operation) return {.kind = choice.kind, .operation = choice.operation};
  if (choice.kind == Agent::Kind::async_copy) return agent_of_copy(copies_[choice.copy]);
  const Block& block = *choice.thread.block;
  return {.kind = choice.kind,
          .operation = block.launch->request.operation,
          .block = block.index,
          .thread = choice.thread.thread};
}

} // namespace deadheat::device
