#include "replay/search/directed.h"

namespace deadheat::search {

using device::NextAccess;

bool Directed::is_at(const NextAccess& next, const AccessName& name) const {
  if (next.agent.operation != name.operation || next.agent.block != name.block || next.agent.thread != name.thread ||
      next.module != name.module || next.site != name.site)
    return false;
  auto seen = executions_.find({next.agent, next.module, next.site});
  return (seen == executions_.end() ? 0 : seen->second) == name.nth;
}

std::size_t Directed::base_choice(const std::vector<NextAccess>& able, std::size_t but) const {
  std::size_t best = able.size(), after = able.size();
  std::uint64_t least = ~std::uint64_t(0);
  for (std::size_t n = 0; n < able.size(); ++n) {
    if (n == but) continue;
    if (base_ == Base::runs_on) {
      if (able[n].agent == last_) return n;
      if (best == able.size()) best = n;
      if (after == able.size() && able[n].agent > last_) after = n;
      continue;
    }
    auto performed = performed_.find(able[n].agent);
    const std::uint64_t count = performed == performed_.end() ? 0 : performed->second;
    if (count < least) {
      least = count;
      best = n;
    }
  }
  return after != able.size() ? after : best;
}

std::size_t Directed::choose(const std::vector<NextAccess>& able, const std::vector<NextAccess>&) {
  std::size_t held = able.size(), until = able.size();
  if (hold_ && !gave_up_)
    for (std::size_t n = 0; n < able.size(); ++n) {
      const Agent& agent = able[n].agent;
      if (is_at(able[n], hold_->held)) held = n;
      if (agent.operation == hold_->until.operation && agent.block == hold_->until.block &&
          agent.thread == hold_->until.thread)
        until = n;
    }
  std::size_t chosen = base_choice(able, able.size());
  if (returns_ && held < able.size()) {
    chosen = held;
    returns_ = false;
  } else if (chosen == held && !until_done_) { // its turn has come, so the detour begins
    held_waited_ = true;
    chosen = until < able.size() ? until : base_choice(able, held);
    if (chosen == able.size()) { // nobody else can
      gave_up_ = true;
      held_waited_ = false;
      chosen = held;
    }
  }
  const NextAccess& next = able[chosen];
  if (hold_ && is_at(next, hold_->until)) {
    until_done_ = true;
    returns_ = held_waited_;
  }
  last_ = next.agent;
  ++performed_[next.agent];
  ++executions_[{next.agent, next.module, next.site}];
  return chosen;
}

} // namespace deadheat::search
