// What the embedded device says it is: a GPU of a compute capability, with the limits of that (CUDA C++ Programming
// Guide, "Technical Specifications per Compute Capability") and the multiprocessors of one card that has it.
//
// What a capability below 9.0 lacks (clusters, tensor maps) is denied by queries and at launches. Instructions are not:
// PTX for an older architecture has none that it lacks.
//
// Thread-safety: plain values and pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace deadheat {

inline std::string capability_text(std::uint32_t major, std::uint32_t minor) { // "9.0"
  return std::to_string(major) + "." + std::to_string(minor);
}

struct Profile {
  std::uint32_t compute_major = 9, compute_minor = 0;
  std::uint32_t multiprocessors = 132, max_threads_per_multiprocessor = 2048, max_blocks_per_multiprocessor = 32;
  std::uint32_t shared_per_multiprocessor = 233472, shared_per_block = 49152, shared_per_block_optin = 232448; // bytes
  std::uint32_t registers_per_multiprocessor = 65536;
  std::uint64_t memory_bytes = std::uint64_t(16) << 30;

  bool has_clusters() const { return compute_major >= 9; }
  // Bytes of shared memory that the system takes of each block.
  std::uint32_t reserved_shared() const { return compute_major >= 8 ? 1024 : 0; }
  // How many blocks fit on a multiprocessor at a time; shared: bytes that each has.
  std::uint64_t blocks_at_once(std::uint64_t threads, std::uint64_t shared) const {
    const std::uint64_t of_whole_warps = (std::max<std::uint64_t>(threads, 1) + 31) / 32 * 32;
    const std::uint64_t each = std::max<std::uint64_t>(shared + reserved_shared(), 1);
    return std::min({std::uint64_t(max_blocks_per_multiprocessor), max_threads_per_multiprocessor / of_whole_warps,
                     shared_per_multiprocessor / each});
  }
  std::uint32_t architecture() const { return compute_major * 10 + compute_minor; } // 90
  std::string capability() const { return capability_text(compute_major, compute_minor); }
  std::string name() const { return "deadheat embedded (sm_" + std::to_string(architecture()) + ")"; }
};

inline constexpr Profile profiles[] = {
    {7, 5, 40, 1024, 16, 64 << 10, 48 << 10, 64 << 10}, // T4
    {8, 0, 108, 2048, 32, 164 << 10, 48 << 10, 163 << 10}, // A100
    {8, 6, 84, 1536, 16, 100 << 10, 48 << 10, 99 << 10}, // A40
    {8, 9, 142, 1536, 24, 100 << 10, 48 << 10, 99 << 10}, // L40S
    {}, // H100, H200
    {10, 0, 148, 2048, 32, 228 << 10, 48 << 10, 227 << 10}, // B200
    {12, 0, 170, 1536, 24, 100 << 10, 48 << 10, 99 << 10}, // RTX 5090
};

// Of a capability ("8.0"); nothing: it is none of these.
inline std::optional<Profile> profile_of(std::string_view capability) {
  for (const Profile& profile : profiles)
    if (profile.capability() == capability) return profile;
  return std::nullopt;
}
inline std::string known_capabilities() { // "7.5, 8.0 or 8.6"
  std::string list;
  for (const Profile& profile : profiles) {
    const bool last = &profile == std::end(profiles) - 1;
    list += (list.empty() ? "" : last ? " or " : ", ") + profile.capability();
  }
  return list;
}

} // namespace deadheat
