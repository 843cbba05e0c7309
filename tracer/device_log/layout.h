// What instrumented kernels and their reader agree on: the added parameter, the rings, the head of a segment.
//
// Every launch of a context writes into the same ring buffers in device memory; a block always into the same one
// (block number modulo the number of rings), so that what a block did lies in one ring, in an order in which it can
// have happened. A position counts bytes since the buffer was made. A segment lies at (position & mask) from the ring's
// base; it may reach beyond the ring's size into `slack_bytes`.
//
// A segment may be written when its end is not above the ring's limit, which the reader moves on. It is valid once its
// first 8 bytes hold its position ^ tag_key, stored last with release semantics.
//
// Thread-safety: plain values.
#pragma once

#include <cstdint>

namespace deadheat::device_log {

struct Control { // the added parameter of a launch
  std::uint64_t rings = 0; // device address of a Head, then RingState[rings]
  std::uint32_t control = 0; // number that the launch's segments carry
  std::uint32_t ring_mask = 0; // number of rings - 1
  std::uint64_t reserved = 0;
  std::uint32_t zero = 0; // what no compiler knows to be zero
  std::uint32_t padding = 0;
};
static_assert(sizeof(Control) == 32);

struct Head { // before the rings' states
  std::uint64_t ticket = 1; // of the next strong access
  std::uint64_t gave_up = 0; // segments that found no room in time: what they held is lost
  std::uint64_t padding[14] = {};
};
static_assert(sizeof(Head) == 128);

struct RingState {
  std::uint64_t reserved = 0; // position up to which room has been taken
  std::uint64_t limit = 0; // position up to which it may be
  std::uint64_t base = 0; // device address
  std::uint64_t mask = 0; // size - 1, a power of two
  std::uint64_t ticket = 1; // of the next strong access of a block that writes here
  std::uint64_t padding[11] = {};
};
static_assert(sizeof(RingState) == 128);

struct SegmentHeader {
  std::uint64_t tag = 0;
  std::uint32_t control = 0, segment = 0;
  std::uint32_t block = 0, warp = 0, mask = 0, zero = 0;
};
static_assert(sizeof(SegmentHeader) == 32);

inline constexpr std::uint64_t tag_key = 0x5dea'dbea'7c0f'fee5;
inline constexpr std::uint64_t first_position = 4096; // no position is 0
inline constexpr std::uint32_t slack_bytes = 1 << 18; // behind each ring; the largest segment
inline constexpr std::uint64_t shared_mark = std::uint64_t(1) << 63; // of addresses: an offset in shared memory
inline constexpr std::uint32_t patience = 40'000'000; // polls of about a microsecond before a warp gives up

} // namespace deadheat::device_log
