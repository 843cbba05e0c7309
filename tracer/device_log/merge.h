// One order of what the warps of a launch did, in which reads see what they read (launch_log.h).
//
// Each warp's queue begins with at most one strong access that has not its place yet, its *head*. Heads are settled in
// the order of the tickets taken after them: a head that could come before one that is settled is open by then, since
// what precedes it in its warp took its own ticket earlier. Where heads of one location overlap, the values say which
// came first.
//
// Accesses that took the ring's tickets are compared within their block only, and settled as soon as no strong access
// of the block to global memory, which took a ticket of the ring too, came before them.
//
// Cost: about a hundred nanoseconds a lane, however many wait for one location (but a write costs a step for each read
// that waits there).
//
// Thread-safety: none.
#pragma once

#include <queue>
#include <unordered_map>
#include <vector>

#include "tracer/device_log/launch_log.h"
#include "tracer/device_log/values.h"

namespace deadheat::device_log {

class Merge {
 public:
  explicit Merge(LaunchLog& log) : log_(log), places_(log.shape_.places ? *log.shape_.places : log.own_places_) {}
  void run();

 private:
  static constexpr std::uint32_t none = ~0u;

  struct Cell {  // a location
    std::uint64_t bits = 0;
    std::uint32_t first = none, last = none;  // lanes of open heads that only read: head * 32 + lane
    bool known = false;                       // bits are what it holds
  };
  // What the strong accesses of a slot do, found once.
  struct What {
    bool reads = false, writes = false, valued = false, whole = false;
    unsigned bytes = 0;
    AtomicOperation operation;
  };
  struct Head {
    const ptx::Slot* slot = nullptr;
    const What* what = nullptr;
    LaunchLog::Warp* warp = nullptr;
    std::uint32_t number = 0;             // of the warp
    std::uint64_t before = 0, after = 0;  // tickets, of the device or of the ring
    std::uint64_t turn = 0;               // which head of its warp it is
    std::uint32_t lanes = 0, left = 0;    // that take part; that are not in the order yet
    std::uint32_t shared = 0;             // lanes in shared memory
    std::uint32_t wrote = 0, known = 0;   // lanes that stored; whose stored value is known
    std::uint64_t address[32], read[32], written[32], first[32], last[32];
    std::uint32_t readers = 0, waiting = 0, leading = 0;  // lanes in the cells' lists, in the table by what they come
                                                         // after, by what comes after them
    std::uint32_t cell[32], next[32], previous[32];
    std::uint32_t chain_next[64], chain_previous[64]; // lane * 2: waiting; + 1: leading
  };
  struct Entry {
    std::uint64_t after, turn;
    std::uint32_t warp;
    friend bool operator<(const Entry& a, const Entry& b) {
      return a.after != b.after ? a.after > b.after : a.warp > b.warp;
    }
  };
  using Queue = std::priority_queue<Entry>;

  void advance(std::uint32_t warp); // writes what can be written; ends at a strong access, a gate or the end
  void open(std::uint32_t warp); // makes the head of the strong access at the front
  bool current(const Entry& entry) const { return heads_[entry.warp] && heads_[entry.warp]->turn == entry.turn; }
  void settle_block(std::uint32_t block);
  void settle(std::uint32_t warp);
  bool fits(const Head& head, unsigned lane) const;
  void place(Head& head, unsigned lane, std::uint64_t first); // puts the lane next into the order
  bool place_earlier(const Head& head, unsigned lane); // a lane of another head that must come first
  void readers_first(const Head& head, unsigned lane);
  void placed(Head& head, std::uint32_t lanes); // they are: writes them, and ends the head with its last
  void emit(Head& head, std::uint32_t lanes);
  const What& what_of(const ptx::Slot& slot);
  std::uint32_t cell_of(std::uint64_t key);
  void link(Head& head, unsigned lane);
  void unlink(Head& head, unsigned lane);
  // The table of lanes that write: by the location and the value that they were given before they could (a store: that
  // it stores), and, of locations whose value is not known yet, by the value that an atomic operation leaves.
  std::uint32_t& bucket_of(std::uint32_t cell, std::uint64_t value, unsigned side);
  void enter(Head& head, unsigned lane, unsigned side);
  void leave(Head& head, unsigned lane, unsigned side);
  std::uint64_t value_of(const Head& head, unsigned lane, unsigned side) const;
  // The lane of another head with that value that was the first to end, of those that can come before `head`.
  std::uint32_t find(const Head& head, std::uint32_t cell, std::uint64_t value, unsigned side, bool stores) const;
  void find_beginning(const Head& head, unsigned lane); // the value that the location had at first

  LaunchLog& log_;
  std::uint64_t& places_; // last given out
  std::vector<LaunchLog::Warp*> warps_;
  std::vector<std::uint32_t> home_; // number of the block, of a warp
  std::vector<std::unique_ptr<Head>> heads_, spare_;
  std::vector<std::uint64_t> turns_;
  Queue device_;
  std::vector<Queue> blocks_;
  std::vector<std::uint32_t> ready_; // blocks to look at
  std::vector<std::uint64_t> keys_; // open addressing; 0: free
  std::vector<std::uint32_t> indices_;
  std::vector<Cell> cells_;
  std::vector<std::uint32_t> buckets_; // first lane of a chain: (head * 32 + lane) * 2 + side
  std::unordered_map<const ptx::Slot*, What> whats_;
  std::unordered_map<const LaunchLog::Gate*, std::vector<std::uint32_t>> waiting_;
};

} // namespace deadheat::device_log
