// Calls of the library's own while a stream of the thread is being captured.
//
// Thread-safety: of one thread each.
#pragma once

#include "tracer/cupti/libraries.h"

namespace deadheat::cupti {

// For as long as this lives, memory may be allocated and code be loaded, which a capture forbids else
// (cuThreadExchangeStreamCaptureMode).
class Relaxed {
 public:
  Relaxed() { driver().cuThreadExchangeStreamCaptureMode(&mode_); }
  ~Relaxed() { driver().cuThreadExchangeStreamCaptureMode(&mode_); }
  // Of a thread of the library's own.
  static void from_now_on() {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    driver().cuThreadExchangeStreamCaptureMode(&mode);
  }
  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

} // namespace deadheat::cupti
