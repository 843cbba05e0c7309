// One execution of an access site by the lanes of a warp, by reference: what the fast paths of writer and reader use in
// place of trace::Access, whose arrays are expensive to fill and copy.
//
// Arrays have 32 elements; those of lanes outside `mask` mean nothing. Writing: `digest` may be null (all zero), and
// the arrays after `strong` are looked at only when it is set. Reading: no pointer is null; the arrays belong to the
// decoder and hold until its next step.
//
// Thread-safety: a plain value.
#pragma once

#include <cstdint>

#include "deadheat/trace.h"

namespace deadheat::trace {

struct AccessView {
  Warp warp;
  std::uint32_t module = 0, site = 0, mask = 0;
  Space space = Space::global;
  const std::uint64_t* address = nullptr;
  const std::uint32_t* digest = nullptr;
  bool strong = false; // values and places in the location's order follow
  const std::uint64_t* value_read = nullptr;
  const std::uint64_t* value_written = nullptr;
  const std::uint64_t* order_first = nullptr;
  const std::uint64_t* order_last = nullptr;
  std::uint32_t wrote = 0; // lanes of an atomic that stored

  // Set by the reader: lane l's address is address[first] + stride * (l - first), first the lowest lane of mask.
  bool affine = false;
  std::int64_t stride = 0;
};

// A view of `access`, which must outlive it.
inline AccessView view_of(const Access& access) {
  AccessView view;
  view.warp = access.warp;
  view.module = access.module;
  view.site = access.site;
  view.mask = access.mask;
  view.space = access.space;
  view.address = access.address.data();
  view.digest = access.digest.data();
  view.value_read = access.value_read.data();
  view.value_written = access.value_written.data();
  view.order_first = access.order_first.data();
  view.order_last = access.order_last.data();
  for (unsigned lane = 0; lane < 32; lane++) {
    if (!(access.mask >> lane & 1)) continue;
    if (access.wrote[lane]) view.wrote |= 1u << lane;
    view.strong |= access.value_read[lane] || access.value_written[lane] || access.order_first[lane] ||
                   access.order_last[lane] || access.wrote[lane];
  }
  return view;
}

// Fills `access`; lanes outside the mask become zero.
inline void copy_to(const AccessView& view, Access& access) {
  access = Access{};
  access.warp = view.warp;
  access.module = view.module;
  access.site = view.site;
  access.mask = view.mask;
  access.space = view.space;
  for (unsigned lane = 0; lane < 32; lane++) {
    if (!(view.mask >> lane & 1)) continue;
    access.address[lane] = view.address[lane];
    if (view.digest) access.digest[lane] = view.digest[lane];
    if (!view.strong) continue;
    access.value_read[lane] = view.value_read[lane];
    access.value_written[lane] = view.value_written[lane];
    access.order_first[lane] = view.order_first[lane];
    access.order_last[lane] = view.order_last[lane];
    access.wrote[lane] = view.wrote >> lane & 1;
  }
}

} // namespace deadheat::trace
