// The first pass: finds the words that a race may touch, quickly and in little memory.
//
// Every unit of touched memory (4 bytes; 2 or 1 in pages that smaller accesses touch) has a cell of 16 bytes with three
// epochs: the last weak write, the reads since, and the strong accesses that are morally strong with each other. An
// epoch is a segment (what a warp did between two synchronizations) and a lane; when reads or strong accesses are not
// ordered, one epoch stands for all that the warp, the block or the operation did up to then. So a cell never grows;
// what cannot be told from it is suspect.
//
// Invariant: every word that a race of any class touches becomes suspect (the converse does not hold).
// Thread-safety: none.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "analyzer/detect/suspects.h"
#include "analyzer/order/causality.h"

namespace deadheat::detect {

class Filter {
 public:
  Filter(const order::Causality& causality, Suspects& suspects) : causality_(causality), suspects_(suspects) {}

  // What every lane of `mask` did, weakly, to `bytes` bytes at its address. stride: of the addresses, where `affine`.
  struct Warp {
    std::uint64_t memory = 0;
    order::ThreadKey lane0; // of the warp
    std::uint32_t mask = 0, bytes = 0;
    const std::uint64_t* address = nullptr;
    bool affine = false, write = false, non_coherent = false;
    std::int64_t stride = 0;
    order::Stamp now = 0;
  };
  void weak(const Warp& access);

  struct Strong {
    std::uint64_t memory = 0;
    order::ThreadKey thread;
    std::uint64_t address = 0;
    std::uint32_t bytes = 0; // of an element; a location each
    bool covering = true; // its scope has every thread that can touch the memory
    bool write = false, plain = false; // plain: no atomic
    order::Stamp now = 0;
  };
  // True when it is an atomic that nothing orders with another one of the same location.
  bool strong(const Strong& access);

  // One lane's access by an asynchronous copy.
  void copy(std::uint64_t memory, order::ThreadKey thread, order::AsyncGroup group, std::uint64_t address,
            std::uint32_t bytes, bool write, order::Stamp now);
  // A copy or set, or the freeing of memory.
  void range(order::OperationIndex operation, std::uint64_t address, std::uint64_t bytes, bool write, order::Stamp now);

  // Cells take as much memory as they may: nothing more should be given to it.
  bool full() const { return cell_pages_ >= most_cell_pages; }

  void forget_range(std::uint64_t address, std::uint64_t bytes); // global memory
  void forget_shared(order::OperationIndex operation);
  void forget_shared(order::ThreadKey block);

 private:
  using SegmentId = std::uint32_t; // 0: none
  struct Segment {
    order::ThreadKey key; // lane 0 of the warp; of an asynchronous copy: the thread
    order::Stamp stamp = 0;
    order::AsyncGroup group = 0;
  };
  enum Level : std::uint8_t { one_lane, whole_warp, whole_block, whole_operation, many };
  struct Cell {
    SegmentId write = 0, reads = 0, strong = 0;
    std::uint8_t write_who = 0, reads_who = 0, strong_who = 0; // level << 5 | lane
    std::uint8_t flags = 0; // suspect, non_coherent, strong_plain, strong_writes, log2(bytes) of strong << 4
  };
  static_assert(sizeof(Cell) == 16);
  static constexpr std::uint8_t suspect = 1, non_coherent = 2, strong_plain = 4, strong_writes = 8;
  struct Page {
    std::uint8_t shift = 2; // log2 of the bytes of a cell
    std::unique_ptr<Cell[]> cells; // null: only `whole` matters
    Cell whole; // of the page, as ranges touched it
    std::uint64_t weight() const { return cells ? 4u >> shift : 0; } // in pages of 4-byte cells
  };
  // Who acts now; what of earlier segments is known to be ordered before all its warp's lanes.
  struct Actor {
    order::ThreadKey lane0;
    SegmentId segment = 0;
    bool asynchronous = false;
    std::array<SegmentId, 4> ordered{};
    unsigned next = 0;
    SegmentId operation_ordered = 0, operation_unordered = 0; // segments looked up at that level
  };

  SegmentId segment(order::ThreadKey lane0, order::Stamp now);
  Page& page(std::uint64_t memory, std::uint64_t address);
  void erase(const PageKey& key);
  Cell* cells(Page& page, std::uint32_t unit_log2); // with cells no larger than that
  template <typename Each>
  void each_cell(std::uint64_t memory, std::uint64_t address, std::uint64_t bytes, Each&& each);
  bool ordered(SegmentId segment, std::uint8_t who, Actor& actor, unsigned lane);
  bool ordered_slow(SegmentId segment, std::uint8_t who, Actor& actor, unsigned lane);
  void widen(SegmentId& segment, std::uint8_t& who, const Actor& actor, unsigned lane, Level least);
  bool same_operation(SegmentId segment, const Actor& actor) const;
  // Each returns false when the cell became suspect.
  bool read(Cell& cell, Actor& actor, unsigned lane, Level level, bool non_coherent);
  bool write(Cell& cell, Actor& actor, unsigned lane);
  void mark(Cell& cell, std::uint64_t memory, std::uint64_t address);

  // Of 16 kB each, or as many finer ones: 8 GB, for 2 GB of memory that kernels touched.
  static constexpr std::uint64_t most_cell_pages = 1 << 19;

  const order::Causality& causality_;
  Suspects& suspects_;
  std::uint64_t cell_pages_ = 0; // now, in pages of 4-byte cells
  std::vector<Segment> segments_{1};
  std::unordered_map<std::uint64_t, SegmentId> current_; // warp → its segment
  std::uint64_t last_warp_ = ~0ull;
  SegmentId* last_current_ = nullptr;
  std::unordered_map<PageKey, Page, PageHash> pages_;
  // operation → block bits → its shared pages
  std::unordered_map<order::OperationIndex, std::unordered_map<std::uint64_t, std::vector<PageKey>>> shared_pages_;
  PageKey last_key_{~0ull, ~0ull};
  Page* last_page_ = nullptr;
};

} // namespace deadheat::detect
