// A piece of a log, decoded and sorted by who has to look at it: small enough that it stays in a core's cache between
// the two.
//
// Weak accesses go to the workers in whose memory they begin, and touch no other page as long as they are aligned to
// their width, as the device demands (a damaged trace may say otherwise: Detector::strays()). Everything else
// (synchronization, strong accesses, operations) goes to all, since the order of accesses hangs on it. Stamps count
// records from the piece's begin, an access taking one for each lane that a warp has, so that they are the same whoever
// decodes the piece.
//
// Thread-safety: a Batch is filled by one thread, then read by many.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "analyzer/detect/partition.h"
#include "analyzer/detect/strong_lanes.h"
#include "analyzer/detect/word_room.h"
#include "analyzer/order/clock.h"
#include "analyzer/order/id_table.h"
#include "tracer/recorder/reader.h"

namespace deadheat::detect {

inline constexpr unsigned access_stamps = 32; // that an access takes
inline constexpr unsigned most_workers = 64;
// Bytes that one lane's access has at most; what a damaged trace says beyond is cut.
inline constexpr std::uint64_t most_lane_bytes = 128;

// A weak access of a warp (or a strong one whose values are not known).
struct WeakAccess {
  std::uint64_t base = 0; // address of the lowest lane of all
  // mask: the lanes to look at; of what is not affine, those that touch the worker's memory, perhaps none.
  std::uint32_t stamp = 0, mask = 0, launch = 0, block = 0, module = 0, site = 0;
  std::int32_t stride = 0; // where `affine`
  std::uint32_t lanes = 0; // of what is not affine: the number of the first lane of `mask` in its LaneList
  std::uint32_t digests = 0; // row; 0: none are kept
  std::uint8_t warp = 0;
  Space space = Space::global;
  bool affine = false;
  std::uint8_t rank = 0; // in its cluster, plus one, of the block whose shared memory it is; 0: its own block's
};
static_assert(sizeof(WeakAccess) == 48);

// Addresses of lanes that lie anyhow, of one access after another: those that one worker looks at.
class LaneList : public WordRoom {
 public:
  void add(const std::uint64_t* addresses, std::uint32_t mask) { // of 32 lanes
    added(pack_lanes(addresses, mask, room(32)), 32);
  }
};

struct Batch {
  enum class What : std::uint8_t { strong, small, large, missing };
  struct Common {
    std::uint32_t stamp = 0, index = 0;
    What what = What::small;
    std::uint8_t alternative = 0; // of small records: of trace::Record
    // The worker to whom all memory belongs that a record touches: of an AsyncCopy what it reads and what it writes, of
    // an Mbarrier the objects.
    std::array<std::uint8_t, 2> owners{anybody, anybody};
  };
  static constexpr std::uint8_t anybody = 0xFF; // of several workers, or it was not found out
  std::vector<std::vector<WeakAccess>> weak; // by worker
  std::vector<LaneList> lanes; // by worker
  std::vector<Common> common;
  std::vector<StrongAccesses> strong;
  std::vector<StrongPart> strong_parts; // of each of them, by worker
  std::vector<LaneList> strong_lanes; // by worker
  WordRoom strong_values; // strong_lanes.h
  std::vector<std::uint64_t> small; // records that are plain bytes, one after another; packed where they have lanes
  std::vector<trace::Record> large; // the others
  std::vector<std::array<std::uint32_t, 32>> digests{1};
  std::uint64_t stamps = 0, accesses = 0;
  std::uint64_t filled = 0; // bytes, about
  bool last = false; // of its chunk

  std::uint64_t bytes() const; // of memory
  void clear(); // keeps the memory
  // Puts the record that `entry` says into `record`. Not touches: of an AsyncCopy not what each lane copies.
  void take(const Common& entry, trace::Record& record, bool touches = true) const;
};

// What a worker pool looks like to whoever fills batches.
struct Routing {
  unsigned workers = 1;
  bool everything_to_all = false; // Detector::strays()
  // Of batches that are ready before somebody needs them; more would only leave the caches.
  std::uint64_t most_bytes_ahead = std::uint64_t(16) << 20;
  std::uint64_t piece_bytes = std::uint64_t(128) << 10; // of a batch, when it is full
  // Of the second pass: weak accesses that touch nothing suspect are left out; digests are kept. The operation of a
  // launch number, where there is exactly one.
  const Suspects* suspects = nullptr;
  const order::IdTable<std::uint32_t>* operations = nullptr;
};

// Takes a batch that is full, and returns one to fill, which is empty.
using Full = std::function<Batch&()>;

// The records of a chunk. The last batch is the caller's to take.
class Batcher final : public trace::RecordVisitor {
 public:
  Batcher(const Routing& routing, Batch& batch, Full full);
  bool access(const trace::AccessView& access) override;
  bool record(trace::Record& record) override;
  void missing() override;

 private:
  struct Weak { // a weak access, whoever's lanes
    const trace::AccessView& view;
    std::uint32_t stamp = 0, digests = 0;
    std::uint8_t rank = 0;
    bool affine = false;
  };
  void weak(const trace::AccessView& view, std::uint32_t stamp);
  void weak(const trace::AccessView& view, std::uint32_t stamp, std::uint8_t rank);
  void weak_lanes(const Weak& weak, std::uint64_t to);
  class Owners;
  class LaneOrder;
  using OwnerBytes = std::array<std::uint8_t, 32>;
  Owners owners_of(const LaneParts& parts) const;
  void weak_in_cluster(const trace::AccessView& view, std::uint32_t stamp);
  void strong(const trace::AccessView& view);
  bool wanted(const trace::AccessView& view) const;
  // A new one, to be filled where it is: a copy would be read as a whole while its parts are still on their way out of
  // the core.
  template <typename T>
  static T& append(std::vector<T>& list) {
    T& added = list.emplace_back();
    constexpr std::size_t ahead = 512 / sizeof(T);
    fetch_for_writing(list.data() + list.size() + ahead);
    return added;
  }
  WeakAccess& weak_to(unsigned worker, const Weak& weak);
  void lanes_to(unsigned worker, const Weak& weak, std::uint32_t mask);
  Batch::Common& common(std::uint32_t stamp, std::size_t index, Batch::What what, std::uint64_t bytes);
  void begin(Batch& batch);
  // Between records.
  void pass_on() {
    if (++batch_->filled >= routing_.piece_bytes) begin(full_());
  }
  // Of a record's lanes, which touch `bytes` bytes of global memory each.
  std::uint8_t owner(const std::array<std::uint64_t, 32>& addresses, std::uint32_t mask, std::uint64_t bytes);
  std::uint8_t worker_of_block(std::uint32_t block) const { // whose shared memory it is
    return workers_[partition_of(std::uint64_t(block) + 1, 0)];
  }
  std::uint8_t worker_of(std::uint64_t page) const { return workers_[partition_of(0, page)]; }
  // The same, where it is often that of the page asked about last.
  std::uint8_t worker_again(std::uint64_t page) {
    if (recent_.page != page) recent_ = {page, worker_of(page)};
    return recent_.worker;
  }
  const Routing& routing_;
  const Full full_;
  std::array<std::uint8_t, partitions> workers_; // by part
  Batch* batch_ = nullptr;
  struct {
    std::uint64_t page = ~0ull;
    std::uint8_t worker = 0;
  } recent_;
};

} // namespace deadheat::detect
