// Fences that order a class of operations only (PTX ISA 9.7.13.4).
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>

#include "deadheat/site.h"

namespace deadheat::order {

enum class Restriction : std::uint8_t {
  none,
  shared, // .sync_restrict: what is done to shared memory, of the block or the cluster
  mbarrier_init // .mbarrier_init: the thread's own initializations of mbarrier objects
};

inline Restriction restriction_of(const Site& fence) {
  if (fence.opcode.find(".mbarrier_init") != std::string::npos) return Restriction::mbarrier_init;
  return fence.opcode.find(".sync_restrict") != std::string::npos ? Restriction::shared : Restriction::none;
}

inline bool initializes(const Site& site) { return site.opcode.starts_with("mbarrier.init"); }

} // namespace deadheat::order
