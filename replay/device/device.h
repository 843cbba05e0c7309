// The embedded device: memory, streams and execution behind one interface that speaks trace records.
//
// Two users drive it the same way. The embedded runtime (our libcudart) turns API calls into commands; replay reads
// the same commands from a trace. Every command that succeeds is written to the sink, so what a recording holds is
// what a replay feeds back.
//
// Time: submit() only queues. The device advances inside wait() and query() and, by a seeded amount, inside other
// commands; never on its own. An operation is ready when the operations that analyzer/order/StreamOrder names for it
// are complete; among ready operations, and among the threads of running launches, the schedule chooses
// (include/deadheat/schedule.h). Running launches of different streams may be interleaved, so that a kernel that
// spins on another gets its answer.
//
// Host memory: in a live process copies read and write the host's memory when CUDA would (a pageable source when the
// copy is submitted, a pinned one when it runs). In a replay there is no host: sources come with the commands, and
// what the host would have received goes to the sink as HostRead only.
//
// Thread-safety: none; the embedded runtime serializes its host threads with one lock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "deadheat/expected.h"
#include "deadheat/profile.h"
#include "deadheat/schedule.h"
#include "deadheat/trace.h"
#include "replay/device/chooser.h"
#include "replay/device/heap_use.h"
#include "replay/device/host_function.h"
#include "replay/device/performed.h"
#include "replay/device/sink.h"
#include "replay/engine/compiler.h"

namespace deadheat::engine {
class Shadows;
}

namespace deadheat::device {

// Loaded modules and their code, shared by devices that load the same PTX at the same addresses (replays of a trace).
// Thread-safety: none; devices that share one run on one host thread at a time.
struct ModuleCache;
std::shared_ptr<ModuleCache> make_module_cache(
    std::unique_ptr<engine::Compiler> compiler = nullptr); // null: the engine's

struct DeviceOptions {
  std::uint64_t seed = 0;
  Profile profile;
  bool live = true;              // a host process is behind it: copies touch host memory
  bool unwritten = false;    // follow bytes that nobody wrote, where accesses are recorded and checked
  bool check = true;             // addresses are checked
  bool record_accesses = true;   // default for launches; record_launch refines it
  std::function<bool(const std::string& kernel, std::uint32_t launch)> record_launch;
  Sink* sink = nullptr;          // may be null; outlives the device
  Schedule schedule;             // natural unless replaying
  std::shared_ptr<ModuleCache> modules; // compiled code kept between the devices of a process; null: this one's own
  std::uint64_t budget = 0;      // visible operations after which the run counts as hanging; 0: none
  unsigned cores = 0;            // to run independent blocks on where nobody watches; 0: all. Nothing depends on it
  std::uint64_t spread_after = 200; // microseconds that a launch runs on one core first
  engine::Shadows* shadows =
      nullptr; // launches carry a double beside every float (Mode::precision); outlives the device
  std::vector<Performed>* performed = nullptr; // gets the visible operations of a replay; outlives the device
  std::size_t most_performed = std::size_t(1) << 22;
  Chooser* chooser = nullptr;    // drives a replay whose schedule is of kind switches; outlives the device
  std::set<std::uint32_t> end_later; // of a replay: host functions that end where an OperationEnd says so, not at once
  std::uint64_t garbage = 0; // chooses what memory holds that nobody wrote, besides the seed
};

// What became of a drive of the device.
enum class Progress : std::uint8_t {
  done, // what was waited for is complete
  pending, // not yet: a query, or nothing can go on while a host function runs
  fault, // a kernel trapped, failed an assertion or touched bad memory: sticky
  hang // nothing can go on: deadlock, or the budget is used up
};

struct ChoiceSummary { // what a run chose, for verdicts
  std::uint64_t visible = 0; // visible operations performed under control
  std::uint64_t switches = 0;
  std::uint64_t spread = 0; // launches of which blocks ran on several cores
  std::uint64_t interleaved = 0; // of those, whose groups of blocks touch elements between each other's
  std::uint64_t dependent = 0; // and that did not, because their blocks may depend on each other
  bool held_performed = false; // holds: every held access waited for its `until`
  std::vector<std::uint8_t> hold_state; // a hold each: 0 neither reached, 1 until only, 2 held only, 3 in the order
                                        // asked, 4 released because nothing else could go on (not drivable)
  // Holds: an access was shown bytes from before a write that had been performed (weak memory).
  bool old_shown = false;
  // Holds: a held access and its `until` touched other bytes than each other's, as where a thread that waits keeps
  // another from finding what it would have written.
  bool held_apart = false;
  // Holds: what the first one's `until` wrote, where that is in place and the held access reads.
  Written until_wrote;
};

// Gives the bytes of a blob of the trace that is being replayed.
using BlobReader = std::function<Expected<std::vector<std::uint8_t>>(const trace::BlobHash&)>;

class Device {
 public:
  virtual ~Device() = default;
  static Expected<std::unique_ptr<Device>> create(DeviceOptions options);

  // ---- modules. The id is given when replaying (0: next). Symbols are allocated and initialised, records written.
  virtual Expected<std::uint32_t> load_module(std::string ptx_text, std::string origin, std::uint32_t id = 0) = 0;
  virtual engine::LoadedModule* module(std::uint32_t id) = 0;
  virtual std::uint64_t symbol_address(std::uint32_t module, std::string_view name,
                                       std::uint64_t* bytes) = 0; // 0: none

  // ---- memory. `at`: the record of the allocation to repeat, when replaying.
  virtual Expected<trace::Allocate> allocate(trace::Allocate::Kind kind, std::uint64_t bytes, std::uint32_t host_thread,
                                             std::uint32_t stream = 0, const trace::Allocate* at = nullptr) = 0;
  // A place for memory that operations of streams allocate and free any number of times (PoolOperation): of kind pool,
  // with no operation of its own. release() gives it back.
  virtual Expected<trace::Allocate> reserve(std::uint64_t bytes, std::uint32_t host_thread) = 0;
  // Memory for conditions of graphs (deadheat/conditions.h), zeroed.
  virtual Expected<trace::Allocate> place_conditions(std::uint64_t bytes) = 0;
  // The pinned allocation at `address` stands for host memory that the program registered, until its release. Live
  // only.
  virtual void mirror(std::uint64_t address, void* host) = 0;
  // cudaFree and friends, whose callers have waited for the device. With a stream: stream-ordered (cudaFreeAsync).
  virtual Expected<void> release(std::uint64_t address, std::uint32_t host_thread, std::uint32_t stream = 0) = 0;
  // cudaFree of a pool's memory: an operation of the host itself, which it waits for. Returns its id.
  virtual Expected<std::uint32_t> release_by_host(std::uint64_t address, std::uint32_t host_thread) = 0;
  virtual const trace::Allocate* find_allocation(std::uint64_t address) const = 0; // live, that holds address
  virtual const trace::Allocate* find_freed(std::uint64_t address) const = 0; // freed last, that held address
  virtual std::uint64_t bytes_in_use() const = 0;
  virtual bool set_heap_bytes(std::uint64_t bytes) = 0; // of malloc in kernels; false: kernels have used it already

  // ---- streams and events
  virtual std::uint32_t create_stream(trace::StreamCreate::Kind kind, std::int32_t priority,
                                      std::uint32_t host_thread) = 0;
  virtual void destroy_stream(std::uint32_t stream, std::uint32_t host_thread) = 0;
  virtual std::uint32_t create_event() = 0;
  virtual void record_event(std::uint32_t event, std::uint32_t stream, std::uint32_t host_thread) = 0;
  // The same by an operation that was submitted: a graph's node.
  virtual void event_recorded(std::uint32_t event, std::uint32_t stream, std::uint32_t operation,
                              std::uint32_t host_thread) = 0;
  virtual std::uint32_t event_operation(std::uint32_t event) const = 0; // of its last record; 0: none
  virtual void stream_wait(std::uint32_t stream, std::uint32_t event, std::uint32_t host_thread) = 0;

  // ---- operations. `operation.what` and stream, host_thread, graph fields are given; ids are assigned unless nonzero.
  // For live copies the host addresses in the ranges are used. Returns the operation id.
  virtual Expected<std::uint32_t> submit(trace::Operation operation) = 0;
  // A host callback's function, for the HostCallback submitted next (live only).
  virtual void next_callback(HostFunction function) = 0;
  virtual std::uint32_t begin_graph(std::uint32_t graph, std::uint32_t stream, std::uint32_t host_thread) = 0;
  virtual void end_graph(std::uint32_t graph_launch) = 0;

  // ---- the host waits (runs the device until done) or asks (runs it a seeded amount).
  // A host thread begins to wait: its next wait() of that kind and id is for what there is now.
  virtual void begin_wait(const trace::HostWaitBegin& begin) = 0;
  // The call that submits the next operation waits for it.
  virtual void next_is_waited_for() = 0;
  virtual Progress wait(const trace::HostWait& wait) = 0;
  virtual Progress query(const trace::HostWait& wait) = 0;
  virtual Progress wait_operation(std::uint32_t operation, std::uint32_t host_thread) = 0;
  // Progress for hosts that poll without calling us. True: memory that they share with the device changed, and they
  // count as having waited for the complete operations that may have done that.
  virtual bool advance(std::uint64_t visible_operations) = 0;
  // Completes an operation, and nobody is told: what happened to be so, of what need not be.
  virtual Progress run_until(std::uint32_t operation) = 0;
  // Completes everything that is queued: the end of the process.
  virtual Progress drain() = 0;
  // Where threads spin and nobody goes on, a host thread may help: that is a hang, and nobody who waits for others in
  // vain is made to go on. From now on; else that is done first.
  virtual void others_may_help(bool may) = 0;

  // Applies a command record of a trace (replay): everything above by way of its record. Records that are not
  // commands are ignored.
  virtual Expected<Progress> apply(const trace::Record& record, const BlobReader& blob) = 0;

  // ---- state
  virtual const std::optional<trace::MemoryError>& fault() const = 0;
  virtual std::string stuck_description() const = 0; // of a hang: who waits for what, one line
  virtual RunningCode running() const = 0; // may be asked by any host thread at any time
  virtual void report_hang() = 0; // writes a SyncError for each launch that can never end
  virtual const ChoiceSummary& choices() const = 0;
  virtual std::vector<Switch> switches() const = 0; // departures from the default order that this run made
  virtual const std::vector<OldRead>& old_reads() const = 0; // reads of this run that returned old values
  virtual const Profile& profile() const = 0;
  // Bytes of device memory for comparison and tests; nullptr when [address, address+bytes) is not allocated.
  virtual const std::uint8_t* peek(std::uint64_t address, std::uint64_t bytes) const = 0;
  virtual std::vector<trace::Allocate> live_allocations() const = 0;
  virtual std::vector<HeapUse> heap_in_use() const = 0; // what kernels took by malloc, and did not free
};

} // namespace deadheat::device
