// The state of a traced process: its numbers for streams, events and memory, and the way into the trace.
//
// There is one Session, made when the driver is initialised (CUDA_INJECTION64_PATH) and never destroyed: threads may
// call into it until the process is gone.
//
// Thread-safety: members that say so take `lock`; the tables are used under it. Of the driver only questions about a
// context, a stream or a pointer are asked while it is held, nothing that waits for the device. Nothing here throws out
// of the library: callbacks catch all.
#pragma once

#include <cuda.h>
#include <time.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "deadheat/options.h"
#include "deadheat/trace.h"
#include "tracer/cupti/arrays.h"
#include "tracer/cupti/graph.h"
#include "tracer/cupti/hot.h"
#include "tracer/cupti/journal.h"
#include "tracer/cupti/shared_events.h"
#include "tracer/cupti/stream_values.h"
#include "tracer/cupti/thread.h"
#include "tracer/device_log/tensor_map.h"
#include "tracer/device_log/texture_objects.h"
#include "tracer/recorder/writer.h"

namespace deadheat::cupti {

void say(const std::string& line); // "deadheat: line" on standard error, in one write
void say_once(const std::string& line); // each line once

class Modules;
class Activity;
class Recorder;
class Window;
class HostWrites;
struct Kernel;

class Session {
 public:
  static Session* get() { return hot.session.load(std::memory_order_acquire); } // null while nothing is recorded
  static bool start(); // reads DEADHEAT_OPTIONS, opens the trace, subscribes; says why not
  void finish(int status, bool clean) noexcept; // writes what is left; the second call does nothing
  // The process ends at once, wherever this thread stands: the recorder's thread finishes the trace. Returns when it
  // has, or makes no headway for some seconds: then this thread, or one that is no more, holds what it needs.
  void leave(int status) noexcept;
  // The process calls its exit handlers: likewise, but for more patience. A handler of a signal may have called exit,
  // in the middle of what this thread was doing here, and other threads may be in the driver for ever.
  void exits(int status) noexcept;
  // Whether the thread that writes has got any further since this was asked last. Async-signal-safe.
  class Headway {
   public:
    explicit Headway(const Session& session) : session_(session) {}
    bool made();

   private:
    const Session& session_;
    timespec worked_{};
    std::uint32_t asked_ = 0;
  };
  void works_here() noexcept; // the calling thread is the one that would

  const TracerOptions& options() const { return options_; }
  trace::TraceWriter& writer() { return *writer_; }
  Journal& journal() { return journal_; }
  Modules& modules() { return *modules_; }
  Recorder& recorder() { return *recorder_; }
  Activity* activity() { return activity_.get(); } // null: nobody asked for timestamps
  Window* window() { return window_.get(); } // null: no run of it is to be repeated
  // Memory of the device that the library could do without, in bytes; and giving it to a job that needs it: true where
  // there is more room now. Under no lock.
  std::uint64_t spare_memory(CUcontext context);
  bool give_back_memory(CUcontext context);
  HostWrites* host_writes() { return host_writes_.get(); } // null: nobody asked

  std::recursive_mutex lock;

  // ---- devices and contexts
  // Its number; writes its record the first time. null: of the current context. Takes no lock.
  std::uint32_t device_of(CUcontext context);

  // ---- streams and events, under lock
  std::uint32_t stream(CUcontext context, CUstream handle, bool per_thread_default);
  // The same, without the lock: it is taken where the thread asked for another stream before.
  std::uint32_t stream_again(CUcontext context, CUstream handle, bool per_thread_default) {
    const bool shared = handle != CU_STREAM_PER_THREAD && (handle || !per_thread_default);
    if (shared && stream_key(context, handle) == here.stream_key &&
        here.stream_changes == stream_changes_.load(std::memory_order_acquire)) [[likely]] {
      return here.stream;
    }
    return another_stream(context, handle, per_thread_default, shared);
  }
  std::uint32_t created(std::uint32_t device, CUstream handle, trace::StreamCreate::Kind kind, int priority,
                        const std::string& library = {});
  void destroyed(CUstream handle);
  std::vector<CUstream> known_streams(); // takes the lock itself
  void context_gone(const std::vector<CUstream>& its); // it was destroyed: its handle, and its streams', may come again
  std::uint32_t own_stream(std::uint32_t device); // a new one, which the program has not: it waits for no other
  std::uint32_t host_stream(std::uint32_t device); // of what the host itself does
  std::uint32_t event(CUevent handle);
  void forget(CUevent handle);
  std::uint32_t recorded(std::uint32_t event) const; // the operation of its last record; 0: none
  std::uint32_t recorded_on(std::uint32_t event) const; // the stream of that
  bool known(CUstream handle) const; // it is alive, or the legacy default stream
  // Of a stream that lives and that any thread can name, in its context. False: it is none.
  bool handle_of(std::uint32_t stream, CUstream& handle) const;

  // ---- memory, under lock
  void allocated(trace::Allocate::Kind kind, std::uint64_t address, std::uint64_t bytes, std::uint64_t host_address,
                 std::uint32_t operation = 0, std::string name = {});
  // The live allocation that holds the address; null if there is none.
  const trace::Allocate* allocation_at(std::uint64_t address) const;
  const std::map<std::uint64_t, trace::Allocate>& allocations() const { return live_; }
  // By that operation; 0: at once. Nothing if no allocation begins there.
  void freed(std::uint64_t address, std::uint32_t operation = 0);
  // Around a call that frees memory. On its way in, what begins there is taken out of the tables: another thread may be
  // given the same address before the call has returned, and then it has been freed. On its way out it is freed, or it
  // is back where the call failed. `stream`: by an operation in it; 0: at once.
  void being_freed(std::uint64_t address, std::uint32_t stream = 0);
  void being_freed_by_host(std::uint64_t address, std::uint32_t device); // a pool's memory, in no stream's order
  void end_of_free(std::uint64_t address, std::uint64_t bytes, bool done); // all that begins there, of this thread's
  void freed_in_stream(std::uint64_t address, std::uint32_t stream);
  void freed_symbols(const std::vector<std::uint32_t>& allocations); // with their module
  // Where all allocations lie that there ever were: from, up to. Without the lock.
  std::pair<std::uint64_t, std::uint64_t> extent() const {
    return {least_address_.load(std::memory_order_relaxed), most_address_.load(std::memory_order_relaxed)};
  }
  // The first allocation that begins at or after `address`: for walking over ranges. null: none
  const trace::Allocate* next_allocation(std::uint64_t address) const;

  // ---- operations, under lock
  // Appends the operation, and its execution at once; `launch`: what its accesses come from. Returns its id.
  std::uint32_t submit(trace::Operation operation, std::shared_ptr<Awaited> launch = nullptr);
  // A host function's, which begins and ends when it runs (function_run.h), where what it writes is looked for.
  std::uint32_t submit_function(trace::Operation operation);
  // Its operation's, and its own if it has none: before it is pushed. Under lock where there are timestamps.
  void number(Journal::LaunchFacts& launch) {
    launch.operation = next_operation();
    launch.host_thread = host_thread();
    if (!launch.launch) launch.launch = next_launch();
    if (activity_) [[unlikely]]
      timed(launch);
  }
  void number(Journal::MemorySet& set) {
    set.operation = next_operation();
    set.host_thread = host_thread();
    if (activity_) [[unlikely]]
      timed(set);
  }
  std::uint32_t next_allocation() { return next_allocation_++; }
  std::uint32_t next_operation() { return next_operation_++; }
  std::uint32_t next_launch() { return next_launch_++; }
  std::uint32_t next_graph_launch() { return next_graph_launch_++; }
  void record_event(std::uint32_t event, std::uint32_t stream);
  void event_recorded(std::uint32_t event, std::uint32_t stream, std::uint32_t operation); // which was submitted last
  void wait_event(std::uint32_t stream, std::uint32_t event); // its last record, and what other processes may have
  void wait_event(std::uint32_t stream, std::uint32_t event, std::uint32_t record); // for that record of it
  void host_waited(trace::HostWait::Kind kind, std::uint32_t id, bool query = false);

  void share(std::uint32_t event); // with other processes
  const SharedEvents& shared_events() const { return shared_events_; }
  StreamValues values; // that streams wrote into memory
  // Words in memory are events by their address, which no event's handle has.
  static CUevent event_at(CUdeviceptr address) { return reinterpret_cast<CUevent>(address); }
  std::unordered_map<CUgraphExec, Executable> executables; // instantiated graphs
  GraphNode* node_of(CUgraphExec executable, CUgraphNode handle); // null: not known
  std::uint32_t next_graph = 1;
  // Bodies of conditions.
  void has_body(CUgraphNode condition, CUgraph body);
  void no_condition(CUgraphNode node); // it is gone
  std::vector<CUgraph> bodies_of(CUgraphNode condition); // empty: they are not known
  device_log::TensorMaps tensor_maps; // locks for itself
  Arrays arrays;
  device_log::TextureObjects textures;
  std::atomic<int>& captures() { return captures_; } // captures that are under way: streams are asked only then

  void incident(const std::string& kind, const std::string& text, std::uint64_t times = 1); // said once in the trace
  // What happens from here on is not recorded: nobody writes it down.
  void cut_off(const std::string& why);
  void call_not_recorded() noexcept; // there was no memory, most likely: what it did is not in the trace
  std::uint32_t host_thread() {
    return here.number ? here.number : first_host_thread();
  } // number of the calling thread

  explicit Session(TracerOptions options);
  ~Session();

 private:
  Expected<void> open();
  std::uint32_t noted(CUdevice device); // its number; writes its record the first time
  // The default stream is the context's: no stream has its address.
  static const void* stream_key(CUcontext context, CUstream handle) {
    return handle && handle != CU_STREAM_LEGACY ? static_cast<const void*>(handle) : context;
  }
  std::uint32_t another_stream(CUcontext context, CUstream handle, bool per_thread_default, bool shared);
  std::uint32_t first_host_thread();
  void stream_made(const trace::StreamCreate& stream);
  void timed(const Journal::LaunchFacts& launch);
  void timed(const Journal::MemorySet& set);
  void finish_once(int status, bool clean) noexcept;
  void finish_elsewhere(int status, int most_idle) noexcept; // milliseconds without headway
  bool did_nothing(); // the program submitted no operation
  bool others_in_trace() const; // other processes' logs lie in the trace's directory
  void write_incidents();

  TracerOptions options_;
  std::unique_ptr<trace::TraceWriter> writer_;
  Journal journal_;
  std::unique_ptr<Modules> modules_;
  std::unique_ptr<Recorder> recorder_;
  std::atomic<bool> finished_{false}, ended_{false}; // finish() has begun, has returned
  std::atomic<int> finishing_{0}; // the thread that is in it
  std::atomic<clockid_t> headway_{CLOCK_PROCESS_CPUTIME_ID}; // time of the thread that finishes, or will
  std::atomic<bool> said_error_{false}; // that the trace cannot be written
  std::atomic<bool> said_cut_off_{false}, cut_off_{false};
  int process_ = 0; // pid: a child of vfork that leaves is nothing to us

  // What every launch needs lies together, in one line of memory.
  alignas(64) std::atomic<std::uint32_t> next_operation_{1};
  std::atomic<std::uint32_t> next_launch_{1};
  std::atomic<std::uint32_t> stream_changes_{1}; // handles that came or went
  std::atomic<int> captures_{0};
  std::unique_ptr<Window> window_;
  std::unique_ptr<Activity> activity_;
  std::unique_ptr<HostWrites> host_writes_;
  std::atomic<std::uint64_t> least_address_{~std::uint64_t(0)}, most_address_{0}; // of allocations
  std::uint32_t next_stream_ = 2, next_event_ = 1, next_allocation_ = 1, next_graph_launch_ = 1;
  CUcontext last_context_ = nullptr; // whose default stream was asked for last
  std::uint32_t last_default_ = 0;
  std::uint32_t last_stream_ = 0; // of last_handle_; 0: none
  CUstream last_handle_ = nullptr; // of streams_ the one that was asked for last
  std::map<int, bool> devices_;
  std::unordered_map<CUstream, std::uint32_t> streams_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> default_streams_; // (device, thread or 0) → id
  std::map<std::uint32_t, std::uint32_t> host_streams_; // by device: of what the host itself does; of own_stream()
  std::unordered_map<CUevent, std::uint32_t> events_;
  std::unordered_map<CUgraphNode, std::vector<CUgraph>> conditions_; // by their nodes
  struct EventRecord {
    std::uint32_t operation = 0, stream = 0;
  };
  std::unordered_map<std::uint32_t, EventRecord> event_records_;
  SharedEvents shared_events_;
  std::map<std::uint64_t, trace::Allocate> live_;
  struct Going { // memory that a call frees
    trace::Allocate memory;
    std::uint32_t stream = 0, host_thread = 0;
    bool by_host = false;
  };
  std::map<std::uint64_t, Going> going_;
  void is_freed(const Going& going);
  void forget_values(const trace::Allocate& memory);
  struct Count {
    std::string text;
    std::uint64_t count = 0;
  };
  std::map<std::string, Count> incidents_; // by kind and text
};

} // namespace deadheat::cupti
