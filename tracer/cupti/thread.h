// What the library keeps for each of the program's threads, in one place: where a call of the driver comes by, little
// else of ours is in the caches, and every further line of memory costs as much as all the work there is to do.
//
// Thread-safety: each thread has its own. What is pointed to is never destroyed: the next thread that begins takes what
// one that has ended leaves behind.
#pragma once

#include <cstdint>

namespace deadheat::cupti {

struct PendingLaunch; // launches.cpp
struct KnownKernels; // launches.cpp
struct ApiNames; // injection.cpp
struct Ranges; // nvtx.cpp

struct alignas(64) ThreadState {
  std::uint16_t own_calls = 0; // > 0: the tracer itself is calling
  bool takes = true; // it may take what a thread that has ended left behind: none of the pointers below is there yet
  std::uint32_t number = 0; // of the thread; 0: it has none yet
  const char* runtime_call = nullptr; // what the program called, while it is in the runtime
  PendingLaunch* pending = nullptr;
  KnownKernels* kernels = nullptr;
  Ranges* ranges = nullptr;
  ApiNames* names = nullptr;
  const void* stream_key = nullptr; // of the stream that it launched into last: Session::stream_again
  std::uint32_t stream = 0, stream_changes = 0;
};
static_assert(sizeof(ThreadState) == 64);

// In the library's own part of the thread's block: found without a call (it is small enough for libraries that are
// loaded late).
extern constinit thread_local ThreadState here __attribute__((tls_model("initial-exec")));

void take_what_is_left(); // thread.cpp
void reset(PendingLaunch& pending); // as if new
void reset(Ranges& ranges);

// One of the pointers of `here`, with something behind it.
template <typename T>
T& own(T*& mine) {
  if (mine) [[likely]]
    return *mine;
  if (here.takes) take_what_is_left();
  if (!mine) mine = new T;
  return *mine;
}

} // namespace deadheat::cupti
