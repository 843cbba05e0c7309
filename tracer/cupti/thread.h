// What the library keeps for each of the program's threads, in one place: where a call of the driver comes by, little
// else of ours is in the caches, and every further line of memory costs as much as all the work there is to do.
//
// Thread-safety: each thread has its own. What is pointed to is never destroyed: exit handlers of the program may still
// call when the thread's objects are gone.
#pragma once

#include <cstdint>

namespace deadheat::cupti {

struct PendingLaunch; // launches.cpp
struct KnownKernels; // launches.cpp
struct Ranges; // nvtx.cpp

struct alignas(64) ThreadState {
  int own_calls = 0; // > 0: the tracer itself is calling
  std::uint32_t number = 0; // of the thread; 0: it has none yet
  const char* runtime_call = nullptr; // what the program called, while it is in the runtime
  PendingLaunch* pending = nullptr;
  KnownKernels* kernels = nullptr;
  Ranges* ranges = nullptr;
};

// In the library's own part of the thread's block: found without a call (it is small enough for libraries that are
// loaded late).
extern constinit thread_local ThreadState here __attribute__((tls_model("initial-exec")));

} // namespace deadheat::cupti
