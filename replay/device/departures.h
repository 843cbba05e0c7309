// Where a run departed from the default order: a list of switches that only grows, mostly a word each. A run with a
// switch at every operation has millions, and the memory that they take costs more than to choose them.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "deadheat/schedule.h"

namespace deadheat::device {

class Departures {
 public:
  void add(const Switch& departure) {
    if (count_ == most) return;
    ++count_;
    const Agent& agent = departure.agent;
    const std::uint64_t passed = departure.step - last_;
    last_ = departure.step;
    if (names_.empty() || name_ != Name{agent.kind, agent.operation, agent.copy}) find_name(agent);
    if (passed < long_form && agent.thread < 1024 && number_ < most_names)
      return push(agent.block | std::uint64_t(agent.thread) << 32 | passed << 42 | std::uint64_t(number_) << 50);
    push(long_form << 42);
    push(departure.step);
    push(agent.operation | std::uint64_t(agent.block) << 32);
    push(agent.thread | std::uint64_t(agent.copy) << 32);
    push(std::uint64_t(agent.kind));
  }
  std::vector<Switch> list() const;

 private:
  static constexpr std::size_t most = std::size_t(1) << 24; // further ones are left out
  using Name = std::tuple<Agent::Kind, std::uint32_t, std::uint32_t>; // operation, copy
  static constexpr std::uint64_t long_form = 255; // in place of the steps that passed since the one before
  static constexpr std::uint32_t most_names = 1 << 14;
  static constexpr std::size_t chunk = 1 << 13;

  void find_name(const Agent& agent);
  void push(std::uint64_t word) {
    if (words_ % chunk == 0) chunks_.push_back(std::make_unique_for_overwrite<std::uint64_t[]>(chunk));
    chunks_.back()[words_++ % chunk] = word;
  }

  std::vector<std::unique_ptr<std::uint64_t[]>> chunks_;
  std::size_t words_ = 0, count_ = 0;
  std::uint64_t last_ = 0; // step of the last
  std::vector<Name> names_; // by number
  Name name_; // of the last, and its number
  std::uint32_t number_ = 0;
};

} // namespace deadheat::device
