#include "replay/search/directed.h"

#include <algorithm>

namespace deadheat::search {

using device::NextAccess;

bool Directed::is_at(const NextAccess& next, const AccessName& name) const {
  if (next.agent.operation != name.operation || next.agent.block != name.block || next.agent.thread != name.thread ||
      next.module != name.module)
    return false;
  if (next.agent.kind == Agent::Kind::async_copy) {
    const auto of = issued_.find({.kind = Agent::Kind::thread,
                                  .operation = next.agent.operation,
                                  .block = next.agent.block,
                                  .thread = next.agent.thread});
    return of != issued_.end() &&
           std::any_of(next.issued_by.begin(), next.issued_by.end(), [&](std::uint32_t instruction) {
             if (instruction >= of->second.size()) return false;
             const Issued& issued = of->second[instruction];
             return issued.module == name.module && issued.site == name.site && issued.nth == name.nth;
           });
  }
  if (next.issues || next.site != name.site) return false;
  auto seen = executions_.find({next.agent, next.module, next.site});
  return (seen == executions_.end() ? 0 : seen->second) == name.nth;
}

// Somebody of the others goes first.
bool Directed::waits_for_others(const Agent& agent) const {
  auto is = [&](const AccessName& name) {
    return agent.operation == name.operation && agent.block == name.block && agent.thread == name.thread;
  };
  if (apart_.when == Apart::When::never) return false;
  return (is(apart_.one) || is(apart_.other)) == (apart_.when == Apart::When::after_others);
}

std::size_t Directed::base_choice(const std::vector<NextAccess>& able, std::size_t but) const {
  // Of those who go before others, if there are any.
  std::vector<std::size_t> those;
  for (const bool behind : {false, true}) {
    for (std::size_t n = 0; n < able.size(); ++n)
      if (n != but && able[n].agent.kind == Agent::Kind::thread && waits_for_others(able[n].agent) == behind)
        those.push_back(n);
    if (!those.empty()) break;
  }
  std::size_t best = able.size(), after = able.size();
  std::uint64_t least = ~std::uint64_t(0);
  for (const std::size_t n : those) {
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
  auto is_thread = [](const NextAccess& next) { return next.agent.kind == Agent::Kind::thread; };
  if (std::none_of(able.begin(), able.end(), is_thread)) return 0;
  std::size_t held = able.size(), until = able.size();
  bool until_is_copy = false;
  if (hold_ && !gave_up_)
    for (std::size_t n = 0; n < able.size(); ++n) {
      const Agent& agent = able[n].agent;
      const bool thread = agent.kind == Agent::Kind::thread;
      if (thread && is_at(able[n], hold_->held)) held = n;
      const bool leads = agent.operation == hold_->until.operation && agent.block == hold_->until.block &&
                         agent.thread == hold_->until.thread;
      if (!until_is_copy && leads && (thread ? n != held : is_at(able[n], hold_->until))) {
        until = n;
        until_is_copy = !thread;
      }
    }
  std::size_t chosen = base_choice(able, able.size());
  if (returns_ && held < able.size()) {
    chosen = held;
    returns_ = false;
  } else if (!until_done_ && (chosen == held || (held_waited_ && until_is_copy))) { // its turn has come: the detour
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
  const std::uint64_t nth = executions_[{next.agent, next.module, next.site}]++;
  if (next.issues) issued_[next.agent].push_back({next.module, next.site, nth});
  return chosen;
}

} // namespace deadheat::search
