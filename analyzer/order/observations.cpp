#include "analyzer/order/observations.h"

#include <algorithm>
#include <vector>

namespace deadheat::order {

void Observations::add(ThreadKey reader, Stamp read, Stamp first, Stamp write, Stamp synced) {
  const auto end = reads_.upper_bound({reader.bits, ~Stamp(0), ~Stamp(0)});
  const auto before = [&](auto at) { // the reader's read before that one; end(): there is none
    if (at == reads_.begin()) return reads_.end();
    --at;
    return at->first.thread == reader.bits ? at : reads_.end();
  };
  if (const auto last = before(end); last != reads_.end()) {
    if (last->first.first == first && last->second == write) return; // a wait loop reads the same many times
    // One more stays besides the last: what is done now comes after it, and not yet after this one.
    const auto older = before(last);
    if (older != reads_.end() && older->first.first == last->first.first && older->second <= last->second &&
        last->first.stamp < read && synced < older->first.stamp)
      reads_.erase(older);
  }
  if (reads_.size() >= most) make_room();
  Stamp& observed = reads_[{reader.bits, read, first}];
  observed = std::max(observed, write);
}

void Observations::make_room() {
  std::vector<Stamp> stamps;
  stamps.reserve(reads_.size());
  for (const auto& [read, write] : reads_) stamps.push_back(read.stamp);
  const auto oldest = stamps.begin() + std::ptrdiff_t(stamps.size() / 4);
  std::nth_element(stamps.begin(), oldest, stamps.end());
  std::erase_if(reads_, [&](const auto& at) {
    if (at.first.stamp >= *oldest) return false;
    forgotten_ = std::max(forgotten_, at.second);
    return true;
  });
}

std::optional<std::uint64_t> Observations::next_block(std::uint64_t from) const {
  const auto at = reads_.lower_bound({from << 10});
  return at == reads_.end() ? std::nullopt : std::optional(at->first.thread >> 10);
}

} // namespace deadheat::order
