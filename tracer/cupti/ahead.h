// Fetching memory before it is needed: on the way into a launch, while the driver works, what the way out will touch.
//
// Between two launches the program drives much of the library's memory out of its core's caches, and the journal's was
// read last by another core. What fetching it early gains was not shown (tests/gpu/RESULTS.md).
//
// Thread-safety: any thread, any address: nothing is read, and nothing faults.
#pragma once

namespace deadheat::cupti {

inline void will_read(const void* at) { __builtin_prefetch(at, 0, 3); }

// For this core alone: a line that another one has read last is taken away from it.
inline void will_write(const void* at) {
#ifdef __x86_64__
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(at)));  // where there is none, it does nothing
#else
  __builtin_prefetch(at, 1, 3);
#endif
}

}  // namespace deadheat::cupti
