#include "replay/device/departures.h"

#include <algorithm>

namespace deadheat::device {

void Departures::find_name(const Agent& agent) {
  name_ = {agent.kind, agent.operation, agent.copy};
  // Nearly always one of the last; who changes among many takes the long form.
  constexpr std::size_t looked_at = 16;
  const std::size_t begin = names_.size() - std::min(names_.size(), looked_at);
  const auto at = std::find(names_.begin() + std::ptrdiff_t(begin), names_.end(), name_);
  number_ = std::uint32_t(at - names_.begin());
  if (at == names_.end() && names_.size() < most_names) names_.push_back(name_);
}

std::vector<Switch> Departures::list() const {
  std::vector<Switch> all;
  all.reserve(count_);
  std::size_t next = 0;
  const auto word = [&] {
    const std::uint64_t value = chunks_[next / chunk][next % chunk];
    ++next;
    return value;
  };
  std::uint64_t step = 0;
  while (next < words_) {
    Switch departure;
    Agent& agent = departure.agent;
    if (const std::uint64_t packed = word(); (packed >> 42 & 255) != long_form) {
      step += packed >> 42 & 255;
      std::tie(agent.kind, agent.operation, agent.copy) = names_[packed >> 50];
      agent.block = std::uint32_t(packed);
      agent.thread = std::uint32_t(packed >> 32 & 1023);
    } else {
      step = word();
      const std::uint64_t where = word(), who = word();
      agent.operation = std::uint32_t(where);
      agent.block = std::uint32_t(where >> 32);
      agent.thread = std::uint32_t(who);
      agent.copy = std::uint32_t(who >> 32);
      agent.kind = Agent::Kind(word());
    }
    departure.step = step;
    all.push_back(departure);
  }
  return all;
}

} // namespace deadheat::device
