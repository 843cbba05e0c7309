// Epochs: what the first pass's cells name, and whether it comes before an access.
//
// A *segment* is what a warp did between two synchronizations, or one side of asynchronous copies that it issued at
// once. Its stamp is the first behind the former one, whichever of its accesses are looked at here, so that whether an
// epoch comes before an access depends on nothing else that is looked at. An epoch is a segment and whom of it it
// stands for: `who`, a level and a lane, or for a group of units a pattern (filter_pages.h).
//
// Questions err to one side: what is said to be ordered is.
// Thread-safety: none.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "analyzer/detect/filter_pages.h"
#include "analyzer/order/causality.h"

namespace deadheat::detect {

class Epochs {
 public:
  explicit Epochs(const order::Causality& causality) : causality_(causality) {}

  // Who acts now. What it knows to be ordered before all lanes of its warp stays so.
  struct Actor {
    order::ThreadKey lane0;
    SegmentId segment = 0;
    order::Stamp stamp = 0; // the segment's
    bool asynchronous = false;
    bool async_proxy = false, shared = false; // through the asynchronous proxy; of shared memory
    bool single = false; // of copies: they are one lane's
    bool apart = false; // surely knows nothing of the other blocks of its operation
    // When it was looked up, and `alone`, in calls of ask_again(); 0: it is to be asked again.
    std::uint64_t as_of = 0, apart_as_of = 0;
    bool alone = false; // what look_around() found
    std::array<SegmentId, 4> ordered{};
    struct StoodFor { // of a copy: what stands_for() was told last
      SegmentId segment = 0;
      bool own = false;
    };
    std::array<StoodFor, 2> stood_for{}; // of reads and of writes
    unsigned next = 0;
    // What was looked up of its own operation during this access: all up to a stamp is ordered, from one on not.
    order::Stamp ordered_to = 0, unordered_from = ~order::Stamp(0);
  };
  Actor& actor(order::ThreadKey lane0, order::Stamp now); // of a warp
  // Since the last call causality may have come to know more: what it said of actors is asked again.
  void ask_again() { ++asked_; }
  // Of copies that lanes of the warp issue at once, which are a segment of their own.
  Actor copy(order::ThreadKey lane0, std::uint32_t lanes, order::AsyncGroup group, bool async_proxy, bool shared,
             order::Stamp now);

  // Brings a segment nearer, if it is one.
  [[gnu::always_inline]] void bring(SegmentId segment) const {
    if (segment < segments_.size()) __builtin_prefetch(&segments_[segment]);
  }
  // `writes`: does the actor write? Of what a copy stands for, reads matter to writes alone (stands_for).
  bool ordered(SegmentId segment, std::uint8_t who, Actor& actor, unsigned lane, bool writes = true) {
    if (!segment || (segment == actor.segment && who == lane && !actor.asynchronous)) return true;
    for (SegmentId known : actor.ordered) {
      if (segment == known && who < 2 << 5) return true;
    }
    return ordered_slow(segment, who, actor, lane, writes);
  }
  // Says of the actor, for the access at hand, what apart_from() needs; otherwise that is always false.
  void look_around(Actor& actor) const {
    if (actor.apart_as_of != asked_) {
      actor.apart_as_of = asked_;
      actor.alone = causality_.knows_no_other_block(actor.lane0);
    }
    actor.apart = actor.alone;
  }
  // A sufficient condition, quickly: the epoch is of another block of the actor's operation, or of all of it, and
  // ordered() is false. It widens to whole_operation then, if it is not wider.
  bool apart_from(SegmentId segment, std::uint8_t who, const Actor& actor) const {
    if (!actor.apart) return false;
    const Segment& at = segments_[segment];
    const std::uint64_t other = at.key ^ actor.lane0.bits;
    return segment && !operation_in(other) && !at.group &&
           (other >> ThreadKey::thread_width || who >= whole_operation << 5);
  }
  // Where it is so, makes the epoch one that stands for what the actor does at `level`, too.
  [[gnu::always_inline]] bool join_apart(SegmentId& segment, std::uint8_t& who, unsigned level,
                                         const Actor& actor) const {
    if (!actor.apart || !segment) return false;
    const Segment& at = segments_[segment];
    const std::uint64_t other = at.key ^ actor.lane0.bits;
    if (operation_in(other) || at.group || !(other >> ThreadKey::thread_width || who >= whole_operation << 5))
      return false;
    who = who_of(std::max<unsigned>(who >> 5, std::max<unsigned>(level, whole_operation)), 0);
    if (at.stamp <= actor.stamp) segment = actor.segment; // as joint()
    return true;
  }
  // The same of a write: the asynchronous proxy sees those of the generic one only across a proxy fence.
  bool ordered_write(SegmentId segment, std::uint8_t who, Actor& actor, unsigned lane, bool writes) {
    return actor.async_proxy ? across_proxies(segment, who, actor, lane, writes)
                             : ordered(segment, who, actor, lane, writes);
  }
  // The actor's copy takes the place of an epoch that comes before it. Whoever knows the copy to be complete need not
  // know that epoch (PTX ISA 8.9.1.1), unless it knows what the thread that issued the copy knew: from now on only then
  // does anything come after the copy's epoch, of which nothing tells what it stands for. write: a write's epoch. own:
  // of each unit, the lane that the epoch names is the copy's.
  void stands_for(SegmentId segment, Actor& actor, bool write, bool own);
  // Is what the epoch stands for ordered, unit by unit, before what the actor's lanes, in the pattern `own`, do now?
  bool ordered_group(SegmentId segment, std::uint8_t pattern, Actor& actor, std::uint8_t own, bool writes = true);
  bool ordered_write_group(SegmentId segment, std::uint8_t pattern, Actor& actor, std::uint8_t own, bool writes);
  // The level of an epoch that stands for what `segment` at `level` did and for the actor's segment.
  unsigned widened(SegmentId segment, unsigned level, const Actor& actor) const;
  // Which of the two such an epoch is to name: the later one, since from whole_operation on all up to its stamp counts,
  // and another block's may have begun after the actor's. (Within a block no barrier lies between the two.)
  SegmentId joint(SegmentId segment, const Actor& actor) const {
    return segments_[segment].stamp > segments_[actor.segment].stamp ? segment : actor.segment;
  }
  // Of two segments, of one of which a later epoch is to stand for both; what they have in common, whole_warp at least,
  // whole_operation at most, many: nothing; and the warp, block or operation of one.
  SegmentId later(SegmentId a, SegmentId b) const { return segments_[a].stamp > segments_[b].stamp ? a : b; }
  unsigned common_level(SegmentId a, SegmentId b) const {
    const std::uint64_t difference = segments_[a].key ^ segments_[b].key;
    return operation_in(difference)                ? many
           : difference >> ThreadKey::thread_width ? whole_operation
           : difference >> 5                       ? whole_block
                                                   : whole_warp;
  }
  std::uint64_t group_of(SegmentId segment, unsigned level) const {
    return segments_[segment].key >> (level == whole_warp    ? 5
                                      : level == whole_block ? ThreadKey::thread_width
                                                             : ThreadKey::block_width + ThreadKey::thread_width);
  }
  // Does all of the epoch's operation come before all of the actor's? Not of `many`.
  bool before_operation(SegmentId segment, const Actor& actor) const;
  // May the epoch's operation run while the actor's does? Then what one reads through the non-coherent cache the other
  // must not write. Not of `many`.
  bool beside(SegmentId segment, const Actor& actor) const { return segment && !before_operation(segment, actor); }
  bool of_another_beside(SegmentId segment, const Actor& actor) const {
    return beside(segment, actor) && !same_operation(segment, actor);
  }
  bool of_copy(SegmentId segment) const { return segments_[segment].group != 0; }
  bool same_operation(SegmentId segment, const Actor& actor) const;
  // Does ordered() say the same of the epoch for all lanes of the actor's warp, whoever they are?
  bool alike(SegmentId segment, const Actor& actor) const {
    return !segment || (segments_[segment].key != actor.lane0.bits &&
                        causality_.alike(actor.lane0, group_of(segment, whole_block)));
  }

  // Has so much been named that it is time to collect?
  bool crowded() const { return segments_.size() >= collect_at_; }
  // There are no more names than that. From a quarter on, less is to be remembered.
  static constexpr SegmentId most_segments = 1u << 30;
  bool too_many() const { return segments_.size() >= most_segments / 4; }
  // Renumbers the segments that something still names, so that the others' memory is free. each_name(name) calls
  // name(SegmentId&) for all names that cells hold.
  template <typename EachName>
  void collect(EachName&& each_name);
  // Calls each(group) for the groups of copies that may be asked about.
  template <typename Each>
  void each_group(Each&& each) const {
    for (std::size_t id = 1; id < segments_.size(); ++id) {
      if (segments_[id].group) each(order::AsyncGroup(segments_[id].group));
    }
  }
  void forget(order::OperationIndex operation); // its warps act no more
  void forget(order::ThreadKey block);
  std::uint64_t bytes() const { return segments_.bytes(); }

 private:
  using ThreadKey = order::ThreadKey;
  // Of bits in which two keys differ: do their operations?
  static bool operation_in(std::uint64_t difference) {
    return difference >> (ThreadKey::block_width + ThreadKey::thread_width);
  }
  struct [[gnu::packed]] Segment {
    std::uint64_t key = 0; // of lane 0 of the warp
    // Of copies: they stand for writes, for reads; for what their threads did since they told anybody; for writes
    // through the generic proxy that their block knows, and not all of it with a proxy fence (stands_for).
    order::Stamp stamp : 60, over_writes : 1, over_reads : 1, since_told : 1, over_generic : 1;
    order::AsyncGroup group = 0;
    Segment(std::uint64_t key = 0, order::Stamp stamp = 0, order::AsyncGroup group = 0)
        : key(key), stamp(stamp), over_writes(0), over_reads(0), since_told(0), over_generic(0), group(group) {}
  };
  static_assert(sizeof(Segment) == 20);
  // A list that grows without a copy, and of which no more lies ready than a piece.
  class Segments {
   public:
    Segments() { push_back({}); } // segment 0 is none
    Segment& operator[](std::size_t i) { return (*pieces_[i / piece])[i % piece]; }
    const Segment& operator[](std::size_t i) const { return (*pieces_[i / piece])[i % piece]; }
    std::size_t size() const { return size_; }
    std::uint64_t bytes() const { return pieces_.size() * sizeof(Piece); }
    void push_back(const Segment& segment) {
      if (size_ == pieces_.size() * piece) pieces_.push_back(std::make_unique_for_overwrite<Piece>());
      (*this)[size_++] = segment;
    }
    void cut(std::size_t size) { // to less
      size_ = size;
      pieces_.resize((size + piece - 1) / piece);
    }

   private:
    static constexpr std::size_t piece = 256;
    using Piece = std::array<Segment, piece>;
    std::vector<std::unique_ptr<Piece>> pieces_;
    std::size_t size_ = 0;
  };
  bool is_over(order::ThreadKey thread) const; // a damaged trace's: what it knew of synchronization is forgotten
  bool ordered_slow(SegmentId segment, std::uint8_t who, Actor& actor, unsigned lane, bool writes = true);
  bool across_proxies(SegmentId segment, std::uint8_t who, Actor& actor, unsigned lane, bool writes);
  static void remember(SegmentId segment, Actor& actor) { // as ordered before all lanes
    actor.ordered[actor.next++ % actor.ordered.size()] = segment;
  }
  // Of a copy's segment, of which `first`'s part comes before what the thread does: so does what it stands for.
  bool all_ordered(const Segment& copy, order::ThreadKey first, order::ThreadKey second, bool writes) const;
  // Which segments are named, and what number each has among them: a bit and a half for each.
  class Named {
   public:
    explicit Named(std::size_t segments) : bits_((segments + 63) / 64), before_(bits_.size()) {}
    void set(SegmentId id) { bits_[id / 64] |= 1ull << id % 64; }
    bool has(SegmentId id) const { return bits_[id / 64] >> id % 64 & 1; }
    void count() { // after the last one
      bits_[0] |= 1; // none stays none
      for (std::size_t i = 1; i < bits_.size(); ++i) {
        before_[i] = before_[i - 1] + SegmentId(std::popcount(bits_[i - 1]));
      }
    }
    SegmentId number(SegmentId id) const { // 0: it is not named
      if (!has(id)) return 0;
      return before_[id / 64] + SegmentId(std::popcount(bits_[id / 64] & ((1ull << id % 64) - 1)));
    }

   private:
    std::vector<std::uint64_t> bits_;
    std::vector<SegmentId> before_;
  };
  void renumber(const Named& named);

  const order::Causality& causality_;
  Segments segments_;
  std::size_t collect_at_ = 1 << 16;
  std::unordered_map<order::OperationIndex, std::unordered_map<std::uint64_t, Actor>> actors_; // each one's, by warp
  std::array<Actor*, 64> recent_{}; // of some warps
  std::uint64_t asked_ = 1;
  std::vector<bool> over_; // operations
  std::unordered_map<order::OperationIndex, std::unordered_set<std::uint32_t>> over_blocks_; // of those that are not
};

template <typename EachName>
void Epochs::collect(EachName&& each_name) {
  Named named(segments_.size());
  each_name([&](SegmentId& id) { named.set(id); });
  for (auto& [operation, warps] : actors_) {
    for (auto& [bits, actor] : warps) named.set(actor.segment);
  }
  named.count();
  renumber(named);
  each_name([&](SegmentId& id) { id = named.number(id); });
}

} // namespace deadheat::detect
