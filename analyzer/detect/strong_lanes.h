// Strong accesses of a warp as a batch has them.
//
// Most order nothing, and whoever looks at them reads no more than where the lanes are that touch its memory. So those
// lie one behind the other, by worker, and apart from what the lanes read and wrote, which takes little room: what is
// the same for all lanes is there once, and numbers of 32 bits take no more.
//
// "Rank" of a lane: how many lower lanes take part. "Place": how many lanes of the warp reached the location before it.
//
// Thread-safety: filled by one thread, then read by many.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>

#include "analyzer/detect/word_room.h"
#include "deadheat/lanes.h"
#include "tracer/recorder/access_view.h"

namespace deadheat::detect {

struct StrongAccesses {
  trace::Warp warp;
  std::uint32_t module = 0, site = 0;
  std::uint32_t mask = 0; // lanes
  std::uint32_t wrote = 0; // lanes of an atomic that stored
  std::uint32_t of_cluster = 0; // lanes that touch shared memory of a block of the cluster by its rank, which is in
                                // their addresses still
  std::uint32_t values = 0; // where they begin in the batch
  Space space = Space::global;
  bool in_order = true; // lower lanes reached the location first
  std::uint16_t columns = 0; // of values: how each is kept
};

struct StrongPart { // of such an access, a worker's
  std::uint32_t lanes = 0; // whose memory begins in its parts
  std::uint32_t first = 0; // number of the first one in the worker's LaneList, by place
};

struct StrongValues { // of a lane
  std::uint64_t order_first = 0, order_last = 0, read = 0, written = 0;
};

// Appends the values of the lanes of `view`, and says in `of` how they are kept. lanes: by place, where they are not in
// order. digests: are they to be kept?
void put_values(const trace::AccessView& view, const std::array<std::uint8_t, 32>& lanes, bool digests,
                StrongAccesses& of, WordRoom& to);

// Reads them back, of one access.
class StrongColumns {
 public:
  StrongColumns() = default; // zeros
  StrongColumns(const StrongAccesses& of, const std::uint64_t* list);
  StrongValues values(unsigned rank) const { return {word(0, rank), word(1, rank), word(2, rank), word(3, rank)}; }
  std::uint32_t digest(unsigned rank) const { return std::uint32_t(word(4, rank)); }
  // Lanes by place; null: they ascend.
  const std::uint8_t* lanes() const { return lanes_; }

  // How a column is kept: one word for all; 32 bits each; 64; as the column before.
  enum class Kept : std::uint8_t { once, narrow, wide, as_before };
  static constexpr unsigned count = 5; // order_first, order_last, read, written, digest
  static Kept kept(std::uint16_t columns, unsigned column) { return Kept(columns >> 2 * column & 3); }
  static void keep(std::uint16_t& columns, unsigned column, Kept how) {
    columns = std::uint16_t(columns | unsigned(how) << 2 * column);
  }

 private:
  std::uint64_t word(unsigned column, unsigned rank) const;

  static constexpr std::uint64_t zero = 0;
  std::array<const std::uint64_t*, count> at_{&zero, &zero, &zero, &zero, &zero};
  std::array<Kept, count> kept_{};
  const std::uint8_t* lanes_ = nullptr;
};

struct Batch;

// What one worker is to look at.
class StrongView {
 public:
  StrongView(const Batch& batch, std::uint32_t number, unsigned worker);
  // Of lanes whose values are not known, and which all workers have; addresses by rank.
  StrongView(const StrongAccesses& all, const std::uint64_t* addresses, const std::uint32_t* digests_by_lane);

  const StrongAccesses& all() const { return *all_; }
  bool routed() const { return batch_; } // else own() is all lanes, whose memory may be another worker's
  std::uint32_t own() const { return own_; } // lanes whose memory begins in the worker's parts
  std::optional<std::uint32_t> first() const { return first_; } // the number of the first one in its LaneList
  std::uint64_t address(unsigned lane) const; // of any lane
  // Calls each(address, lane) for its own, by place.
  template <typename Each>
  void each_own(Each&& each) const {
    each_of(own_, [&, at = addresses_](unsigned lane) mutable { each(*at++, lane); });
  }

  struct Lane {
    std::uint64_t address = 0; // of shared memory, with the rank in the cluster still
    std::uint32_t digest = 0;
    std::uint8_t lane = 0;
    bool wrote = false;
    StrongValues values;
  };
  // All lanes by place; returns how many.
  unsigned lanes(std::array<Lane, 32>& to) const;

 private:
  // Calls each(lane) for those of `lanes`, by place.
  template <typename Each>
  void each_of(std::uint32_t lanes, Each&& each) const {
    if (!order_) return each_lane(lanes, each);
    const unsigned count = unsigned(std::popcount(all_->mask));
    for (unsigned place = 0; place < count; ++place)
      if (lanes >> order_[place] & 1) each(unsigned(order_[place]));
  }
  const Batch* batch_ = nullptr; // null: all lanes are its own, and no values are known
  const StrongAccesses* all_;
  const StrongPart* parts_ = nullptr; // by worker
  std::uint32_t own_ = 0;
  const std::uint64_t* addresses_ = nullptr;
  const std::uint32_t* digests_ = nullptr; // by lane, where the batch has none
  std::optional<std::uint32_t> first_;
  const std::uint8_t* order_ = nullptr; // lanes by place; null: they ascend
};

} // namespace deadheat::detect
