// Reading what a slot holds.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <cstring>

#include "deadheat/lanes.h"
#include "tracer/device_log/layout.h"
#include "tracer/ptx/instrument.h"

namespace deadheat::device_log {

inline SegmentHeader header_of(const std::uint8_t* segment) {
  SegmentHeader header;
  std::memcpy(&header, segment, sizeof header);
  return header;
}
inline std::uint32_t u32_at(const std::uint8_t* segment, std::uint32_t offset, unsigned lane) {
  std::uint32_t value;
  std::memcpy(&value, segment + offset + 4 * lane, 4);
  return value;
}
inline std::uint64_t u64_at(const std::uint8_t* segment, std::uint32_t offset, unsigned lane) {
  std::uint64_t value;
  std::memcpy(&value, segment + offset + 8 * lane, 8);
  return value;
}

// Whether a slot carries tickets.
inline bool ticketed(const ptx::Slot& slot) {
  return slot.kind == ptx::Slot::Kind::strong || slot.kind == ptx::Slot::Kind::mbarrier ||
         slot.kind == ptx::Slot::Kind::heap || (slot.kind == ptx::Slot::Kind::bulk && slot.object != 0);
}

// Lanes that executed an event, barrier or warp barrier.
inline std::uint32_t executing(const ptx::Slot& slot, const std::uint8_t* segment) {
  std::uint32_t mask = header_of(segment).mask;
  if (!slot.guarded) return mask;
  const bool zero_is_false = slot.kind == ptx::Slot::Kind::warp_sync && !slot.number_known;
  std::uint32_t lanes = 0;
  each_lane(mask, [&](unsigned lane) {
    const std::uint32_t flag = u32_at(segment, slot.offset, lane);
    if (flag != (zero_is_false ? 0u : ~0u)) lanes |= 1u << lane;
  });
  return lanes;
}

}  // namespace deadheat::device_log
