// What every call of the driver looks at, in one line of memory: where a call comes by, little of ours is in the
// caches.
//
// Thread-safety: atomic; who changes what is said where it is declared.
#pragma once

#include <atomic>
#include <cstdint>

namespace deadheat::cupti {

class Session;

struct alignas(64) Hot {
  std::atomic<Session*> session{nullptr};         // Session::get
  std::atomic<unsigned> layers{~0u};              // the uppermost one (layers.h)
  std::atomic<std::uint64_t> known_kernels{1}; // changes when what is known of a launched handle may have (Modules)
};
extern constinit Hot hot; // injection.cpp

} // namespace deadheat::cupti
