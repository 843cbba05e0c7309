// What a visible operation touches, as systematic exploration sees it (exploration.h).
#pragma once

#include <cstdint>

#include "replay/device/chooser.h"

namespace deadheat::search {

inline bool writes(const device::NextAccess& a) { return !a.fence && a.access != AccessKind::read; }

// What it touches, as ranges.
template <typename F> void each_range(const device::NextAccess& a, F&& f) {
  for (const device::Touched& t : a.touched) f(t);
  if (!a.touched.empty()) return;
  device::Touched all{a.memory, a.address, a.bytes, writes(a)};
  if (a.value) { // of a store: the same byte everywhere?
    const std::uint64_t first = *a.value & 0xFF;
    bool same = true;
    for (unsigned n = 1; n < a.bytes; ++n) same &= (*a.value >> 8 * n & 0xFF) == first;
    if (same) all.fill = std::int16_t(first);
  }
  f(all);
}

// Does what it does depend on what others did, and others on it? Bytes that the host brings or takes are the same, or
// seen, whatever the order of threads that do not touch them.
inline bool passes_on(const device::NextAccess& access) {
  if (access.agent.kind != Agent::Kind::operation) return true;
  bool reads = false, writes = false;
  for (const device::Touched& t : access.touched) (t.writes ? writes : reads) = true;
  return reads && writes;
}

} // namespace deadheat::search
