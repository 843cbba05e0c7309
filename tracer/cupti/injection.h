// Getting in: the preloaded library's constructor, the driver's injection point, and the subscription to CUPTI.
#pragma once

#include <string>

#include "tracer/cupti/thread.h"

namespace deadheat::cupti {

// Subscribes to driver and runtime calls. False when somebody else has done so, and `why` says who may have.
bool subscribe(bool timestamps, std::string& why);

// Keeps the callbacks of what this thread calls from being looked at: the tracer's own driver calls.
class Own {
 public:
  Own() { ++here.own_calls; }
  ~Own() { --here.own_calls; }
};

}  // namespace deadheat::cupti
