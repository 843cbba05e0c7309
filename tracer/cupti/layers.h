// For measuring what the library itself costs (tests/gpu/overhead.py): its layers, each on top of the one before, of
// which the upper ones can be left out. DEADHEAT_LAYERS=N in the environment says up to which one, deadheat_layers(N)
// changes it while the process runs. deadheat_detach() leaves none, and takes CUPTI out of the process until there are
// some again. It is not for users: the trace of a run without all of them has gaps, and says so.
//
// Thread-safety: layer_on from any thread; change_layers while no other thread is in a call of the driver.
#pragma once

#include "tracer/cupti/hot.h"

namespace deadheat::cupti {

enum class Layer : unsigned {
  nothing, // CUPTI is not subscribed to
  subscriber, // it is, and calls nothing
  ranges, // NVTX ranges are looked at
  driver_callbacks, // CUPTI tells of the driver's calls, which are not looked at
  runtime_callbacks, // and of the runtime's
  handlers, // calls are looked at; what they did is thrown away
  journal, // it is kept for the writer, who throws it away
  all,
};

inline bool layer_on(Layer layer) { return hot.layers.load(std::memory_order_relaxed) >= unsigned(layer); }
void change_layers(unsigned uppermost, bool detach = false); // detach: with none of them; CUPTI ends what it began

} // namespace deadheat::cupti
