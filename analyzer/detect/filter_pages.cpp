#include "analyzer/detect/filter_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace deadheat::detect {

namespace {

// Bytes; smaller arrays are the heap's, which keeps the holes that tables leave when they grow.
constexpr std::size_t mapped_from = std::size_t(1) << 14;
constexpr std::size_t large_page = slab_bytes;

// Begins where a large page may when it is as large.
char* map(std::size_t bytes) {
  const std::size_t room = bytes >= large_page ? bytes + large_page : bytes;
  void* const got = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) throw std::bad_alloc();
  char* const from = static_cast<char*>(got);
  if (room == bytes) return from;
  char* const begin = from + (large_page - reinterpret_cast<std::uintptr_t>(from) % large_page) % large_page;
  char* const end = begin + (bytes + 4095) / 4096 * 4096;
  if (begin > from) munmap(from, std::size_t(begin - from));
  if (from + room > end) munmap(end, std::size_t(from + room - end));
  return begin;
}

} // namespace

// Pages are there at once: one that is read before it is written would be the system's page of zeros first, and the
// other cores would have to be told, one page at a time, when it becomes one of its own.
void* allocate_zeroed(std::size_t bytes) {
  if (bytes < mapped_from) {
    void* const at = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!at) throw std::bad_alloc();
    return std::memset(at, 0, bytes);
  }
  char* const begin = map(bytes);
  if (bytes >= large_page) madvise(begin, bytes, MADV_HUGEPAGE); // a wish
#ifdef MADV_POPULATE_WRITE
  if (madvise(begin, bytes, MADV_POPULATE_WRITE) == 0) return begin;
#endif
  for (std::size_t at = 0; at < bytes; at += 4096) const_cast<volatile char*>(begin)[at] = 0;
  return begin;
}
void free_zeroed(void* begin, std::size_t bytes) {
  bytes >= mapped_from ? void(munmap(begin, bytes)) : std::free(begin);
}

void* allocate_slab(bool large_pages) {
  char* const slab = map(slab_bytes);
  if (large_pages) madvise(slab, slab_bytes, MADV_HUGEPAGE); // a wish
  return slab;
}
void free_slab(void* slab) { munmap(slab, slab_bytes); }

FilterPages::~FilterPages() {
  for (Slot& slot : slots_) delete slot.page;
}

void FilterPages::grow() {
  std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(std::max<std::size_t>(1024, 2 * slots_.size())));
  mask_ = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (!slot.page) continue;
    std::size_t at = PageHash()(slot.key) & mask_;
    while (slots_[at].page) at = (at + 1) & mask_;
    slots_[at] = slot;
  }
}

void FilterPages::allocate_groups(ShadowPage& page) {
  auto from = [&](auto& pool) {
    page.groups_id = pool.allocate();
    page.groups = pool.at(page.groups_id);
  };
  page.shift == 2 ? from(word_groups_) : page.shift == 1 ? from(half_groups_) : from(byte_groups_);
}

void FilterPages::free_groups(std::uint32_t id, unsigned shift) {
  shift == 2 ? word_groups_.free(id) : shift == 1 ? half_groups_.free(id) : byte_groups_.free(id);
}

ShadowPage& FilterPages::get(const PageKey& key, bool& fresh) {
  if (2 * (count_ + 1) > slots_.size()) grow();
  std::size_t at = PageHash()(key) & mask_;
  while (slots_[at].page && !(slots_[at].key == key)) at = (at + 1) & mask_;
  fresh = !slots_[at].page;
  if (fresh) {
    slots_[at] = {key, new ShadowPage{.key = key, .whole = {}}};
    ++count_;
  }
  return *slots_[at].page;
}

void FilterPages::erase(const PageKey& key) {
  if (slots_.empty()) return;
  std::size_t hole = PageHash()(key) & mask_;
  for (; !(slots_[hole].key == key); hole = (hole + 1) & mask_) {
    if (!slots_[hole].page) return;
  }
  if (!slots_[hole].page) return;
  collapse(*slots_[hole].page, {});
  delete slots_[hole].page;
  --count_;
  // Whoever was put farther because of it moves up.
  for (std::size_t at = (hole + 1) & mask_; slots_[at].page; at = (at + 1) & mask_) {
    const std::size_t home = PageHash()(slots_[at].key) & mask_;
    if (((at - home) & mask_) < ((at - hole) & mask_)) continue;
    slots_[hole] = slots_[at];
    hole = at;
  }
  slots_[hole] = {};
}

void FilterPages::collapse(ShadowPage& page, const Group& whole) {
  if (page.groups) {
    for (std::size_t i = 0; i < page.group_count(); ++i) drop_cells(page.groups[i]);
    free_groups(page.groups_id, page.shift);
    page.groups = nullptr;
  }
  page.shift = 2;
  page.dense = false;
  page.whole = whole;
  page.few = {};
}

void FilterPages::refine(ShadowPage& page, std::uint32_t unit_log2) {
  if (page.groups && page.shift <= unit_log2) return;
  if (!page.groups) {
    page.shift = page.few.count ? 2 : std::uint8_t(std::min<std::uint32_t>(unit_log2, 2));
    allocate_groups(page);
    std::fill_n(page.groups, page.group_count(), page.whole);
    for (unsigned i = 0; i < page.few.count; ++i) page.groups[page.few.index[i]] = page.few.group[i];
    page.whole = {};
    page.few = {};
  }
  // Unit i of a group becomes units 2i and 2i + 1 of two groups.
  while (page.shift > unit_log2) {
    const std::size_t count = page.group_count();
    Group* const coarse = page.groups;
    const std::uint32_t coarse_id = page.groups_id;
    --page.shift;
    allocate_groups(page);
    for (std::size_t g = 0; g < count; ++g) {
      for (unsigned half = 0; half < 2; ++half) {
        Group& to = page.groups[2 * g + half];
        to = coarse[g];
        to.cells = to.strong = 0;
        auto split = [&](std::uint8_t& pattern) {
          if (pattern >= first_level_pattern) return;
          const unsigned shift = pattern >> 5, base = (pattern & 31) + (half * 16 >> shift);
          pattern = std::uint8_t(std::min(shift + 1, 5u) << 5 | base);
        };
        split(to.write_pattern);
        split(to.reads_pattern);
        if (coarse[g].cells) {
          to.cells = cell_pool_.allocate();
          for (unsigned i = 0; i < group_units; ++i) cells(to)[i] = cells(coarse[g])[half * 16 + i / 2];
        }
        if (coarse[g].strong) {
          to.strong = strong_pool_.allocate();
          for (unsigned i = 0; i < group_units; ++i) strong(to)[i] = strong(coarse[g])[half * 16 + i / 2];
        }
      }
      drop_cells(coarse[g]);
    }
    free_groups(coarse_id, page.shift + 1u);
  }
}

Group* FilterPages::few(ShadowPage& page, unsigned index) {
  FewGroups& few = page.few;
  for (unsigned i = 0; i < few.count; ++i) {
    if (few.index[i] == index) return &few.group[i];
  }
  if (few.count == few.group.size()) return nullptr;
  few.group[few.count] = page.whole;
  few.index[few.count] = std::uint8_t(index);
  return &few.group[few.count++];
}

Cell* FilterPages::expand(Group& group) {
  if (group.cells) return cells(group);
  group.cells = cell_pool_.allocate();
  Cell* list = cells(group);
  const std::uint8_t flags =
      std::uint8_t((group.suspect ? Cell::suspect : 0) | (group.non_coherent ? Cell::non_coherent : 0));
  for (unsigned i = 0; i < group_units; ++i) {
    list[i].write = group.write;
    list[i].reads = group.reads;
    list[i].write_who = std::uint8_t(flags | (group.write ? who_at(group.write_pattern, i) & 31 : 0));
    list[i].reads_who = group.reads ? who_at(group.reads_pattern, i) : 0;
  }
  group.write = group.reads = 0;
  group.suspect = group.non_coherent = false;
  return list;
}

StrongCell* FilterPages::strong_of(Group& group) {
  if (!group.strong) {
    group.strong = strong_pool_.allocate();
    std::fill_n(strong(group), group_units, StrongCell{});
  }
  return strong(group);
}

void FilterPages::drop_cells(Group& group) {
  if (group.cells) cell_pool_.free(group.cells);
  if (group.strong) strong_pool_.free(group.strong);
  group.cells = group.strong = 0;
}

void FilterPages::clear(Group& group) {
  drop_cells(group);
  group = Group{};
}

} // namespace deadheat::detect
