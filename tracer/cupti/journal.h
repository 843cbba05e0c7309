// What happened, waiting to be written: one queue for all host threads of the process.
//
// Host threads append records in the order of their calls. The queue is written from its front; a launch whose accesses
// are recorded holds it until all of them have arrived. So the log reads as if every operation had run when it was
// submitted: an order in which things can have happened (deadheat/trace.h), and no access lies behind the free or the
// reuse of its memory.
//
// Thread-safety: push() from any thread; pump() from one thread at a time (a second one waits). Nothing throws.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <variant>

#include "deadheat/trace.h"
#include "tracer/recorder/writer.h"

namespace deadheat::cupti {

// A launch whose accesses are to come.
class Awaited {
 public:
  virtual ~Awaited() = default;
  // Writes what has arrived. True when that was all.
  virtual bool write(trace::TraceWriter& writer, bool last_chance) = 0;
};

class Journal {
 public:
  // The records that host threads make: trace::Record without what is large and comes from kernels.
  using Item = std::variant<std::shared_ptr<Awaited>, trace::Device, trace::Module, trace::Symbol, trace::Allocate,
                            trace::Free, trace::StreamCreate, trace::StreamDestroy, trace::EventRecord,
                            trace::StreamWait, trace::HostWait, trace::Operation, trace::GraphLaunch, trace::GraphEnd,
                            trace::OperationBegin, trace::OperationEnd, trace::Incident>;

  void push(Item item);

  // Writes what can be written. last_chance: nothing more arrives; launches write what they have.
  void pump(trace::TraceWriter& writer, bool last_chance = false);
  bool empty() const;

 private:
  mutable std::mutex lock_; // of the queue
  std::mutex pumping_;
  std::deque<Item> queue_;
};

} // namespace deadheat::cupti
