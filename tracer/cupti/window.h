// A window: a stretch of the run that is recorded so that it can be executed again without the GPU (deadheat/trace.h,
// "Windows"). It is the range that accesses are captured in, the first one; without a range, the whole run.
//
// A window opens when nothing runs, and with copies of all memory: on the device, where there is room, else on the
// host. Once all accesses of its launches have come, the pages that they touched are written out of those copies. An
// opaque launch inside runs alone: the device is at rest before and after it, and what it changed is found by comparing
// the memory that it can reach with a copy from before; a graph with such is launched node by node (graph_pieces.h).
// Everything waits for a limited time only: where the device does not come to rest (a kernel that waits for one that is
// not launched yet), the window says that it cannot be used.
//
// What the host writes into page-locked memory is recorded ahead of the operations that may read it (host_memory.h), as
// far as copies and arguments of launches say which do.
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
#include "tracer/cupti/host_memory.h"
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

  // What lies on the device on the window's behalf, in bytes. Where the job needs the room, what is kept goes on in the
  // host's memory: true where there is more room now. Nothing may be held; waits for recorded launches, and the device.
  std::uint64_t spare_memory(CUcontext context);
  bool give_back_memory(CUcontext context);

  // The way into any call: waits while another thread has the device for itself.
  void pass(CUcontext context);
  // Where launches of the window note what they touch; null outside of it, and where it is the whole run.
  std::shared_ptr<TouchedPages> touched() const;
  // An operation touches memory that way. The session's lock may be held.
  void touch(const trace::MemoryRange& range);
  // The window cannot be executed again; the first reason stays. The session's lock may be held.
  void spoil(const std::string& why);
  bool is_spoiled() const;
  // The bytes that a copy brings from the host; `pinned`: read when the copy runs. Not under the session's lock.
  trace::Bytes bytes_of(const trace::MemoryRange& source, bool pinned, CUstream stream);

  // The host's side of page-locked memory (window_host.cpp). An operation reads it: before it is written to the
  // journal. One writes it: once it has its number. Other memory is left alone.
  void device_reads(const trace::MemoryRange& range);
  void device_writes(const trace::MemoryRange& range, std::uint32_t stream, std::uint32_t operation, CUstream handle);
  // A recorded launch, on its way in and out: what its arguments reach.
  std::vector<trace::Span> before_launch(const std::vector<std::uint8_t>& arguments, CUstream handle);
  void after_launch(const std::vector<trace::Span>& reached, std::uint32_t stream, std::uint32_t operation,
                    CUstream handle);
  void not_launched(const std::vector<trace::Span>& reached, CUstream handle); // the call failed
  void graph_launched(std::uint32_t stream, std::uint32_t operation, CUstream handle);
  void waited(trace::HostWait::Kind kind, std::uint32_t id); // under the session's lock
  void host_wrote(std::uint64_t address, std::uint64_t bytes); // and the trace has it (host_writes.h)
  // The page-locked memory is another device's: reading it may have effects, so it is never read, and a window in which
  // an operation is given it cannot be used. Under the session's lock, as the other way round.
  void of_another_device(std::uint64_t address);
  void host_memory_freed(std::uint64_t address, std::uint64_t bytes);

  // As long as it lives, this thread has the device for itself.
  class Alone {
   public:
    explicit Alone(Window& window) : window_(window) {
      window.alone_.lock();
      ++window.someone_;
    }
    ~Alone() {
      --window_.someone_;
      window_.alone_.unlock();
    }
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;

   private:
    Window& window_;
  };
  bool rest(CUcontext context) { return device_.use(context) && device_.rest(); } // false: it did not come to rest

  // Around an opaque launch: between the two this thread has the device for itself. True: its effects are known.
  // `more`: streams to wait for besides the program's.
  void before_opaque(CUcontext context, const std::vector<std::uint8_t>& arguments,
                     const std::vector<CUstream>& more = {});
  bool after_opaque(CUstream stream, bool launched, std::vector<trace::Effects::Change>& effects);

 private:
  class Closing;
  struct Shared; // what outlives the window: until it is written
  void save_memory(Shared& shared);
  std::vector<Memory> live_memory();
  void opened(); // says so in the journal
  bool followed(const trace::Allocate& memory) const; // page-locked, and may be read; under the session's lock
  trace::Span on_host(const trace::MemoryRange& range);
  HostMemory::Room room();
  void look(std::uint64_t address, std::uint64_t bytes); // under host_lock_

  Session& session_;
  QuietDevice device_;
  std::atomic<bool> open_{false};
  bool used_ = false; // there is one window in a run
  bool whole_run_ = false;
  std::mutex giving_back_;
  std::atomic<std::uint32_t> given_back_{0}; // how often
  std::recursive_mutex alone_; // who has the device for itself
  std::atomic<int> someone_{0}; // has it: how often
  std::shared_ptr<Shared> shared_;
  bool looking_ = false; // there is a copy from before the opaque launch that is under way
  std::atomic<CUcontext> seen_{nullptr};
  std::set<std::uint64_t> others_; // page-locked memory of other devices; under the session's lock
  std::mutex host_lock_; // of what follows; the session's comes first
  HostMemory host_;
  std::set<std::uint64_t> reached_; // page-locked allocations that arguments of launches point into
};

} // namespace deadheat::cupti
