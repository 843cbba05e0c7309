// A host function of the program's (cudaLaunchHostFunc), as the device is given it.
//
// Thread-safety: what `run` says; RunsOn may be read by any thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

namespace deadheat::device {

// Of one that runs on beside the host: set when it is over.
using RunsOn = std::shared_ptr<const std::atomic<bool>>;

struct HostFunction {
  const void* code = nullptr; // tells functions apart: of one that wrote nothing, nothing is expected the next time
  std::function<RunsOn()> run; // null when it is over
};

} // namespace deadheat::device
