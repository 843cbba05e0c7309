// From the segments of one launch to trace records.
//
// Segments of a block arrive in the order in which it reserved them. From that follow barriers, rendezvous and exits.
// Strong accesses of different warps are put in order by their tickets: each was performed between the two it carries;
// where these overlap, a read comes after the write whose value it read; operations on mbarriers likewise, by counting
// what completes their phases. Barriers hold that order together. Calls of malloc and free come in the order of their
// tickets: where memory was freed and given out again, the record of the free is the earlier one.
//
// While a kernel without strong accesses runs, records are written as segments arrive; else when they have all arrived,
// or when settle() is called: so that the log of a long launch need not be held in memory.
//
// Thread-safety: none; the caller serializes.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "deadheat/trace.h"
#include "tracer/device_log/layout.h"
#include "tracer/device_log/texture_objects.h"
#include "tracer/device_log/warp_queue.h"
#include "tracer/ptx/instrument.h"
#include "tracer/recorder/access_view.h"

namespace deadheat::device_log {

class Merge;
class TensorMaps;

class Output {
 public:
  virtual ~Output() = default;
  virtual void access(const trace::AccessView& access) = 0;
  virtual void record(const trace::Record& record) = 0;
};

struct Shape {
  std::uint32_t launch = 0, module = 0;
  std::uint32_t blocks = 1, threads = 1; // threads: of a block
  Dim3 grid, cluster; // in blocks
  bool strong = false; // as ptx::InstrumentedKernel has them
  bool unseen_arrivals = false;
  bool programmatic = false; // may begin before the launch before it in its stream is complete
  const std::vector<ptx::Segment>* segments = nullptr;
  const std::vector<Site>* sites = nullptr;
  const TensorMaps* tensor_maps = nullptr; // null: none is known
  bool uses_textures = false; // as ptx::InstrumentedKernel has it
  std::shared_ptr<const TextureObjects::Live> textures; // null: likewise none
  std::uint64_t* places = nullptr; // last place given out in an order of strong accesses; null: counts from 0
};

// How many threads end in this segment.
std::uint32_t exits(const ptx::Segment& segment, const std::vector<Site>& sites, const std::uint8_t* bytes);

class LaunchLog {
 public:
  LaunchLog(const Shape& shape, Output& output);
  ~LaunchLog();

  void segment(const std::uint8_t* bytes); // header first; of this launch
  // Writes what is left. Where the device has gone silent, the arrivals at barriers that nobody completed too.
  void finish(bool stalled = false);
  // Ahead of finish() of each: puts launches in order together that ran beside each other and count tickets together,
  // so that what one of them did may come between what another did. All have strong accesses, together at most 2^31
  // blocks, and none of them was settled.
  static void put_in_order(const std::vector<LaunchLog*>& logs);

  // What was given since the last mark() was written by the device before round `round` + 1 began. settle(r) writes
  // what can be put in order once all that was reserved before round r began has been given: tickets that are still to
  // come are later than those given in earlier rounds. Waits for mbarriers take a ticket before they reserve, so that
  // launches with these are settled at the end only.
  void mark(std::uint32_t round);
  void settle(std::uint32_t round);
  std::uint64_t held() const { return std::uint64_t(kept_.size()) * kept_bytes; } // bytes of segments, about

  std::uint64_t settled() const { return settled_; } // strong accesses and steps that settle() put in order
  std::uint64_t damaged() const { return damaged_; } // segments that made no sense
  std::uint64_t guessed() const { return guessed_; } // reads whose value no known write explains
  std::uint64_t unknown_maps() const { return unknown_maps_; } // copies of tensors whose maps nobody saw being made
  std::uint64_t unplaced() const { return unplaced_; } // of which global memory's side is not known (ptx::laid_out)

  std::uint64_t unknown_objects() const { return unknown_objects_; } // accesses by textures and surfaces, likewise

  struct Place { // in the shared memory of a block
    std::uint32_t block = 0, offset = 0;
  };
  struct Warp {
    LaunchLog* log = nullptr; // of its launch
    std::uint32_t block = 0, number = 0, alive = 0;
    WarpQueue items;
    struct Meeting {
      std::uint32_t mask = 0, site = 0, here = 0;
    };
    std::vector<Meeting> meetings; // warp barriers that lanes have not all reached
  };
  struct Marks { // the latest ticket that was given, and which it was at the end of rounds
    std::uint64_t latest = 0;
    std::deque<std::pair<std::uint32_t, std::uint64_t>> ended;
    void mark(std::uint32_t round);
    std::uint64_t before(std::uint32_t round); // forgets older rounds
  };

 private:
  friend class Merge;
  struct Arrival {
    std::uint32_t warp = 0, site = 0, mask = 0;
    bool sync = true;
    bool counts = true; // false: of a thread count, and its warp has not arrived
    std::shared_ptr<Gate> gate = nullptr; // of one that does not wait, with strong accesses
  };
  struct Barrier {
    std::uint32_t phase = 0, counted = 0, wanted = 0; // threads; wanted: 0 all of the block
    std::vector<Arrival> arrivals;
  };
  struct Block {
    std::uint32_t index = 0, alive = 0;
    std::vector<Warp> warps;
    std::array<Barrier, 16> barriers;
    Marks tickets; // of the ring
    bool merging = false; // Merge knows its warps
  };

  void push(Warp& warp, Item item);
  void note_tickets(Block& block, const ptx::Segment& segment, const std::uint8_t* bytes);
  void write(const Warp& warp, const Item& item); // of any kind but strong
  Place place_of(std::uint32_t block, std::uint64_t address) const; // of a generic address that a thread there gave
  bool copy_of(const Warp& warp, const ptx::Slot& slot, const std::uint8_t* bytes, unsigned lane,
               trace::BulkCopy& copy);
  void tensor_pieces(const ptx::Slot& slot, const std::uint8_t* bytes, trace::BulkCopy copy,
                     std::vector<trace::BulkCopy>& pieces);
  void texels(const Warp& warp, const ptx::Slot& slot, const std::uint8_t* bytes); // texels.cpp
  std::vector<trace::BulkCopy> matrix_reads(const Warp& warp, const ptx::Slot& slot, const std::uint8_t* bytes);
  std::vector<trace::BulkCopy> bulk_copies(const Warp& warp, const ptx::Slot& slot, const std::uint8_t* bytes);
  // Of bytes that nobody read: no two are the same.
  std::uint32_t unknown_digest() { return ++unknown_digests_ * 0x9e3779b1u; }
  void fill(trace::AccessView view, const ptx::Slot& slot, const std::uint8_t* bytes, std::uint64_t* address);
  void weak(const Warp& warp, const ptx::Slot& slot, const std::uint8_t* bytes);
  void arrive(Block& block, Warp& warp, const ptx::Slot& slot, const std::uint8_t* bytes);
  trace::BarrierArrive arrival(const Block& block, std::uint32_t number, const Arrival& arrival) const;
  void complete(Block& block, std::uint32_t number, Barrier& barrier);
  void count_warp(Barrier& barrier, const Warp& warp, std::uint32_t again = 0);
  void complete_all(Block& block, const Warp& exited);
  void meet(Warp& warp, const ptx::Slot& slot, const std::uint8_t* bytes);
  void met(Warp& warp);
  Block& block(std::uint32_t index);

  const Shape shape_;
  Output& output_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Block>> blocks_;
  std::uint32_t first_block_ = 0; // what its blocks' numbers begin with, of those that are put in order together
  static constexpr std::size_t kept_bytes = std::size_t(1) << 20;
  std::vector<std::unique_ptr<Kept>> kept_;
  Marks tickets_; // of the device
  bool in_order_ = false; // with others
  bool waits_ = false; // there were waits for mbarriers
  std::unique_ptr<Merge> merge_;
  std::uint32_t unknown_digests_ = 0;
  std::uint64_t settled_ = 0, damaged_ = 0, guessed_ = 0, unknown_maps_ = 0, unplaced_ = 0, own_places_ = 0;
  std::uint64_t unknown_objects_ = 0;
};

} // namespace deadheat::device_log
