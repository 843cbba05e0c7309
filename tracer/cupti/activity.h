// Device timestamps: when launches, copies and sets began and ended, from CUPTI's Activity API. Only where they are
// asked for (timestamps=1): every operation costs the device two more writes, and the host a record.
//
// An activity names the call that submitted it by its correlation id. It counts only if that call is known, is of the
// same kind, and, for kernels, of the same name; and if it is the only one of that call (graphs are left out).
//
// Thread-safety: every member locks for itself.
#pragma once

#include <cupti_activity.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "deadheat/trace.h"
#include "deadheat/trace_times.h"
#include "tracer/recorder/writer.h"

namespace deadheat::cupti {

class Activity {
 public:
  enum class Kind : std::uint8_t { launch, copy, set };

  // Asks CUPTI for activities; false: it does not give them.
  bool start();
  // The way into a call of the driver, or of the runtime around it (0: out of it): what is submitted next on this
  // thread belongs to both. Which of them activities name, CUPTI does not promise.
  static void driver_call(std::uint32_t correlation);
  static void runtime_call(std::uint32_t correlation);
  // An operation that this thread submitted.
  void submitted(std::uint32_t operation, Kind kind, const std::string& kernel = {});
  // Writes what has come; `all`: asks for what is on its way first.
  void write(trace::TraceWriter& writer, bool all);
  std::uint64_t dropped() const { return dropped_; }  // activities of known calls that did not fit

 private:
  struct Call {
    std::uint32_t operation = 0;
    Kind kind = Kind::launch;
    std::uint64_t kernel = 0;  // hash of the name
    std::uint32_t round = 0;   // of writing, in which it was submitted
  };
  struct Seen {
    std::uint32_t correlation = 0;
    Kind kind = Kind::launch;
    std::uint64_t kernel = 0, begin = 0, end = 0;
    std::uint32_t looks = 0;
  };
  static void CUPTIAPI requested(std::uint8_t** buffer, std::size_t* bytes, std::size_t* records);
  static void CUPTIAPI completed(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid);
  void take(CUpti_Activity& activity);

  std::mutex lock_;
  std::unordered_map<std::uint32_t, Call> calls_;
  std::vector<Seen> seen_;
  std::uint64_t dropped_ = 0;
  std::uint32_t round_ = 0;
};

}  // namespace deadheat::cupti
