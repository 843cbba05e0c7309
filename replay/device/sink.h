// Where the device writes down what happens: a trace when recording, nothing or a listener when replaying.
//
// Thread-safety: called from the one host thread that drives the device at that time, in order.
#pragma once

#include "deadheat/trace.h"
#include "replay/engine/abi.h"

namespace deadheat::device {

// The logs of the lanes of one warp: weak accesses since the last call, in each lane's program order.
struct LaneLogs {
  const engine::LogEntry* begin[32];
  const engine::LogEntry* end[32];
};

// What a machine runs at a moment: the thread (null: none), what changes when others get their turn, and the kernel.
struct RunningCode {
  const volatile void* thread = nullptr;
  std::uint64_t turns = 0;
  const char* kernel = nullptr; // may be overwritten while it is read; always ended by a zero
};

class Sink {
 public:
  virtual ~Sink() = default;
  virtual void record(const trace::Record& record) = 0;
  virtual void weak_accesses(const trace::Warp& warp, std::uint32_t module, const LaneLogs& logs) = 0;
  // Keeps bytes: inlined or as a blob.
  virtual trace::Bytes keep(const void* data, std::uint64_t size) = 0;
  virtual trace::BlobHash keep_blob(const void* data, std::uint64_t size) = 0;
};

} // namespace deadheat::device
