// What a read may see: the stores of one execution, byte by byte, and which of them the PTX memory model still lets a
// read return (PTX ISA 9.0, section 8.10).
//
// The execution is performed one operation after another, and that order is the coherence order of overlapping writes.
// A read returns the bytes as they were at one moment between its thread's horizon and now. The horizon is the newest
// overlapping write that
//   - is ordered before the read by causality, or was observed by a strong read that is (8.10.6, 8.9.5),
//   - the thread wrote itself, or any earlier read of the thread returned (8.10.5),
//   - is morally strong with the read, where that belongs to a read-modify-write (8.10.3),
//   - is older than the last `longest` writes of the byte's eight aligned ones.
// A read through the non-coherent cache (ld.global.nc) is outside of the model: its memory must be read-only while the
// kernel runs (9.7.9.9), and the cache may have held the line ever since. No order binds it: only what its thread wrote
// or read, and that the writes from before its launch are forgotten.
//
// So what can be shown is a subset of what the model allows. Left out: reads of writes that come later in program order
// (load buffering), coherence orders other than that of performance, torn reads, reads of one thread that go back
// although weak, read-modify-writes that return an old value of a write they are morally strong with.
//
// Asynchronous copies read and write beside the thread that issued them. What a copy wrote binds whoever its group of
// Causality is ordered before; what a copy through the asynchronous proxy returns is bound by writes through the
// generic proxy only where a proxy fence lies between (8.6, 8.9.5).
//
// Stores that are not told here (matrix stores, mbarrier objects) must be announced by overwritten(): nothing older is
// seen from there on.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/order/causality.h"
#include "analyzer/order/history_table.h"

namespace deadheat::order {

struct HistoryAccess {
  ThreadKey thread;
  Location location; // of the first element; location.bytes: of the whole access
  std::uint32_t element_bytes = 4;
  Ordering ordering = Ordering::weak;
  Scope scope = Scope::none;
  bool atomic = false, reduction = false;
  std::uint32_t tag = 0; // of writes: the caller's, for misses_only()
  bool clustered = false; // shared memory that other blocks reach, too
  // Of an asynchronous copy that `thread` issued. Its group of Causality, of what it writes; and whether it goes
  // through the asynchronous proxy.
  bool copy = false, async_proxy = false;
  AsyncGroup group = 0;
};

class Histories {
 public:
  static constexpr std::size_t longest = HistoryTable::longest; // writes that are remembered
  static constexpr std::size_t most_observers = 32; // strong readers of a write; beyond, all have seen it

  Histories() : causality_(operations_, {.observers = false, .fence_sc_order = true}) {}

  // ---- launches; every store is visible to all when one begins, and when one ends, unless others run on that nothing
  // orders behind its end
  OperationIndex launch_begin(const Dim3& grid, const Dim3& block, const Dim3& cluster);
  void launch_end(OperationIndex operation, bool beside_others = false);
  void settle();

  // ---- synchronization: told to `causality`, with a stamp each
  Causality& causality() { return causality_; }
  Stamp tick() { return ++now_; }

  // ---- accesses. First choices() of a read, then the access itself.
  // How many values the read may return; age 0 is the newest, what memory holds. Where `bytes`, what memory holds, is
  // not what was told, there is only that.
  std::size_t choices(const HistoryAccess& read, const std::uint8_t* bytes);
  // Whether every write that the read does not return at that age bears the tag.
  bool misses_only(const HistoryAccess& read, std::size_t age, std::uint32_t tag);
  // `bytes` holds what memory holds, and then what it held at that age of the last choices().
  void look(const HistoryAccess& read, std::size_t age, std::uint8_t* bytes);
  // Performed; `age` of the last choices() of this access. `bytes`: what it returned. What a copy read binds nobody.
  void read(const HistoryAccess& access, std::size_t age, const std::uint8_t* bytes);
  // `before` and `after`: what memory held and holds there.
  void write(const HistoryAccess& access, const std::uint8_t* before, const std::uint8_t* after);
  // A read-modify-write that stored. `returned`: what it returned; it may differ from `before`.
  void modify(const HistoryAccess& access, std::size_t age, const std::uint8_t* returned, const std::uint8_t* before,
              const std::uint8_t* after);
  void overwritten(const Location& place);

  std::size_t remembered_readers() const { return returned_.size() + observers_.size(); } // of granules; of versions

 private:
  using Stamps = HistoryTable::Stamps;
  struct Place { // a granule
    std::uint64_t block = 0, granule = 0;
    std::uint64_t address() const { return granule * Granule::bytes; }
  };
  // Somebody's reads of a granule, or the readers of a version of it: by the granule's number and the thread, or the
  // version's stamp and bytes.
  struct Mark {
    std::uint32_t granule = 0;
    std::uint64_t of = 0;
    friend bool operator==(const Mark&, const Mark&) = default;
  };
  struct MarkHash {
    std::size_t operator()(const Mark& m) const {
      return std::size_t((m.of ^ m.granule * 0xc2b2ae3d27d4eb4fu) * 0x9e3779b97f4a7c15u >> 7);
    }
  };
  static Mark mark(std::uint32_t granule, const Version& version) {
    return {granule, version.stamp << Granule::bytes | version.mask};
  }
  using Observers = std::vector<std::pair<ThreadKey, Stamp>>; // the first strong read of each thread

  template <typename F>
  static void each_granule(const HistoryAccess& access, F&& f); // f(place, mask, offset in the access of its byte 0)
  Granule* find(const Place& place) { return table_.find(place.block, place.granule); }
  void forget_observers(const Place& place, const Version& version) {
    if (version.observed) observers_.erase(mark(table_.number_of(place.block, place.granule), version));
  }
  void forget_observers(const Place& place, Granule& granule) {
    for (std::uint32_t n = 0; n < granule.count; ++n) forget_observers(place, table_.newest(granule, n));
  }
  void forget(const Place& place);
  bool morally_strong(const Version& version, const Place& place, const HistoryAccess& access) const;
  // Does what the writer did at `stamp` (a write of `group`, if that is not 0) come before the read?
  bool comes_before(ThreadKey writer, Stamp stamp, AsyncGroup group, const HistoryAccess& read) const;
  bool comes_before(const Version& version, const HistoryAccess& read) const;
  // All that the block wrote to its shared memory up to there binds the access; 0: nothing is known to.
  Stamp barrier_before(const HistoryAccess& access) const {
    return access.location.block && !access.clustered && !access.copy ? causality_.last_barrier(access.thread) : 0;
  }
  bool binds(const Version& version, const Place& place, const HistoryAccess& read);
  void choices_of(const HistoryAccess& read, const Place& place, std::uint8_t mask, Stamp barrier, Stamp& horizon);
  bool up_to_date(const HistoryAccess& read, const std::uint8_t* bytes);
  bool ambiguous(const HistoryAccess& read, Stamp horizon);
  StrongAccess strong(const HistoryAccess& access, std::uint32_t element) const;
  void note_returned(const HistoryAccess& access, Stamp position, bool replaced);
  void store(const HistoryAccess& access, Stamp stamp, const std::uint8_t* before, const std::uint8_t* after);

  OperationClocks operations_; // launches that run at the same time are unordered
  Causality causality_;
  Stamp now_ = 0;
  std::uint32_t launches_ = 0;
  HistoryTable table_;
  std::unordered_map<Mark, Stamps, MarkHash> returned_; // the newest version of each byte that a thread read
  std::unordered_map<Mark, Observers, MarkHash> observers_;
  std::unordered_map<Stamp, AsyncGroup> groups_; // of versions that copies wrote
  std::vector<Stamp> positions_{~Stamp(0)}; // of the last choices(), newest first
  bool bound_ = true; // of the last choices(): the newest write of each byte binds the thread for good
};

} // namespace deadheat::order
