// What the copies that are a graph's nodes bring from the host, in a window (window.h).
//
// They read when they run. What they bring is read before the launch, with the device at rest: what comes before it is
// complete, host functions too, so that nothing but the graph itself may still change it. Of what its kernels and
// copies write, a replay goes by what they write there; of a host function's, nobody knows.
//
// Thread-safety: the session's lock is not held.
#pragma once

#include <cuda.h>

#include <vector>

#include "tracer/cupti/handlers.h"

namespace deadheat::cupti {

// By node; of those that are no such copies, and where no window is open, nothing.
std::vector<trace::Bytes> bytes_from_host(Call& call, CUgraphExec executable);

} // namespace deadheat::cupti
