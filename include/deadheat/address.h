// How addresses of the embedded device are made up (64-bit generic addresses, as PTX code sees them).
//
//  [0, 2^47)            host addresses: pinned and managed memory, the same on host and device
//  [2^47, 2^48)         device memory: the arena's host address with bit 47 set, which no host pointer has
//  shared_window + o    offset o of the running block's shared memory (the low 32 bits are the .shared address)
//  local_window + o     offset o of the running thread's stack (frames and local memory)
//  param_window + o     offset o of the launch's parameter block
//
// On a GPU an array has no address. In its traces the tracer gives it one in [array_memory, 2^57), where no device has
// memory, with the layout of ptx/texture.h.
//
// So code turns a global address into a host pointer by clearing bit 47, and tells the windows by bit 48.
#pragma once

#include <cstdint>

namespace deadheat {

inline constexpr std::uint64_t device_bit = std::uint64_t(1) << 47;
inline constexpr std::uint64_t window_bit = std::uint64_t(1) << 48;
inline constexpr std::uint64_t shared_window = window_bit;
inline constexpr std::uint64_t local_window = window_bit + (std::uint64_t(1) << 40);
inline constexpr std::uint64_t param_window = window_bit + (std::uint64_t(1) << 41);
// Inside the shared window: bits 24 and up are 0 for the block's own memory (.shared::cta addresses), else the rank in
// the cluster of the block whose memory it is, plus one (what mapa gives; PTX ISA 5.1.7).
inline constexpr unsigned cluster_shift = 24;
inline constexpr std::uint64_t cluster_offset_mask = (std::uint64_t(1) << cluster_shift) - 1;
inline constexpr std::uint64_t window_bytes = std::uint64_t(1) << 32;

inline constexpr std::uint64_t array_memory = std::uint64_t(1) << 56, array_memory_bytes = array_memory;
inline constexpr bool is_array_memory(std::uint64_t address) { return address - array_memory < array_memory_bytes; }

// Host addresses of the arenas, and of the device arena's shadow of written bits (replay/engine/written.h). Fixed, so
// that a replay finds the recorded addresses. The thread sanitizer has its own memory there, and leaves programs the
// first 512 GiB (compiler-rt, tsan_platform.h: kLoAppMemEnd). Traces that such a build records are for such a build.
#if defined(__SANITIZE_THREAD__)
inline constexpr std::uint64_t device_arena = 0x10'0000'0000;
inline constexpr std::uint64_t device_arena_bytes = std::uint64_t(1) << 37;
inline constexpr std::uint64_t pinned_arena = 0x38'0000'0000;
inline constexpr std::uint64_t written_shadow = 0x50'0000'0000;
#else
inline constexpr std::uint64_t device_arena = 0x2000'0000'0000;
inline constexpr std::uint64_t device_arena_bytes = std::uint64_t(1) << 38; // 256 GiB of address space
inline constexpr std::uint64_t pinned_arena = 0x2400'0000'0000;
inline constexpr std::uint64_t written_shadow = 0x2800'0000'0000;
#endif
inline constexpr std::uint64_t pinned_arena_bytes = std::uint64_t(1) << 36;

inline constexpr std::uint64_t to_device(std::uint64_t host) { return host | device_bit; }
inline constexpr std::uint64_t to_host(std::uint64_t device) { return device & ~device_bit; }

} // namespace deadheat
