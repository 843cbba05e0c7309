#include "analyzer/detect/filter_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>

namespace deadheat::detect {

// Begins where a large page may.
void* allocate_slab(bool large_pages) {
  void* const got = mmap(nullptr, 2 * slab_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) throw std::bad_alloc();
  char* const from = static_cast<char*>(got);
  const std::size_t before = (slab_bytes - reinterpret_cast<std::uintptr_t>(from) % slab_bytes) % slab_bytes;
  if (before) munmap(from, before);
  munmap(from + before + slab_bytes, slab_bytes - before);
  if (large_pages) madvise(from + before, slab_bytes, MADV_HUGEPAGE); // a wish
  return from + before;
}
void free_slab(void* slab) { munmap(slab, slab_bytes); }

void FilterPages::allocate_groups(ShadowPage& page) {
  auto from = [&](auto& pool) {
    const std::uint32_t id = pool.allocate();
    page.take_groups(id, pool.at(id));
  };
  page.shift == 2 ? from(word_groups_) : page.shift == 1 ? from(half_groups_) : from(byte_groups_);
}

void FilterPages::free_groups(std::uint32_t id, unsigned shift) {
  shift == 2 ? word_groups_.free(id) : shift == 1 ? half_groups_.free(id) : byte_groups_.free(id);
}

ShadowPage& FilterPages::get(const PageKey& key, bool& fresh, std::uint32_t& id) {
  id = index_.find(hash_of(key), [&](std::uint32_t id) { return page_pool_.at(id)->key == key; });
  fresh = !id;
  if (id) return *page_pool_.at(id);
  id = page_pool_.allocate();
  index_.insert(hash_of(key), id);
  if (!key.memory) areas_[key.number / area_pages][key.number % area_pages / 64] |= bit_of(key.number);
  return *new (page_pool_.at(id)) ShadowPage(key);
}

void FilterPages::erase(const PageKey& key) {
  const std::uint32_t id = index_.find(hash_of(key), [&](std::uint32_t id) { return page_pool_.at(id)->key == key; });
  if (!id) return;
  collapse(*page_pool_.at(id), {});
  page_pool_.at(id)->key = {~0ull, ~0ull}; // no page's
  page_pool_.free(id);
  index_.erase(hash_of(key), id);
  if (!key.memory) areas_[key.number / area_pages][key.number % area_pages / 64] &= ~bit_of(key.number);
}

void FilterPages::collapse(ShadowPage& page, const GroupEpochs& whole) {
  if (Group* const groups = page.groups()) {
    for (std::size_t i = 0; i < page.group_count(); ++i) drop_cells(groups[i]);
    free_groups(page.groups_id, page.shift);
  }
  page.drop_groups();
  page.shift = 2;
  page.dense = false;
  page.whole = whole;
}

void FilterPages::refine(ShadowPage& page, std::uint32_t unit_log2) {
  if (page.groups_id && page.shift <= unit_log2) return;
  if (!page.groups_id) {
    const ShadowPage before = page;
    page.shift = before.few_count ? 2 : std::uint8_t(std::min<std::uint32_t>(unit_log2, 2));
    allocate_groups(page);
    std::fill_n(page.groups(), page.group_count(), Group{before.whole});
    for (unsigned i = 0; i < before.few_count; ++i) page.groups()[before.few_index[i]] = {before.few(i)};
    page.whole = {};
  }
  // Unit i of a group becomes units 2i and 2i + 1 of two groups.
  while (page.shift > unit_log2) {
    const std::size_t count = page.group_count();
    Group* const coarse = page.groups();
    const std::uint32_t coarse_id = page.groups_id;
    --page.shift;
    allocate_groups(page);
    for (std::size_t g = 0; g < count; ++g) {
      for (unsigned half = 0; half < 2; ++half) {
        Group& to = page.groups()[2 * g + half];
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

GroupEpochs* FilterPages::few(ShadowPage& page, unsigned index) {
  for (unsigned i = 0; i < page.few_count; ++i) {
    if (page.few_index[i] == index) return &page.few(i);
  }
  if (page.few_count == ShadowPage::most_few) return nullptr;
  page.few(page.few_count) = page.whole;
  page.few_index[page.few_count] = std::uint8_t(index);
  return &page.few(page.few_count++);
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
