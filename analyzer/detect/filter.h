// The first pass: finds the words that a race may touch, quickly and in little memory.
//
// It keeps epochs of touched memory (filter_pages.h, and filter_sparse.h for what is touched here and there) and asks
// whether what they stand for comes before an access (filter_epochs.h). What cannot be told from them is suspect.
//
// Invariant: every word that a race of any class touches becomes suspect (the converse does not hold).
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "analyzer/detect/filter_epochs.h"
#include "analyzer/detect/filter_pages.h"
#include "analyzer/detect/filter_sparse.h"
#include "analyzer/detect/page_runs.h"
#include "analyzer/detect/partition.h"
#include "analyzer/detect/strong_lanes.h"
#include "analyzer/detect/suspects.h"
#include "analyzer/order/causality.h"

namespace deadheat::detect {

class Filter {
 public:
  // Looks at memory of `share` only.
  Filter(const order::Causality& causality, Suspects& suspects, const Share& share)
      : suspects_(suspects),
        share_(share),
        pairs_(&epochs_, unsigned(std::max<std::size_t>(1, units_a_pair * share.parts.count() / partitions))),
        mixed_(unsigned(std::max<std::size_t>(1, units_a_pair * share.parts.count() / partitions))),
        epochs_(causality) {}

  // To be called whenever causality has been told of something, before what comes after that.
  void ask_again() { epochs_.ask_again(); }

  // What every lane of `mask` did, weakly, to `bytes` bytes at its address.
  struct Warp {
    std::uint64_t memory = 0;
    order::ThreadKey lane0; // of the warp
    std::uint32_t mask = 0, bytes = 0;
    // Of each of 32 lanes, `stride` apart, where it is `affine`; else of those of `mask` only, one after another.
    const std::uint64_t* address = nullptr;
    std::optional<std::uint32_t> brought; // the first one's number, as bring() was told
    bool affine = false, write = false, non_coherent = false;
    std::int64_t stride = 0;
    order::Stamp now = 0;
  };
  void weak(const Warp& access);
  // Lanes of weak accesses to global memory that come soon, to `bytes` bytes each; 0: nothing is to be done. Those of
  // strong ones have numbers of their own.
  struct Ahead {
    bool strong = false;
    std::uint32_t first = 0, count = 0; // the first one's number; 32 at most
    std::uint32_t bytes = 0;
    std::uint32_t left = 0; // which of them need the next step
  };
  // Brings nearer, step by step, what they will look at. step: 0 to steps - 1, each time after steps of other lanes; no
  // more than `remembered` lanes may lie between those of step 0 and those that are looked at.
  static constexpr unsigned steps = 3;
  static constexpr std::uint32_t remembered = 256;
  void bring(Ahead& lanes, const std::uint64_t* addresses, unsigned step);
  // Before other lanes have the numbers.
  void forget_brought(bool strong) { brought_[strong].kind.fill(Brought::unknown); }

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
  // The same of lanes of a warp, one after another, to one location in shared memory. access: of lane 0; the thread's
  // lane is set here.
  void strong(Strong& access, std::uint32_t lanes);
  // The same as strong() of lanes of a warp, one after another, each with an address in global memory that lies in
  // the share. access: of which the address and the thread's lane are set here. view: of whose own lanes those of
  // `wanted` are looked at. Returns which are unordered.
  std::uint32_t strong(Strong& access, std::uint32_t wanted, const StrongView& view);

  // One side of asynchronous copies that lanes of a warp issue together, each of `bytes` bytes at its address;
  // `async_proxy`: of cp.async.bulk.
  struct Copy {
    std::uint64_t memory = 0;
    order::ThreadKey lane0; // of the warp
    std::uint32_t mask = 0;
    order::AsyncGroup group = 0;
    const std::uint64_t* address = nullptr;
    std::uint32_t bytes = 0;
    bool write = false, async_proxy = false;
    order::Stamp now = 0;
  };
  void copy(const Copy& access);
  // A copy or set (by thread 0 of its operation), or the freeing of memory.
  void range(order::ThreadKey thread, std::uint64_t address, std::uint64_t bytes, bool write, order::Stamp now);

  // More than there can be where names run out: whoever looks at fewer parts needs fewer.
  std::uint64_t bytes() const {
    if (epochs_.too_many()) return ~0ull >> 1;
    return bytes_of_pages() + runs_.bytes() + epochs_.bytes();
  }
  // Would it be about half of that for half of the pages?
  bool goes_by_pages() const { return epochs_.too_many() || bytes_of_pages() > runs_.bytes() + epochs_.bytes(); }

  // A lane's access touched another page of global memory than it began in, as none does that is aligned to its width.
  bool crossed() const { return crossed_; }

  // Calls each(group) for the groups of copies that memory still names.
  template <typename Each>
  void each_group(Each&& each) {
    collect_segments();
    epochs_.each_group(each);
  }

  void forget_inactive(); // memory that is no longer in the share
  void forget_range(std::uint64_t address, std::uint64_t bytes); // global memory
  void forget_shared(order::OperationIndex operation);
  void forget_shared(order::ThreadKey block);

 private:
  std::uint64_t bytes_of_pages() const {
    return pages_.bytes() + words_.bytes() + bytes_.bytes() + mixed_.bytes() + pairs_.bytes();
  }
  using Actor = Epochs::Actor;
  // That share a pair of epochs where each lane has its own: most of a warp, and less the fewer of its lanes are here.
  static constexpr std::size_t units_a_pair = 24;
  static constexpr unsigned all_one_lane = 40; // as Stretch::lane_log2: more than any stretch has
  struct Stretch { // each lane from `first` on touches 1 << lane_log2 bytes after those of the one before it
    std::uint64_t memory = 0, begin = 0, end = 0;
    unsigned first = 0, lane_log2 = 0;
    std::uint32_t unit = 2; // log2 of what begin and end divide into
    bool write = false, non_coherent = false;
  };
  // Where the entries of lanes lie, as bring() found, by number: until something moves.
  struct Brought {
    union Place {
      EntryArrays::Name array{};
      Entry* in_sheet; // the unit's place
    };
    // Nothing is known; it is in that array; it is there in a sheet: of bytes_ or, with `in_words`, of words_.
    static constexpr std::uint8_t unknown = 0, in_array = 1, in_sheet = 2, in_words = 4;
    std::array<std::uint64_t, 2> moves{}; // of bytes_ and of words_
    std::array<std::uint8_t, remembered> kind{};
    std::array<Place, remembered> place{};
  };
  // Lines that are to be brought nearer one by one, while others are looked at: no more than two dozen are on their way
  // to a core at once, and it waits when it asks for more.
  class Soon {
   public:
    Soon() { lines_.fill(this); }
    void add(const void* line) {
      if (count_ == lines_.size()) bring_one();
      lines_[count_++] = line;
    }
    // No branch: whether there are any is as good as random where a worker has some of each access's lanes. Where there
    // are none, the last one is brought again.
    [[gnu::always_inline]] void bring_one() {
      count_ -= count_ != 0;
      __builtin_prefetch(lines_[count_], 1);
    }

   private:
    std::array<const void*, 64> lines_; // room for those of two groups of lanes, so that it is hardly ever full
    unsigned count_ = 0;
  };
  struct Spot { // a unit of a group
    Group* group = nullptr;
    unsigned unit = 0;
    std::uint64_t address = 0;
  };

  Actor& actor(order::ThreadKey lane0, order::Stamp now);
  ShadowPage* page(std::uint64_t memory, std::uint64_t address); // null: not in the share
  // The same, where anything but SparseCells says something of it; null: nothing does.
  ShadowPage* known_page(std::uint64_t memory, std::uint64_t address) {
    ShadowPage* const found = pages_.find({memory, address / page_bytes});
    return found || memory || !runs_.find(address / page_bytes) ? found : page(memory, address);
  }
  void erase(const PageKey& key);
  template <typename Each>
  void each_unit(std::uint64_t memory, std::uint64_t address, std::uint64_t bytes, Each&& each);
  void stretch(const Stretch& access, Actor& actor);
  // Of the part of it from `address` to `end`, within a page of whole groups only. False: to be done otherwise, again.
  bool stretch_few(const Stretch& access, ShadowPage& page, std::uint64_t address, std::uint64_t end, Actor& actor);
  bool short_row(const Warp& access, std::uint64_t begin, std::uint64_t end);
  void broadcast(const Warp& access, Actor& actor, unsigned first);
  // address: of the lanes of its mask, one after another.
  void scattered(const Warp& access, Actor& actor, const std::uint64_t* address);
  static Spot spot_of(const ShadowPage* at, std::uint64_t address, std::uint32_t bytes);
  template <unsigned step>
  std::uint32_t bring_step(const Ahead& lanes, std::uint32_t of, const std::uint64_t* addresses); // returns `left`
  SparseCells& sparse_of(std::uint32_t bytes) { return bytes < 4 ? bytes_ : words_; }
  // Looks at a lane's access by SparseCells; false: its page must be looked at. at: the page, if there is one.
  bool sparse(const Warp& access, Actor& actor, unsigned lane, std::uint64_t address, ShadowPage* at);
  // The cases of an entry that are quick. False: another.
  bool usual_entry(Entry& entry, bool write, Actor& actor, unsigned lane);
  void mark_sparse(ShadowPage& page);
  void absorb(ShadowPage& page); // what SparseCells say of it
  void absorb_strong(Group& group, unsigned unit, Entry entry);
  // False: suspect. `weak`: what is known of the unit's weak accesses. unordered: set where the other access of a pair
  // of atomics is.
  bool join_strong(const Strong& access, Actor& actor, const Cell& weak, StrongCell& cell, bool& unordered);
  // known: the entry of its first word, where it is known.
  bool strong(const Strong& access, Actor& actor, Entry* known = nullptr);
  // The usual cases of one to a word here and there of which nothing but strong accesses is known, as the entry says.
  // False: another.
  bool strong_alone(const SparseCells::Found& found, const Strong& access, Actor& actor, bool& unordered);
  // As sparse(), for a strong access; and where it is not as simple. first: what words_ has of its first word.
  bool strong_sparse(const Strong& access, Actor& actor, Entry* known, bool& unordered);
  bool strong_units(const Strong& access, Actor& actor, ShadowPage* at, const SparseCells::Found& first,
                    bool& unordered);
  // A weak read of a word here and there by the lane that has just made an atomic access to it is told by that one's
  // entry (StrongCell::read_since); these say of a cell whether it is the lane's, and what was read.
  static bool own(const StrongCell& cell, const Actor& actor, unsigned lane) {
    return cell.epoch == actor.segment && cell.who == lane && !actor.asynchronous;
  }
  static Cell read_since(const StrongCell& cell) {
    Cell read;
    read.reads = cell.epoch;
    read.reads_who = cell.who;
    return read;
  }
  // What strong accesses to a word here and there were, and an entry that says it; none: it is suspect, or there is no
  // code for it.
  static std::optional<StrongCell> strong_cell(Entry entry);
  static std::optional<Entry> strong_entry(const StrongCell& cell);
  // Can what came before a strong access, which the cell says, be forgotten but for StrongCell::after_weak?
  bool can_forget(const Cell& weak, const StrongCell& cell, const Actor& actor) const;
  // Writes and reads of a word here and there, for one entry: strong ones that weak reads came after. False: they
  // cannot be.
  bool as_weak(Cell& cell, const StrongCell& strong, const Actor& actor) const;
  void forget_sparse(SparseCells& cells, std::uint64_t address, std::uint64_t bytes);

  // Each returns false when the unit is to become suspect.
  bool read(Cell& cell, const StrongCell* strong, Actor& actor, unsigned lane, Level level, bool non_coherent);
  // Is an access to be ordered behind the strong one, if that is not to be a race with a weak one that the cell says?
  bool comes_after_writes(const StrongCell& strong, const Actor& actor) const {
    return (strong.flags & StrongCell::writes) ||
           ((strong.flags & StrongCell::after_weak) && !epochs_.same_operation(strong.epoch, actor));
  }
  // Did the lane itself write it since it synchronized? Whoever comes after that write comes after a read now.
  static bool own_write(SegmentId write, std::uint8_t writer, const Actor& actor, unsigned lane) {
    return write == actor.segment && writer == lane && !actor.asynchronous;
  }
  // Of reads alone, where no write is to come before.
  void read_epoch(SegmentId& reads, std::uint8_t& reads_who, Actor& actor, unsigned lane, Level level);
  bool write(Cell& cell, StrongCell* strong, Actor& actor, unsigned lane);
  void touch(const Spot& spot, std::uint64_t memory, Actor& actor, unsigned lane, Level level, bool write,
             bool non_coherent);
  // Each returns false when the group's units must be looked at one by one.
  bool read_group(GroupEpochs& group, Actor& actor, std::uint8_t pattern, bool non_coherent);
  bool write_group(GroupEpochs& group, Actor& actor, std::uint8_t pattern);
  bool read_group(Group& group, Actor& actor, std::uint8_t pattern, bool non_coherent) {
    if (group.cells || group.strong) return group.suspect;
    return read_group(static_cast<GroupEpochs&>(group), actor, pattern, non_coherent);
  }
  bool write_group(Group& group, Actor& actor, std::uint8_t pattern) {
    if (group.cells || group.strong) return group.suspect;
    return write_group(static_cast<GroupEpochs&>(group), actor, pattern);
  }
  struct RangeAccess {
    Actor& actor;
    unsigned lane = 0;
    bool write = false;
  };
  void range_part(const RangeAccess& access, std::uint64_t address, std::uint64_t end); // of a page
  void range_page(const RangeAccess& access, std::uint64_t number);
  void range_run(const RangeAccess& access, std::uint64_t first, std::uint64_t end); // of pages
  bool touch_group(GroupEpochs& group, const RangeAccess& access);
  bool touch_group(Group& group, const RangeAccess& access);
  void mark(const Spot& spot, std::uint64_t memory);
  void collect_segments();

  Suspects& suspects_;
  const Share& share_;
  FilterPages pages_;
  // Of global memory. Of a page that there is in pages_, that alone says what is known.
  PageRuns<GroupEpochs> runs_;
  EpochPairs pairs_;
  MixedPairs mixed_;
  SparseCells words_{2, &pairs_, &mixed_}, bytes_{0, &pairs_}; // strong accesses are told by those of words
  Epochs epochs_;
  std::unordered_map<order::OperationIndex, std::unordered_map<std::uint64_t, std::vector<std::uint64_t>>>
      shared_pages_; // operation → `memory` → page numbers
  std::array<Brought, 2> brought_; // of weak and of strong accesses
  Soon soon_;
  PageKey last_key_{~0ull, ~0ull};
  ShadowPage* last_page_ = nullptr;
  std::uint32_t last_id_ = 0; // of the last page that there was
  bool crossed_ = false;
  // From one page of a range to the next that is looked at here, about.
  static constexpr std::uint64_t most_pages_on = 64;
  // Of a range of fewer pages each is looked at.
  static constexpr std::uint64_t least_run = 8;
};

// Calls each(Spot) for the units of a range, each no larger than what the range divides into.
template <typename Each>
inline void Filter::each_unit(std::uint64_t memory, std::uint64_t address, std::uint64_t bytes, Each&& each) {
  if (address >= address_limit) return;
  const std::uint64_t bits = address | bytes;
  const std::uint32_t unit = bits & 1 ? 0 : bits & 2 ? 1 : 2;
  for (const std::uint64_t end = address + bytes; address < end;) {
    const std::uint64_t page_end = std::min(end, (address / page_bytes + 1) * page_bytes);
    crossed_ |= page_end != end && memory == 0;
    ShadowPage* const found = page(memory, address);
    if (!found) {
      address = page_end;
      continue;
    }
    ShadowPage& at = *found;
    pages_.refine(at, unit);
    const std::uint64_t step = 1ull << at.shift;
    for (; address < page_end; address += step) {
      const unsigned number = unsigned(address % page_bytes >> at.shift);
      each(Spot{&at.groups()[number / group_units], number % group_units, address});
    }
  }
}

} // namespace deadheat::detect
