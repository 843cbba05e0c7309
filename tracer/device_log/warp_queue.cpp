#include "tracer/device_log/warp_queue.h"

#include <algorithm>

namespace deadheat::device_log {

std::uint32_t WarpQueue::take() {
  std::uint32_t number = std::uint32_t(taken_.size());
  if (free_.empty()) {
    taken_.emplace_back();
  } else {
    number = free_.back();
    free_.pop_back();
  }
  Taken& taken = taken_[number];
  taken.item = std::move(items_.front());
  items_.pop_front();
  const std::uint32_t lanes = taken.item.lanes;
  if (lanes & busy_) {
    for (Tail& tail : tails_) {
      if (!(tail.lanes & lanes)) continue;
      taken_[tail.number].later.push_back(number);
      ++taken.waits;
      tail.lanes &= ~lanes;
    }
    std::erase_if(tails_, [](const Tail& tail) { return !tail.lanes; });
  }
  if (lanes) tails_.push_back({lanes, number});
  busy_ |= lanes;
  return number;
}

std::uint32_t WarpQueue::next() {
  if (!ready_.empty()) {
    const std::uint32_t number = ready_.front();
    ready_.erase(ready_.begin());
    return number;
  }
  // Where all lanes are busy, nothing that comes could pass.
  while (!items_.empty() && (!busy_ || (lanes_ & ~busy_))) {
    const std::uint32_t number = take();
    if (!taken_[number].waits) return number;
  }
  return none;
}

void WarpQueue::done(std::uint32_t number) {
  Taken& taken = taken_[number];
  if (taken.item.kept) --taken.item.kept->items;
  for (std::uint32_t later : taken.later) {
    if (!--taken_[later].waits) ready_.push_back(later);
  }
  taken.later.clear();
  taken.item = {};
  free_.push_back(number);
  std::erase_if(tails_, [&](const Tail& tail) { return tail.number == number; });
  busy_ = 0;
  for (const Tail& tail : tails_) busy_ |= tail.lanes;
}

} // namespace deadheat::device_log
