// What the host writes into page-locked memory while an asynchronous copy has still to read it (CUDA C++ Programming
// Guide, "Asynchronous Concurrent Execution": the call returns before the device has done what it asks for).
//
// Nobody says when the host writes. So the source of a copy is kept when the copy has been submitted (kept_bytes.h),
// and compared with what is there: on the way into each wait that may cover the copy, and on the way out of it, since
// other threads may write meanwhile; where a query tells the host that the copy is complete, before that counts; when
// another operation is submitted that reads or writes those bytes; when their memory is freed. What differs was written
// by the host, behind the submission and before it was told of anything that comes after: it goes into the trace as an
// operation of a stream of its own, which the host waits for at once (deadheat/host_waits.h, host_itself), as on the
// embedded device. Whether the copy is unordered with it the analyzer decides. What is written after the last of all
// those calls is not seen.
//
// A change is the host's only where nobody else may have made it, and only where the host cannot know otherwise that it
// may. So nothing is kept of a copy, and what was kept is thrown away, where
// - an operation that the host has not waited for writes there, or may: copies to the host, sets;
// - a kernel that the host has not waited for has page-locked or managed memory among its arguments, or memory into
// which
//   an address of such was copied, or a stream writes values there, or waits for some: host and device may tell each
//   other things by them, unseen. Where such an address was copied into a module's variable, that goes for any kernel;
// - a host function has been submitted that has not returned: it may be what writes.
// What host functions write is looked for while they run (function_looks.h).
// Write-combined memory, which is slow to read, and memory of other devices are never read. When calls are not followed
// (driver_calls.def, LEFT_OUT), nothing is looked for from there on.
//
// Thread-safety: every member locks for itself. The session's lock comes first where it is held at all; host functions,
// which run on threads of the driver's, do not take it. The driver is never called.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "deadheat/trace.h"
#include "tracer/cupti/function_looks.h"
#include "tracer/cupti/host_visible.h"
#include "tracer/cupti/kept_bytes.h"
#include "tracer/cupti/locked_memory.h"

namespace deadheat::cupti {

class Session;

class HostWrites {
 public:
  static constexpr std::uint64_t most_kept = std::uint64_t(64) << 20; // bytes, of all copies
  static constexpr std::size_t most_entries = 1024;
  static constexpr int most_looks = 8; // at a copy that a wait covers perhaps; each costs as much as its bytes

  explicit HostWrites(Session& session) : session_(session) { streams_[1].kind = trace::StreamCreate::Kind::legacy; }
  void stop(); // nothing is looked for any more, by any thread; what is not known is said in the trace
  void gap(); // calls were not seen: what they did is known to be complete once the host has waited for all devices

  // ---- under the session's lock
  void stream_made(const trace::StreamCreate& stream);
  void allocated(const trace::Allocate& memory);
  void not_to_be_read(std::uint64_t address); // the allocation: reading it is slow, or worse
  void may_vanish(std::uint64_t address); // it is the program's own memory
  void being_freed(const trace::Allocate& memory);
  void all_gone(); // the memory of a context: on the way into the call

  // An operation is about to read or write the bytes: before its record, and while it has written nothing yet.
  void before(const trace::MemoryRange& range);
  void overwritten(const trace::MemoryRange& range); // likewise, by a call that waits until it is done
  // This thread's call writes there, from here on until the other is called.
  void writes_now(const trace::MemoryRange& range);
  void writes_no_more();
  // A copy that returned at once has been submitted: its record is in the trace.
  void copied(const trace::Copy& copy, std::uint32_t stream, std::uint32_t graph = 0);
  // Submitted; `graph`: by that launch of a graph, whose nodes' order is not followed; 0: by none.
  void device_writes(const trace::MemoryRange& range, std::uint32_t stream, std::uint32_t graph = 0);
  bool reaches_host(std::uint64_t address) const; // memory that host and device reach
  // A copy has been submitted whose source the host can read, if it is the host's: it may bring addresses of such
  // memory, which kernels then find by themselves.
  void brings(const trace::Copy& copy);
  bool leads_to_host(std::uint64_t address) const; // such memory, or where an address of it may lie
  bool kernels_may_find_it() const { return any_kernel_may_ || !leads_there_.empty(); }
  // An operation there that may tell the host something, or wait for it.
  void talks(std::uint32_t stream, std::uint32_t graph = 0);
  void launch_failed(); // what was submitted last was not

  void event_recorded(std::uint32_t event, std::uint32_t stream);
  void stream_waits(std::uint32_t stream, std::uint32_t event, bool for_last_record);
  void before_wait(trace::HostWait::Kind kind, std::uint32_t id); // its way in; or a query succeeded
  void wait_ends(trace::HostWait::Kind kind, std::uint32_t id); // its way out: who waits has not been told yet
  void waited(trace::HostWait::Kind kind, std::uint32_t id); // its record is in the trace

  // ---- not under it
  bool maybe_reaches_host(std::uint64_t address) const { return visible_.maybe(address); }
  bool any_kernel_may() const { return any_kernel_may_.load(std::memory_order_relaxed); } // reach it by itself
  // A launch with these words among its arguments, some of which maybe_reaches_host(), if not any_kernel_may().
  void launched(std::span<const std::uint64_t> words, std::uint32_t stream);
  // Host functions: submitted, or soon; about to run; has returned, or will not run.
  void function_comes(const void* code) {
    ++functions_;
    looks_.comes(code);
  }
  void function_begins();
  // What the host knows once a function runs, behind entries that there were in its stream.
  std::uint64_t entries();
  void told(std::uint32_t stream, std::uint64_t entries);
  void function_over(std::uint64_t function); // its number; 0: it has none
  // One runs of which the trace does not say yet what it comes behind.
  void untold(int more) { untold_ += more; }

  // What host functions write (function_looks.h).
  FunctionLooks& looks() { return looks_; }
  bool stopped() const { return stopped_; }
  // A function was submitted: its number, never 0. Under the session's lock.
  std::uint64_t function_submitted(std::uint32_t stream, std::uint32_t graph, const void* code);
  struct MayWrite { // into page-locked memory, beside a function
    bool anything = false;
    std::vector<std::pair<std::uint32_t, trace::Span>> there; // with their streams; 0: until its call returns
  };
  MayWrite may_write_beside(std::uint64_t function);
  bool keep_memory(std::uint64_t& left_out); // what page-locked memory holds; LockedMemory::keep
  std::vector<trace::Effects::Change> memory_changed(const std::vector<trace::Span>& without); // since
  void forget_memory();
  void function_wrote(const std::vector<trace::Effects::Change>& changes); // that are in the trace

 private:
  struct Reached { // by what comes after the operation; not certain: perhaps
    std::uint32_t id = 0;
    bool certain = true;
  };
  struct Entry { // an operation that the host does not know to be complete
    std::uint64_t sequence = 0;
    std::uint64_t address = 0, bytes = 0; // that it reads or writes, from the first to the last
    bool of_all_streams = false; // it stands for what many have done
    std::uint32_t graph = 0; // of one that writes
    bool function = false; // a host function: it stands for itself, and `writes` nothing that is known
    std::vector<std::uint64_t> behind; // of one that writes: numbers of functions
    bool writes = false; // else it is a copy, of which there is:
    KeptBytes kept;
    std::uint32_t host_stream = 0;
    int looks = 0;
    std::vector<Reached> streams, events;
    bool overlaps(std::uint64_t at, std::uint64_t count) const { return at < address + bytes && address < at + count; }
  };
  struct Stream {
    trace::StreamCreate::Kind kind = trace::StreamCreate::Kind::blocking;
    std::uint32_t device = 0;
  };
  enum class Covers : std::uint8_t { no, perhaps, surely };

  Covers covers(const Entry& entry, trace::HostWait::Kind kind, std::uint32_t id) const;
  // Does what the stream has done come after it? `next`: or rather an operation that is submitted there now.
  Covers reached(const Entry& entry, std::uint32_t stream, bool next) const;
  bool look(const Entry& entry); // true: the entry has served: the host wrote, or the memory is gone
  void wrote(const Entry& entry, std::uint64_t address, std::span<const std::uint8_t> now);
  template <typename Which>
  void look_where(Which&& which); // at copies
  // It was there when this thread's wait began, which surely covers it.
  bool is_over(const Entry& entry, trace::HostWait::Kind kind, std::uint32_t id) const;
  template <typename Which>
  void drop_where(Which&& which);
  void drop(std::uint64_t function);
  void writes(std::uint64_t address, std::uint64_t bytes, std::uint32_t stream, std::uint32_t graph);
  void anything(); // may be going on, anywhere
  Entry& add(std::uint64_t address, std::uint64_t bytes, std::uint32_t stream);
  std::uint32_t device_of(std::uint32_t stream); // takes lock_
  std::uint64_t forget(std::uint64_t address, std::uint64_t bytes); // copies; how many

  Session& session_;
  HostVisible visible_;
  std::atomic<std::size_t> count_{0}; // of entries: without any there is nothing to do
  std::atomic<bool> stopped_{false};
  std::atomic<int> functions_{0}, untold_{0};
  std::atomic<bool> any_kernel_may_{false};
  std::set<std::uint64_t> unread_, registered_; // where allocations begin; under the session's lock
  std::set<std::uint64_t> leads_there_; // likewise: of the device's own, they hold addresses that host and device reach
  FunctionLooks looks_{session_, *this};
  std::mutex lock_; // of what follows
  LockedMemory memory_;
  std::unordered_map<std::uint32_t, trace::Span> now_; // by host thread: what its call writes
  std::vector<Entry> entries_;
  std::vector<std::vector<std::uint8_t>> rooms_; // to be used again
  std::uint64_t kept_ = 0, next_ = 1; // bytes; the next entry's number
  std::unordered_map<std::uint32_t, Stream> streams_;
  bool several_devices_ = false; // have streams, perhaps
  std::unordered_map<std::uint32_t, std::uint64_t> begun_; // by host thread: the entries that its wait may cover
  std::uint64_t in_part_ = 0, slow_ = 0, uncertain_ = 0, too_many_ = 0; // copies
};

} // namespace deadheat::cupti
