#include "analyzer/detect/filter_mixed.h"

namespace deadheat::detect {

SegmentId MixedPairs::recent(const Mixed& wanted) const {
  const SegmentId name = recent_[place(wanted)];
  if (!name) return 0;
  const Pair& pair = *pool_.at(name);
  return pair.users && pair.users < most_users && Mixed{pair.weak, pair.strong} == wanted ? name : 0;
}

SegmentId MixedPairs::put(const Mixed& wanted, bool& fresh) {
  ++total_users_;
  SegmentId name = recent(wanted);
  fresh = !name;
  if (fresh) {
    name = recent_[place(wanted)] = pool_.allocate();
    *pool_.at(name) = {wanted.weak, wanted.strong, 0};
    ++count_;
  }
  ++pool_.at(name)->users;
  return name;
}

std::optional<Entry> MixedPairs::drop(SegmentId name) {
  Pair& pair = *pool_.at(name);
  --total_users_;
  if (--pair.users) return std::nullopt;
  const Entry weak = pair.weak;
  pair = {};
  pool_.free(name);
  --count_;
  return weak;
}

void MixedPairs::trim() {
  if (count_) return;
  pool_.trim();
  recent_.fill(0);
}

} // namespace deadheat::detect
