#include "analyzer/order/chain.h"

namespace deadheat::order {

ClockPointer Released::clock() const {
  Gathered all;
  all.add(*this);
  return all.clock();
}

void Gathered::add(const ClockPointer& known) {
  if (known == known_) return;
  known_ = known;
  clock_ = Clock::join(clock_, known);
}

void Gathered::add(const ClockEntry& entry) {
  constexpr std::size_t most = 4096;
  entries_.push_back(entry);
  if (entries_.size() == most) clock();
}

void Gathered::add(const Released& released) {
  add(released.known);
  if (!released.now) return;
  const ThreadKey key = released.thread;
  if (released.block) add({key.block_bits(), whole_block, released.block});
  const std::uint32_t lanes = released.others | 1u << (key.thread() & 31);
  if (const Stamp warp = lanes == ~0u ? released.now : released.warp)
    add({key.block_bits(), warp_group(key.warp()), warp});
  for (std::uint32_t rest = lanes == ~0u ? 0 : lanes; rest; rest &= rest - 1)
    add({key.block_bits(), thread_group(key.warp() * 32 + std::uint32_t(std::countr_zero(rest))), released.now});
}

const ClockPointer& Gathered::clock() {
  if (entries_.empty()) return clock_;
  clock_ = Clock::with(clock_, {entries_.data(), entries_.size()});
  constexpr std::size_t most_kept = 64;
  entries_.clear();
  if (entries_.capacity() > most_kept) entries_.shrink_to_fit();
  return clock_;
}

void Selection::add(const Contribution& contribution, std::size_t place) {
  places_.push_back(std::uint32_t(place));
  if (contribution.with_earlier) with_earlier_.push_back(std::uint32_t(place));
}

std::size_t Selection::before(std::size_t place) const {
  if (places_.empty() || places_.back() < place) return places_.size();
  return std::size_t(std::lower_bound(places_.begin(), places_.end(), place) - places_.begin());
}

std::size_t Selection::whole(std::size_t count) const {
  const auto behind = std::lower_bound(with_earlier_.begin(), with_earlier_.end(), count);
  return behind == with_earlier_.begin() ? 0 : *std::prev(behind);
}

ClockPointer Selection::clock(const std::vector<Contribution>& chain, unsigned level, std::size_t number) const {
  return level ? levels_[level - 1][number] : chain[places_[number]].released->clock();
}

ClockPointer Selection::released(const std::vector<Contribution>& chain, std::size_t count) {
  const std::size_t number = before(count);
  if (number >= joined_) {
    for (; joined_ < number; ++joined_) gathered_.add(*chain[places_[joined_]].released);
    return gathered_.clock();
  }
  if (number == asked_) return answer_;
  asked_ = number;
  answer_ = nullptr;
  for (unsigned level = 1; number >> level; ++level) {
    if (levels_.size() < level) levels_.emplace_back();
    auto& clocks = levels_[level - 1];
    for (std::size_t i = clocks.size(); i < number >> level; ++i)
      clocks.push_back(Clock::join(clock(chain, level - 1, 2 * i), clock(chain, level - 1, 2 * i + 1)));
  }
  std::size_t at = 0; // so many are in the answer
  for (unsigned level = unsigned(std::bit_width(number)); level-- > 0;) {
    if (!(number >> level & 1)) continue;
    answer_ = Clock::join(answer_, clock(chain, level, at >> level));
    at += std::size_t(1) << level;
  }
  return answer_;
}

void Selection::changed(std::size_t place) {
  const std::size_t number = before(place);
  for (unsigned level = 1; level <= levels_.size(); ++level) {
    auto& clocks = levels_[level - 1];
    clocks.resize(std::min(clocks.size(), number >> level));
  }
  asked_ = 0;
  answer_ = nullptr;
}

void Chain::add_fenced(const FenceGroup& group, ClockPointer before) {
  constexpr std::size_t most = 1024; // readers that are farther behind learn less than they saw
  auto& all = fenced[group];
  if (all.size() % most == most - 1)
    std::for_each(all.begin(), all.end() - most / 2, [](Fenced& of) { of.before = nullptr; });
  all.push_back({++fenced_count, std::move(before)});
}

const Chain::Fenced* Chain::last_fenced(const FenceGroup& group, std::size_t count) const {
  const auto of = fenced.find(group);
  if (of == fenced.end()) return nullptr;
  const auto behind = std::upper_bound(of->second.begin(), of->second.end(), count,
                                       [](std::size_t most, const Fenced& last) { return most < last.place; });
  return behind == of->second.begin() ? nullptr : &*std::prev(behind);
}

} // namespace deadheat::order
