// An access's view as the reader of a trace gives it: of addresses at equal distances it says so.
//
// Thread-safety: pure function.
#pragma once

#include <bit>

#include "tracer/recorder/access_view.h"

namespace deadheat::test {

inline trace::AccessView view_as_read(const trace::Access& access) {
  trace::AccessView view = view_of(access);
  const unsigned first = unsigned(std::countr_zero(view.mask));
  const std::uint32_t rest = view.mask & (view.mask - 1);
  if (rest) {
    const unsigned second = unsigned(std::countr_zero(rest));
    const std::int64_t difference = std::int64_t(view.address[second] - view.address[first]);
    if (difference % (second - first)) return view;
    view.stride = difference / (second - first);
  }
  view.affine = true;
  for (unsigned lane = first; lane < 32; ++lane) {
    const bool fits = view.address[lane] == view.address[first] + std::uint64_t(view.stride * (lane - first));
    if ((view.mask >> lane & 1) && !fits) view.affine = false;
  }
  if (!view.affine) view.stride = 0;
  return view;
}

} // namespace deadheat::test
