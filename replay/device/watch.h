// Watching a run: every visible operation is performed alone, its thread stopped before and after it, so that it can
// be written down with the bytes that it read and wrote, and so that a read can be given an older value than memory
// holds (analyzer/order/histories.h). Nothing in compiled code knows of it: the older bytes lie in memory for as long
// as the one operation takes.
//
// An older value is returned where the schedule lists it (OldRead), or by chance: Schedule::old_rate. A thread is given
// old values of one place at most `patience` times on end, so that stores become visible eventually.
//
// Asynchronous copies read and write at the moment when they are performed (watch_copies.cpp): what they read may be
// old, too, and others may see what was there before them. Shared memory of other blocks of a cluster is that block's,
// whoever accesses it. Modules that touch memory in ways that are not modelled show the newest values only, and so does
// everything that runs beside them. What griddepcontrol.wait waits for needs no telling: a launch that ends makes its
// stores visible to all.
//
// Invariants: the decisions of a run depend on nothing but the schedule; a run that is watched takes the same way as
// one that is not, but for old values.
//
// Thread-safety: none.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "analyzer/order/histories.h"
#include "deadheat/schedule.h"
#include "deadheat/trace.h"
#include "replay/device/block.h"
#include "replay/device/chooser.h"
#include "replay/device/performed.h"

namespace deadheat::device {

class Machine;

class Watch {
 public:
  static constexpr std::uint8_t patience = 3;

  // `log` may be null, and gets at most `limit` operations.
  Watch(const Schedule& schedule, std::vector<Performed>* log, std::size_t limit);

  void drive(Chooser* chooser) { chooser_ = chooser; } // asked for the age of every read, told who met; may be null

  void begin(Launch& launch);
  void ended(const Launch& launch, bool beside_others); // as Histories::launch_end()
  void settle(); // an operation that is no launch has run: every store is visible

  // Around a resumption of a thread. `step`: the number of the decision that let it go on.
  void before(Machine& machine, Block& block, const engine::ThreadContext& thread, std::uint64_t step);
  void after(Machine& machine, Block& block, const engine::ThreadContext& thread, engine::Step step);

  // ---- synchronization
  void barrier_complete(const Block& block, std::uint32_t number, const Barrier& barrier);
  void arrived(const Block& block, std::uint32_t warp, std::uint32_t lanes, std::uint32_t number, std::uint32_t phase);
  void met(const Block& block, std::uint32_t warp, std::uint32_t lanes, bool all_of_them); // at any rendezvous
  void warp_barrier(const Block& block, std::uint32_t warp, std::uint32_t lanes);
  void exited(const Block& block, std::uint32_t warp, std::uint32_t lanes);
  void copies_waited(const Block& block, std::uint32_t thread, std::uint32_t groups); // those of cp.async below
  void cluster_barrier(const Block& block, std::uint32_t warp, std::uint32_t lanes, std::uint32_t phase, bool wait,
                       bool relaxed);

  // ---- asynchronous copies and mbarriers
  struct Place { // shared memory of `block` from an offset on; of no block: global memory
    const Block* block = nullptr;
    std::uint64_t address = 0;
  };
  void mbarrier(const Block& block, std::uint32_t thread, const Place& object, const Site& site,
                trace::Mbarrier::What what, std::uint32_t phase);
  void copy_issued(const Block& block, std::uint32_t thread, AsyncCopy& copy);
  void copies_committed(const Block& block, std::uint32_t thread, bool bulk);
  void copies_completed(const Block& block, std::uint32_t thread, std::uint32_t pending, bool bulk, bool all,
                        bool reads_only); // its thread has waited for all but the last `pending` groups
  // Around a copy: what it reads (`from`, which holds what memory holds; null: it has a value) is what is returned.
  const std::uint8_t* copy_begins(const Block& block, std::uint32_t thread, const AsyncCopy& copy, const Place& source,
                                  const Place& destination, const Place& object, const std::uint8_t* from,
                                  const std::uint8_t* to);
  void copy_ended(const std::uint8_t* to);
  std::uint32_t copy_age() const { return std::uint32_t(copy_.age); } // of what it read
  void copied(const Performed& end) { // an end of it
    if (log_ && log_->size() < limit_) log_->push_back(end);
  }
  bool logs() const { return log_ != nullptr; }

  const std::vector<OldRead>& old_reads() const { return old_reads_; } // that were given

 private:
  struct Traits { // of a site, as far as each operation asks
    const Site* site = nullptr;
    std::uint32_t tag = 0;
    std::uint8_t bytes = 0; // of the whole access; 0: nothing older is seen around it
    std::uint8_t value_bytes = 0; // of each value in it
    bool reduction = false, compare_and_swap = false;
    bool agents = false; // of mbarriers, copies, proxies: told when it takes effect
    Scope scope = Scope::none; // none: weak
  };
  static constexpr std::uint32_t most_bytes = 128; // of an access
  using Bytes = std::array<std::uint8_t, most_bytes>;
  struct Now { // the operation that is being performed
    const Traits* traits = nullptr;
    std::uint8_t* at = nullptr;
    Place place; // where `at` is
    std::uint32_t bytes = 0;
    std::size_t age = 0;
    std::uint64_t step = 0;
    order::HistoryAccess access;
    Bytes held, shown, now; // what memory held before, what the operation saw, what it left
  };
  const std::vector<Traits>& traits_of(const LaunchRequest& request);
  std::uint32_t tag_of(const SiteName& name) const;
  order::ThreadKey key(const Block& block, std::uint32_t thread) const {
    return {block.launch->history, block.index, thread};
  }
  std::size_t choose(const Block& block, const engine::ThreadContext& thread, WatchedThread& watched);
  std::size_t draw(const order::HistoryAccess& access, const Block& block, std::uint32_t site, std::size_t choices);
  std::size_t listed(const Block& block, std::uint32_t thread, std::uint64_t nth, std::size_t choices) const;
  order::Location location(const Place& place, std::uint32_t bytes) const;
  std::uint64_t random();
  bool interesting(std::uint32_t module, std::uint32_t site) const;
  void note(const Block& block, const engine::ThreadContext& thread, bool wrote);

  const bool weak_;
  const std::uint32_t old_rate_;
  std::uint64_t state_;
  std::vector<SiteName> sites_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint64_t>, std::uint32_t> listed_;
  std::vector<Performed>* log_;
  Chooser* chooser_ = nullptr;
  std::size_t limit_;
  std::vector<OldRead> old_reads_;
  std::uint32_t opaque_ = 0; // running launches of modules that touch memory in unknown ways
  std::optional<order::Histories> histories_;
  Now now_;
  struct CopyNow { // the copy that is being performed
    order::HistoryAccess write;
    std::size_t age = 0;
    std::vector<std::uint8_t> shown, before;
  };
  CopyNow copy_;
  struct Module {
    std::shared_ptr<const SiteTable> sites; // kept, so that no other lies there
    std::uint32_t first_tag = 0;
    std::vector<Traits> traits;
  };
  std::map<std::uint32_t, Module> modules_;
  const SiteTable* recent_ = nullptr; // whose traits were asked for last
  const std::vector<Traits>* recent_traits_ = nullptr;
  std::uint32_t tags_ = 0;
};

} // namespace deadheat::device
