// How the threads of a block synchronized among themselves, as far as nobody has asked.
//
// Several workers look at a trace, each at its own part of memory, and each keeps the order of all threads. Most of
// what orders the threads of a block is between them alone: barriers, mbarrier objects in the block's shared memory. A
// worker that looks at none of that memory is hardly ever asked about it, since what other blocks did comes before a
// block's threads by what those have acquired from outside, whatever they told each other. Such a worker writes these
// events down, and applies them when a question or another event needs the block as it is; when the block is over
// before that, nobody ever does.
//
// What is left here in order of stamps and applied in that order, before anything else that has to do with the block,
// has the same effect as it would have had at once (deferred.cpp).
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyzer/order/async_groups.h"
#include "analyzer/order/clock.h"
#include "deadheat/memory_model.h"

namespace deadheat::order {

struct Deferred {
  enum class What : std::uint8_t {
    block_barrier, // of all threads
    warp_barrier,
    barrier_arrive, // `yes`: it waits, too
    barrier_complete, // `yes`: arrivals may be missing
    proxy_fence, // `yes`: of shared memory; `also`: of global memory
    mbarrier_init,
    mbarrier_arrive,
    mbarrier_async_arrive,
    mbarrier_test, // `yes`: nothing depends on that it was successful
    bulk_complete,
    bulk_told, // of the group `phase`, and of the one behind it: what its thread knew when it issued it
    matrix_wait, // for so many groups as `object` says
  };
  struct Event {
    Stamp stamp = 0;
    std::uint64_t object = 0; // offset of an mbarrier in the block's shared memory; number of a named barrier
    std::uint32_t lanes = 0; // of the warp
    std::uint32_t phase = 0;
    What what = What::block_barrier;
    std::uint8_t warp = 0;
    Ordering ordering = Ordering::relaxed;
    Scope scope = Scope::none;
    bool yes = false, also = false;
  };
  static_assert(sizeof(Event) == 32);

  std::vector<Event> events;
  bool applying = false; // they are taken from here
  bool open = false; // a thread of the block may have acquired what other blocks did
};

} // namespace deadheat::order
