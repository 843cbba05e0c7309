#include "analyzer/order/history_table.h"

#include <algorithm>

namespace deadheat::order {

namespace {
constexpr std::size_t fewest_slots = 256;
} // namespace

HistoryTable::Page* HistoryTable::look_up(std::uint64_t block, std::uint64_t number) {
  if (slots_.empty()) return nullptr;
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash(block, number) >> 20 & mask; slots_[at]; at = (at + 1) & mask) {
    Page& page = pages_[slots_[at]];
    if (page.number == number && page.block == block) return &page;
  }
  return nullptr;
}

void HistoryTable::place(std::uint32_t number) {
  const Page& page = pages_[number];
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash(page.block, page.number) >> 20 & mask;
  while (slots_[at]) at = (at + 1) & mask;
  slots_[at] = number;
}

HistoryTable::Page& HistoryTable::make_page(std::uint64_t block, std::uint64_t number) {
  if (2 * pages_count_ >= slots_.size()) {
    slots_.assign(std::max(fewest_slots, 2 * slots_.size()), 0);
    for (std::uint32_t n = 1; n <= pages_count_; ++n) place(n);
  }
  const std::uint32_t added = pages_.add();
  ++pages_count_;
  Page& page = pages_[added];
  page.block = block;
  page.number = number;
  place(added);
  recent_[hash(block, number) >> 56] = {block, number, &page};
  return page;
}

Granule& HistoryTable::make(std::uint64_t block, std::uint64_t granule) {
  Page* page = find_page(block, granule / page_granules);
  if (!page) page = &make_page(block, granule / page_granules);
  std::uint32_t& number = page->granules[granule % page_granules];
  if (!number) number = granules_.add();
  return granules_[number];
}

void HistoryTable::forget(std::uint64_t block, std::uint64_t granule) {
  const std::uint32_t number = number_of(block, granule);
  if (!number) return;
  const std::uint32_t ring = granules_[number].ring;
  granules_[number] = Granule();
  granules_[number].ring = ring;
  if (ring) rings_[ring].forgotten = {};
}

void HistoryTable::clear() {
  if (!pages_count_) return;
  granules_.clear();
  rings_.clear();
  pages_.clear();
  pages_count_ = 0;
  slots_.assign(fewest_slots, 0);
  recent_.fill({});
}

Version& HistoryTable::push(Granule& granule) {
  if (!granule.ring) {
    if (granule.count < Granule::inside) return granule.own[granule.count++] = Version();
    granule.ring = rings_.add();
    std::copy(granule.own.begin(), granule.own.end(), rings_[granule.ring].versions.begin());
  }
  Ring& ring = rings_[granule.ring];
  if (granule.count < longest) return ring.versions[(granule.first + granule.count++) % longest] = Version();
  Version& oldest = ring.versions[granule.first];
  granule.base = (granule.base & ~wide(oldest.mask)) | (oldest.value & wide(oldest.mask));
  for (std::uint32_t byte = 0; byte < Granule::bytes; ++byte)
    if (oldest.mask >> byte & 1) ring.forgotten[byte] = oldest.stamp;
  granule.first = std::uint8_t((granule.first + 1) % longest); // its place is the newest one's
  return oldest = Version();
}

void HistoryTable::settle(Granule& granule) {
  for (std::uint32_t n = granule.count; n-- > 0;) {
    const Version& version = newest(granule, n);
    granule.base = (granule.base & ~wide(version.mask)) | (version.value & wide(version.mask));
    granule.settled |= version.mask;
  }
  granule.count = granule.first = 0;
}

} // namespace deadheat::order
