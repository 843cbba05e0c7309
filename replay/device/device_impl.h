// The embedded device behind device.h: what its parts share. device.cpp holds modules, memory, streams; operations.cpp
// what operations do; drive.cpp who runs next; replay_apply.cpp commands from a trace.
//
// Invariants: incomplete_ holds every submitted operation that is not complete, by id, which is the order of
// submission; an operation's dependencies have smaller ids. Running launches are among them.
//
// Thread-safety: none (device.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analyzer/order/stream_order.h"
#include "replay/device/control.h"
#include "replay/device/deliveries.h"
#include "replay/device/device.h"
#include "replay/device/holds.h"
#include "replay/device/host_memory.h"
#include "replay/device/machine.h"
#include "replay/device/memory.h"
#include "replay/device/module_cache.h"
#include "replay/device/other_threads.h"
#include "replay/device/signals.h"
#include "replay/device/watch.h"

namespace deadheat::device {

inline constexpr std::uint64_t default_heap_bytes = std::uint64_t(8) << 20; // cudaLimitMallocHeapSize's default
inline constexpr const char* heap_name = "device malloc heap";      // of the allocation it lies in

class Standstill;

class DeviceImpl final : public Device, public Environment {
 public:
  static constexpr std::uint64_t workspace_bytes = 512, workspace_slots = 64; // of cooperative launches

  DeviceImpl(DeviceOptions options, std::unique_ptr<Memory> memory, std::uint64_t workspaces);
  ~DeviceImpl() override;

  Expected<std::uint32_t> load_module(std::string ptx_text, std::string origin, std::uint32_t id) override;
  engine::LoadedModule* module(std::uint32_t id) override;
  std::uint64_t symbol_address(std::uint32_t module, std::string_view name, std::uint64_t* bytes) override;
  Expected<trace::Allocate> allocate(trace::Allocate::Kind kind, std::uint64_t bytes, std::uint32_t host_thread,
                                     std::uint32_t stream, const trace::Allocate* at) override;
  Expected<trace::Allocate> reserve(std::uint64_t bytes, std::uint32_t host_thread) override;
  Expected<trace::Allocate> place_conditions(std::uint64_t bytes) override;
  void mirror(std::uint64_t address, void* host) override;
  Expected<void> release(std::uint64_t address, std::uint32_t host_thread, std::uint32_t stream) override;
  Expected<std::uint32_t> release_by_host(std::uint64_t address, std::uint32_t host_thread) override;
  std::uint32_t host_stream();
  const trace::Allocate* find_allocation(std::uint64_t address) const override;
  const trace::Allocate* find_freed(std::uint64_t address) const override;
  std::uint64_t bytes_in_use() const override { return memory_->in_use(); }
  bool set_heap_bytes(std::uint64_t bytes) override;
  std::uint32_t create_stream(trace::StreamCreate::Kind kind, std::int32_t priority,
                              std::uint32_t host_thread) override;
  void destroy_stream(std::uint32_t stream, std::uint32_t host_thread) override;
  std::uint32_t create_event() override { return next_event_++; }
  void record_event(std::uint32_t event, std::uint32_t stream, std::uint32_t host_thread) override;
  void event_recorded(std::uint32_t event, std::uint32_t stream, std::uint32_t operation,
                      std::uint32_t host_thread) override;
  std::uint32_t event_operation(std::uint32_t event) const override { return order_.event_operation(event); }
  void stream_wait(std::uint32_t stream, std::uint32_t event, std::uint32_t host_thread) override;
  Expected<std::uint32_t> submit(trace::Operation operation) override;
  void next_callback(HostFunction function) override { next_callback_ = std::move(function); }
  std::uint32_t begin_graph(std::uint32_t graph, std::uint32_t stream, std::uint32_t host_thread) override;
  void end_graph(std::uint32_t graph_launch) override;
  void begin_wait(const trace::HostWaitBegin& begin) override;
  void next_is_waited_for() override { next_is_waited_for_ = true; }
  Progress wait(const trace::HostWait& wait) override;
  Progress query(const trace::HostWait& wait) override;
  Progress wait_operation(std::uint32_t operation, std::uint32_t host_thread) override;
  bool advance(std::uint64_t visible_operations) override;
  Progress run_until(std::uint32_t operation) override { return drive({operation}, 0); }
  Progress drain() override;
  void others_may_help(bool may) override { others_may_help_ = may; }
  Expected<Progress> apply(const trace::Record& record, const BlobReader& blob) override;
  const std::optional<trace::MemoryError>& fault() const override { return fault_; }
  std::string stuck_description() const override { return stuck_; }
  RunningCode running() const override { return machine_->running(); }
  void report_hang() override { machine_->report_hang(); }
  std::vector<HeapUse> heap_in_use() const override { return machine_->heap_in_use(); }
  const ChoiceSummary& choices() const override;
  std::vector<Switch> switches() const override;
  const std::vector<OldRead>& old_reads() const override;
  const Profile& profile() const override { return options_.profile; }
  const std::uint8_t* peek(std::uint64_t address, std::uint64_t bytes) const override;
  std::vector<trace::Allocate> live_allocations() const override;

  // Environment
  bool legal(std::uint64_t address, std::uint64_t bytes) override;
  std::uint64_t changes() const override { return memory_->changes(); }
  std::uint32_t nearest_allocation(std::uint64_t address, bool* freed) override;
  void printed(std::string_view text) override { printed_ += text; }
  std::uint64_t heap(std::uint64_t* bytes) override;
  void heap_valid(std::uint64_t address, std::uint64_t bytes, bool valid) override;
  bool tracks_written() override { return memory_->tracks_written(); }

 private:
  struct Symbol {
    std::uint64_t address = 0, bytes = 0;
    std::uint32_t allocation = 0;
  };
  struct LoadedState {
    std::string text, origin;
    std::shared_ptr<CachedModule> code;
    std::map<std::string, Symbol, std::less<>> symbols; // bound so far
    std::size_t expected = 0;                           // symbols that it has
    bool initialised = false;
  };
  struct Pending { // an operation that is not complete
    trace::Operation operation;
    std::uint32_t primary = 0;        // launch that must have let its dependents begin; 0: none
    std::vector<std::uint32_t> after;
    std::vector<std::uint8_t> data;    // host bytes of a copy, arguments of a launch
    bool has_data = false;
    HostFunction callback;
    Launch* launch = nullptr;          // when it runs
    bool called = false;               // a host callback that has begun
    std::vector<std::uint64_t> shared; // addresses of memory that host and device share: a launch's arguments, or
                                       // where a copy or set begins to write
  };
  using PendingMap = std::map<std::uint32_t, Pending>;

  void say(const trace::Record& record) {
    if (options_.sink) options_.sink->record(record);
  }
  trace::Bytes keep(const void* data, std::uint64_t size);

  // device.cpp
  static bool has_storage(const ptx::Variable& variable);
  Expected<void> bind_symbols(std::uint32_t id, LoadedState& module);
  Expected<void> initialise(LoadedState& module);
  Expected<std::uint32_t> load(std::string ptx_text, std::string origin, std::uint32_t id, bool bind);
  // `at_host`: the recorded place, or 0. `now`: fresh and valid at once, not when its operation runs. `stream`: whose
  // order a pool allocation follows.
  Expected<trace::Allocate> make_allocation(trace::Allocate record, std::uint64_t at_host, bool now,
                                            std::uint32_t stream = 0);
  // Stream-ordered memory becomes valid when its operation runs.
  static bool valid_at_once(const trace::Allocate& record) { return record.kind != trace::Allocate::Kind::pool; }
  void drop_allocation(std::uint64_t address);
  Expected<void> release_at_once(std::uint64_t address, std::uint32_t host_thread);
  Expected<void> release_in_stream(std::uint64_t address, std::uint32_t host_thread, std::uint32_t stream,
                                   std::uint32_t operation);
  bool ordered_before(std::uint32_t operation, const std::vector<std::uint32_t>& tail) const;

  // operations.cpp
  Expected<void> check(const trace::Operation& operation) const;
  Expected<void> check_launch(const trace::Launch& launch) const;
  Expected<void> check_range(const trace::MemoryRange& range, bool host_side) const;
  Expected<std::uint32_t> submit_with(trace::Operation operation, std::vector<std::uint8_t> data, bool has_data);
  engine::Mode mode_of(const trace::Operation& operation) const;
  bool begin(Pending& pending); // false: it failed, and fault_ is set
  bool begin_launch(Pending& pending);
  std::uint64_t grid_workspace(std::uint32_t launch);
  void run_copy(Pending& pending);
  void mark_copied(const trace::Copy& copy, bool from_device);
  void deliver(Pending& pending);
  void check_written(const trace::Operation& operation);
  void run_set(const trace::Set& set, std::uint32_t operation);
  void run_effects(std::uint32_t operation);
  void run_pool(const trace::PoolOperation& pool, std::uint32_t operation);
  bool touchable(std::uint64_t address, std::uint64_t bytes, AccessKind access);
  void complete(std::uint32_t operation);

  // drive.cpp
  bool is_done(std::uint32_t operation) const { return !incomplete_.count(operation); }
  bool is_ready(Pending& pending);
  bool describe(std::uint32_t operation, NextAccess& next); // Control::Describe
  bool runs_alone(std::uint32_t operation);
  Progress drive(const std::vector<std::uint32_t>& until, std::uint64_t turns);
  Progress drive_until(const std::function<bool()>& done, std::uint64_t turns);
  Progress drive_natural(const std::function<bool()>& done, std::uint64_t turns);
  Progress drive_chosen(const std::function<bool()>& done, std::uint64_t turns);
  bool advance_operation(std::uint32_t id, std::uint64_t& turns, bool limited);
  bool advance_wanted(std::uint64_t& turns, bool limited);
  bool stands_still(Standstill& standstill);
  bool force(bool spins);
  Progress stop_for_fault();
  Progress hang(std::string why);
  Progress stuck();
  std::string describe_stuck() const;
  void device_looks(); // an operation begins: what did the host change since drive() looked
  void expect_device_writes(); // from here on what changes may be the device's doing
  bool is_looked_at() const { return options_.live && options_.sink && !host_memory_.empty(); }
  void host_looks(); // the host has waited: what did the device change, what did it print
  Progress finish_wait(trace::HostWait wait, Progress progress, const std::vector<std::uint32_t>& until);
  Progress wait_since_begin(trace::HostWait wait, std::vector<std::uint32_t>& until); // until: what it waited for
  // host_writes.cpp
  // What the host has changed since the device last looked: in the allocation that holds `at`, or anywhere (0).
  void note_host_writes(std::uint64_t at);
  void host_wrote(std::uint64_t address, const std::uint8_t* data, std::uint64_t bytes);
  const trace::Copy* unordered_reader(std::uint64_t address, std::uint64_t end) const;
  void note_read(const Pending& pending); // it is complete
  void forget_read(const trace::HostWait& wait);
  static std::vector<std::uint64_t> shared_addresses(const std::vector<std::uint8_t>& arguments);
  bool may_wait_for_host(std::uint32_t operation) const;
  void look_before(const trace::Copy& copy);

  // host_functions.cpp
  bool looks_at_host_functions() const;
  bool run_on_host(Pending& pending); // false: the device has failed meanwhile
  void learn_of(const HostFunction& function, bool runs_on, bool alone, bool wrote);
  bool host_function_wrote(std::uint32_t operation);
  bool end_host_function(); // one that ran on and is over; false: there is none
  Progress replay_function_wait(const trace::HostWait& wait);
  Progress replay_function_end(std::uint32_t operation);
  void uses_shared_memory(const trace::Operation& operation);
  bool may_meet(const trace::Operation& function) const;
  std::vector<std::uint32_t> functions_to_begin() const;
  Progress begin_host_functions();
  void shared_memory_waited_for(const trace::HostWait& wait);

  // replay_apply.cpp
  Expected<Progress> apply_module(const trace::Module& record, const BlobReader& blob);
  Expected<Progress> apply_allocate(const trace::Allocate& record);
  Expected<Progress> apply_symbol(const trace::Symbol& record);
  Expected<Progress> apply_free(const trace::Free& record);
  Expected<Progress> apply_operation(trace::Operation operation, const BlobReader& blob);
  Expected<Progress> apply_effects(const trace::Effects& record, const BlobReader& blob);
  Expected<Progress> apply_host_write(const trace::HostWrite& record, const BlobReader& blob);

  DeviceOptions options_;
  std::unique_ptr<Memory> memory_;
  std::uint64_t workspaces_ = 0; // host address, of cooperative launches
  order::StreamOrder order_;
  std::optional<Holds> holds_;
  std::optional<Control> control_;
  std::optional<Watch> watch_;
  std::unique_ptr<Machine> machine_;
  HostMemory host_memory_;
  HostMirrors mirrors_; // of a live process only
  Deliveries deliveries_{[this](auto operation, auto source, const auto& bytes) {
    say(trace::HostRead{operation, source, keep(bytes.data(), bytes.size())});
  }};
  std::map<std::uint32_t, trace::Operation> read_; // complete copies of shared memory that the host has not waited for
  std::map<std::uint32_t, std::uint32_t> event_streams_; // where an event was recorded last
  std::optional<OtherThreads> others_; // since the device began to do something in this drive

  std::map<std::uint32_t, LoadedState> modules_;
  std::map<std::uint64_t, trace::Allocate> allocations_; // live from the host's point of view, by address
  std::map<std::uint32_t, trace::Allocate> by_id_; // all that the device may still have to deal with
  std::map<std::uint64_t, trace::Allocate> freed_; // the last one at an address, for error messages
  PendingMap incomplete_;
  struct Change {
    std::uint64_t address = 0;
    std::vector<std::uint8_t> bytes;
  };
  // Launches that are not executed: what they changed when they were recorded, by operation.
  std::map<std::uint32_t, std::vector<Change>> effects_;
  std::set<std::uint32_t> recorded_as_done_; // of a replay: ended so far in the recorded run
  std::uint32_t next_module_ = 1, next_allocation_ = 1, next_stream_ = 2, next_event_ = 1, next_operation_ = 1,
                next_launch_ = 1, next_graph_ = 1;
  HostFunction next_callback_;
  bool next_is_waited_for_ = false;
  struct BegunWait {
    trace::HostWait wait;
    std::vector<std::uint32_t> until;
  };
  std::map<std::uint32_t, BegunWait> begun_waits_; // by host thread
  std::uint64_t heap_ = 0, heap_bytes_ = default_heap_bytes;
  std::string printed_, stuck_;
  std::optional<trace::MemoryError> fault_;
  bool hangs_ = false, driving_ = false, looked_ = false;
  // Those who wait in vain are asked up to a million times, with one step each: as long as nothing but that happens,
  // the program's handlers of signals are not put back in between.
  std::optional<SignalGuard> spinning_;
  std::set<std::uint64_t> host_saw_; // allocations shared with the host that changed: for advance()
  std::uint32_t host_stream_ = 0; // of what the host itself did; 0: none yet
  bool kernels_reach_host_ = false; // one was given an address of memory that host and device share
  bool device_writes_there_ = false; // kernels that were, or sets
  // Operations before this were submitted before the last host function ended that was not alone.
  std::uint32_t callbacks_until_ = 0;
  std::set<std::uint32_t> functions_queued_; // not begun
  std::map<std::uint32_t, bool> functions_told_; // of a replay, by operation: did the recorded run say that it began
  std::map<std::uint32_t, RunsOn> running_on_; // host functions that nobody waited for, by operation
  unsigned functions_running_ = 0; // those, and others
  std::uint64_t functions_begun_ = 0; // ever
  std::map<const void*, bool> functions_write_; // by code, of those that have run: may they change page-locked memory?
  // Streams that were given copies or sets of memory shared with the host, which it does not know to be over; whether
  // graphs had such nodes.
  std::map<std::uint32_t, bool> shared_users_;
  bool others_may_help_ = false;
  bool only_begins_ = false; // it drives so that functions begin: nobody waits for those that spin
  std::set<std::uint32_t> not_early_; // launches that were not over when nothing could go on in such a drive
  std::uint64_t queries_ = 0;
  mutable ChoiceSummary choices_;
};

} // namespace deadheat::device
