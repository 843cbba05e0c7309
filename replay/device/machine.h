// The machine that runs GPU threads: blocks are admitted up to the device's residency, threads are resumed one after
// another on the calling host thread, barriers and rendezvous are resolved, and what happens is written to the sink.
//
// Three ways to choose who goes on:
//   natural   the oldest launch, its blocks by index, their warps by index, lanes by index, each until it must wait.
//             Code that stops before strong operations (recorded, or with those sites marked) performs them a site at
//             a time: all lanes of the warp that have stopped at the lowest site, one after another. Behind each, wait
//             loops whose value has changed look once (Schedule::prompt). A block in which nobody can go on makes way
//             for the next, and so does at first one that took a ticket (an atomic addition in a loop that uses what it
//             returns): else the first block would do all the work that is handed out so.
//   holds     natural, but for threads that wait for another access by order of the schedule (holds.cpp)
//   chosen    one agent at a time, until its quantum is used up (control.cpp): random, or a list of switches
//
// The log is written so that its order can have happened: the lanes of a warp run until each has stopped, their weak
// accesses are handed over, and only then do arrivals, exits and strong operations of these lanes take effect.
//
// Invariants: the same requests and schedule give the same steps. No thread's state lives on the host's stack while
// another runs. A fault ends everything: `fault()` stays set.
//
// Thread-safety: none.
#pragma once

#include <atomic>
#include <csetjmp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "deadheat/schedule.h"
#include "deadheat/trace.h"
#include "replay/device/block.h"
#include "replay/device/heap_use.h"
#include "replay/device/signals.h"
#include "replay/device/sink.h"

namespace deadheat::engine {
class RegionRun;
}

namespace deadheat::engine {
class Shadows;
enum class UndefinedUse : std::uint32_t;
struct WarpgroupOp;
struct WarpgroupOperands;
} // namespace deadheat::engine
namespace deadheat::ptx {
struct MatrixStretch;
}

namespace deadheat {
struct Profile;
}

namespace deadheat::device {

struct Product;
class Holds;
class Control;
class Watch;
struct Recorder;
class Spread;

// What the machine asks of the device around it. Addresses are generic ones.
class Environment {
 public:
  virtual ~Environment() = default;
  virtual bool legal(std::uint64_t address, std::uint64_t bytes) = 0; // global memory
  virtual std::uint64_t changes() const = 0; // of what device memory is legal, so far
  virtual std::uint32_t nearest_allocation(std::uint64_t address, bool* freed) = 0;
  virtual void printed(std::string_view text) = 0;
  virtual std::uint64_t heap(std::uint64_t* bytes) = 0; // of malloc; 0: none
  virtual bool tracks_written() = 0; // the shadow of written bytes (engine/written.h) is whole
  virtual void heap_valid(std::uint64_t address, std::uint64_t bytes, bool valid) = 0;
};

struct MachineOptions {
  std::uint64_t seed = 0;
  const Profile* profile = nullptr;
  Environment* environment = nullptr;
  Sink* sink = nullptr;
  const std::uint8_t* shadow = nullptr;
  std::function<const std::uint8_t*(std::uint64_t)> garbage; // what fresh shared memory holds; at least 256 KiB
  std::uint64_t discarded = engine::discard_pattern; // what discarded memory holds
  Schedule::Prompt prompt = Schedule::Prompt::always;
  std::uint64_t budget = 0; // turns and visible operations; 0: none
  unsigned cores = 1; // to run independent blocks on (spread.h)
  std::uint64_t spread_after = 0; // microseconds that a launch runs on one core first; 0: as soon as can be
  engine::Shadows* shadows = nullptr; // of launches in Mode::precision
  bool improves_code = true; // compiles better code where quick code ran for long (engine::KernelCode)
};

class Machine {
 public:
  enum class Outcome : std::uint8_t { finished, blocked, paused, fault };

  explicit Machine(MachineOptions options);
  ~Machine();

  // Blocks that fit on the device at a time; 0 when one does not.
  std::uint32_t residency(std::uint32_t threads, std::uint32_t shared_bytes) const;

  Launch* begin(LaunchRequest request);
  void end(Launch* launch); // finished or abandoned
  // Natural order, from where the launch stands: until it is finished, nobody in it can go on, or `turns` blocks had
  // their turn (0: no limit).
  Outcome run(Launch& launch, std::uint64_t turns = 0);
  // Calls `body`, which runs threads by the functions below; false when it was left because their code faulted.
  bool guarded(const std::function<void()>& body);

  // When nobody in any launch can go on: lets every parked thread look again. Returns how many.
  std::uint64_t wake_all(Launch& launch);
  // Completes rendezvous whose lanes disagree, with a SyncError each. Returns how many.
  std::uint64_t force_rendezvous(Launch& launch);
  std::uint64_t force_barriers(Launch& launch); // the same of aligned barriers that only a part of a warp has reached
  bool can_go_on(const Launch& launch) const; // some thread is ready: it only made way for others
  bool any_parked(const Launch& launch) const;
  std::uint64_t turns() const { return turns_; }
  // All that the next look of threads that spin depends on, but for holds; nothing where code runs that does not count
  // its changes.
  struct SpinState {
    std::uint64_t threads = 0; // a hash of where they stand and what they hold
    std::uint64_t changes = 0; // so far, of what is not theirs
    std::uint64_t ticks = 0; // of the clock, which each look at it moves
  };
  std::optional<SpinState> spin_state() const;
  void pass_time(std::uint64_t ticks) { ticks_ += ticks; }
  // One line: who waits for what.
  std::string stuck(const Launch& launch) const;
  std::string standing(const Launch& launch, const Block& block, std::uint32_t thread) const;
  std::string missing(const Launch& launch) const;
  std::string awaiting(const Block& block, const engine::ThreadContext& thread) const;
  std::vector<HeapUse> heap_in_use() const;
  void report_hang(); // a SyncError for each launch: `stuck`, at a thread that waits

  // For another host thread: the code that runs now, if any, and what changes when other code does.
  RunningCode running() const;
  // Launches of which blocks ran on several cores, and that were found to have blocks that depend on each other.
  std::uint64_t spread() const;
  std::uint64_t interleaved() const;
  std::uint64_t dependent() const;

  // Grows whenever something happened that others could see: an exit, a barrier, a rendezvous, a changed value.
  std::uint64_t progress() const { return progress_; }
  std::uint64_t spins() const { return spins_; } // fruitless looks
  std::uint64_t visible() const { return exec_.visible; }
  std::uint64_t budget() const { return options_.budget; }
  bool over_budget() const { return options_.budget && exec_.visible + turns_ > options_.budget; }
  const std::optional<trace::MemoryError>& fault() const { return fault_; }

  void set_holds(Holds* holds) { holds_ = holds; }
  void set_control(Control* control) { control_ = control; }
  void set_watch(Watch* watch) { watch_ = watch; }
  void set_decision(std::uint64_t number) { decision_ = number; }
  const std::vector<std::unique_ptr<Launch>>& launches() const { return launches_; }

  // ---- programmatic dependent launch (dependents.cpp)
  bool lets_dependents_begin(const Launch& launch) const { return launch.triggered == launch.blocks; }
  void primary_complete(std::uint32_t operation);
  std::uint64_t triggers() const { return triggers_; } // grows when a launch lets its dependents begin

  // ---- for holds.cpp and control.cpp
  Block* admit(Launch& launch, std::uint64_t index);
  bool can_admit(const Launch& launch) const {
    return launch.next_block < launch.blocks && launch.resident.size() + launch.cluster_blocks <= launch.max_resident;
  }
  // The next block, or the blocks of the next cluster; null when they were admitted before their turn.
  Block* admit_next(Launch& launch);
  // The block with this index and those of its cluster, out of turn; null when it has begun or there is no room.
  Block* admit_early(Launch& launch, std::uint64_t index);
  // Its threads have exited and its copies are performed.
  bool over(const Block& block) const;
  void retire(Launch& launch, Block* block); // a finished block leaves
  void leave(Block& block, std::uint32_t warp, std::uint32_t lanes); // threads that have done nothing yet exit
  bool run_block(Block& block); // true: finished
  void run_regions(Block& block); // to its end
  void run_warp(Block& block, std::uint32_t warp);
  // Runs one ready or visible lane until it must wait or has performed `operations` visible operations (0: the one it
  // stopped before, if any); arrivals, exits and rendezvous take effect at once.
  engine::Step run_lane(Block& block, std::uint32_t warp, std::uint32_t lane, std::int64_t operations);
  void settle(Block& block, std::uint32_t warp); // lets what the warp's lanes stopped at take effect
  bool resolve(Block& block, std::uint32_t warp);
  std::uint64_t wake_changed(Block& block);
  bool wake_if_changed(Block& block, std::uint32_t thread);
  void make_ready(Block& block, std::uint32_t warp, std::uint32_t lanes);
  bool perform_copies(Block& block, std::uint32_t thread, std::uint32_t keep_groups, bool all);
  bool perform_copy_group(Block& block, std::uint32_t thread, std::uint32_t group);
  // Bulk copies and arrivals that no hold delays, and the cp.async that arrivals come after.
  bool perform_ready(Block& block, std::uint32_t thread);
  std::uint8_t* bytes_at(const engine::ThreadContext& thread, std::uint64_t address, std::uint32_t bytes) const {
    return const_cast<std::uint8_t*>(readable(thread, address, bytes)); // null: not memory of the thread
  }
  // Somebody other than compiled code wrote shared memory of the block, or copied it from there (host address).
  void shared_written(Block& block, std::uint64_t offset, std::uint64_t bytes, std::uint64_t copied_from = 0);
  void bulk_written(Block& block, const AsyncCopy& copy);
  // Results of undefined bits in global memory, by host address: the load that they come from, or -1.
  std::int64_t find_undefined(std::uint64_t host, std::uint64_t bytes) const;
  bool discards() const { return discards_; } // some memory was discarded, while it was followed what nobody wrote
  void report_undefined(std::uint32_t load, const std::string& use);
  void copy_undefined(std::uint64_t to, std::uint64_t from, std::uint64_t bytes);
  void note_progress() { ++progress_; }
  void note_change() { ++exec_.changes; } // ExecContext::changes
  bool faulted() const { return fault_.has_value(); }
  // As if the thread that faulted had only stopped before that: the others of its block go on, where they are recorded,
  // as far as they can without it.
  void run_beside_fault();

 private:
  friend struct MachineServices;
  friend class SignalGuard;
  friend class Spread;
  engine::Step resume(Block& block, engine::ThreadContext& thread, std::int64_t quantum);
  void stopped(Block& block, std::uint32_t warp, std::uint32_t lane, engine::ThreadContext& thread, engine::Step step);
  template <typename Run> void improving(Launch& launch, const Run& run);
  void run_lanes(Block& block, std::uint32_t warp);
  void take_lane(Block& block, std::uint32_t warp, std::uint32_t lane, std::int64_t quantum);
  std::uint32_t perform_visible(Block& block, std::uint32_t warp); // which site
  void perform_visible(Block& block, std::uint32_t warp, std::uint32_t site, std::uint32_t group);
  void go_ahead_alone(Block& block, std::uint32_t warp);
  bool accessed_weakly(const engine::Mode& mode);
  bool makes_way(Block& block, std::uint32_t site);
  void show_changes();
  void used_up_its_turns(Block& block);
  void look_again(Block& block, std::uint32_t warp);
  void run_to_stop(Block& block, std::uint32_t warp, std::uint32_t lane);
  void arrive(Block& block, std::uint32_t warp, std::uint32_t lanes);
  void arrive_together(Block& block, std::uint32_t warp, std::uint32_t lanes, const engine::ThreadContext& first);
  void exited(Block& block, std::uint32_t warp, std::uint32_t lanes);
  void count_warp(Block& block, Barrier& barrier, std::uint32_t warp);
  void take(Block& block, Barrier& barrier, std::uint32_t warp, std::uint32_t lanes);
  void complete(Block& block, std::uint32_t barrier);
  void check_barriers(Block& block, std::uint32_t warp);
  void check_aligned(Block& block, const Barrier& barrier);
  void pass_undefined(Block& block, const Barrier& barrier);
  void check_aligned(Block& block, const engine::RegionRun& run, engine::ThreadContext& who);
  void copy_waits(Block& block, std::uint32_t warp);
  bool copies_were_performed(Block& block, std::uint32_t thread, std::uint32_t keep_groups, bool all);
  void rendezvous(Block& block, std::uint32_t warp, std::uint32_t members);
  void take_fault(engine::ThreadContext& thread);
  void choose_stops(Block& block);
  Outcome run_guarded(Launch& launch, std::uint64_t turns);
  void prepare(Launch& launch, Block& block, std::uint64_t index);
  static void make_threads(const Launch& launch, Block& block);
  const std::uint8_t* readable(const engine::ThreadContext& thread, std::uint64_t address, std::uint32_t bytes) const;
  bool unchanged(const Block& block, const engine::ThreadContext& thread) const;
  Awaited awaited(const Block& block, const engine::ThreadContext& thread) const; // by a thread that is parked
  bool is_prompt(const Launch& launch, Schedule::Prompt least) const;
  void note_awaited(const Block& block, const engine::ThreadContext& thread);
  void note_awaited_anew(Launch& launch);
  bool noticed_changes(Launch& launch);
  void perform(Block& block, std::uint32_t thread, const AsyncCopy& copy);
  template <typename Chosen>
  bool perform_where(Block& block, std::uint32_t thread, Chosen&& chosen);

  // mbarrier.cpp
  std::uint64_t mbarrier(engine::ThreadContext& thread, std::uint32_t site, std::uint32_t what, std::uint64_t address,
                         std::uint64_t operand);
  MbarrierState* mbarrier_object(Block& block, engine::ThreadContext& thread, const SharedPlace& at, const char* what);
  std::uint64_t mbarrier_test(Block& block, engine::ThreadContext& thread, const SharedPlace& at, std::uint32_t what,
                              std::uint64_t address, std::uint64_t operand);
  void mbarrier_change(Block& block, engine::ThreadContext& thread, const SharedPlace& at, std::uint32_t what,
                       std::uint32_t count, std::int64_t bytes);
  void say_mbarrier(const Block& block, const engine::ThreadContext& thread, const SharedPlace& at, std::uint32_t site,
                    trace::Mbarrier::What what, std::uint32_t count, std::uint32_t phase);
  std::string mbarrier_text(const engine::ThreadContext& thread, bool parity) const; // what a waiter waits for
  static std::string missed_text(const MbarrierState& object, const engine::ThreadContext& thread);
  // bulk_copies.cpp
  void bulk_copy(engine::ThreadContext& thread, std::uint32_t site);
  bool bulk_legal(Block& block, engine::ThreadContext& thread, std::uint32_t site, std::uint64_t address,
                  std::uint64_t bytes, bool is_write, std::uint64_t alignment);
  void issue_everywhere(Block& block, engine::ThreadContext& thread, const AsyncCopy& copy, std::uint32_t targets,
                        const std::function<bool(const AsyncCopy&)>& legal);
  void record_bulk(Block& block, const engine::ThreadContext& thread, const AsyncCopy& copy, bool further);
  void perform_bulk(Block& block, std::uint32_t thread, const AsyncCopy& copy);
  void move_bytes(Block& block, std::uint32_t thread, const AsyncCopy& copy);
  void complete_bytes(Block& block, std::uint32_t thread, const AsyncCopy& copy, std::uint32_t bytes);
  void note_copy(Block& block, std::uint32_t thread, const AsyncCopy& copy, bool writes, const std::uint8_t* bytes);
  const std::uint8_t* watch_copy(Block& block, std::uint32_t thread, const AsyncCopy& copy, const std::uint8_t* from,
                                 const std::uint8_t* to);
  std::uint8_t* bulk_bytes_at(Block& block, std::uint64_t address, std::uint64_t bytes) const;
  void issued(Block& block, std::uint32_t thread, std::uint32_t group);
  bool perform_rest(Block& block, std::uint32_t thread);
  bool bulk_wait(Block& block, std::uint32_t thread, std::uint32_t keep_groups, bool reads_only);
  // warpgroups.cpp
  void multiply(Block& block, std::uint32_t warp, std::uint32_t members);
  bool read_matrix(Block& block, engine::ThreadContext& lead, const engine::WarpgroupOp& op, char matrix,
                   std::uint64_t descriptor, engine::WarpgroupOperands& to, std::uint32_t site);
  bool read_operands(Block& block, std::uint32_t warp, Product& product);
  static std::vector<ptx::MatrixStretch> product_reads(const Block& block, const engine::ThreadContext& lead,
                                                       const Product& product);
  void note_product(Block& block, const engine::ThreadContext& lead, const Product& product);
  void say_product(Block& block, const engine::ThreadContext& lead, const Product& product);
  void run_product(Block& block, std::uint32_t warp, Product& product);
  bool gets_marks(const Block& block, std::uint32_t warp, const Product& product) const;
  void leave_marks(Block& block, std::uint32_t warp, std::unique_ptr<Product> product);
  static void settle_marks(Block& block, std::uint32_t warp, const Product& product, PendingProducts& pending);
  bool perform_products(Block& block, std::uint32_t warp, std::uint32_t below);
  void check_warpgroups(const Block& block);
  bool warpgroup_wait(Block& block, std::uint32_t thread, std::uint32_t keep_groups);
  // tensor_copies.cpp
  void box_copy(engine::ThreadContext& thread, std::uint32_t site);
  void tensor_replace(engine::ThreadContext& thread, std::uint32_t site, std::uint64_t address, std::uint32_t field,
                      std::uint32_t ordinal, std::uint64_t value);
  void tensor_map_copy(engine::ThreadContext& thread, std::uint32_t site, std::uint64_t destination,
                       std::uint64_t source);
  void box_fault(engine::ThreadContext& thread, std::uint32_t site, trace::MemoryError::Kind kind,
                 std::uint64_t address, std::uint32_t bytes, AccessKind access, std::string text);
  const std::uint8_t* tensor_map_at(Block& block, std::uint64_t address) const;
  std::optional<ptx::TensorMap> tensor_map_of(Block& block, engine::ThreadContext& thread, std::uint32_t site);
  bool box_legal(Block& block, engine::ThreadContext& thread, std::uint32_t site, const AsyncCopy& copy,
                 const ptx::TensorMap& map);
  template <typename Part, typename End>
  void each_part(const AsyncCopy& copy, const Part& body, const End& piece_ends) const;
  void read_rounded(Block& block, AsyncCopy& part) const;
  void perform_box(Block& block, std::uint32_t thread, const AsyncCopy& copy);
  std::vector<std::uint8_t> piece_bytes(Block& block, const AsyncCopy& copy, const ptx::TensorPiece& piece) const;
  void record_box(Block& block, const engine::ThreadContext& thread, const AsyncCopy& copy, bool further);
  // clusters.cpp
  void link_cluster(Launch& launch, std::uint64_t first);
  void settle_cluster(Block& block, std::uint32_t warp);
  void cluster_exited(Block& block, std::uint32_t warp, std::uint32_t lanes);
  void complete_cluster(Cluster& cluster);
  void say_cluster(const Block& block, std::uint32_t warp, std::uint32_t lanes, bool wait, std::uint32_t phase);
  // dependents.cpp
  void settle_dependency(Block& block, std::uint32_t warp);
  void trigger(Block& block);
  AsyncQueue& async_queue(engine::ThreadContext& thread);
  void fault(engine::ThreadContext& thread, std::uint32_t site, trace::MemoryError::Kind kind, std::uint64_t address,
             std::uint32_t bytes, AccessKind access, const char* text = nullptr);

  // record.cpp: what goes to the sink.
  bool recording(const Block& block) const { return block.launch->request.mode.record && options_.sink; }
  void flush(Block& block, std::uint32_t warp);
  void say_exits(Block& block);
  void say_barrier(Block& block, std::uint32_t barrier, const Barrier& state, bool whole);
  void say_arrive(Block& block, std::uint32_t warp, std::uint32_t lanes);
  void say_copy_wait(Block& block, std::uint32_t warp, std::uint32_t lanes);
  void say_rendezvous(Block& block, std::uint32_t warp, std::uint32_t members, bool barrier);
  void say_effect(trace::Record record);
  void undefined(engine::ThreadContext& thread, std::uint32_t site, engine::UndefinedUse use, std::uint64_t address,
                 std::uint32_t bytes);
  std::uint32_t undefined_load(const engine::ThreadContext& thread, std::uint32_t site, std::uint64_t address,
                               std::uint32_t bytes, bool atomic);
  void sync_error(Block& block, const engine::ThreadContext& thread, std::string text);
  void say_sync_error(trace::SyncError error);
  template <typename T> T warp_record(const Block& block, std::uint32_t warp, std::uint32_t site,
                                      std::uint32_t lanes) const;

  MachineOptions options_;
  engine::ExecContext exec_;
  std::vector<std::unique_ptr<Launch>> launches_;
  std::optional<trace::MemoryError> fault_;
  Block* faulted_block_ = nullptr; // where it is recorded
  std::uint64_t triggers_ = 0;
  std::uint64_t progress_ = 0, spins_ = 0, turns_ = 0, ticks_ = 0, tickets_ = 0;
  std::uint64_t performed_ = 0; // strong operations, one by one
  std::uint64_t settled_visible_ = 0, settled_performed_ = 0; // when accessed_weakly() was asked last
  bool detour_ = false; // a thread was held: go and find what it waits for
  bool makes_way_ = false; // the block that runs, for others
  Holds* holds_ = nullptr;
  Control* control_ = nullptr;
  Watch* watch_ = nullptr;
  std::uint64_t decision_ = 0; // number of the last
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<Spread> spread_; // null: one core
  std::map<std::uint64_t, std::vector<std::uint8_t*>> pool_; // memory of blocks, by size
  UndefinedWords undefined_words_;
  bool discards_ = false;
  UndefinedLoads undefined_loads_;
  std::map<std::uint64_t, std::uint64_t> heap_freed_; // offset → bytes, of blocks that nobody owns any more
  std::map<std::uint64_t, HeapUse> heap_; // of malloc: by offset, in use
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> sync_errors_; // said, by module and site

  std::string box_text_; // of a fault
  engine::ThreadContext* volatile current_ = nullptr; // whose code runs
  char running_kernel_[256] = {};
  SignalGuard* guard_ = nullptr;
  AlternateStack handlers_stack_; // of the guard
  sigjmp_buf escape_;
};

} // namespace deadheat::device
