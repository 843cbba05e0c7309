// A window: a stretch of the run that is recorded so that it can be executed again without the GPU (deadheat/trace.h,
// "Windows"). It is the range that accesses are captured in, the first one; without a range, the whole run.
//
// A window opens when nothing runs, and with copies of all memory: on the device, where there is room, else on the
// host. Once all accesses of its launches have come, the pages that they touched are written out of those copies. An
// opaque launch inside runs alone: the device is at rest before and after it, and what it changed is found by comparing
// the memory that it can reach with a copy from before. Everything waits for a limited time only: where the device does
// not come to rest (a kernel that waits for one that is not launched yet), the window says that it cannot be used.
//
// Calls of other host threads wait while a window opens, closes or looks at an opaque launch; one that has begun before
// is not held back.
//
// Thread-safety: every member locks for itself. The session's lock may be held where it is said, and nowhere else.
#pragma once

#include <cuda.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "deadheat/trace.h"
#include "tracer/cupti/journal.h"
#include "tracer/cupti/quiet_device.h"

namespace deadheat::cupti {

class Session;

inline constexpr std::uint64_t window_page = 4096;

// Pages that the operations of a window touched.
class TouchedPages {
 public:
  void add(std::uint64_t address, std::uint64_t bytes);
  void add(const trace::AccessView& access);
  void add(const trace::Record& record); // copies that kernels make by themselves
  std::set<std::uint64_t> take(); // page numbers

 private:
  void page(std::uint64_t number) {
    if (number != last_) pages_.insert(last_ = number);
  }
  std::mutex lock_;
  std::unordered_set<std::uint64_t> pages_;
  std::uint64_t last_ = ~std::uint64_t(0);
};

class Window {
 public:
  explicit Window(Session& session) : session_(session), device_(session) {}

  bool open() const { return open_.load(std::memory_order_acquire); }
  void start(); // recording starts: a window over the whole run opens here
  void begin(); // the captured range begins
  void end(); // it ends: returns when the window has been written, or after a while
  void finish(); // the process ends: closes a window over the whole run

  // The way into any call: waits while another thread has the device for itself.
  void pass(CUcontext context);
  // Where launches of the window note what they touch; null outside of it, and where it is the whole run.
  std::shared_ptr<TouchedPages> touched() const;
  // An operation touches memory that way. The session's lock may be held.
  void touch(const trace::MemoryRange& range);
  // The window cannot be executed again; the first reason stays. The session's lock may be held.
  void spoil(const std::string& why);
  // The bytes that a copy brings from the host; `pinned`: read when the copy runs. Not under the session's lock.
  trace::Bytes bytes_of(const trace::MemoryRange& source, bool pinned, CUstream stream);

  // Around an opaque launch: between the two this thread has the device for itself. True: its effects are known.
  void before_opaque(CUcontext context, const std::vector<std::uint8_t>& arguments);
  bool after_opaque(CUstream stream, bool launched, std::vector<trace::Effects::Change>& effects);

 private:
  class Closing;
  struct Shared; // what outlives the window: until it is written
  void save_memory(Shared& shared);
  std::vector<Memory> live_memory();

  Session& session_;
  QuietDevice device_;
  std::atomic<bool> open_{false};
  bool used_ = false; // there is one window in a run
  bool whole_run_ = false;
  std::recursive_mutex alone_; // who has the device for itself
  std::atomic<bool> someone_{false}; // has it
  std::shared_ptr<Shared> shared_;
  bool looking_ = false; // there is a copy from before the opaque launch that is under way
  std::atomic<CUcontext> seen_{nullptr};
};

} // namespace deadheat::cupti
