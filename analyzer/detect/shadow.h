// Shadow memory: who touched each byte, as far as it can still matter.
//
// A page covers 4096 bytes of global memory or of one block's shared memory. It holds, for each 4-byte word, the
// accesses that a later one may race with, each with a mask of the bytes of the word; accesses that cover the whole
// page (copies, sets) are kept once, and in ranges of suspect pages once for all pages of a run (page_runs.h), which is
// the same in all workers. Only suspect words are looked at (filter.h). Of accesses of one side, those that a
// later one of that side comes after are dropped: whatever races with the older races with the newer, or is ordered by
// it (so a copy stands for none that completes otherwise: who knows it to be complete need not know that). What an
// opaque kernel may have touched stands for nothing that is certain.
//
// Of a word with very many live entries not all pairs are counted, and of those that a later write comes after only the
// newest stay. A pair of sides that may race with what is no longer there is told (uncertain()).
//
// Thread-safety: none.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "analyzer/detect/page_runs.h"
#include "analyzer/detect/partition.h"
#include "analyzer/detect/sides.h"
#include "analyzer/detect/suspects.h"
#include "analyzer/order/causality.h"
#include "deadheat/memory_model.h"

namespace deadheat::detect {

struct MemoryAccess {
  order::ThreadKey thread; // the first of `lanes`
  std::uint32_t lanes = 1; // lanes of the thread's warp that did the same (a broadcast read)
  PlaceId place = 0;
  order::Stamp stamp = 0;
  std::uint64_t address = 0; // of the element
  std::uint32_t bytes = 0; // of the element; of a range access: clipped to the page
  std::uint32_t digest = 0;
  std::uint32_t record_bytes = 0; // bytes that the digest covers
  order::AsyncGroup group = 0;
  AccessKind kind = AccessKind::read;
  Ordering ordering = Ordering::weak;
  Scope scope = Scope::none;
  Proxy proxy = Proxy::generic;
  order::Stamp continues = 0; // as Causality::strong_access returns it
  bool possible = false; // an opaque kernel's footprint: it may not touch this at all
  bool initializes = false; // mbarrier.init
  bool stored = true; // false: an atomic that left memory as it was (a failed cas)
  bool atomic_operation() const { return kind == AccessKind::atomic; }
  bool writes() const { return kind != AccessKind::read; }
};

// Whoever writes acquire or release, or an atomic operation, synchronizes by it; these may have been written so only to
// be seen by the compiler. Of strong accesses.
inline bool plain_strong(const MemoryAccess& access) {
  return access.kind != AccessKind::atomic &&
         (access.ordering == Ordering::volatile_ || access.ordering == Ordering::relaxed ||
          access.ordering == Ordering::mmio);
}

// How much is remembered of a word, and how much of that is looked at.
struct WordBounds {
  // Entries from which covered ones of other sides are dropped too: more as long as accesses to its part of memory have
  // to look at few on average.
  std::uint32_t crowded = 4096, crowded_soon = 24;
  std::uint64_t few_looks = 1 << 22, few_looks_an_access = 48;
  std::uint32_t many_entries = 64;
  std::uint32_t indexed_from = 512; // entries
  std::uint32_t most_entries = 1 << 16; // of a side: beyond, a new one takes the place of another
  // Conflicts with entries of one side that one access counts: many as long as its part of memory is looked at seldom.
  std::uint32_t most_conflicts = 1 << 14, fewer_conflicts = 16, many_looks = 1 << 23;
};

// How two conflicting, unordered accesses stand to each other.
enum class Conflict : std::uint8_t { data, strong, atomics };
struct Overlap {
  std::uint64_t memory = 0, address = 0; // memory as in Shadow::access
  std::uint32_t bytes = 0;
  std::uint64_t times = 1; // of so many pages, or pairs of lanes that did the same
};
using ConflictSink =
    std::function<void(Conflict, const MemoryAccess& first, const MemoryAccess& second, const Overlap& overlap)>;

class Shadow {
 public:
  // Outcomes::taken, of a module; empty: nothing is known.
  using Taken = std::function<bool(std::uint32_t module, const Site& read, const Site* write)>;
  // Looks at memory of `share` only.
  Shadow(const order::Causality& causality, const Sides& sides, const Suspects& suspects, const Share& share,
         ConflictSink sink, Taken taken = {}, const WordBounds& bounds = {})
      : causality_(causality),
        sides_(sides),
        suspects_(suspects),
        share_(share),
        sink_(std::move(sink)),
        taken_(std::move(taken)),
        bounds_(bounds) {}

  // `memory`: 0 for global memory, else ThreadKey::block_bits + 1 of the block whose shared memory it is. Reports the
  // conflicts of `access` with what is there, then adds it.
  void access(std::uint64_t memory, const MemoryAccess& access);
  // The same for a range of any length.
  void range(std::uint64_t memory, const MemoryAccess& access, std::uint64_t address, std::uint64_t bytes);
  // Is there anything to look at? Bytes at most a page.
  bool looks_at(std::uint64_t memory, std::uint64_t address, std::uint64_t bytes) const {
    if (address >= address_limit || !share_.has_page(memory, address / page_bytes)) return false;
    if (!share_.slice.granule_bits) return suspects_.touches(memory, address, bytes);
    const std::uint64_t end = address + bytes;
    for (std::uint64_t at = address, next; at < end; at = next) {
      next = std::min(end, (at / Slice::granule_bytes + 1) * Slice::granule_bytes);
      if (share_.slice.has_granule(at) && suspects_.touches(memory, at, next - at)) return true;
    }
    return false;
  }
  // Forgets global memory that is allocated anew: what was there before cannot be touched without touching freed
  // memory.
  void forget_range(std::uint64_t address, std::uint64_t bytes);
  void forget_inactive(); // memory that is no longer in the share
  std::uint64_t bytes() const {
    return pages_.size() * sizeof(Page) + words_ * sizeof(Word) + entries_ * sizeof(Entry) + indexed_ * index_bytes +
           runs_.bytes();
  }
  // What would be about half of it: half of the pages, half of their granules, or neither.
  enum class Halves : std::uint8_t { pages, granules, neither };
  Halves halves() const;
  // Calls each(group) for the groups of copies that memory still names.
  template <typename Each>
  void each_group(Each&& each) const {
    auto of_word = [&](const Word& word) {
      for (const Entry& entry : word.entries) {
        if (entry.access.group) each(entry.access.group);
      }
    };
    runs_.each(of_word);
    for (const auto& [key, page] : pages_) {
      of_word(page->whole);
      for (const auto& word : page->words) {
        if (word) of_word(*word);
      }
    }
  }
  // Pairs of sides, the smaller first, of which one had entries in a word that are no longer there, for they were very
  // many, and for which it cannot be told whether those were ordered with the other.
  const std::set<std::pair<SideId, SideId>>& uncertain() const { return uncertain_; }
  // Forgets the shared memory of an operation's blocks, or of one block.
  void forget_shared(order::OperationIndex operation);
  void forget_shared(order::ThreadKey block);

 private:
  struct Entry {
    MemoryAccess access;
    std::uint8_t mask = 15; // bytes of the word; 0: dropped
    bool whole_page = false; // whichever it is
    bool ahead = false; // of some in OfSide::behind
    std::uint32_t before = 0; // Index::last of its key, when it came
  };
  // Entries, of which some are no longer there: whoever comes after all that their operations did by then is ordered
  // with them.
  struct Lost {
    bool any = false, writes = false, several_operations = false;
    bool alike = true; // all strong, of the same bytes and scope
    order::ThreadKey thread; // of the last
    order::Stamp stamp = 0;
    std::uint64_t address = 0;
    std::uint32_t bytes = 0;
    Scope scope = Scope::none;
    void add(const MemoryAccess& access);
  };
  struct OfSide { // entries of one side in a word
    SideId side = 0;
    std::uint32_t live = 0;
    Lost lost; // they made room for others of their side
    Lost hidden; // a write of another side came after them: who races with one of them races with that, or a later one
    Lost behind; // strong writes, behind a later one of their side: who only observed that may race with them
    bool behind_gone = false; // so may others: one ahead of some was dropped for what only observed it
    Lost all;
    std::uint32_t oldest = 0; // Word::entries has none that is live before
    // During one look at the word.
    std::uint32_t left = 0, conflicts = 0;
    bool races = false; // a conflict was none of morally strong accesses
    bool only_observed = false; // one was ordered by having been observed
  };
  // Of a word with very many entries: what a read has to look at.
  struct Index {
    std::vector<std::uint32_t> writes; // numbers of entries
    std::unordered_map<std::uint64_t, std::uint32_t> last; // by threads and side: number of the last entry, plus one
  };
  struct Word {
    std::vector<Entry> entries; // oldest first
    std::vector<OfSide> sides;
    std::uint32_t live = 0;
    std::uint32_t swept = 0; // entries that were live when it was last looked which of them others stand for
    std::unique_ptr<Index> index; // of all entries
    Word() = default;
    Word(Word&&) = default;
    Word& operator=(Word&&) = default;
    Word(const Word& of) : entries(of.entries), sides(of.sides), live(of.live), swept(of.swept) {} // without its index
  };
  struct Page {
    Word whole; // where the page lies in no range of suspects
    std::array<std::unique_ptr<Word>, page_bytes / 4> words;
  };
  void count_out(const Word& word); // that is about to go
  void forget(const Page& page);
  void erase(const PageKey& key);
  OfSide& of_side(Word& word, SideId side);
  void drop(Word& word, Entry& entry, OfSide& side);
  void make_room(Word& word, OfSide& side);
  bool may_race(const Lost& lost, const MemoryAccess& later) const;
  bool morally_strong(const Lost& all, const MemoryAccess& later) const;
  std::uint64_t key_of(const MemoryAccess& access) const; // in Index::last
  void enter(Word& word, std::uint32_t number); // into its index
  void make_index(Word& word);
  void drop_index(Word& word);
  // Calls each(number) for the entries that matter to a read: writes, and what its threads did on its side. Oldest
  // first.
  template <typename Each>
  void each_before_read(const Word& word, const MemoryAccess& read, Each&& each);
  Word& word_at(Page& page, std::uint64_t address);
  Page& page(std::uint64_t memory, std::uint64_t address);
  const Word& whole(std::uint64_t memory, const Page& page, std::uint64_t address);
  void word(std::uint64_t memory, Word& word, const Entry& entry, std::uint64_t address);
  void range_part(std::uint64_t memory, const MemoryAccess& access, std::uint64_t address, std::uint64_t end);
  void range_page(std::uint64_t memory, const MemoryAccess& access, std::uint64_t number);
  void range_run(const MemoryAccess& access, std::uint64_t first, std::uint64_t end);
  template <typename Each>
  void each_page(std::uint64_t first, std::uint64_t end, Each&& each);
  // Looks at the words of a page that is touched as a whole.
  void words_below(std::uint64_t memory, Page& page, const Entry& entry, std::uint64_t address);
  struct Lanes {
    order::ThreadKey of_first, of_second;
  };
  // Calls each(thread of `first`, thread of `second`, is it ordered before) for lanes of both, until one returns false.
  template <typename Each>
  bool each_pair(std::uint64_t memory, const MemoryAccess& first, const MemoryAccess& second, Each&& each) const;
  bool ordered(std::uint64_t memory, const MemoryAccess& first, const MemoryAccess& second, Lanes* unordered) const;
  std::uint64_t unordered_lanes(std::uint64_t memory, const MemoryAccess& first, const MemoryAccess& second,
                                std::uint32_t& looks) const;
  static bool observable(const MemoryAccess& first, const MemoryAccess& second);
  bool observed(std::uint64_t memory, const MemoryAccess& first, const MemoryAccess& second, bool outside,
                Lanes* unordered);
  bool morally_strong(const MemoryAccess& first, const MemoryAccess& second) const;
  bool outside_model(const MemoryAccess& first, const MemoryAccess& second);
  bool read_in_time(const MemoryAccess& read, const MemoryAccess& write);
  bool conflicting(const MemoryAccess& first, const MemoryAccess& second) const;
  enum class Order : std::uint8_t { none, observed, before };
  Order check(std::uint64_t memory, const Entry& older, const Entry& entry, std::uint64_t address);

  const order::Causality& causality_;
  const Sides& sides_;
  const Suspects& suspects_;
  const Share& share_;
  ConflictSink sink_;
  const Taken taken_;
  const WordBounds bounds_;
  std::map<std::pair<PlaceId, PlaceId>, bool> in_time_; // of a read and a write by its thread, or any: 0
  std::unordered_map<PageKey, std::unique_ptr<Page>, PageHash> pages_;
  PageRuns<Word> runs_; // of ranges of suspects
  std::uint64_t times_ = 1; // of what check() reports; 0: it counts in another slice
  // operation → block bits → its pages
  std::unordered_map<order::OperationIndex, std::unordered_map<std::uint64_t, std::vector<PageKey>>> shared_pages_;
  PageKey last_key_{~0ull, ~0ull};
  Page* last_page_ = nullptr;
  static constexpr std::uint64_t index_bytes = 40; // of an entry, about
  std::uint64_t words_ = 0, entries_ = 0, indexed_ = 0;
  std::array<std::uint32_t, partitions> looks_{}; // at entries, by part
  std::array<std::uint64_t, partitions> looking_{}; // accesses to words that did, by part
  std::vector<std::uint32_t> of_threads_; // each_before_read's
  std::set<std::pair<SideId, SideId>> uncertain_;
};

} // namespace deadheat::detect
