// What the first pass remembers of memory: pages of groups of cells.
//
// A *unit* is 4 bytes of memory, or 2 or 1 in pages that smaller accesses touch. A unit's cell holds epochs (a segment,
// which is what a warp did between two synchronizations, and a lane): of its last weak write, of the weak reads since,
// and of the strong accesses that are morally strong with each other. When reads or strong accesses are not ordered,
// one epoch stands for all that the warp, the block or the operation did up to then. So a cell never grows.
//
// 32 units are a *group*. As long as its units were touched together, each by the lane that a *pattern* says, the group
// is one entry of 20 bytes and an access of a warp is one step; otherwise it has 32 cells of 10 bytes. Strong accesses
// have cells of their own, which few groups need.
//
// Invariants: a group without cells has a pattern for its write and its reads; segment 0 means none.
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "analyzer/detect/filter_index.h"
#include "analyzer/detect/suspects.h"
#include "analyzer/order/clock.h"

namespace deadheat::detect {

using SegmentId = std::uint32_t;

// Whom an epoch stands for, beyond its segment's warp: level << 5 | lane. whole_operation: what its threads did up to
// then; complete_operation: its asynchronous copies too, whenever they are complete.
enum Level : std::uint8_t { one_lane, whole_warp, whole_block, whole_operation, complete_operation, many };
inline constexpr std::uint8_t who_of(unsigned level, unsigned lane) { return std::uint8_t(level << 5 | lane); }

// A pattern: below 192, unit i is of lane (pattern & 31) + (i >> (pattern >> 5)); from there on 191 + a level.
inline constexpr std::uint8_t first_level_pattern = 192;
inline constexpr std::uint8_t one_lane_pattern(unsigned lane) { return std::uint8_t(5 << 5 | lane); }
inline constexpr std::uint8_t level_pattern(unsigned level) { return std::uint8_t(first_level_pattern - 1 + level); }
inline constexpr std::uint8_t who_at(std::uint8_t pattern, unsigned unit) {
  if (pattern >= first_level_pattern) return who_of(pattern - first_level_pattern + 1u, 0);
  return std::uint8_t(((pattern & 31) + (unit >> (pattern >> 5))) & 31);
}

struct [[gnu::packed]] Cell {
  // In write_who, above the lane. wide: the write's epoch stands for more than what one lane did, and the level is in
  // the lane's place (filter_pairs.h).
  static constexpr std::uint8_t suspect = 0x80, non_coherent = 0x40, wide = 0x20;
  static constexpr std::uint8_t writer_bits = wide | 31;
  SegmentId write = 0, reads = 0;
  std::uint8_t write_who = 0, reads_who = 0;
  std::uint8_t writer() const {
    return who_of(write_who & wide ? write_who & 31u : unsigned(one_lane), write_who & wide ? 0 : write_who & 31u);
  }
};
static_assert(sizeof(Cell) == 10);

struct [[gnu::packed]] StrongCell {
  // In flags, below log2(bytes) << 4. read_since: weakly, too, by the same lane, and nobody else did; not in pages.
  // after_weak: weak accesses of operations that came before the epoch's came first, which nothing else tells.
  static constexpr std::uint8_t read_since = 1, after_weak = 2, plain = 4, writes = 8;
  static constexpr std::uint8_t of_atomics = 0x30 | writes; // of 4 bytes, and nothing else
  SegmentId epoch = 0;
  std::uint8_t who = 0, flags = 0;
};
static_assert(sizeof(StrongCell) == 6);

inline constexpr unsigned group_units = 32;

struct GroupEpochs { // of a group without cells
  SegmentId write = 0, reads = 0;
  std::uint8_t write_pattern = 0, reads_pattern = 0;
  bool non_coherent = false;
  bool suspect = false; // all of it, without cells
  friend bool operator==(const GroupEpochs&, const GroupEpochs&) = default;
};
static_assert(sizeof(GroupEpochs) == 12);

struct Group : GroupEpochs {
  std::uint32_t cells = 0, strong = 0; // in the pools; 0: none
};
static_assert(sizeof(Group) == 20);

// A line of a cache. Until something has cells, only `whole` and a few groups that differ from it matter.
struct alignas(64) ShadowPage {
  static constexpr unsigned most_few = 2;
  explicit ShadowPage(const PageKey& of) : key(of) {}
  PageKey key;
  std::uint32_t groups_id = 0; // in a pool; 0: there are no groups, `whole` is what few() does not say
  std::uint8_t shift = 2; // log2 of the bytes of a unit
  bool sparse = false; // some of its units' reads are in SparseCells
  bool dense = false; // such were taken from there; no more are put there
  std::uint8_t few_count = 0; // of units of 4 bytes
  std::array<std::uint8_t, most_few> few_index{}; // in the page
  GroupEpochs whole; // of the page, as ranges touched it

  std::size_t group_count() const { return page_bytes / group_units >> shift; }
  Group* groups() const { return groups_id ? groups_ : nullptr; }
  GroupEpochs& few(unsigned i) { return few_[i]; } // of few_count
  const GroupEpochs& few(unsigned i) const { return few_[i]; }
  void take_groups(std::uint32_t id, Group* groups) {
    groups_id = id;
    groups_ = groups;
    few_count = 0;
  }
  void drop_groups() {
    groups_id = 0;
    std::construct_at(&few_);
    few_count = 0;
  }

 private:
  union { // groups_id tells which
    std::array<GroupEpochs, most_few> few_{};
    Group* groups_;
  };
};
static_assert(sizeof(ShadowPage) == 64);

// Memory that the system may back with large pages, since scattered accesses would miss in the TLB each time.
inline constexpr std::size_t slab_bytes = std::size_t(2) << 20;
void* allocate_slab(bool large_pages);
void free_slab(void* slab);

// Arrays of so many, named by numbers.
template <typename T, std::size_t elements = group_units>
class CellPool {
 public:
  std::uint32_t allocate() {
    ++used_;
    if (!free_.empty()) {
      std::uint32_t id = free_.back();
      free_.pop_back();
      return id;
    }
    if (next_ % slab_arrays == 0) slabs_.emplace_back(static_cast<T*>(allocate_slab(!slabs_.empty())));
    return ++next_;
  }
  void free(std::uint32_t id) {
    --used_;
    free_.push_back(id);
  }
  std::uint32_t count() const { return next_; } // names that are, or were, in use: 1 and on
  T* at(std::uint32_t id) const { return &slabs_[(id - 1) / slab_arrays][(id - 1) % slab_arrays * elements]; }
  std::uint64_t bytes() const { return used_ * sizeof(T) * elements; }
  // Gives the memory back once nothing is in use.
  void trim() {
    if (used_) return;
    slabs_.clear();
    free_ = {};
    next_ = 0;
  }

 private:
  struct Release {
    void operator()(T* slab) const { free_slab(slab); }
  };
  static constexpr std::uint32_t slab_arrays = std::uint32_t(slab_bytes / sizeof(T) / elements);
  std::vector<std::unique_ptr<T[], Release>> slabs_;
  std::vector<std::uint32_t> free_;
  std::uint32_t next_ = 0;
  std::uint64_t used_ = 0;
};

class FilterPages {
 public:
  FilterPages() = default;
  FilterPages(const FilterPages&) = delete;
  FilterPages& operator=(const FilterPages&) = delete;
  ShadowPage* find(const PageKey& key) const {
    const std::uint32_t id = index_.find(hash_of(key), [&](std::uint32_t id) { return page_pool_.at(id)->key == key; });
    return id ? page_pool_.at(id) : nullptr;
  }
  // `id`: set to its name.
  ShadowPage& get(const PageKey& key, bool& fresh, std::uint32_t& id);
  // The page, where it was made behind the one of that name, as those of a range are; `id` becomes its name then. Null:
  // it is to be looked for.
  ShadowPage* behind(std::uint32_t& id, const PageKey& key) const {
    if (!id || id >= page_pool_.count() || page_pool_.at(id + 1)->key != key) return nullptr;
    return page_pool_.at(++id);
  }
  void erase(const PageKey& key);
  // Groups with units no larger than 1 << unit_log2 bytes.
  void refine(ShadowPage& page, std::uint32_t unit_log2);
  // One of the few groups of a page without others, made if there is room; null: there is none.
  static GroupEpochs* few(ShadowPage& page, unsigned index);
  // What is known of a group, and whether it is what is known of all the page but a few groups.
  static Group group_of(const ShadowPage& page, unsigned index, bool& is_whole) {
    is_whole = false;
    if (page.groups_id) return page.groups()[index];
    for (unsigned i = 0; i < page.few_count; ++i) {
      if (page.few_index[i] == index) return {page.few(i)};
    }
    is_whole = true;
    return {page.whole};
  }
  // Back to a page that only `whole` says.
  void collapse(ShadowPage& page, const GroupEpochs& whole);
  Cell* expand(Group& group); // its cells
  StrongCell* strong_of(Group& group); // its strong cells, fresh if it had none
  void clear(Group& group); // to nothing
  void drop_cells(Group& group); // both kinds; the caller says what the group is now

  Cell* cells(const Group& group) const { return cell_pool_.at(group.cells); }
  StrongCell* strong(const Group& group) const { return strong_pool_.at(group.strong); }
  template <typename Each>
  void each_page(Each&& each) const {
    index_.each([&](std::uint32_t id) { each(*page_pool_.at(id)); });
  }
  // Calls each(number) for those pages of global memory that there are, in order. Those before may be erased meanwhile,
  // and others made, for which it need not be called.
  template <typename Each>
  void each_number(std::uint64_t first, std::uint64_t end, Each&& each) const;
  std::size_t count() const { return index_.count(); }
  std::uint64_t bytes() const {
    return page_pool_.bytes() + index_.bytes() + word_groups_.bytes() + half_groups_.bytes() + byte_groups_.bytes() +
           cell_pool_.bytes() + strong_pool_.bytes() + areas_.size() * sizeof(Area);
  }
  void trim() {
    page_pool_.trim();
    word_groups_.trim();
    half_groups_.trim();
    byte_groups_.trim();
    if (!count()) areas_.clear();
    cell_pool_.trim();
    strong_pool_.trim();
  }

  // For whoever is about to look at many addresses: brings the slot of a page nearer, then the page.
  [[gnu::always_inline]] void prefetch(const PageKey& key) const { index_.prefetch(hash_of(key)); }
  [[gnu::always_inline]] void prefetch_page(const PageKey& key) const {
    if (const std::uint32_t id = index_.first(hash_of(key))) __builtin_prefetch(page_pool_.at(id)); // as a rule
  }
  [[gnu::always_inline]] void prefetch_cell(const Group& group, unsigned unit) const {
    if (group.cells) __builtin_prefetch(&cells(group)[unit]);
    if (group.strong) __builtin_prefetch(&strong(group)[unit]);
  }

 private:
  static constexpr std::uint64_t area_pages = 16384;
  static std::uint64_t bit_of(std::uint64_t page) { return std::uint64_t(1) << page % 64; } // in a word of its area
  using Area = std::array<std::uint64_t, area_pages / 64>; // of pages: a bit for each that there is

  static std::uint32_t hash_of(const PageKey& key) { return std::uint32_t(PageHash()(key)); }
  void allocate_groups(ShadowPage& page); // for its shift
  void free_groups(std::uint32_t id, unsigned shift);

  PageIndex index_;
  std::unordered_map<std::uint64_t, Area> areas_; // of global memory, by number
  CellPool<ShadowPage, 1> page_pool_;
  CellPool<Group, 32> word_groups_; // of pages with units of 4 bytes
  CellPool<Group, 64> half_groups_;
  CellPool<Group, 128> byte_groups_;
  CellPool<Cell> cell_pool_;
  CellPool<StrongCell> strong_pool_;
};

template <typename Each>
inline void FilterPages::each_number(std::uint64_t first, std::uint64_t end, Each&& each) const {
  auto in_area = [&](std::uint64_t number, const Area& area) {
    const std::uint64_t base = number * area_pages, from = std::max(first, base) - base;
    const std::uint64_t to = std::min(end, base + area_pages) - base;
    for (std::uint64_t word = from / 64; word * 64 < to; ++word) {
      std::uint64_t bits = area[word];
      if (word == from / 64) bits &= ~std::uint64_t(0) << from % 64;
      for (; bits; bits &= bits - 1) {
        const std::uint64_t page = word * 64 + unsigned(std::countr_zero(bits));
        if (page < to) each(base + page);
      }
    }
  };
  if (first >= end) return;
  const std::uint64_t first_area = first / area_pages, last_area = (end - 1) / area_pages;
  if (last_area - first_area <= areas_.size()) {
    for (std::uint64_t number = first_area; number <= last_area; ++number)
      if (const auto at = areas_.find(number); at != areas_.end()) in_area(number, at->second);
    return;
  }
  std::vector<std::uint64_t> numbers; // a damaged trace names ranges without end
  for (const auto& [number, area] : areas_)
    if (first_area <= number && number <= last_area) numbers.push_back(number);
  std::sort(numbers.begin(), numbers.end());
  for (const std::uint64_t number : numbers) in_area(number, areas_.at(number));
}

} // namespace deadheat::detect
