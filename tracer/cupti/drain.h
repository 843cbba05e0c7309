// What those who fetch accesses from the device need: the recorder's buffers (recorder.h), and the way to them.
//
// Thread-safety: the buffers are used under the recorder's lock of the drain, where nothing else is said.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "tracer/cupti/libraries.h"
#include "tracer/cupti/recorder.h"
#include "tracer/cupti/rings.h"

namespace deadheat::cupti {

struct Recorder::Buffers {
  std::unique_ptr<Rings> rings;
  std::uint32_t round = 1;
  std::uint64_t round_bytes = 0; // that were drained in it
  std::vector<std::uint64_t> reserved; // by ring, when the round began; empty: all of that has arrived
  std::shared_ptr<std::atomic<std::uint32_t>> whole = std::make_shared<std::atomic<std::uint32_t>>(0);
  std::atomic<bool> dead{false}; // what it holds is of no use any more, or the driver does not answer
};

// The thread's context, for as long as this lives.
class InContext {
 public:
  explicit InContext(CUcontext context) : context_(context) {
    driver().cuCtxGetCurrent(&before_);
    good_ = before_ == context || driver().cuCtxSetCurrent(context) == CUDA_SUCCESS;
  }
  ~InContext() {
    if (good_ && before_ != context_) driver().cuCtxSetCurrent(before_);
  }
  bool good() const { return good_; }

 private:
  CUcontext context_, before_ = nullptr;
  bool good_ = false;
};

// Holds a lock that the drain's thread would take again at once, if it did not know that somebody waits.
class MyTurn {
 public:
  MyTurn(std::mutex& lock, std::atomic<int>& waiting) : lock_(lock) {
    ++waiting;
    lock_.lock();
    --waiting;
  }
  ~MyTurn() { lock_.unlock(); }
  MyTurn(const MyTurn&) = delete;
  MyTurn& operator=(const MyTurn&) = delete;

 private:
  std::mutex& lock_;
};

} // namespace deadheat::cupti
