// What the journal holds of something that is not known yet: a launch whose accesses are to come, a call that has not
// returned.
//
// Thread-safety: written from one thread at a time.
#pragma once

#include "tracer/recorder/writer.h"

namespace deadheat::cupti {

class Awaited {
 public:
  virtual ~Awaited() = default;
  // Writes what has arrived. True when that was all.
  virtual bool write(trace::TraceWriter& writer, bool last_chance) = 0;
};

} // namespace deadheat::cupti
