#include "analyzer/detect/counter.h"

#include <algorithm>
#include <bit>

namespace deadheat::detect {

namespace {

template <typename Each>
void each_lane(std::uint32_t mask, Each&& each) {
  for (; mask; mask &= mask - 1) each(unsigned(std::countr_zero(mask)));
}

}  // namespace

Counter::Counter(const Detector& detector, const std::set<Touch>& wanted) : detector_(detector) {
  for (const Touch& touch : wanted) {
    const Place& place = detector.sides().place(touch.place);
    if (!place.site) continue;
    sites_.insert({place.module, place.site_number});
    wanted_.insert({touch.thread.bits, touch.stamp});
  }
}

void Counter::count(const trace::Warp& warp, std::uint32_t module, std::uint32_t site, std::uint32_t mask) {
  if (!sites_.count({module, site})) return;
  auto operation = launches_.find(warp.launch);
  if (operation == launches_.end()) return;
  each_lane(mask, [&](unsigned lane) {
    std::uint64_t thread = key_of(operation->second, warp, lane).bits;
    std::uint64_t earlier = counts_[{thread, std::uint64_t(module) << 32 | site}]++;
    if (wanted_.count({thread, now_})) nth_[{thread, now_}] = earlier;
  });
}

bool Counter::access(const trace::AccessView& view) {
  ++now_;  // stamps count exactly as in Detector::access
  PlaceId place = detector_.sides().site(view.module, view.site);
  bool known = launches_.count(view.warp.launch) && place && view.mask &&
               (view.space == Space::global || view.space == Space::shared);
  if (known && (view.strong || is_strong(detector_.sides().place(place).site->ordering))) {
    unsigned order[32], count_lanes = 0;
    each_lane(view.mask, [&](unsigned lane) { order[count_lanes++] = lane; });
    std::stable_sort(order, order + count_lanes,
                     [&](unsigned a, unsigned b) { return view.order_first[a] < view.order_first[b]; });
    for (unsigned i = 0; i < count_lanes; ++i) {
      if (i) ++now_;
      count(view.warp, view.module, view.site, 1u << order[i]);
    }
    return true;
  }
  if (known) count(view.warp, view.module, view.site, view.mask);
  return true;
}

bool Counter::record(trace::Record& record) {
  ++now_;
  if (auto* operation = std::get_if<trace::Operation>(&record)) {
    if (std::holds_alternative<trace::Launch>(operation->what)) {
      launches_[operation->launch] = detector_.operations().index(operation->id);
    }
  } else if (auto* copy = std::get_if<trace::AsyncCopy>(&record)) {
    count(copy->warp, copy->module, copy->site, copy->mask);
  }
  return true;
}

std::uint64_t Counter::nth(const Touch& touch) const {
  auto found = nth_.find({touch.thread.bits, touch.stamp});
  return found == nth_.end() ? 0 : found->second;
}

}  // namespace deadheat::detect
