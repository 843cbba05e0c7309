// The words of the PTX memory consistency model that every part shares (PTX ISA 9.0, section 8).
// Plain enums with fixed values: they are written into traces, so numbers are never reused.
#pragma once

#include <cstdint>

namespace deadheat {

// State space of an access (PTX ISA 5.1). `generic` only before the address is known.
enum class Space : std::uint8_t { generic = 0, global = 1, shared = 2, local = 3, param = 4, constant = 5 };

// Scope of a strong operation (PTX ISA 8.5). `none` for weak operations; warp-level syncs carry a mask instead.
enum class Scope : std::uint8_t { none = 0, cta = 1, cluster = 2, gpu = 3, sys = 4 };

// Ordering of an access or fence (PTX ISA 8.4). Volatile is relaxed.sys, kept apart for reports;
// `nc` marks ld.global.nc, which is outside the model. `mmio` is relaxed.sys with no duplication.
enum class Ordering : std::uint8_t {
  weak = 0,
  relaxed = 1,
  acquire = 2,
  release = 3,
  acq_rel = 4,
  sc = 5,
  volatile_ = 6,
  mmio = 7,
  nc = 8
};

// Proxy through which an access is made (PTX ISA 8.3).
enum class Proxy : std::uint8_t { generic = 0, async = 1, tensormap = 2, alias = 3 };

// What an access does to memory. `free` is the pseudo-access of a deallocation.
enum class AccessKind : std::uint8_t { read = 0, write = 1, atomic = 2, free = 3 };
constexpr const char* word(AccessKind kind) { // in texts and JSON
  switch (kind) {
    case AccessKind::read: return "read";
    case AccessKind::write: return "write";
    case AccessKind::atomic: return "atomic";
    case AccessKind::free: return "free";
  }
  return "access";
}

inline bool is_strong(Ordering o) { return o != Ordering::weak && o != Ordering::nc; }
inline bool is_acquire(Ordering o) { return o == Ordering::acquire || o == Ordering::acq_rel || o == Ordering::sc; }
inline bool is_release(Ordering o) { return o == Ordering::release || o == Ordering::acq_rel || o == Ordering::sc; }

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  std::uint64_t count() const { return std::uint64_t(x) * y * z; }
  friend bool operator==(const Dim3&, const Dim3&) = default;
};
// Coordinates of linear index `i` in an extent of `e` (x fastest).
inline Dim3 coordinates(std::uint64_t i, const Dim3& e) {
  return {std::uint32_t(i % e.x), std::uint32_t(i / e.x % e.y), std::uint32_t(i / e.x / e.y)};
}

// Rank of a block in its cluster, and the block with that rank in the cluster of `block` (PTX ISA 10,
// %cluster_ctarank). Blocks are linear indices; extents are multiples of the cluster's.
inline std::uint32_t cluster_rank(std::uint64_t block, const Dim3& grid, const Dim3& cluster) {
  const Dim3 at = coordinates(block, grid);
  return at.x % cluster.x + cluster.x * (at.y % cluster.y + cluster.y * (at.z % cluster.z));
}
inline std::uint32_t cluster_peer(std::uint64_t block, std::uint32_t rank, const Dim3& grid, const Dim3& cluster) {
  const Dim3 at = coordinates(block, grid), in = coordinates(rank, cluster);
  const std::uint64_t x = at.x / cluster.x * cluster.x + in.x, y = at.y / cluster.y * cluster.y + in.y,
                      z = at.z / cluster.z * cluster.z + in.z;
  return std::uint32_t((z * grid.y + y) * grid.x + x);
}

} // namespace deadheat
