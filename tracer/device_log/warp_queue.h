// What a warp did, in the order in which its lanes reserved room for it, until it has its place in the launch's order.
//
// Lanes that have come apart wait for different things: an item must wait for the earlier ones that share a lane with
// it, and for no others. So the lanes that wait at a barrier let those pass that have yet to arrive.
//
// Life of an item: push(), next() says that its turn has come, done() that it is over. In between it may wait for other
// warps (a barrier), or for its place (a strong access): then what shares a lane with it waits too.
//
// Invariants: tails_ hold disjoint lanes; an item that was taken has its lanes there until it is done or a later one
// took them over. Memory: an item more than waits, taken ahead of its turn while some lane's turn could come.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "deadheat/trace.h"
#include "tracer/ptx/instrument.h"

namespace deadheat::device_log {

class Output;

struct Gate { // a barrier that is complete, in the queues of all warps that waited at it; or an arrival, in one
  std::uint32_t missing = 0; // queues where its turn has not come, and arrivals of which that is true
  std::vector<trace::Record> records;
  Output* output = nullptr; // where they go
  std::vector<std::pair<std::uint32_t, std::uint32_t>> here; // warps (numbers of Merge) and items that wait
  std::shared_ptr<Gate> completes; // an arrival: the barrier's, when it is complete
};
struct Kept { // segments that items point into
  std::size_t used = 0, bytes = 0;
  std::uint32_t items = 0;
  std::unique_ptr<std::uint8_t[]> data;
};
struct Item { // what a warp did
  const ptx::Slot* slot = nullptr; // null: a gate, or a warp's barrier
  const std::uint8_t* bytes = nullptr;
  std::uint32_t site = 0; // of a warp's barrier
  std::uint32_t lanes = 0; // whose program order it has a place in
  std::shared_ptr<Gate> gate;
  Kept* kept = nullptr; // what `bytes` lies in
};

class WarpQueue {
 public:
  static constexpr std::uint32_t none = ~0u;

  explicit WarpQueue(std::uint32_t lanes = ~0u) : lanes_(lanes) {}
  void push(Item item) { items_.push_back(std::move(item)); }
  std::uint32_t next(); // number of an item whose turn has come, and had not been said to; none: there is none now
  const Item& item(std::uint32_t number) const { return taken_[number].item; } // until next()
  void done(std::uint32_t number); // numbers are used again
  void left(std::uint32_t lanes) { lanes_ &= ~lanes; } // nothing of these lanes will come
  bool empty() const { return items_.empty() && taken_.size() == free_.size(); }
  bool followed(std::uint32_t number) const { return !taken_[number].later.empty() || !items_.empty(); }

 private:
  struct Taken {
    Item item;
    std::uint32_t waits = 0; // for so many earlier ones
    std::vector<std::uint32_t> later; // that wait for it
  };
  struct Tail {
    std::uint32_t lanes = 0, number = 0; // the last that was taken of these lanes
  };
  std::uint32_t take();

  std::uint32_t lanes_, busy_ = 0; // that something may still come of; of the tails
  std::deque<Item> items_; // that were not taken
  std::vector<Taken> taken_;
  std::vector<std::uint32_t> free_;
  std::vector<Tail> tails_;
  std::vector<std::uint32_t> ready_; // taken, and what they waited for is done
};

} // namespace deadheat::device_log
