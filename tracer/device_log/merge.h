// One order of what the warps of a launch did, in which reads see what they read (launch_log.h).
//
// A strong access whose turn has come in its warp's queue (warp_queue.h), and that has not its place yet, is a *head*:
// one a lane at most. Heads are settled in the order of the tickets taken after them: a head that could come before one
// that is settled is open by then, since what its lanes did before it took its own ticket earlier. Where heads of one
// location overlap, the values say which came first.
//
// Accesses that took the ring's tickets are compared within their block only, and settled as soon as no strong access
// of the block to global memory, which took a ticket of the ring too, came before them.
//
// Operations on mbarriers are heads too, of one step a lane (or a block that a copy is sent to): merge_async.cpp says
// what puts them in order. Waits at a cluster's barrier hold their lanes back until all its threads have arrived.
//
// Calls of malloc and free are heads, too: of no location, with their place by the ticket alone.
//
// What is settled before all has come ends with the tickets that may still come, or may still wait in their warps: a
// head that could come before one with an earlier ticket is known by then. What ended blocks leave behind is forgotten.
//
// Launches that ran beside each other may be put in order as one: their blocks are numbered one launch behind the other
// (LaunchLog::first_block_), wherever something is of a block.
//
// Cost: about a hundred nanoseconds a lane, however many wait for one location (but a write costs a step for each read
// that overlaps with it and saw what it replaces).
//
// Thread-safety: none.
#pragma once

#include <map>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "tracer/device_log/launch_log.h"
#include "tracer/device_log/merge_state.h"

namespace deadheat::device_log {

class Merge {
 public:
  // Of launches that ran beside each other, whose tickets are of one count. Of more than one, finish() alone.
  explicit Merge(std::vector<LaunchLog*> logs);
  std::uint64_t settle_before(std::uint32_t round); // (launch_log.h); returns how many heads ended
  void finish(); // all has come

 private:
  static constexpr std::uint32_t none = merging::none;

  using Place = LaunchLog::Place;
  using Cell = merging::Cell;
  using Object = merging::Object;
  using Step = merging::Step;
  using Cluster = merging::Cluster;
  using What = merging::What;
  using Head = merging::Head;
  using Entry = merging::Entry;
  using Waiting = merging::Waiting;
  using Queue = std::priority_queue<Entry>;

  void take_in(); // blocks that are new
  void run();
  void forget_ended();
  void forget_cell(std::uint32_t cell);
  std::uint64_t limit_of(std::uint32_t block) const; // tickets of the ring below it have all come
  void advance(std::uint32_t warp); // writes what can be written; other warps' that waited for it, too
  void advance_all(std::vector<std::uint32_t>& warps);
  // An item whose turn has come. False: it waits, or is a head. `ready`: warps of which something waited for it.
  bool begin(std::uint32_t warp, std::uint32_t item, std::vector<std::uint32_t>& ready);
  void reached(const std::shared_ptr<Gate>& gate, std::vector<std::uint32_t>& ready);
  bool open(std::uint32_t warp, std::uint32_t item); // makes its head; false: no lane takes part
  void open_lanes(Head& head, const Item& item);
  void close(Head& head); // it has its place
  void settle_heap(Head& head);
  void await(const Head& head, const ptx::Slot& slot, const Item& item);
  bool current(const Entry& entry) const { return heads_[entry.head]->turn == entry.turn; }
  void settle_block(std::uint32_t block);
  void settle(std::uint32_t head);

  // merge_order.cpp
  bool fits(const Head& head, unsigned lane) const;
  void place(Head& head, unsigned lane, std::uint64_t first); // puts the lane next into the order
  void place_now(std::uint32_t node);
  void note_reads(std::uint32_t cell);
  void atomics_first(const Head& store, unsigned lane);
  bool produce(const Head& head, std::uint32_t cell, std::uint64_t value, bool guess);
  std::uint32_t walk_back(const Head& head, std::uint32_t cell, std::uint64_t value);
  bool walk_to(std::uint32_t node); // false: the walk has come there before
  void end_walk();
  void find_beginning(const Head& head, unsigned lane); // the value that the location had at first
  bool settle_read(Head& head, unsigned lane);
  bool try_write(Head& head, unsigned lane);
  bool place_earlier(const Head& head, unsigned lane); // a lane of another head that must come first
  void guess(Head& head); // places a lane that nothing explains
  bool placed(Head& head, std::uint32_t lanes); // they are: writes them; true: they were its last, and it has ended
  void emit(Head& head, std::uint32_t lanes);

  // merge_async.cpp
  void open_steps(Head& head, const Item& item);
  std::uint32_t object_of(const LaunchLog& log, const Place& at);
  std::uint32_t phase_of(const Head& head, const Step& step) const;
  bool fits(const Head& head, const Step& step) const;
  void place(Head& head, Step& step);
  void tests_first(const Head& head, std::uint32_t object);
  bool place_other(const Head& head, std::uint32_t object);
  void settle_steps(Head& head);
  void finish(Head& head);
  bool pass_stuck_cluster();
  void say(const Head& head, const Step& step, std::uint32_t count, std::uint32_t phase);
  void flush();
  Cluster& cluster_of(const LaunchLog::Warp& warp);
  void at_cluster(std::uint32_t warp, const Item& item, std::vector<std::uint32_t>& ready);
  bool waits(const Cluster& cluster, const Waiting& who) const;
  void left_cluster(std::uint32_t warp, std::uint32_t lanes, std::vector<std::uint32_t>& ready);
  void complete(Cluster& cluster, std::vector<std::uint32_t>& ready);

  const What& what_of(const LaunchLog& log, const ptx::Slot& slot);
  std::uint32_t cell_of(std::uint64_t key); // address and kind
  // Where the search for a key begins in a table of mask + 1 entries.
  static std::size_t slot_of_key(std::uint64_t key, std::size_t mask) {
    return (key * 0x9e3779b97f4a7c15u >> 20) & mask;
  }
  void link(Head& head, unsigned lane);
  void unlink(Head& head, unsigned lane);
  void join(Head& head, unsigned lane); // the readers of its cell
  void begin_reads(const Head& settled); // of heads that begin before it ends
  // Readers that have begun, by location and what they saw.
  std::uint32_t& readers_of(std::uint32_t cell, std::uint64_t value);
  // The table of lanes that write: by the location and the value that they were given before they could (a store: that
  // it stores), and, of locations whose value is not known yet, by the value that an atomic operation leaves.
  std::uint32_t& bucket_of(std::uint32_t cell, std::uint64_t value, unsigned side);
  void enter(Head& head, unsigned lane, unsigned side);
  void leave(Head& head, unsigned lane, unsigned side);
  void put_in(std::uint32_t& bucket, Head& head, std::uint32_t at);
  void take_out(std::uint32_t& bucket, Head& head, std::uint32_t at);
  std::uint64_t value_of(const Head& head, unsigned lane, unsigned side) const;
  // The lane of another head with that value that was the first to end, of those that can come before `head`.
  std::uint32_t find(const Head& head, std::uint32_t cell, std::uint64_t value, unsigned side, bool stores) const {
    return find_before(head.after, head.number, cell, value, side, stores);
  }
  std::uint32_t find_before(std::uint64_t after, std::uint32_t own, std::uint32_t cell, std::uint64_t value,
                            unsigned side, bool stores) const;

  const std::vector<LaunchLog*> logs_;
  std::uint64_t& places_; // last given out
  std::vector<LaunchLog::Warp*> warps_; // null: forgotten
  std::vector<std::uint32_t> home_; // number of the block, of a warp
  struct Home {
    LaunchLog::Block* block = nullptr; // null: forgotten
    std::uint32_t first_warp = 0, cells = none;
  };
  std::vector<Home> homes_;
  std::unordered_map<std::uint32_t, std::uint32_t> home_numbers_; // by the block's index among those of all launches
  std::uint64_t limit_ = ~std::uint64_t(0); // tickets of the device below it have all come
  std::uint32_t round_ = ~0u;
  std::uint64_t ended_ = 0; // heads
  std::vector<std::unique_ptr<Head>> heads_;
  std::vector<std::uint32_t> spare_; // heads that have ended
  std::uint64_t turns_ = 0, now_ = 0; // now_: the ticket after the head that is settled
  std::uint32_t settling_ = none, settled_lanes_ = 0; // that head; its lanes that have their place
  std::vector<std::uint32_t> walk_; // lanes of heads that a walk has come to
  Queue device_;
  std::vector<Queue> blocks_;
  Queue future_; // by the ticket before
  std::vector<Queue> futures_; // of blocks
  std::vector<std::uint32_t> ready_; // blocks to look at
  std::vector<std::uint64_t> keys_; // open addressing
  std::vector<std::uint32_t> indices_; // of the keys, plus one; 0: free
  std::vector<Cell> cells_;
  std::vector<std::uint32_t> free_cells_;
  std::vector<std::uint32_t> buckets_; // first lane of a chain: (head * 32 + lane) * 2 + side
  std::vector<std::uint32_t> reader_buckets_; // likewise; they use the chains' side 0
  std::unordered_map<const ptx::Slot*, What> whats_;
  std::vector<Object> objects_;
  std::unordered_map<std::uint64_t, std::uint32_t> object_numbers_;
  // The phase in which a thread (32 * warp + lane; none: any) last read a state of an object.
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>, std::uint32_t> states_;
  trace::Mbarrier said_; // what is to be written next
  const LaunchLog::Warp* said_by_ = nullptr;
  std::unordered_map<std::uint32_t, Cluster> clusters_; // by their first block
  std::vector<std::uint32_t> arrivals_; // at the cluster's barrier, by thread
};

} // namespace deadheat::device_log
