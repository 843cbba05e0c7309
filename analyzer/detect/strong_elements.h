// A strong access to a vector is a strong access an element (PTX ISA 8.2.2).
//
// Thread-safety: pure function.
#pragma once

#include <algorithm>
#include <cstdint>

#include "analyzer/detect/batch.h"
#include "analyzer/order/causality.h"
#include "deadheat/site.h"
#include "deadheat/vector_values.h"

namespace deadheat::detect {

inline std::uint32_t strong_bytes(const Site& site) { // of an element
  return std::clamp<std::uint32_t>(site.element_bytes, 1, most_lane_bytes);
}
inline std::uint32_t strong_count(const Site& site) {
  return std::clamp<std::uint32_t>(site.elements, 1, std::uint32_t(most_lane_bytes) / strong_bytes(site));
}

// Calls f(index) with each element's location and values in `access`; `read` and `written` are the record's.
template <typename F>
void each_element(const Site& site, const order::Location& first, std::uint64_t read, std::uint64_t written,
                  order::StrongAccess& access, F&& f) {
  const std::uint32_t bytes = strong_bytes(site), count = strong_count(site);
  const bool known = count == 1 || (site.access != AccessKind::atomic && packed(bytes, count)); // the value of each
  access.bytes = bytes;
  for (std::uint32_t e = 0; e < count; ++e) {
    access.location = {first.block, first.address + std::uint64_t(e) * bytes, 0};
    access.form = known ? 0 : count << 8 | e;
    access.value_read = known ? element_of(read, e, bytes) : read;
    access.value_written = known ? element_of(written, e, bytes) : written;
    f(e);
  }
}

} // namespace deadheat::detect
